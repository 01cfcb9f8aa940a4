//! Framing faults seen in other servers, each with the bytes that show it.

use plugsock_ws::Error;
use plugsock_ws::close::{self, Code};

use crate::support::{Seen, answer_to, serve, text};

/// `serve` where no event and this error is expected.
fn fails(frames: &str, error: Error) {
    assert_eq!(serve(frames), (vec![], Some(error)), "{frames}");
}

fn passes(frames: &str, seen: &[Seen]) {
    assert_eq!(serve(frames), (seen.to_vec(), None), "{frames}");
}

#[test]
fn bl_01_a_ping_between_fragments_comes_first_and_stays_out_of_the_message() {
    passes(
        "01 85 [K] 68 65 6C 6C 6F · 89 80 [K] · 80 85 [K] 77 6F 72 6C 64",
        &[Seen::Ping(vec![]), text("helloworld")],
    );
    passes(
        "01 81 [K] 61 · 89 82 [K] 31 32 · 00 80 [K] · 8A 81 [K] 33 · 80 81 [K] 62",
        &[Seen::Ping(b"12".to_vec()), Seen::Pong(b"3".to_vec()), text("ab")],
    );
}

#[test]
fn bl_01_a_message_inside_another_fails() {
    fails("01 82 [K] 61 62 · 81 82 [K] 63 64", Error::ExpectedContinuation);
    fails("02 80 [K] · 02 80 [K]", Error::ExpectedContinuation);
}

#[test]
fn bl_01_an_orphan_continuation_fails() {
    fails("80 82 [K] 78 78", Error::UnexpectedContinuation);
    fails("00 80 [K]", Error::UnexpectedContinuation);
    let ended = "01 81 [K] 61 · 80 81 [K] 62 · 80 81 [K] 63";
    assert_eq!(serve(ended), (vec![text("ab")], Some(Error::UnexpectedContinuation)));
}

#[test]
fn bl_02_header_bits_without_a_meaning_fail() {
    fails("09 80 [K]", Error::FragmentedControl);
    fails("08 80 [K]", Error::FragmentedControl);
    fails("49 80 [K]", Error::ReservedBits);
    fails("C9 80 [K]", Error::ReservedBits);
    fails("C1 80 [K]", Error::ReservedBits);
    fails("A1 80 [K]", Error::ReservedBits);
    fails("91 80 [K]", Error::ReservedBits);
    fails("83 80 [K]", Error::UnknownOpcode(3));
    fails("87 80 [K]", Error::UnknownOpcode(7));
    fails("8B 80 [K]", Error::UnknownOpcode(11));
    fails("8F 80 [K]", Error::UnknownOpcode(15));
    fails("81 02 68 69", Error::MaskRequired);
    fails("89 00", Error::MaskRequired);
}

#[test]
fn bl_02_control_frames_hold_125_bytes_and_no_more() {
    let ping = |len: &str, count: usize| format!("89 {len} [K] {}", "61 ".repeat(count));
    passes(&ping("FD", 125), &[Seen::Ping(vec![b'a'; 125])]);
    fails(&ping("FE 00 7E", 126), Error::ControlTooLong);
    fails(&ping("FF 00 00 00 00 00 00 00 01", 1), Error::ControlTooLong);
}

#[test]
fn bl_02_the_answer_is_1002_and_not_masked() {
    for error in [
        Error::FragmentedControl,
        Error::ReservedBits,
        Error::UnknownOpcode(3),
        Error::ControlTooLong,
        Error::MaskRequired,
        Error::ExpectedContinuation,
        Error::UnexpectedContinuation,
        Error::LengthTopBit,
        Error::LengthNotMinimal,
    ] {
        assert_eq!(answer_to(error), [0x88, 0x02, 0x03, 0xea], "{error}");
    }
}

#[test]
fn bl_03_length_top_bit() {
    fails("82 FF 80 00 00 00 00 00 00 00 [K]", Error::LengthTopBit);
    fails("82 FF FF FF FF FF FF FF FF FC [K]", Error::LengthTopBit);
}

#[test]
fn bl_03_length_not_minimal() {
    fails("82 FE 00 05 [K] 61 61 61 61 61", Error::LengthNotMinimal);
    fails("82 FE 00 7D [K]", Error::LengthNotMinimal);
    fails("82 FF 00 00 00 00 00 00 00 05 [K] 61 61 61 61 61", Error::LengthNotMinimal);
    fails("82 FF 00 00 00 00 00 00 FF FF [K]", Error::LengthNotMinimal);
    passes(&format!("82 FE 00 7E [K] {}", "61 ".repeat(126)), &[Seen::Binary(vec![b'a'; 126])]);
}

#[test]
fn bl_03_a_length_above_the_limit_fails_from_the_header() {
    let too_large = |declared| Error::FrameTooLarge { declared, limit: 4 << 20 };
    fails("82 FF 7F FF FF FF FF FF FF FF [K]", too_large(i64::MAX as u64));
    fails("82 FF 00 00 00 00 00 40 00 01 [K]", too_large((4 << 20) + 1));
    assert_eq!(answer_to(too_large(u64::MAX)), [0x88, 0x02, 0x03, 0xf1]);
}

#[test]
fn bl_04_a_code_point_may_straddle_fragments() {
    let bytes = ["CE", "BA", "CF", "8C", "CF", "83", "CE", "BC", "CE", "B5"];
    let mut fragments = format!("01 81 [K] {}", bytes[0]);
    for byte in &bytes[1..9] {
        fragments += &format!(" · 00 81 [K] {byte}");
    }
    passes(&format!("{fragments} · 80 81 [K] {}", bytes[9]), &[text("κόσμε")]);
    passes(&format!("{fragments} · 00 80 [K] · 80 81 [K] B5"), &[text("κόσμε")]);
    passes(&format!("81 8A [K] {}", bytes.join(" ")), &[text("κόσμε")]);
}

#[test]
fn bl_04_text_that_is_not_utf8_fails() {
    fails("01 81 [K] F4 · 80 81 [K] 90", Error::InvalidUtf8);
    fails("01 81 [K] CE · 80 80 [K]", Error::InvalidUtf8);
    fails("81 82 [K] 61 CE", Error::InvalidUtf8);
    fails("81 83 [K] ED A0 80", Error::InvalidUtf8);
    fails("81 82 [K] C0 80", Error::InvalidUtf8);
    fails("81 81 [K] F5", Error::InvalidUtf8);
    fails("01 83 [K] ED A0 80", Error::InvalidUtf8);
    assert_eq!(answer_to(Error::InvalidUtf8), [0x88, 0x02, 0x03, 0xef]);
    passes("82 81 [K] F5", &[Seen::Binary(vec![0xf5])]);
}

#[test]
fn bl_05_close_payloads_that_may_not_be_sent_fail() {
    fails("88 81 [K] 03", Error::ClosePayloadTooShort);
    fails("88 84 [K] 03 E8 C3 28", Error::InvalidCloseReason);
    for code in [0, 999, 1004, 1005, 1006, 1015, 1024, 2999, 5000, 65535u16] {
        let [high, low] = code.to_be_bytes();
        fails(&format!("88 82 [K] {high:02X} {low:02X}"), Error::InvalidCloseCode(code));
        assert_eq!(Code::new(code), None);
    }
    assert_eq!(answer_to(Error::ClosePayloadTooShort), [0x88, 0x02, 0x03, 0xea]);
    assert_eq!(answer_to(Error::InvalidCloseCode(1006)), [0x88, 0x02, 0x03, 0xea]);
    assert_eq!(answer_to(Error::InvalidCloseReason), [0x88, 0x02, 0x03, 0xef]);
}

#[test]
fn bl_05_close_payloads_that_may_be_sent_pass_whole() {
    passes("88 80 [K]", &[Seen::Close(None)]);
    for code in [1000, 1003, 1007, 1014, 3000, 4999u16] {
        let [high, low] = code.to_be_bytes();
        let seen = Seen::Close(Some((code, String::new())));
        passes(&format!("88 82 [K] {high:02X} {low:02X}"), &[seen]);
    }
    let reason = "72 ".repeat(22);
    let seen = Seen::Close(Some((1001, "r".repeat(22))));
    passes(&format!("88 98 [K] 03 E9 {reason}"), &[seen]);
    let reason = "72 ".repeat(close::MAX_REASON_SIZE);
    let seen = Seen::Close(Some((1001, "r".repeat(close::MAX_REASON_SIZE))));
    passes(&format!("88 FD [K] 03 E9 {reason}"), &[seen]);
}

#[test]
fn bl_05_nothing_after_a_close_frame_is_read() {
    passes("81 81 [K] 61 · 88 80 [K] · 81 81 [K] 62 · FF FF FF", &[text("a"), Seen::Close(None)]);
}

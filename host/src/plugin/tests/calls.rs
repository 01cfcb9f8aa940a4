//! What goes in and what comes out.

use super::super::EMBEDDED_ECHO;
use super::*;

/// Sends the 16 bytes at 0, where a test lets the host write an answer.
const REPORT: &str = "(call $send (local.get $connection)
    (i32.const 1) (i32.const 0) (i32.const 16) (i32.const 32))";

fn report(on_message: &str) -> (Vec<u8>, Vec<Asked>) {
    let (ended, mut asked) = answer(PATIENT, &format!("{on_message} {REPORT}"));
    ended.unwrap();
    match asked.pop() {
        Some(Asked::Send(CONN, Kind::Binary, bytes)) => (bytes, asked),
        other => panic!("{other:?}"),
    }
}

#[test]
fn binary_may_hold_any_bytes_and_text_any_characters() {
    let engine = engine(PATIENT);
    let version = load(&engine, EMBEDDED_ECHO);
    run(async {
        let _busy = engine.busy();
        let mut instance = instance(&version).await;
        let all: Vec<u8> = (0..=255).collect();
        instance.call(message(Kind::Binary, &all)).await.unwrap();
        instance.call(message(Kind::Text, "\0ä€\u{10ffff}".as_bytes())).await.unwrap();
        let expected = [
            Asked::Send(CONN, Kind::Binary, all),
            Asked::Send(CONN, Kind::Text, "\0ä€\u{10ffff}".into()),
        ];
        assert_eq!(instance.reclaim().unwrap().asked, expected);
    });
}

#[test]
fn a_large_message_wears_an_instance_out_and_a_small_one_does_not() {
    let engine = engine(PATIENT);
    let version = load(&engine, EMBEDDED_ECHO);
    run(async {
        let _busy = engine.busy();
        let mut instance = instance(&version).await;
        instance.call(message(Kind::Binary, &[0; 1000])).await.unwrap();
        assert!(!instance.worn_out());
        instance.call(message(Kind::Binary, &vec![0; 9 << 20])).await.unwrap();
        assert!(instance.worn_out() && !instance.dead());
    });
}

#[test]
fn a_close_code_that_the_host_refuses_is_the_guests_to_handle() {
    let close = "(call $close (local.get $connection) (i32.const 1005)
        (local.get $address) (local.get $length) (i32.const 0))";
    let (result, asked) = report(close);
    // An error, of the case `invalid-code`.
    assert_eq!((result[0], result[4]), (1, 1));
    assert_eq!(asked, []);
}

#[test]
fn a_close_reason_has_at_most_123_bytes() {
    let close = |length: usize| {
        format!(
            "(memory.fill (i32.const 100) (i32.const 65) (i32.const {length}))
            (call $close (local.get $connection) (i32.const 1000)
                (i32.const 100) (i32.const {length}) (i32.const 0))"
        )
    };
    let (result, asked) = report(&close(123));
    assert_eq!(result[0], 0);
    assert_eq!(asked, [Asked::Close(CONN, 1000, "A".repeat(123))]);
    let (result, asked) = report(&close(124));
    assert_eq!((result[0], result[4]), (1, 2));
    assert_eq!(asked, []);
}

#[test]
fn a_channels_name_has_1_to_255_bytes() {
    for (length, fits) in [(0, false), (1, true), (255, true), (256, false)] {
        let name = format!("(i32.const 2000) (i32.const {length})");
        let (result, asked) = report(&format!(
            "(memory.fill (i32.const 2000) (i32.const 65) (i32.const 256))
            (call $subscribe (local.get $connection) {name} (i32.const 0))
            (call $unsubscribe (local.get $connection) {name} (i32.const 0))
            (call $publish {name} (i32.const 0) (i32.const 0) (i32.const 0)
                (i32.const 0) (i64.const 0) (i32.const 0))"
        ));
        assert_eq!((result[0] == 0, asked.len()), (fits, if fits { 3 } else { 0 }), "{length}");
        assert!(fits || result[4] == 1, "too-large");
    }
}

#[test]
fn an_attachment_has_at_most_16_kib_and_is_read_back() {
    let attach = |length: usize| {
        format!(
            "(call $set-attachment (local.get $connection)
                (i32.const 0) (i32.const {length}) (i32.const 0))"
        )
    };
    let (result, asked) = report(&attach((16 << 10) + 1));
    assert_eq!((result[0], result[4]), (1, 1));
    assert_eq!(asked, []);
    let read = "(call $attachment (local.get $connection) (i32.const 0))";
    let (result, asked) = report(&format!("{} {read}", attach(16 << 10)));
    assert!(matches!(&asked[..], [Asked::Attach(CONN, bytes)] if bytes.len() == 16 << 10));
    assert_eq!((result[0], &result[8..12]), (1, &(16u32 << 10).to_le_bytes()[..]));
}

#[test]
fn the_upgrade_request_reaches_the_guest() {
    // `some`, then the record at 8: path, query, headers, address.
    let (result, _) = report(
        "(call $upgrade-request (local.get $connection) (i32.const 600))
        (memory.copy (i32.const 0) (i32.load (i32.const 604)) (i32.const 5))
        (i32.store8 (i32.const 5) (i32.load8_u (i32.const 600)))
        (i32.store8 (i32.const 6) (i32.load8_u (i32.const 612)))
        (i32.store8 (i32.const 7) (i32.load (i32.const 628)))
        (i32.store8 (i32.const 8) (i32.load8_u (i32.const 640)))",
    );
    // Path, there is a request, no query, one header, secure.
    assert_eq!(&result[..9], b"/chat\x01\x00\x01\x01");
}

#[test]
fn one_frame_is_published_and_broadcast_many_times() {
    let (_, asked) = report(
        "(i32.store (i32.const 512) (call $new-frame
            (local.get $case) (local.get $address) (local.get $length)))
        (call $publish-frame (i32.const 256) (i32.const 5)
            (i32.load (i32.const 512)) (i32.const 1) (local.get $connection) (i32.const 0))
        (call $broadcast-frame (i32.load (i32.const 512)) (i32.const 0))
        (call $broadcast-frame (i32.load (i32.const 512)) (i32.const 0))
        (call $drop-frame (i32.load (i32.const 512)))",
    );
    let hello = || b"hello".to_vec();
    let expected = [
        Asked::Publish("lobby".to_owned(), Kind::Text, hello(), Some(CONN)),
        Asked::Broadcast(Kind::Text, hello()),
        Asked::Broadcast(Kind::Text, hello()),
    ];
    assert_eq!(asked, expected);
}

#[test]
fn a_frame_is_compressed_once_if_the_memory_limit_has_room_for_both_forms() {
    let engine = engine(PATIENT);
    // The guest's own memory takes 6 MiB of 16.
    for (length, compressions) in [(5, 1), (4 << 20, 1), (6 << 20, 4)] {
        let code = format!(
            "(drop (memory.grow (i32.const 95)))
            (i32.store (i32.const 512)
                (call $new-frame (i32.const 1) (i32.const 0) (i32.const {length})))
            (i32.store (i32.const 516) (i32.const 4))
            (loop $again
                (call $broadcast-frame (i32.load (i32.const 512)) (i32.const 0))
                (i32.store (i32.const 516) (i32.sub (i32.load (i32.const 516)) (i32.const 1)))
                (br_if $again (i32.load (i32.const 516))))
            (call $drop-frame (i32.load (i32.const 512)))"
        );
        let version = load(&engine, &guest(&[(";;ON-MESSAGE", &code)]));
        run(async {
            let _busy = engine.busy();
            let mut instance = instance(&version).await;
            instance.call(message(Kind::Text, b"hello")).await.unwrap();
            let host = instance.reclaim().unwrap();
            assert_eq!((host.asked.len(), host.compressions), (4, compressions), "{length}");
        });
    }
}

#[test]
fn effects_keep_their_order_and_numbers_come_back() {
    let (result, asked) = report(
        "(call $subscribe (local.get $connection) (i32.const 256) (i32.const 5) (i32.const 32))
        (call $publish (i32.const 256) (i32.const 5)
            (local.get $case) (local.get $address) (local.get $length)
            (i32.const 0) (i64.const 0) (i32.const 32))
        (call $flush)
        (call $unsubscribe (local.get $connection) (i32.const 256) (i32.const 5) (i32.const 32))
        (call $broadcast (i32.const 1) (local.get $address) (i32.const 2) (i32.const 32))
        (i64.store (i32.const 0) (call $buffered (local.get $connection)))
        (i64.store (i32.const 8) (call $subscribers (i32.const 256) (i32.const 5)))",
    );
    let lobby = || "lobby".to_owned();
    let expected = [
        Asked::Subscribe(CONN, lobby()),
        Asked::Publish(lobby(), Kind::Text, b"hello".to_vec(), None),
        Asked::Flush,
        Asked::Unsubscribe(CONN, lobby()),
        Asked::Broadcast(Kind::Binary, b"he".to_vec()),
    ];
    assert_eq!(asked, expected);
    assert_eq!((result[0], result[8]), (7, 3));
}

#[test]
fn without_a_host_effects_are_refused_and_the_guest_goes_on() {
    // In `init` nobody is there to ask: the refusal is `other` and is kept for the first message.
    let init = "(call $broadcast (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 700))
        (i64.store (i32.const 720) (call $subscribers (i32.const 256) (i32.const 5)))";
    let tell = "(call $send (local.get $connection)
        (i32.const 1) (i32.const 700) (i32.const 28) (i32.const 32))";
    let engine = engine(PATIENT);
    let version = load(&engine, &guest(&[(";;INIT", init), (";;ON-MESSAGE", tell)]));
    run(async {
        let mut instance = instance(&version).await;
        instance.call(message(Kind::Text, b"")).await.unwrap();
        let asked = instance.reclaim().unwrap().asked;
        let [Asked::Send(_, _, bytes)] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!((bytes[0], bytes[4], bytes[20]), (1, 3, 0));
    });
}

#[test]
fn a_guest_that_sleeps_lets_its_thread_serve_others() {
    let sleep = |time: i64| format!("(call $block (call $subscribe-duration (i64.const {time})))");
    answer(PATIENT, &sleep(1_000_000)).0.unwrap();
    let engine = engine(PATIENT);
    let sleeper = load(&engine, &guest(&[(";;ON-MESSAGE", &sleep(-1))]));
    let echo = load(&engine, EMBEDDED_ECHO);
    run(async {
        let _busy = engine.busy();
        let (mut slow, mut fast) = (instance(&sleeper).await, instance(&echo).await);
        tokio::select! {
            biased;
            ended = slow.call(message(Kind::Text, b"")) => panic!("{ended:?}"),
            ended = fast.call(message(Kind::Text, b"")) => ended.unwrap(),
        }
    });
}

//! The fixed limits in docs/limits.md are those of the code.

use std::fs;
use std::path::Path;

use plugsock_ws::handshake::HeadLimits;

use super::documents::{assert_lines, document};
use crate::config::field::MAX_LIST;
use crate::config::file::MAX_FILE;
use crate::config::keys::{PLUGIN, ROUTE, STATIC};
use crate::config::units::show_size;

type Show = fn(u64) -> String;

const COUNT: Show = show_count;
const BYTES: Show = show_bytes;

/// What a page calls a limit, and the constant in a source file of the host. Most are private to
/// their module, so they are read as text.
const CONSTANTS: &[(&str, Show, &str, &str)] = &[
    ("payload of a control frame (RFC 6455 §5.5)", BYTES, "ws/src/frame.rs", "MAX_CONTROL_PAYLOAD"),
    ("empty fragments of one message", COUNT, "ws/src/machine.rs", "MAX_EMPTY_FRAGMENTS"),
    ("final DEFLATE blocks of one message", COUNT, "ws/src/deflate/mod.rs", "MAX_FINAL_BLOCKS"),
    (
        "bytes of one connection's messages that wait for a worker",
        BYTES,
        "src/conn/session.rs",
        "MAX_PENDING_BYTES",
    ),
    (
        "messages of `limits.max_message_size` that are thrown away after the last word",
        COUNT,
        "src/conn/phase.rs",
        "DISCARDED_MESSAGES",
    ),
    (
        "clients that are told that there is no place, at a time",
        COUNT,
        "src/listen/admission.rs",
        "MAX_TURNED_AWAY",
    ),
    (
        "bytes that the kernel takes beyond what it can send at once (Linux)",
        BYTES,
        "src/listen/socket.rs",
        "UNSENT",
    ),
    ("file in a static directory", BYTES, "src/files/mod.rs", "MAX_FILE"),
    ("requests for files that are being answered", COUNT, "src/app/pages.rs", "ANSWERS"),
    ("effects of one call", COUNT, "src/outbound/effects.rs", "BUDGET_EFFECTS"),
    (
        "bytes of one call's effects: messages, names, reasons",
        BYTES,
        "src/outbound/effects.rs",
        "BUDGET_BYTES",
    ),
    ("channel name", BYTES, "src/outbound/effects.rs", "MAX_CHANNEL"),
    ("channels of one connection", COUNT, "src/outbound/topics.rs", "MAX_PER_CONNECTION"),
    ("attachment", BYTES, "src/outbound/effects.rs", "MAX_ATTACHMENT"),
    ("reason of a close (RFC 6455 §5.5)", BYTES, "src/plugin/imports/connections.rs", "REASON"),
    ("frames that one instance holds", COUNT, "src/plugin/imports/channels.rs", "FRAMES"),
    (
        "resources that one instance holds: frames, streams, pollables",
        COUNT,
        "src/plugin/store.rs",
        "RESOURCES",
    ),
    ("native stack", BYTES, "src/plugin/engine.rs", "GUEST_STACK"),
    ("core modules of one component", COUNT, "src/plugin/engine.rs", "CORE_INSTANCES"),
    ("linear memories of one component", COUNT, "src/plugin/engine.rs", "MEMORIES"),
    ("tables of one component", COUNT, "src/plugin/engine.rs", "TABLES"),
    ("elements of one table", COUNT, "src/plugin/engine.rs", "TABLE_ELEMENTS"),
    ("random bytes asked for at once", BYTES, "src/plugin/imports/wasi.rs", "RANDOM_BYTES"),
    (
        "lines that one plugin may log per second, all instances together",
        COUNT,
        "src/plugin/output.rs",
        "LINES",
    ),
    ("bytes of a log line", BYTES, "src/plugin/output.rs", "LINE"),
    ("calls of one instance, unless it is a single one", COUNT, "src/plugin/instance.rs", "CALLS"),
    ("effects that wait for one I/O thread", BYTES, "src/outbound/hub.rs", "FULL_BYTES"),
];

#[test]
fn the_limits_page_has_the_fixed_limits_as_they_are_in_the_code() {
    let head = HeadLimits::default();
    let configured = [
        ("plugins", COUNT, PLUGIN.most as u64),
        ("routes", COUNT, ROUTE.most as u64),
        ("static directories", COUNT, STATIC.most as u64),
        ("entries of a list, such as `allowed_origins`", COUNT, MAX_LIST as u64),
        ("configuration file", BYTES, MAX_FILE),
        ("header fields of a request", COUNT, head.max_headers as u64),
        ("target of a request: path and query", BYTES, head.max_target as u64),
    ];
    let constants = CONSTANTS
        .iter()
        .map(|(what, show, file, name)| (*what, *show, value_of(&source(file), name)));
    let expected: Vec<String> = configured
        .into_iter()
        .chain(constants)
        .map(|(what, show, limit)| format!("| {what} | {} |", show(limit)))
        .collect();
    let text = document("limits.md");
    let fixed = text.split("\n## Fixed limits\n").nth(1).unwrap();
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| what |");
    let start = |line: &str| line.splitn(4, '|').take(3).collect::<Vec<_>>().join("|") + "|";
    let found: Vec<String> = fixed.lines().filter(is_row).map(start).collect();
    assert_lines("limits.md", &found, &expected);
    assert!(size_of::<crate::outbound::Entry>() <= 32, "what an effect takes");
}

/// A limit is written once more where the guest's memory is read.
#[test]
fn limits_that_are_checked_twice_are_the_same() {
    let effects = source("src/outbound/effects.rs");
    let attachment = value_of(&source("src/plugin/imports/connections.rs"), "ATTACHMENT");
    assert_eq!(attachment, value_of(&effects, "MAX_ATTACHMENT"));
    let name = value_of(&source("src/plugin/imports/mod.rs"), "NAME");
    assert_eq!(name, value_of(&effects, "MAX_CHANNEL"));
    let reason = value_of(&source("src/plugin/imports/connections.rs"), "REASON");
    assert_eq!(reason, plugsock_ws::close::MAX_REASON_SIZE as u64);
}

#[test]
fn a_constant_is_read_as_the_compiler_reads_it() {
    let text =
        "const A: usize = 16 * 1024;\n    pub const B: u64 = 8 << 20;\nconst C: u16 = 1_024;";
    let values = ["A", "B", "C"].map(|name| value_of(text, name));
    assert_eq!(values, [16 << 10, 8 << 20, 1024]);
    assert_eq!((show_count(1_024), show_count(999)), ("1,024".to_owned(), "999".to_owned()));
    assert_eq!(
        (show_bytes(8 << 20), show_bytes(255)),
        ("8 MiB".to_owned(), "255 bytes".to_owned())
    );
}

/// A source file of the host.
fn source(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The value of a constant that is written as a number, a product or a shift.
#[track_caller]
fn value_of(source: &str, name: &str) -> u64 {
    let start = format!("const {name}: ");
    let rest = source.split_once(&start).unwrap_or_else(|| panic!("no constant {name}")).1;
    let expression = rest.split_once(" = ").unwrap().1.split_once(';').unwrap().0;
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>();
    let shifted = |factor: &str| match factor.split_once("<<") {
        Some((number_, by)) => number(number_).unwrap() << number(by).unwrap(),
        None => number(factor).unwrap_or_else(|error| panic!("{name} = {expression}: {error}")),
    };
    expression.split('*').map(shifted).product()
}

fn show_count(number: u64) -> String {
    let digits = number.to_string();
    let from_right = |(i, digit): (usize, char)| {
        let comma = i > 0 && (digits.len() - i).is_multiple_of(3);
        if comma { format!(",{digit}") } else { digit.to_string() }
    };
    digits.chars().enumerate().map(from_right).collect()
}

fn show_bytes(number: u64) -> String {
    let shown = show_size(number);
    let unit = shown.find(|char: char| !char.is_ascii_digit()).unwrap();
    let (number, unit) = shown.split_at(unit);
    format!("{number} {}", if unit == "B" { "bytes" } else { unit })
}

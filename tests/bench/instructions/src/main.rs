//! Does one thing so many times, for `run` beside it to count the instructions.
//!
//! `plugsock-instructions CASE TIMES` warms up and then does the case's work TIMES times. Without
//! arguments it names the cases, one a line.

mod compressed;
mod frames;
mod queue;

// The queue as the host has it. Its own crate would bring Wasmtime along.
#[path = "../../../../host/src/inbound/mod.rs"]
#[expect(dead_code, unreachable_pub, unused_imports, reason = "written for the host's crate")]
mod inbound;
#[path = "../../../../host/src/types/mod.rs"]
#[expect(dead_code, unreachable_pub, unused_imports, reason = "written for the host's crate")]
mod types;

use std::io::{self, Write};
use std::process::ExitCode;

/// Does its work so many times.
type Case = fn(usize);

/// In the order of a message's way. What is added here needs `run --accept`.
const CASES: [(&str, Case); 17] = [
    ("unmask-100", |times| frames::unmask(100, times)),
    ("unmask-64k", |times| frames::unmask(64 * 1024, times)),
    ("receive-binary-100", |times| frames::receive_masked(100, times)),
    ("receive-binary-64k", |times| frames::receive_masked(64 * 1024, times)),
    ("receive-16-at-once-100", |times| frames::receive_many(100, 16, times)),
    ("receive-fragments-4x25", |times| frames::receive_fragments(4, 25, times)),
    ("receive-unmasked-1k", |times| frames::receive_unmasked(&compressed::json(1), times)),
    ("receive-ascii-1k", |times| frames::receive_text(&compressed::json(1), times)),
    ("receive-cyrillic-1k", |times| frames::receive_text("Щ".repeat(512).as_bytes(), times)),
    ("encode-100", |times| frames::encode(100, times)),
    ("encode-64k", |times| frames::encode(64 * 1024, times)),
    ("compress-json-1k", |times| compressed::compress(false, times)),
    ("compress-json-1k-takeover", |times| compressed::compress(true, times)),
    ("inflate-json-1k", |times| compressed::inflate(false, times)),
    ("inflate-json-1k-takeover", |times| compressed::inflate(true, times)),
    ("queue-1-run-of-1", |times| queue::turns(1, 1, times)),
    ("queue-32-runs-of-4", |times| queue::turns(32, 4, times)),
];

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(name) = args.next() else {
        let names: String = CASES.iter().map(|(name, _)| format!("{name}\n")).collect();
        return match io::stdout().write_all(names.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    };
    let case = CASES.iter().find(|(known, _)| *known == name);
    let times = args.next().and_then(|times| times.parse().ok());
    let (Some((_, case)), Some(times)) = (case, times) else {
        eprintln!("usage: plugsock-instructions [CASE TIMES]");
        return ExitCode::from(2);
    };
    case(times);
    ExitCode::SUCCESS
}

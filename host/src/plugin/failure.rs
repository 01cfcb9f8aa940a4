//! How a guest can fail, and whose words explain it.

use std::fmt;
use std::time::Duration;

use wasmtime::WasmBacktrace;
use wasmtime_wasi::I32Exit;

/// Bytes of a trap's message.
const MESSAGE: usize = 500;
/// Functions of the guest that a trap's message names.
const FRAMES: usize = 3;
/// Hexadecimal digits that tell two compilations of one name apart; leading zeros may be missing.
const HASH: usize = 16;
/// How the functions start that every panic of a Rust guest passes; they say nothing about it.
const PANICKING: [&str; 6] = ["std::", "core::", "alloc::", "__rust", "rust_", "abort"];

/// What a Rust guest writes to standard error before the place of a panic.
pub(super) const PANICKED: &str = " panicked at ";
/// Between the lines of a guest's last words.
pub(super) const BETWEEN: &str = " / ";

/// Why an instance is dead. The plugin's fault in every case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The guest trapped, left by `exit` or broke a rule of the component model.
    Trap {
        /// What happened and where, on one line of at most 500 bytes.
        message: String,
    },
    /// The call did not end in time.
    Deadline {
        /// The time that it had.
        after: Duration,
    },
    /// The guest was refused memory and trapped.
    Memory {
        /// Bytes that it may hold.
        limit: u64,
    },
    /// `lifecycle.init` returned this error.
    Init(String),
    /// There is no instance: no room for it, or its start function failed.
    Instantiate(String),
}

impl Failure {
    /// The value of a metric's label.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Trap { .. } => "trap",
            Self::Deadline { .. } => "deadline",
            Self::Memory { .. } => "memory",
            Self::Init(_) => "init",
            Self::Instantiate(_) => "instantiate",
        }
    }

    /// `last_words` is what the guest wrote to standard error during the call.
    pub(super) fn trap(error: &wasmtime::Error, last_words: &str) -> Self {
        Self::Trap { message: one_line(&explain(error, last_words)) }
    }

    pub(super) fn init(text: &str) -> Self {
        Self::Init(one_line(text))
    }

    pub(super) fn instantiate(error: &wasmtime::Error, last_words: &str) -> Self {
        Self::Instantiate(one_line(&explain(error, last_words)))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trap { message } => write!(f, "the plugin trapped: {message}"),
            Self::Deadline { after } => {
                write!(f, "the plugin did not finish within workers.call_deadline ({after:?})")
            }
            Self::Memory { limit } => {
                write!(f, "the plugin needs more than workers.memory_limit ({limit} bytes)")
            }
            Self::Init(text) => write!(f, "the plugin refuses to serve: {text}"),
            Self::Instantiate(text) => write!(f, "no instance of the plugin can be made: {text}"),
        }
    }
}

impl std::error::Error for Failure {}

fn explain(error: &wasmtime::Error, last_words: &str) -> String {
    let text = match (error.downcast_ref::<I32Exit>(), panic(last_words)) {
        (Some(I32Exit(status)), _) => format!("it called exit with status {status}"),
        // What follows a panic is always the same trap, which says nothing more.
        (None, Some(panic)) => panic,
        (None, None) if last_words.is_empty() => error.root_cause().to_string(),
        (None, None) => format!("{}: {last_words}", error.root_cause()),
    };
    let functions = error.downcast_ref::<WasmBacktrace>().map(functions).unwrap_or_default();
    if functions.is_empty() { text } else { format!("{text} (in {})", functions.join(", from ")) }
}

/// Place and message of the panic that a Rust guest's last words tell of.
fn panic(last_words: &str) -> Option<String> {
    let (_, panic) = last_words.split_once(PANICKED)?;
    let (place, message) = panic.split_once(&format!(":{BETWEEN}"))?;
    Some(format!("it panicked at {place}: {message}"))
}

/// Names of the innermost functions, without those of the panic itself.
fn functions(backtrace: &WasmBacktrace) -> Vec<String> {
    // Only the rendered form has the names readable: `  0: 0x1f - guest.wasm!chat::join`.
    let rendered = backtrace.to_string();
    let names = rendered.lines().filter_map(|line| {
        let (number, rest) = line.trim_start().split_once(": ")?;
        number.parse::<u32>().ok()?;
        let (_, name) = rest.split_once('!')?;
        Some(without_hashes(name))
    });
    names
        .filter(|name| !PANICKING.iter().any(|prefix| name.starts_with(prefix)))
        .take(FRAMES)
        .collect()
}

/// `chat[0123456789abcdef]::join` and `chat::join::h0123456789abcdef` are `chat::join` to a person.
fn without_hashes(name: &str) -> String {
    let name = match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == HASH => name,
        _ => name,
    };
    let mut readable = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('[') {
        readable.push_str(before);
        match after.split_once(']') {
            Some((hash, after)) if is_hash(hash) => rest = after,
            _ => {
                readable.push('[');
                rest = after;
            }
        }
    }
    readable.push_str(rest);
    readable
}

fn is_hash(text: &str) -> bool {
    (HASH - 2..=HASH).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// On one line, cut at [`MESSAGE`] bytes.
fn one_line(text: &str) -> String {
    let mut line: String =
        text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    if line.len() > MESSAGE {
        let cut = '…'.len_utf8();
        line.truncate(line.floor_char_boundary(MESSAGE - cut));
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_one_line_of_at_most_500_bytes() {
        assert_eq!(one_line("a\nb\u{1b}c"), "a b c");
        assert_eq!(one_line(&"x".repeat(500)), "x".repeat(500));
        assert_eq!(one_line(&"x".repeat(501)), format!("{}…", "x".repeat(497)));
        assert_eq!(one_line(&"ä".repeat(251)).len(), 499);
    }

    #[test]
    fn a_panic_is_told_by_its_place_and_message() {
        let error = wasmtime::Error::new(wasmtime::Trap::UnreachableCodeReached);
        for thread in ["thread '<unnamed>' (1)", "before / thread 'main'"] {
            let words = format!("{thread} panicked at src/lib.rs:5:9: / no / luck");
            let text = explain(&error, &words);
            assert_eq!(text, "it panicked at src/lib.rs:5:9: no / luck");
        }
        let trap = "wasm trap: wasm `unreachable` instruction executed";
        assert_eq!(explain(&error, "panicked, somehow"), format!("{trap}: panicked, somehow"));
        assert_eq!(explain(&error, ""), trap);
    }

    #[test]
    fn hashes_of_mangled_names_are_dropped() {
        for name in ["chat::join::h0123456789abcdef", "chat[d123b7a1a2ed147]::join", "chat::join"] {
            assert_eq!(without_hashes(name), "chat::join");
        }
        let name = "<chat[d123b7a1a2ed1472]::Chat as sdk[0123456789abcdef]::Plugin>::join";
        assert_eq!(without_hashes(name), "<chat::Chat as sdk::Plugin>::join");
        assert_eq!(without_hashes("<[u8]>::len [open"), "<[u8]>::len [open");
    }
}

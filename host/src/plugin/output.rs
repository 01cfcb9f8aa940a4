//! What guests print becomes log lines, within limits.

use std::fmt::Write as _;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use super::failure::{BETWEEN, PANICKED};
use crate::clock;

/// Bytes of a log line; a longer one is cut in pieces.
const LINE: usize = 4 << 10;
/// Lines that one plugin version may log per [`WINDOW`].
const LINES: u32 = 100;
const WINDOW: Duration = Duration::from_secs(1);
/// What a guest may write at once.
const PERMIT: usize = 64 << 10;
/// Last lines of standard error that explain a trap.
const TAIL: usize = 3;

/// Where the instances of one plugin version write their lines; counts them together.
#[derive(Debug)]
pub(super) struct Log {
    plugin: String,
    digest: String,
    rate: Mutex<Rate>,
}

/// One instance's output.
#[derive(Clone, Debug)]
pub(super) struct Output {
    log: Arc<Log>,
    buffers: Arc<Buffers>,
}

/// Which of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

#[derive(Debug, Default)]
struct Buffers {
    stdout: Mutex<Vec<u8>>,
    stderr: Mutex<Vec<u8>>,
    tail: Mutex<Vec<String>>,
    /// Whether `tail` holds something; spares each call a lock.
    has_tail: AtomicBool,
    /// A panic was announced in this call. The failure that follows tells of it, so its lines are
    /// for debugging only.
    panicking: AtomicBool,
}

/// A guest's handle of a stream; all handles of one instance share its buffer.
#[derive(Clone, Debug)]
struct Writer {
    output: Output,
    stream: Stream,
}

/// A number of lines per window, and how many did not fit.
#[derive(Debug)]
struct Rate {
    window: Instant,
    lines: u32,
    suppressed: u64,
}

impl Log {
    pub(super) fn new(plugin: &str, digest: &str) -> Self {
        let rate = Rate { window: clock::now(), lines: 0, suppressed: 0 };
        Self { plugin: plugin.to_owned(), digest: digest.to_owned(), rate: Mutex::new(rate) }
    }

    /// Whether there is room for one more line.
    fn admit(&self) -> bool {
        let Some(suppressed) = lock(&self.rate).admit(clock::now()) else {
            return false;
        };
        if suppressed > 0 {
            let (plugin, digest) = (self.plugin.as_str(), self.digest.as_str());
            tracing::warn!(plugin, digest, "suppressed {suppressed} lines that the plugin wrote");
        }
        true
    }

    fn write(&self, stream: Stream, line: &str, panicking: bool) {
        let (plugin, digest, stream) = (self.plugin.as_str(), self.digest.as_str(), stream.name());
        if panicking {
            tracing::debug!(plugin, digest, stream, "{line}");
        } else {
            tracing::info!(plugin, digest, stream, "{line}");
        }
    }
}

impl Output {
    pub(super) fn new(log: &Arc<Log>) -> Self {
        Self { log: Arc::clone(log), buffers: Arc::default() }
    }

    pub(super) fn stream(&self, stream: Stream) -> impl StdoutStream + use<> {
        Writer { output: self.clone(), stream }
    }

    /// Forgets what was written before this call.
    pub(super) fn begin_call(&self) {
        if self.buffers.has_tail.load(Ordering::Relaxed) {
            self.buffers.has_tail.store(false, Ordering::Relaxed);
            lock(&self.buffers.tail).clear();
            self.buffers.panicking.store(false, Ordering::Relaxed);
        }
    }

    /// The last lines of standard error since the call began: most languages explain a trap there.
    pub(super) fn last_words(&self) -> String {
        self.flush();
        lock(&self.buffers.tail).join(BETWEEN)
    }

    /// Logs what has no line end yet.
    pub(super) fn flush(&self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let rest = mem::take(&mut *lock(self.buffer(stream)));
            if !rest.is_empty() {
                self.line(stream, &rest);
            }
        }
    }

    fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut buffer = lock(self.buffer(stream));
        split(&mut buffer, bytes, |line| self.line(stream, line));
    }

    fn line(&self, stream: Stream, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let admitted = self.log.admit();
        if !admitted && stream == Stream::Stdout {
            return;
        }
        let line = printable(line);
        if stream == Stream::Stderr && announces_panic(&line) {
            self.buffers.panicking.store(true, Ordering::Relaxed);
            lock(&self.buffers.tail).clear();
        }
        let panicking = stream == Stream::Stderr && self.is_panicking();
        if admitted {
            self.log.write(stream, &line, panicking);
        }
        if stream == Stream::Stderr {
            self.remember(line);
        }
    }

    fn remember(&self, line: String) {
        // Rust's advice on how to run the program says nothing about the trap.
        if line.starts_with("note: run with `RUST_BACKTRACE") {
            return;
        }
        let mut tail = lock(&self.buffers.tail);
        if tail.len() == TAIL {
            // A panic says at its beginning where it was.
            if self.is_panicking() {
                return;
            }
            tail.remove(0);
        }
        tail.push(line);
        self.buffers.has_tail.store(true, Ordering::Relaxed);
    }

    fn is_panicking(&self) -> bool {
        self.buffers.panicking.load(Ordering::Relaxed)
    }

    fn buffer(&self, stream: Stream) -> &Mutex<Vec<u8>> {
        match stream {
            Stream::Stdout => &self.buffers.stdout,
            Stream::Stderr => &self.buffers.stderr,
        }
    }
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

impl Rate {
    /// How many lines were suppressed before this one; none where this one is too.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.window) >= WINDOW {
            self.window = now;
            self.lines = 0;
        }
        if self.lines == LINES {
            self.suppressed = self.suppressed.saturating_add(1);
            return None;
        }
        self.lines += 1;
        Some(mem::take(&mut self.suppressed))
    }
}

impl IsTerminal for Writer {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Writer {
    // Only WASI 0.3 asks for this one.
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {}
}

impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.output.write(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT)
    }
}

impl tokio::io::AsyncWrite for Writer {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        self.output.write(self.stream, bytes);
        std::task::Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// Hands on each line of `bytes`, in pieces of [`LINE`] bytes at most; keeps what has no end yet.
fn split(buffer: &mut Vec<u8>, bytes: &[u8], mut line: impl FnMut(&[u8])) {
    for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
        let (text, ends) = match piece.strip_suffix(b"\n") {
            Some(text) => (text, true),
            None => (piece, false),
        };
        let mut rest = text;
        while buffer.len() + rest.len() > LINE {
            let (head, tail) = rest.split_at(LINE - buffer.len());
            buffer.extend_from_slice(head);
            line(buffer);
            buffer.clear();
            rest = tail;
        }
        buffer.extend_from_slice(rest);
        if ends {
            line(buffer);
            buffer.clear();
        }
    }
}

/// As text on one line: what a terminal or a log reader would obey is written out.
fn printable(line: &[u8]) -> String {
    let mut text = String::with_capacity(line.len());
    for char in String::from_utf8_lossy(line).trim_end_matches('\r').chars() {
        if char.is_control() && char != '\t' {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}", char.escape_default());
        } else {
            text.push(char);
        }
    }
    text
}

/// Whether the line is the first of those that Rust's panic hook writes.
fn announces_panic(line: &str) -> bool {
    line.starts_with("thread '") && line.contains(PANICKED)
}

/// A panic while the lock was held leaves text behind that is no worse than other text.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(writes: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let (mut buffer, mut lines) = (Vec::new(), Vec::new());
        for write in writes {
            split(&mut buffer, write, |line| lines.push(line.to_vec()));
        }
        (lines, buffer)
    }

    #[test]
    fn lines_are_put_together_from_any_pieces() {
        let (lines, rest) = lines(&[b"a", b"b\n\nc", b"d\ne"]);
        assert_eq!(lines, [&b"ab"[..], b"", b"cd"]);
        assert_eq!(rest, b"e");
    }

    #[test]
    fn a_line_at_the_limit_is_whole_and_one_past_it_is_cut() {
        let line = [b'x'; LINE];
        let (whole, rest) = lines(&[&line, b"\n"]);
        assert_eq!((whole.len(), whole[0].len(), rest.len()), (1, LINE, 0));
        let (cut, rest) = lines(&[&line, b"x\n"]);
        assert_eq!((cut[0].len(), cut[1].len(), rest.len()), (LINE, 1, 0));
        let (endless, rest) = lines(&[&[b'x'; 3 * LINE + 1]]);
        assert_eq!((endless.len(), rest.len()), (3, 1));
    }

    #[test]
    fn a_window_admits_so_many_lines_and_the_next_tells_how_many_it_did_not() {
        let start = clock::now();
        let mut rate = Rate { window: start, lines: 0, suppressed: 0 };
        for _ in 0..LINES {
            assert_eq!(rate.admit(start), Some(0));
        }
        assert_eq!(rate.admit(start), None);
        assert_eq!(rate.admit(start + WINDOW - Duration::from_nanos(1)), None);
        assert_eq!(rate.admit(start + WINDOW), Some(2));
        assert_eq!(rate.admit(start + WINDOW), Some(0));
    }

    #[test]
    fn control_characters_do_not_reach_the_log() {
        assert_eq!(printable(b"a\x1b[31m\tb\xffc\r"), "a\\u{1b}[31m\tb\u{fffd}c");
    }

    #[test]
    fn last_words_are_the_last_lines_of_standard_error_in_this_call() {
        let output = Output::new(&Arc::new(Log::new("chat", "0123")));
        output.write(Stream::Stderr, b"before\n");
        output.begin_call();
        output.write(Stream::Stdout, b"no\n");
        output.write(Stream::Stderr, b"one\ntwo\n\nthree\nfour");
        assert_eq!(output.last_words(), "two / three / four");
    }

    #[test]
    fn last_words_begin_with_the_panic_until_the_next_call() {
        let output = Output::new(&Arc::new(Log::new("chat", "0123")));
        output.write(Stream::Stderr, b"before\nthread 'main' panicked at src/lib.rs:1:2:\n");
        assert!(output.is_panicking());
        output.write(Stream::Stderr, b"one\ntwo\nthree\n");
        assert_eq!(output.last_words(), "thread 'main' panicked at src/lib.rs:1:2: / one / two");
        output.begin_call();
        output.write(Stream::Stdout, b"thread 'main' panicked at src/lib.rs:1:2:\n");
        output.write(Stream::Stderr, b"he panicked at once\n");
        assert!(!output.is_panicking());
    }
}

//! What the generator prints: sentences, or one JSON object a line.

use std::io::{self, Write};

use super::Options;
use super::client::Wrong;
use super::histogram::Histogram;
use super::poke::Outcome;

/// How to print.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Json,
}

/// What a measured window came to.
pub(super) struct Result {
    /// Answers since the window began, those that came after its end included.
    pub(super) messages: u64,
    /// Answers within the window.
    pub(super) in_window: u64,
    /// Length of the window, in seconds.
    pub(super) seconds: f64,
    /// Nanoseconds, of the messages sent, or due, within the window.
    pub(super) latency: Histogram,
    pub(super) wrong: Wrong,
    /// Connections that ended early, and why the first of them did.
    pub(super) lost: u64,
    pub(super) first_loss: Option<String>,
    /// Messages that were not answered in time.
    pub(super) unanswered: u64,
    pub(super) poke: Option<Outcome>,
}

impl Result {
    pub(super) fn is_clean(&self) -> bool {
        self.failures() == 0 && self.messages > 0
    }

    fn failures(&self) -> u64 {
        self.wrong.shape + self.wrong.order + self.lost + self.unanswered
    }

    /// The quantiles of the latency by name, in microseconds.
    fn latencies(&self) -> [(&'static str, f64); 5] {
        let at = |share| self.latency.quantile(share) as f64 / 1e3;
        [
            ("p50", at(0.5)),
            ("p90", at(0.9)),
            ("p99", at(0.99)),
            ("p99.9", at(0.999)),
            ("max", self.latency.max() as f64 / 1e3),
        ]
    }
}

/// All idle connections are open.
pub(super) fn ready(format: Format, count: usize) -> io::Result<()> {
    match format {
        Format::Text => say(&format!("ready {count}")),
        Format::Json => say(&format!(r#"{{"event":"ready","connections":{count}}}"#)),
    }
}

/// The idle connections were held.
pub(super) fn held(format: Format, count: usize, lost: u64) -> io::Result<()> {
    match format {
        Format::Text => say(&format!("held {count}, lost {lost}")),
        Format::Json => say(&format!(r#"{{"event":"held","connections":{count},"lost":{lost}}}"#)),
    }
}

/// The measured window begins.
pub(super) fn measuring(format: Format, options: &Options) -> io::Result<()> {
    let Options { clients, in_flight, size, rate, .. } = options;
    match format {
        Format::Text if *rate > 0.0 => {
            say(&format!("measuring {clients} clients, {rate} messages/s each of {size} bytes"))
        }
        Format::Text => {
            say(&format!("measuring {clients} clients, {in_flight} in flight, {size} bytes"))
        }
        Format::Json => say(r#"{"event":"measuring"}"#),
    }
}

/// The end.
pub(super) fn result(format: Format, result: &Result) -> io::Result<()> {
    match format {
        Format::Text => say(&text(result)),
        Format::Json => say(&json(result)),
    }
}

fn text(result: &Result) -> String {
    let rate = result.in_window as f64 / result.seconds;
    let mut text = format!("{} messages, {rate:.0} messages/s\nlatency µs", result.messages);
    for (name, value) in result.latencies() {
        text += &format!("  {name} {value:.1}");
    }
    match result.poke {
        None => {}
        Some(Outcome::NoAnswer) => text += "\npoke: no answer",
        Some(Outcome::Answered { after }) => {
            text += &format!("\npoke: answered after {:.1} ms", after as f64 / 1e6);
        }
        Some(Outcome::Closed { after, code }) => {
            let code = code.map_or("without a code".to_owned(), |code| format!("with {code}"));
            text += &format!("\npoke: closed {code} after {:.1} ms", after as f64 / 1e6);
        }
    }
    if result.failures() > 0 {
        text += &format!(
            "\nFAILED: {} of wrong shape, {} out of order, {} connections lost, {} unanswered",
            result.wrong.shape, result.wrong.order, result.lost, result.unanswered
        );
    }
    if let Some(loss) = &result.first_loss {
        text += &format!("\nfirst connection lost: {loss}");
    }
    text
}

fn json(result: &Result) -> String {
    let mut text = format!(
        r#"{{"event":"result","messages":{},"seconds":{:.6},"messages_per_second":{:.1}"#,
        result.messages,
        result.seconds,
        result.in_window as f64 / result.seconds,
    );
    for (name, value) in result.latencies() {
        text += &format!(r#","{name}_us":{value:.3}"#);
    }
    text += &match result.poke {
        None => String::new(),
        Some(Outcome::NoAnswer) => r#","poke":{"outcome":"none"}"#.to_owned(),
        Some(Outcome::Answered { after }) => {
            format!(r#","poke":{{"outcome":"answered","after_ns":{after}}}"#)
        }
        Some(Outcome::Closed { after, code }) => {
            let code = code.map_or("null".to_owned(), |code| code.to_string());
            format!(r#","poke":{{"outcome":"closed","after_ns":{after},"code":{code}}}"#)
        }
    };
    text += &format!(
        r#","wrong_shape":{},"out_of_order":{},"lost":{},"unanswered":{}}}"#,
        result.wrong.shape, result.wrong.order, result.lost, result.unanswered
    );
    text
}

/// One write for all of it, so that a reader never sees half of a line.
fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(format!("{text}\n").as_bytes())?;
    out.flush()
}

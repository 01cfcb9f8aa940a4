//! `plugsock bench`

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::{Console, Outcome};
use crate::bench::{self, Mode, Plan, Progress, Url};

/// Measure a WebSocket server under load
///
/// Each client sends messages and compares what comes back: an echo server is needed, or with
/// --broadcast one that passes on messages to all. Exit code 1 if any answer was wrong or missing,
/// or a connection was lost.
#[derive(Debug, clap::Args)]
#[command(after_help = "docs/benchmarking.md says how to measure, and how to read the result.")]
pub(super) struct Args {
    /// The server, as ws://HOST:PORT/PATH
    url: Url,
    /// Connections; several numbers, with commas between them, make several rows
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "200")]
    clients: Vec<usize>,
    /// Closed loop: messages of a client under way. With --broadcast: messages published at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    in_flight: u32,
    /// Open loop: messages per second of each client, whatever the server does. Latency counts
    /// from when a message was due
    #[arg(long, value_name = "N", conflicts_with_all = ["in_flight", "broadcast", "idle"])]
    rate: Option<f64>,
    /// Bytes of a message
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    size: usize,
    /// Text messages instead of binary ones
    #[arg(long)]
    text: bool,
    /// Compress with permessage-deflate. Costs the generator more than the server
    #[arg(long)]
    deflate: bool,
    /// The measured time
    #[arg(long, value_name = "N", value_parser = seconds, default_value = "5")]
    seconds: Duration,
    /// Seconds of load before
    #[arg(long, value_name = "N", value_parser = seconds, default_value = "1")]
    warmup: Duration,
    /// Open the connections and do nothing for --seconds, to weigh the server: see --pid
    #[arg(long)]
    idle: bool,
    /// One more connection publishes, all clients receive: time until the last of them has it
    #[arg(long, conflicts_with_all = ["idle", "poke"])]
    broadcast: bool,
    /// Where the publisher connects to; without it like the clients
    #[arg(long, value_name = "URL", requires = "broadcast")]
    publish_url: Option<Url>,
    /// Connections opened per second at most
    #[arg(long, value_name = "N", default_value_t = 5_000.0)]
    connect_rate: f64,
    /// Addresses of 127.0.0.0/8 to connect from; without it one for each 10,000 clients
    #[arg(long, value_name = "N")]
    source_addresses: Option<u8>,
    /// Threads of the generator, which share the clients
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Confine each thread to a core of those that this process may use
    #[arg(long)]
    pin: bool,
    /// The server's process, for the columns CPU and RSS
    #[arg(long)]
    pid: Option<u32>,
    /// When measuring begins, one more connection sends this text, to see what it disturbs
    #[arg(long, value_name = "TEXT", conflicts_with = "idle")]
    poke: Option<String>,
    /// Where that connection goes; without it like the clients
    #[arg(long, value_name = "URL", requires = "poke")]
    poke_url: Option<Url>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// Draw the latencies into this file (SVG)
    #[arg(long, value_name = "FILE", conflicts_with = "idle")]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Human,
    /// One object a line: `measuring`, then `result`; with --idle `ready`, then `result`
    Json,
}

pub(super) fn run(args: &Args, console: &mut Console<'_>) -> Outcome {
    let plans: Vec<_> = args.clients.iter().map(|clients| args.plan(*clients)).collect();
    for plan in &plans {
        if let Err(sentence) = plan.check() {
            console.error(sentence);
            return Outcome::Usage;
        }
    }
    // Before the measuring, which would be in vain.
    let picture = match args.plot.as_ref().map(|path| (path, File::create(path))) {
        None => None,
        Some((_, Ok(file))) => Some(file),
        Some((path, Err(error))) => {
            console.error(format_args!("--plot {}: cannot write it: {error}", path.display()));
            return Outcome::Bad;
        }
    };
    let mut runs = Vec::new();
    for plan in plans {
        match measure(args, &plan, runs.is_empty(), console) {
            Ok(outcome) => runs.push((plan, outcome)),
            Err(sentence) => {
                console.error(sentence);
                break;
            }
        }
    }
    let mut all_fine = runs.len() == args.clients.len();
    if args.format == Format::Human && !runs.is_empty() {
        console.print(bench::table(runs.iter().map(|(plan, outcome)| (plan, outcome))));
    }
    for (plan, outcome) in &runs {
        all_fine &= outcome.is_fine();
        for problem in outcome.problems() {
            console.error(format_args!("{} clients: {problem}", plan.clients));
        }
        // For scripts the figures behind them are in the JSON.
        let notes = if args.format == Format::Human { outcome.notes() } else { Vec::new() };
        for note in notes {
            console.warning(format_args!("{} clients: {note}", plan.clients));
        }
    }
    if let Some(mut file) = picture {
        let runs: Vec<_> = runs.iter().map(|(plan, outcome)| (plan, outcome)).collect();
        if let Err(error) = file.write_all(bench::plot(&runs).as_bytes()) {
            console.error(format_args!("--plot: cannot write it: {error}"));
            all_fine = false;
        }
    }
    if all_fine { Outcome::Fine } else { Outcome::Bad }
}

impl Args {
    fn plan(&self, clients: usize) -> Plan {
        let in_flight = self.in_flight;
        let mode = match self.rate {
            Some(rate) => Mode::Open { rate },
            None if self.idle => Mode::Idle,
            None if self.broadcast => {
                let publish_url = self.publish_url.clone().unwrap_or_else(|| self.url.clone());
                Mode::Broadcast { in_flight, publish_url }
            }
            None => Mode::Closed { in_flight },
        };
        let poke_url = self.poke_url.as_ref().unwrap_or(&self.url);
        Plan {
            url: self.url.clone(),
            clients,
            mode,
            size: self.size,
            text: self.text,
            deflate: self.deflate,
            warmup: if self.idle { Duration::ZERO } else { self.warmup },
            window: self.seconds,
            connect_rate: self.connect_rate,
            source_addresses: self.source_addresses,
            threads: self.threads,
            pin: self.pin,
            pid: self.pid,
            poke: self.poke.as_ref().map(|text| (poke_url.clone(), text.clone())),
            series: self.plot.is_some(),
        }
    }
}

/// One row, with a bar on standard error while it is measured.
fn measure(
    args: &Args,
    plan: &Plan,
    is_first: bool,
    console: &mut Console<'_>,
) -> Result<bench::Outcome, String> {
    let mut bar = Bar { shown: io::stderr().is_terminal(), text: String::new() };
    let begun = if args.idle { "ready" } else { "measuring" };
    let begun = serde_json::json!({ "event": begun, "clients": plan.clients });
    let outcome = bench::run(plan, &mut |progress| {
        bar.show(progress, console);
        if progress == Progress::Begun && args.format == Format::Json {
            console.print(format_args!("{begun}\n"));
        }
    });
    bar.clear(console);
    let outcome = outcome?;
    match args.format {
        Format::Json => console.print(format_args!("{}\n", bench::json(plan, &outcome))),
        Format::Human if is_first => console.print(format_args!(
            "{}: {}; up to {} open files\n",
            plan.url,
            bench::describe(plan),
            outcome.open_files
        )),
        Format::Human => {}
    }
    Ok(outcome)
}

/// One line that is written over again and again.
struct Bar {
    shown: bool,
    text: String,
}

/// In characters.
const BAR: usize = 30;

impl Bar {
    fn show(&mut self, progress: Progress, console: &mut Console<'_>) {
        let (share, text) = match progress {
            Progress::Opening { open, of } => {
                (open as f64 / of.max(1) as f64, format!("connecting {open}/{of}"))
            }
            Progress::Settling => (1.0, "waiting for silence".to_owned()),
            Progress::Begun => return,
            Progress::Running { thousandths, messages } => {
                (f64::from(thousandths) / 1e3, format!("measuring, {messages} messages"))
            }
        };
        let line = format!("{} {text}", bar(share));
        if self.shown && line != self.text {
            let _ = write!(console.err, "\r\x1b[K{line}");
            let _ = console.err.flush();
            self.text = line;
        }
    }

    fn clear(&mut self, console: &mut Console<'_>) {
        if !self.text.is_empty() {
            let _ = write!(console.err, "\r\x1b[K");
            self.text.clear();
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to BAR")]
fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR as f64) as usize;
    format!("[{}{}]", "=".repeat(full), " ".repeat(BAR - full))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds, such as 2.5")?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "a number of seconds from 0 on".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_as_long_as_the_share() {
        assert_eq!(bar(0.0), format!("[{}]", " ".repeat(30)));
        assert_eq!(bar(0.5), format!("[{}{}]", "=".repeat(15), " ".repeat(15)));
        assert_eq!(bar(1.5), format!("[{}]", "=".repeat(30)));
    }

    #[test]
    fn seconds_may_have_a_fraction() {
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        for wrong in ["-1", "x", "", "inf", "NaN"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}

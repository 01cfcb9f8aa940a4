//! The load generator: one thread, one epoll, messages prepared once.

mod batch;
mod client;
mod connect;
mod histogram;
mod idle;
mod measure;
mod poke;
mod report;

use std::io;
use std::time::Duration;

use crate::args::{Args, Error};
use crate::sys;
use connect::{Connector, Url};
use report::Format;

/// The one receive buffer of the generator, in bytes.
const BUFFER: usize = 256 * 1024;

/// Events taken from the kernel in one call.
const EVENTS: usize = 1024;

/// Most bytes of one connection under way, which are also held as prepared frames.
const BATCH_MAX: usize = 1 << 30;

/// Most messages of one connection under way.
const IN_FLIGHT_MAX: usize = 65_536;

/// Files open besides the connections.
const FILES_RESERVED: u64 = 16;

/// What is sent, and for how long.
pub(super) struct Options {
    /// Connections.
    clients: usize,
    /// Messages of one connection under way at once.
    in_flight: usize,
    /// Bytes of a message.
    size: usize,
    /// Text messages instead of binary ones.
    text: bool,
    /// Messages per second and connection, whatever the server does; 0 = as it answers.
    rate: f64,
    /// Before the measured window, and the window itself.
    warmup: Duration,
    window: Duration,
    format: Format,
    /// Where one extra connection sends this text as the window begins.
    poke: Option<(Url, String)>,
}

/// Runs the generator; returns whether every message came back as it should.
pub(crate) fn run(mut args: Args) -> Result<bool, Error> {
    let url: Url = args.value("--url")?.ok_or_else(|| usage("--url ws://HOST:PORT/PATH"))?;
    let sources = args.value("--source-addresses")?.unwrap_or(4);
    let connect_rate = args.value("--connect-rate")?.unwrap_or(5_000.0);
    let idle = args.value("--idle")?;
    let hold = seconds(&mut args, "--hold", 10.0)?;
    let options = options(&mut args, &url)?;
    args.finish()?;
    if !(1..=255).contains(&sources) {
        return Err(usage("--source-addresses between 1 and 255"));
    }
    if !(0.001..=1e9).contains(&connect_rate) {
        return Err(usage("--connect-rate from 0.001 to 1000000000 connections a second"));
    }
    let wanted = idle.unwrap_or(options.clients);
    let files = sys::raise_open_files()?;
    if wanted as u64 + FILES_RESERVED > files {
        let text = format!("{wanted} connections do not fit into {files} open files");
        return Err(io::Error::other(text).into());
    }
    sys::precise_timeouts()?;
    let connector = Connector::new(url, sources, connect_rate)?;
    match idle {
        Some(count) => idle::hold(connector, count, hold, options.format),
        None => measure::run(connector, &options),
    }
}

fn options(args: &mut Args, url: &Url) -> Result<Options, Error> {
    let poke = args.value("--poke")?;
    let poke_url = args.value("--poke-url")?.unwrap_or_else(|| url.clone());
    let options = Options {
        clients: args.value("--clients")?.unwrap_or(200),
        in_flight: args.value("--in-flight")?.unwrap_or(1),
        size: args.value("--size")?.unwrap_or(100),
        text: args.flag("--text"),
        rate: args.value("--rate")?.unwrap_or(0.0),
        warmup: seconds(args, "--warmup", 1.0)?,
        window: seconds(args, "--seconds", 5.0)?,
        format: if args.flag("--json") { Format::Json } else { Format::Text },
        poke: poke.map(|text| (poke_url, text)),
    };
    if options.clients == 0 || !(1..=IN_FLIGHT_MAX).contains(&options.in_flight) {
        return Err(usage("--clients from 1 and --in-flight from 1 to 65536"));
    }
    if options.size.saturating_mul(options.in_flight) > BATCH_MAX || options.window.is_zero() {
        return Err(usage("--size times --in-flight up to 1 GiB and --seconds above 0"));
    }
    if options.rate != 0.0 && !(0.001..=1e6).contains(&options.rate) {
        return Err(usage("--rate from 0.001 to 1000000 messages a second and client"));
    }
    Ok(options)
}

fn seconds(args: &mut Args, name: &str, default: f64) -> Result<Duration, Error> {
    let seconds = args.value(name)?.unwrap_or(default);
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if seconds < 1e6 => Ok(duration),
        _ => Err(usage(&format!("{name} from 0 to 1000000 seconds"))),
    }
}

fn usage(needed: &str) -> Error {
    Error::Usage(format!("load needs {needed}"))
}

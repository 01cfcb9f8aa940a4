//! What is to be measured.

use std::time::Duration;

use super::broadcast;
use super::url::Url;

/// One run. [`check`](Self::check) says whether it can be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the clients connect to.
    pub url: Url,
    /// Connections that count.
    pub clients: usize,
    /// What they do.
    pub mode: Mode,
    /// Bytes of a message.
    pub size: usize,
    /// Text messages instead of binary ones.
    pub text: bool,
    /// Offer permessage-deflate (RFC 7692), and fail where the server declines.
    pub deflate: bool,
    /// Before the window.
    pub warmup: Duration,
    /// In which messages count.
    pub window: Duration,
    /// Connections opened in a second at most.
    pub connect_rate: f64,
    /// How many addresses of 127.0.0.0/8 the clients have, where the server is there; as many as
    /// are needed if it is not said.
    pub source_addresses: Option<u8>,
    /// Threads that share the clients.
    pub threads: usize,
    /// Confine each thread to a core of those that this process may use.
    pub pin: bool,
    /// The server's process, whose CPU time and memory are shown.
    pub pid: Option<u32>,
    /// A text that one more connection sends as the window begins, and where to.
    pub poke: Option<(Url, String)>,
    /// Keep the latencies of each second apart.
    pub series: bool,
}

/// What the clients do.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Each client has so many messages under way; for each that comes back it sends the next.
    Closed {
        /// Messages of one client.
        in_flight: u32,
    },
    /// Each client sends so many messages a second, whatever comes back.
    Open {
        /// Messages of one client in a second.
        rate: f64,
    },
    /// The clients listen to one more connection, which sends so many messages at once.
    Broadcast {
        /// Messages sent in one write.
        in_flight: u32,
        /// Where that connection goes.
        publish_url: Url,
    },
    /// The clients do nothing.
    Idle,
}

/// The most messages of one connection under way.
pub const MAX_IN_FLIGHT: u32 = 65_536;

/// The most bytes of one connection under way, which are also held as prepared frames.
const MAX_BATCH: usize = 1 << 30;

/// The most clients.
const MAX_CLIENTS: usize = 10_000_000;

/// The most threads.
const MAX_THREADS: usize = 1_024;

impl Plan {
    /// Says in a sentence what cannot be done.
    ///
    /// # Errors
    /// Where a number is out of its range, or two things do not go together.
    pub fn check(&self) -> Result<(), String> {
        let in_flight = match self.mode {
            Mode::Closed { in_flight } | Mode::Broadcast { in_flight, .. } => in_flight,
            Mode::Open { .. } | Mode::Idle => 1,
        };
        if !(1..=MAX_IN_FLIGHT).contains(&in_flight) {
            return Err(format!("--in-flight is from 1 to {MAX_IN_FLIGHT}, not {in_flight}"));
        }
        if !(1..=MAX_CLIENTS).contains(&self.clients) {
            return Err(format!("--clients is from 1 to {MAX_CLIENTS}, not {}", self.clients));
        }
        if self.size.checked_mul(in_flight as usize).is_none_or(|bytes| bytes > MAX_BATCH) {
            return Err("--size times --in-flight is at most 1 GiB: send less at once".to_owned());
        }
        if !(1..=MAX_THREADS).contains(&self.threads) {
            return Err(format!("--threads is from 1 to {MAX_THREADS}, not {}", self.threads));
        }
        if self.source_addresses == Some(0) {
            return Err("--source-addresses is from 1 to 255, not 0".to_owned());
        }
        in_range("--connect-rate", self.connect_rate, 0.001, 1e9)?;
        let (window, warmup) = (self.window.as_secs_f64(), self.warmup.as_secs_f64());
        in_range("--seconds", window, 0.001, 1e6)?;
        in_range("--warmup", warmup, 0.0, 1e6)?;
        match self.mode {
            Mode::Open { rate } => in_range("--rate", rate, 0.001, 1e6),
            Mode::Broadcast { .. } if self.size < broadcast::MIN_SIZE => Err(format!(
                "--broadcast needs messages of at least {} bytes, to tell them from others: raise \
                 --size",
                broadcast::MIN_SIZE
            )),
            Mode::Closed { .. } | Mode::Broadcast { .. } | Mode::Idle => Ok(()),
        }
    }

    /// Connections that are open at once.
    pub(super) fn connections(&self) -> usize {
        let publisher = matches!(self.mode, Mode::Broadcast { .. });
        self.clients + usize::from(publisher) + usize::from(self.poke.is_some())
    }
}

fn in_range(name: &str, value: f64, least: f64, most: f64) -> Result<(), String> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(format!("{name} is from {least} to {most}, not {value}")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn plan(mode: Mode) -> Plan {
        Plan {
            url: "ws://127.0.0.1:8080/".parse().unwrap(),
            clients: 10,
            mode,
            size: 100,
            text: false,
            deflate: false,
            warmup: Duration::from_millis(20),
            window: Duration::from_millis(200),
            connect_rate: 10_000.0,
            source_addresses: None,
            threads: 1,
            pin: false,
            pid: None,
            poke: None,
            series: false,
        }
    }

    fn closed(in_flight: u32) -> Plan {
        plan(Mode::Closed { in_flight })
    }

    #[test]
    fn each_limit_holds_and_one_past_it_does_not() {
        let fits = |plan: &Plan| plan.check().is_ok();
        assert!(fits(&closed(1)) && !fits(&closed(0)));
        let tiny = |in_flight| Plan { size: 0, ..closed(in_flight) };
        assert!(fits(&tiny(MAX_IN_FLIGHT)) && !fits(&tiny(MAX_IN_FLIGHT + 1)));
        let clients = |clients| Plan { clients, ..closed(1) };
        assert!(fits(&clients(1)) && !fits(&clients(0)));
        assert!(fits(&clients(MAX_CLIENTS)) && !fits(&clients(MAX_CLIENTS + 1)));
        let size = |size| Plan { size, ..closed(2) };
        assert!(fits(&size(MAX_BATCH / 2)) && !fits(&size(MAX_BATCH / 2 + 1)));
        assert!(!fits(&size(usize::MAX)));
        let threads = |threads| Plan { threads, ..closed(1) };
        assert!(fits(&threads(MAX_THREADS)) && !fits(&threads(MAX_THREADS + 1)));
        assert!(!fits(&threads(0)));
        let rate = |rate| plan(Mode::Open { rate });
        assert!(fits(&rate(1e6)) && !fits(&rate(1e6 + 1.0)));
        assert!(fits(&rate(0.001)) && !fits(&rate(0.0)) && !fits(&rate(f64::NAN)));
        let window = |window| Plan { window, ..closed(1) };
        assert!(fits(&window(Duration::from_millis(1))) && !fits(&window(Duration::ZERO)));
        assert!(!fits(&Plan { source_addresses: Some(0), ..closed(1) }));
    }

    #[test]
    fn a_published_message_must_hold_its_tag() {
        let publish_url = "ws://127.0.0.1/".parse().unwrap();
        let mode = Mode::Broadcast { in_flight: 1, publish_url };
        let size = |size| Plan { size, ..plan(mode.clone()) };
        assert!(size(20).check().is_ok());
        assert!(size(19).check().unwrap_err().contains("at least 20 bytes"));
    }
}

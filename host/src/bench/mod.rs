//! A load generator: it measures any WebSocket server, and this one.
//!
//! [`run`] does what a [`Plan`] says. Each of its threads has its share of the clients and one
//! loop over mio; messages are prepared once, so that sending one costs a write and four bytes.
//! What comes goes through the client role of `plugsock-ws`, and every answer is compared with what
//! was sent.
//!
//! 1. [`Plan`]: what is to be measured; `run` starts, watches and adds up the threads.
//! 2. `thread`: opens connections (`opener`), waits (`sleeper`), hands events to a task.
//! 3. The tasks: `echo` in a closed or an open loop (`schedule`), `broadcast`, `idle`.
//! 4. `client`, `messages`: one connection; what is sent and what must come.
//! 5. `tally`, [`Latencies`]: counting. [`Outcome`]: what it came to.
//! 6. [`table`], [`json`], [`plot`]: showing it.

mod plan;
mod run;
mod system;
mod url;

mod opener;
mod sleeper;
mod thread;

mod broadcast;
mod echo;
mod idle;
mod poke;
mod schedule;

mod client;
mod clients;
mod messages;
mod random;

mod latencies;
mod result;
mod tally;
mod time;

mod plot;
mod report;

#[cfg(test)]
mod tests;

pub use latencies::{Latencies, Point, Series};
pub use plan::{MAX_IN_FLIGHT, Mode, Plan};
pub use plot::plot;
pub use poke::PokeOutcome;
pub use report::{describe, json, table};
pub use result::{Broadcasts, Outcome, Usage};
pub use run::{Progress, run};
pub use tally::Wrong;
pub use url::Url;

//! `plugsock default-config`

use super::{Console, Outcome};
use crate::config;

/// Print a configuration file with every key, its meaning and its default
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(Args {}: &Args, console: &mut Console<'_>) -> Outcome {
    console.print(config::default_file());
    Outcome::Fine
}

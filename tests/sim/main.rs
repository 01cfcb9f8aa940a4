//! A client's and a server's machine, joined by simulated byte pipes in simulated time. Every
//! decision of a run comes from its seed: see README.md.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod choices;
mod cuts;
mod endpoint;
mod inflate;
mod pipe;
mod reference;
mod replay;
mod sender;
mod terms;
mod traffic;
mod world;

use std::path::Path;
use std::{env, fs, thread};

use crate::choices::Choices;
use crate::world::{Tally, Trouble};

/// Seeds for each kind of trouble; SIM_SEEDS is another number.
const SEEDS: u64 = 2_500;

#[test]
fn all_arrives_and_both_ends_close() {
    let Some(sum) = run(Trouble::None) else { return };
    assert!(sum.crossings > 0 && sum.messages > sum.connections, "{sum:?}");
    assert_eq!(sum.closed, 2 * sum.connections, "{sum:?}");
    assert!(sum.compressed > sum.connections && sum.abandoned > 0, "{sum:?}");
}

#[test]
fn what_a_broken_connection_brought_was_right() {
    let Some(sum) = run(Trouble::Lost) else { return };
    assert!(sum.gone > sum.connections / 2 && sum.closed > 0, "{sum:?}");
}

#[test]
fn a_changed_byte_is_an_error_or_other_frames() {
    let Some(sum) = run(Trouble::Changed) else { return };
    assert!(sum.failed > sum.connections / 8, "{sum:?}");
    assert!(sum.closed > sum.connections && sum.deadlines > 0, "{sum:?}");
}

#[test]
fn a_broken_rule_ends_the_connection() {
    let Some(sum) = run(Trouble::Breach) else { return };
    assert!(sum.failed > sum.connections / 2, "{sum:?}");
}

#[test]
fn the_corpus_of_the_fuzzers_passes() {
    for (target, replay) in [
        ("frames", replay::frames as fn(&[u8])),
        ("handshake", replay::handshake),
        ("inflate", replay::inflate),
        ("response", replay::response),
        ("whole", replay::whole),
    ] {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
        let files: Vec<_> =
            fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(files.len() > 10, "{target} has {} inputs", files.len());
        for path in files {
            let failed = OnFailure(format!("{} failed", path.display()));
            replay(&fs::read(path).unwrap());
            drop(failed);
        }
    }
}

/// Runs the seeds and adds up what happened; `None` if they were too few for everything to happen,
/// such as one alone, as SIM_SEED asks.
fn run(trouble: Trouble) -> Option<Tally> {
    let number = |name| env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    if let Some(seed) = number("SIM_SEED") {
        world::run(Choices::from_seed(seed), trouble);
        return None;
    }
    let mut sum = Tally::default();
    let seeds = number("SIM_SEEDS").unwrap_or(SEEDS);
    for seed in 1..=seeds {
        let alone = "cargo test -p plugsock-tests --test sim";
        let failed = OnFailure(format!(
            "seed {seed} failed with {trouble:?}; alone: SIM_SEED={seed} {alone}"
        ));
        sum += world::run(Choices::from_seed(seed), trouble);
        drop(failed);
    }
    (seeds >= SEEDS).then_some(sum)
}

/// Says which run it was that failed.
struct OnFailure(String);

impl Drop for OnFailure {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

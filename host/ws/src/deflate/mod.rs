//! DEFLATE for messages (RFC 7692 §7.2).
//!
//! All compressors and decompressors stand in a [`Codec`], one for each thread and all its
//! connections, and start anew with each message. Where context takeover was agreed, a
//! connection keeps the last bytes of plain text that each end may refer to, and the codec reads
//! them before the message. So takeover costs a connection up to one window in each direction,
//! 64 KiB together for two windows of 15 bits, where a compressor and a decompressor of its own
//! would take 418 KiB.
//!
//! The price is time: some 0.6 to 1.2 ns a byte of history for each message sent, 20 to 40 µs
//! for a window of 15 bits and 3 to 5 µs for one of 12. Receiving is hardly dearer than without.
//! `cargo run --release -p plugsock-ws --example deflate` measures it.

mod codec;
mod compress;
mod history;
mod inflate;
mod inflation;

pub use codec::Codec;
pub use compress::{Compressor, Settings};

pub(crate) use history::History;
pub(crate) use inflation::{Context, Inflated, Inflation};

use inflate::{Inflater, Pace};

/// The end of every flushed block, which does not stand on the wire (RFC 7692 §7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// Bytes that one step inflates at most; some 10 to 50 µs of work.
pub(crate) const MAX_STEP_OUTPUT: usize = 64 * 1024;

/// Compressed bytes that one step reads at most. It matters where a peer sends blocks that
/// inflate to nothing; at worst, with a code table in every few bytes, they take 2 ms.
pub(crate) const MAX_STEP_INPUT: usize = 16 * 1024;

/// Final blocks in one message; exactly so many pass. One is usual with senders that cannot flush
/// (RFC 7692 §7.2.3.4); each costs a reading of the history.
pub(crate) const MAX_FINAL_BLOCKS: u16 = 1024;

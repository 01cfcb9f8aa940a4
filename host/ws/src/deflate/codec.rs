//! What one thread needs for all its connections.

use std::fmt;

use super::{Compressor, Inflater, MAX_STEP_OUTPUT, Settings};
use crate::extension::WindowBits;

/// Compressors and decompressors for all connections of one thread. See the
/// [module](crate::deflate) for what stays with a connection.
///
/// It takes memory as it is needed: 64 KiB for inflated bytes, 47 KiB a decompressor and a
/// [`Compressor`] for each size of window in use, 380 KB at most. A message that is inflated in
/// several steps has a decompressor to itself meanwhile.
pub struct Codec {
    settings: Settings,
    /// By window bits, from 9.
    compressors: [Option<Box<Compressor>>; 7],
    inflaters: Vec<Inflater>,
    scratch: Vec<u8>,
}

/// Decompressors kept for the next messages.
const MAX_SPARE_INFLATERS: usize = 4;

impl Codec {
    /// Allocates nothing yet.
    pub const fn new(settings: Settings) -> Self {
        let compressors = [const { None }; 7];
        Self { settings, compressors, inflaters: Vec::new(), scratch: Vec::new() }
    }

    /// The compressor for connections whose agreement allows `window_bits`. A window of 8 bits
    /// cannot be built; it becomes 9.
    pub fn compressor(&mut self, window_bits: WindowBits) -> &mut Compressor {
        let [nine, ten, eleven, twelve, thirteen, fourteen, fifteen] = &mut self.compressors;
        let slot = match window_bits.get() {
            ..=9 => nine,
            10 => ten,
            11 => eleven,
            12 => twelve,
            13 => thirteen,
            14 => fourteen,
            15.. => fifteen,
        };
        slot.get_or_insert_with(|| Box::new(Compressor::new(self.settings, window_bits)))
    }

    pub(crate) fn take_inflater(&mut self) -> Inflater {
        self.inflaters.pop().unwrap_or_else(Inflater::new)
    }

    pub(crate) fn return_inflater(&mut self, inflater: Inflater) {
        if self.inflaters.len() < MAX_SPARE_INFLATERS {
            self.inflaters.push(inflater);
        }
    }

    /// Room for one step's output.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.scratch.is_empty() {
            self.scratch = vec![0; MAX_STEP_OUTPUT];
        }
        &mut self.scratch
    }

    /// The first `len` bytes of what was written to the room.
    pub(crate) fn written(&self, len: usize) -> &[u8] {
        self.scratch.get(..len).unwrap_or_default()
    }
}

impl Default for Codec {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec")
            .field("settings", &self.settings)
            .field("compressors", &self.compressors)
            .field("inflaters", &self.inflaters.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_window_has_its_compressor() {
        let mut codec = Codec::default();
        for _ in 0..2 {
            for bits in 8..=15 {
                let window_bits = WindowBits::new(bits).unwrap();
                assert_eq!(codec.compressor(window_bits).window_bits().get(), bits.max(9));
            }
        }
    }
}

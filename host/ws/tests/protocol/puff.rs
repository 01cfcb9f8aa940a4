//! A second inflater, bit by bit after RFC 1951, as the judge of what is sent. It tells how far
//! references reach, which zlib does not.

/// The inflated message, and the longest distance of a reference. `history` is all plain text
/// that was sent before; `payload` is a message's, without the tail. Panics if it is not valid.
pub(crate) fn puff(history: &[u8], payload: &[u8]) -> (Vec<u8>, usize) {
    let bytes = [payload, &[0, 0, 0xff, 0xff]].concat();
    let mut bits = Bits { bytes: &bytes, at: 0 };
    let mut out = history.to_vec();
    let mut farthest = 0;
    while bits.at < bytes.len() * 8 {
        let _final = bits.take(1);
        match bits.take(2) {
            0 => stored(&mut bits, &mut out),
            1 => {
                let lengths: Vec<u8> = (0..288)
                    .map(|i| match i {
                        0..144 => 8,
                        144..256 => 9,
                        256..280 => 7,
                        _ => 8,
                    })
                    .collect();
                codes(
                    &mut bits,
                    &Code::new(&lengths),
                    &Code::new(&[5; 30]),
                    &mut out,
                    &mut farthest,
                );
            }
            2 => {
                let (literals, distances) = dynamic(&mut bits);
                codes(&mut bits, &literals, &distances, &mut out, &mut farthest);
            }
            _ => unreachable!("block type 3"),
        }
    }
    (out.split_off(history.len()), farthest)
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: usize) -> usize {
        (0..count).fold(0, |value, i| {
            let bit = self.bytes[self.at / 8] >> (self.at % 8) & 1;
            self.at += 1;
            value | usize::from(bit) << i
        })
    }
}

/// A canonical Huffman code: how many codes there are of each length, and their symbols in order.
struct Code {
    counts: [usize; 16],
    symbols: Vec<usize>,
}

impl Code {
    fn new(lengths: &[u8]) -> Self {
        let mut counts = [0; 16];
        lengths.iter().for_each(|&len| counts[usize::from(len)] += 1);
        counts[0] = 0;
        let mut symbols: Vec<usize> = (0..lengths.len()).filter(|&i| lengths[i] > 0).collect();
        symbols.sort_by_key(|&i| (lengths[i], i));
        Self { counts, symbols }
    }

    fn decode(&self, bits: &mut Bits<'_>) -> usize {
        let (mut code, mut first, mut index) = (0, 0, 0);
        for count in &self.counts[1..] {
            code |= bits.take(1);
            if code < first + count {
                return self.symbols[index + code - first];
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        unreachable!("no such code");
    }
}

fn stored(bits: &mut Bits<'_>, out: &mut Vec<u8>) {
    bits.at = bits.at.next_multiple_of(8);
    let len = bits.take(16);
    assert_eq!(bits.take(16), len ^ 0xffff);
    out.extend_from_slice(&bits.bytes[bits.at / 8..][..len]);
    bits.at += len * 8;
}

fn dynamic(bits: &mut Bits<'_>) -> (Code, Code) {
    const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
    let (literals, distances) = (bits.take(5) + 257, bits.take(5) + 1);
    let count = bits.take(4) + 4;
    let mut lengths = [0; 19];
    for &place in &ORDER[..count] {
        lengths[place] = byte(bits.take(3));
    }
    let code = Code::new(&lengths);
    let mut lengths = Vec::new();
    while lengths.len() < literals + distances {
        let (value, times) = match code.decode(bits) {
            16 => (lengths[lengths.len() - 1], 3 + bits.take(2)),
            17 => (0, 3 + bits.take(3)),
            18 => (0, 11 + bits.take(7)),
            symbol => (byte(symbol), 1),
        };
        lengths.resize(lengths.len() + times, value);
    }
    assert_eq!(lengths.len(), literals + distances);
    let (literals, distances) = lengths.split_at(literals);
    (Code::new(literals), Code::new(distances))
}

fn codes(
    bits: &mut Bits<'_>,
    literals: &Code,
    distances: &Code,
    out: &mut Vec<u8>,
    farthest: &mut usize,
) {
    loop {
        let symbol = literals.decode(bits);
        let len = match symbol {
            0..256 => {
                out.push(byte(symbol));
                continue;
            }
            256 => return,
            257..265 => symbol - 254,
            285 => 258,
            _ => {
                let extra = (symbol - 261) / 4;
                ((4 + (symbol - 261) % 4) << extra) + 3 + bits.take(extra)
            }
        };
        let distance = match distances.decode(bits) {
            symbol @ 0..4 => symbol + 1,
            symbol => {
                let extra = symbol / 2 - 1;
                ((2 + symbol % 2) << extra) + 1 + bits.take(extra)
            }
        };
        *farthest = distance.max(*farthest);
        for _ in 0..len {
            out.push(out[out.len() - distance]);
        }
    }
}

fn byte(value: usize) -> u8 {
    assert!(value < 256);
    value.to_le_bytes()[0]
}

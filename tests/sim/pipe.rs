//! One direction of a connection: bytes under way, with delays and faults.

use std::collections::VecDeque;

use crate::choices::Choices;

/// Bytes from one end to the other, in order, each with the time at which it arrives.
#[derive(Debug)]
pub(crate) struct Pipe {
    bytes: Vec<u8>,
    delivered: usize,
    /// Up to which offset bytes have arrived at which time.
    arrivals: VecDeque<(u64, usize)>,
    end: Option<(u64, End)>,
    abandoned: bool,
    fault: Option<Fault>,
    /// Where the handshake's head ends. Offsets below count from here.
    head: usize,
    /// Where frames begin.
    seams: Vec<usize>,
    /// Where neither a frame nor a message is incomplete.
    idle: Vec<usize>,
    delay: usize,
    cut: Cut,
    /// Reads of one byte that are left, so that long payloads stay cheap.
    small_reads: usize,
}

/// How a direction ends.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All bytes came, then nothing more will.
    Eof,
    /// The connection broke.
    Reset,
}

/// What goes wrong, and where: `byte` bytes after the start of frame number `frame`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) frame: usize,
    pub(crate) byte: usize,
    pub(crate) damage: Damage,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// This byte and all after it are lost.
    Lost(End),
    /// These bits of the byte are flipped.
    Changed(u8),
}

/// Into which pieces the receiver reads the bytes.
#[derive(Copy, Clone, Debug)]
enum Cut {
    All,
    Single,
    /// Up to so many bytes.
    Random(usize),
    /// Single bytes around the seams of frames, all else at once.
    Seams,
}

impl Pipe {
    pub(crate) fn new(choices: &mut Choices<'_>, fault: Option<Fault>) -> Self {
        let cut = match choices.below(6) {
            0 => Cut::All,
            1 => Cut::Single,
            2 => Cut::Random(16),
            3 => Cut::Random(1_500),
            4 => Cut::Random(60_000),
            _ => Cut::Seams,
        };
        Self {
            bytes: Vec::new(),
            delivered: 0,
            arrivals: VecDeque::new(),
            end: None,
            abandoned: false,
            fault,
            head: 0,
            seams: vec![0],
            idle: vec![0],
            delay: 1 + choices.pick(&[0, 5, 100]),
            cut,
            small_reads: 2_000,
        }
    }

    /// Sends the handshake's head.
    pub(crate) fn send_head(&mut self, now: u64, choices: &mut Choices<'_>, head: &[u8]) {
        self.head = head.len();
        self.send(now, choices, head);
    }

    /// Sends one frame. `idle` is whether its message, if it belongs to one, is complete now.
    pub(crate) fn send_frame(
        &mut self,
        now: u64,
        choices: &mut Choices<'_>,
        frame: &[u8],
        idle: bool,
    ) {
        self.send(now, choices, frame);
        self.seams.push(self.sent());
        if idle {
            self.idle.push(self.sent());
        }
    }

    /// Bytes of frames that were sent, lost ones included.
    pub(crate) fn sent(&self) -> usize {
        self.bytes.len() - self.head
    }

    /// Whether nothing is incomplete after so many bytes of frames.
    pub(crate) fn is_idle_at(&self, offset: usize) -> bool {
        self.idle.binary_search(&offset).is_ok()
    }

    /// Whether nothing was sent, no head either.
    pub(crate) const fn is_unused(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The sender is gone.
    pub(crate) fn end(&mut self, now: u64, end: End) {
        if self.end.is_none() && !self.abandoned {
            let last = self.arrivals.back().map_or(0, |(time, _)| *time);
            self.end = Some((last.max(now + 1), end));
        }
    }

    /// When there is something to read: bytes or the end.
    pub(crate) fn next_arrival(&self) -> Option<u64> {
        let bytes = self.arrivals.front().map(|(time, _)| *time);
        bytes.or(self.end.map(|(time, _)| time))
    }

    /// What has arrived, some of it. Empty if it is the end.
    pub(crate) fn read(&mut self, now: u64, choices: &mut Choices<'_>, into: &mut Vec<u8>) {
        let mut arrived = self.delivered;
        while let Some((time, end)) = self.arrivals.front().copied()
            && time <= now
        {
            arrived = end;
            self.arrivals.pop_front();
        }
        if arrived == self.delivered {
            return;
        }
        let size = self.piece(choices).clamp(1, arrived - self.delivered);
        into.extend_from_slice(&self.bytes[self.delivered..self.delivered + size]);
        self.delivered += size;
        if self.delivered < arrived {
            self.arrivals.push_front((now, arrived));
        }
    }

    /// The end, once all that came before it was read.
    pub(crate) fn take_end(&mut self) -> Option<End> {
        self.end.take_if(|_| self.arrivals.is_empty()).map(|(_, end)| end)
    }

    /// The reader is gone: what is under way and what will come is lost.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
        self.arrivals.clear();
        self.end = None;
    }

    fn send(&mut self, now: u64, choices: &mut Choices<'_>, bytes: &[u8]) {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        if let Some((at, damage)) = self.damage() {
            match damage {
                Damage::Changed(bits) => {
                    if at >= before
                        && let Some(byte) = self.bytes.get_mut(at)
                    {
                        *byte ^= bits;
                    }
                }
                Damage::Lost(end) if self.bytes.len() > at => {
                    if at > before {
                        self.arrive(now, choices, at);
                    }
                    self.end(now, end);
                }
                Damage::Lost(_) => {}
            }
        }
        self.arrive(now, choices, self.bytes.len());
    }

    /// Where in all bytes the damage is, once its frame has begun.
    fn damage(&self) -> Option<(usize, Damage)> {
        let fault = self.fault?;
        let start = self.seams.get(fault.frame).filter(|_| self.head > 0)?;
        Some((self.head + start + fault.byte, fault.damage))
    }

    fn arrive(&mut self, now: u64, choices: &mut Choices<'_>, end: usize) {
        if self.end.is_some() || self.abandoned {
            return;
        }
        let last = self.arrivals.back().map_or(0, |(time, _)| *time);
        let time = now + choices.below(self.delay) as u64;
        self.arrivals.push_back((time.max(last), end));
    }

    fn piece(&mut self, choices: &mut Choices<'_>) -> usize {
        let size = match self.cut {
            Cut::All => usize::MAX,
            Cut::Single => 1,
            Cut::Random(most) => 1 + choices.below(most),
            Cut::Seams => self.to_seam(),
        };
        if size <= 16 && self.small_reads == 0 {
            return 5_000;
        }
        self.small_reads -= usize::from(size <= 16);
        size
    }

    /// One byte near a seam, otherwise all up to the next.
    fn to_seam(&self) -> usize {
        const NEAR: usize = 15;
        let Some(at) = self.delivered.checked_sub(self.head) else { return 1 };
        let next = self.seams.partition_point(|seam| seam + NEAR < at);
        match self.seams.get(next) {
            Some(seam) => seam.saturating_sub(NEAR).saturating_sub(at).max(1),
            None => usize::MAX,
        }
    }
}

//! Collecting the head of a request or response, byte by byte if need be.

use super::field::is_token_byte;
use super::{Refusal, Request};

/// What a head may take at most. One value serves all connections.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes from the first to the empty line's end; exactly so many pass. Over it: 431. An
    /// unfinished handshake costs up to twice the bytes received.
    pub max_size: usize,
    /// Header fields; exactly so many pass. Over it: 431. Reading a head costs 32 bytes a field.
    pub max_headers: usize,
    /// Bytes of the request target; exactly so many pass. Over it: 414.
    pub max_target: usize,
}

/// The longest method in bytes; registered ones have up to 17. Bounds what is read of a stream
/// that is not HTTP but happens to look like a method.
const MAX_METHOD_SIZE: usize = 32;

/// The head of a request, as far as it has come.
#[derive(Debug, Default)]
pub struct HeadBuffer {
    bytes: Vec<u8>,
    scan: Scan,
}

/// How far a head has come.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All bytes were taken; the head goes on.
    Partial,
    /// The head is complete.
    Complete {
        /// How many of the pushed bytes belong to the head. Those after it are frames.
        consumed: usize,
    },
}

/// What is wrong with a head.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum HeadError {
    Malformed(&'static str),
    TargetTooLong,
    TooLarge,
}

/// The state of a scan that looks at each byte once.
#[derive(Debug, Default)]
struct Scan {
    place: Place,
    /// The last byte was CR: only LF may follow.
    after_cr: bool,
    /// Bytes so far of the method or the target.
    len: usize,
    fields: usize,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Method,
    Target,
    /// The rest of the first line.
    Version,
    LineStart,
    Line,
    /// After the CR of the empty line.
    End,
    Complete,
}

impl HeadBuffer {
    /// An empty buffer. It allocates with the first byte.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes as far as the head goes. What cannot become a good head is refused at the
    /// first byte that shows it; the buffer is of no use then.
    ///
    /// Cost: each byte is looked at once, however the head was cut.
    pub fn push(&mut self, limits: &HeadLimits, bytes: &[u8]) -> Result<Progress, Refusal> {
        self.collect(limits, bytes).map_err(Refusal::from)
    }

    /// The request, once the head is complete.
    pub fn request(&self) -> Result<Request<'_>, Refusal> {
        Request::parse(&self.bytes, self.scan.fields)
    }

    /// A buffer for the head of a response, whose first line begins with the version.
    pub(super) fn for_response() -> Self {
        let scan = Scan { place: Place::Version, ..Scan::default() };
        Self { bytes: Vec::new(), scan }
    }

    pub(super) fn collect(
        &mut self,
        limits: &HeadLimits,
        bytes: &[u8],
    ) -> Result<Progress, HeadError> {
        let room = limits.max_size.saturating_sub(self.bytes.len());
        let bytes = bytes.get(..room).unwrap_or(bytes);
        let mut consumed = 0;
        for &byte in bytes {
            if self.scan.is_complete() {
                break;
            }
            self.scan.step(limits, byte)?;
            consumed += 1;
        }
        self.bytes.extend_from_slice(bytes.get(..consumed).unwrap_or_default());
        if self.scan.is_complete() {
            Ok(Progress::Complete { consumed })
        } else if consumed == room {
            Err(self.scan.too_large())
        } else {
            Ok(Progress::Partial)
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) const fn fields(&self) -> usize {
        self.scan.fields
    }
}

impl Scan {
    const fn is_complete(&self) -> bool {
        matches!(self.place, Place::Complete)
    }

    fn step(&mut self, limits: &HeadLimits, byte: u8) -> Result<(), HeadError> {
        if self.after_cr {
            self.after_cr = false;
            if byte != b'\n' {
                return Err(HeadError::Malformed("A CR stands without its LF."));
            }
            let end = self.place == Place::End;
            self.place = if end { Place::Complete } else { Place::LineStart };
            return Ok(());
        }
        match self.place {
            Place::Method => self.method(byte),
            Place::Target => self.target(limits, byte),
            Place::LineStart => self.line_start(limits, byte),
            Place::Version | Place::Line | Place::End | Place::Complete => self.line(byte),
        }
    }

    fn method(&mut self, byte: u8) -> Result<(), HeadError> {
        if byte == b' ' && self.len > 0 {
            self.place = Place::Target;
            self.len = 0;
            return Ok(());
        }
        self.len += 1;
        if !is_token_byte(byte) || self.len > MAX_METHOD_SIZE {
            return Err(HeadError::Malformed("This is not an HTTP request."));
        }
        Ok(())
    }

    fn target(&mut self, limits: &HeadLimits, byte: u8) -> Result<(), HeadError> {
        if byte == b' ' && self.len > 0 {
            self.place = Place::Version;
            return Ok(());
        }
        self.len += 1;
        if !byte.is_ascii_graphic() {
            return Err(HeadError::Malformed("The request target is malformed."));
        }
        if self.len > limits.max_target {
            return Err(HeadError::TargetTooLong);
        }
        Ok(())
    }

    fn line_start(&mut self, limits: &HeadLimits, byte: u8) -> Result<(), HeadError> {
        if byte == b'\r' {
            self.place = Place::End;
            self.after_cr = true;
            return Ok(());
        }
        if !is_token_byte(byte) {
            return Err(HeadError::Malformed("A header line is malformed or folded."));
        }
        self.fields += 1;
        if self.fields > limits.max_headers {
            return Err(HeadError::TooLarge);
        }
        self.place = Place::Line;
        Ok(())
    }

    const fn line(&mut self, byte: u8) -> Result<(), HeadError> {
        match byte {
            b'\r' => self.after_cr = true,
            b'\n' => return Err(HeadError::Malformed("An LF stands without its CR.")),
            b'\t' | b' '..=b'~' | 0x80.. => {}
            _ => {
                return Err(HeadError::Malformed("A control character stands in the head."));
            }
        }
        Ok(())
    }

    /// The error of a head that has reached the size limit without its end.
    const fn too_large(&self) -> HeadError {
        match self.place {
            Place::Target => HeadError::TargetTooLong,
            _ => HeadError::TooLarge,
        }
    }
}

/// 16 KiB, 100 fields, 8 KiB of target.
impl Default for HeadLimits {
    fn default() -> Self {
        Self { max_size: 16 << 10, max_headers: 100, max_target: 8 << 10 }
    }
}

impl From<HeadError> for Refusal {
    fn from(error: HeadError) -> Self {
        match error {
            HeadError::Malformed(sentence) => Self::bad_request(sentence),
            HeadError::TargetTooLong => Self::uri_too_long(),
            HeadError::TooLarge => Self::header_too_large(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: t\r\nX: y\r\n\r\n";

    fn push(limits: HeadLimits, bytes: &[u8]) -> Result<Progress, u16> {
        HeadBuffer::new().push(&limits, bytes).map_err(|refusal| refusal.status())
    }

    #[test]
    fn bytes_after_the_head_are_given_back_and_not_counted() {
        let limits = HeadLimits { max_size: HEAD.len(), ..HeadLimits::default() };
        let bytes = [HEAD, &[0x81; 20_000]].concat();
        assert_eq!(push(limits, &bytes), Ok(Progress::Complete { consumed: HEAD.len() }));
    }

    #[test]
    fn exactly_the_size_limit_passes() {
        let limits = HeadLimits { max_size: HEAD.len(), ..HeadLimits::default() };
        assert_eq!(push(limits, HEAD), Ok(Progress::Complete { consumed: HEAD.len() }));
        let limits = HeadLimits { max_size: HEAD.len() - 1, ..HeadLimits::default() };
        assert_eq!(push(limits, HEAD), Err(431));
        assert_eq!(push(limits, &HEAD[..HEAD.len() - 1]), Err(431), "no need to wait for more");
        assert_eq!(push(limits, &HEAD[..HEAD.len() - 2]), Ok(Progress::Partial));
    }

    #[test]
    fn exactly_the_header_limit_passes() {
        let limits = HeadLimits { max_headers: 2, ..HeadLimits::default() };
        assert_eq!(push(limits, HEAD), Ok(Progress::Complete { consumed: HEAD.len() }));
        let limits = HeadLimits { max_headers: 1, ..HeadLimits::default() };
        assert_eq!(push(limits, HEAD), Err(431));
    }

    #[test]
    fn exactly_the_target_limit_passes() {
        let limits = HeadLimits { max_target: 10, ..HeadLimits::default() };
        let head = |target: &str| format!("GET /{target} HTTP/1.1\r\n\r\n");
        assert!(push(limits, head("123456789").as_bytes()).is_ok());
        assert_eq!(push(limits, head("1234567890").as_bytes()), Err(414));
        let limits = HeadLimits { max_size: 20, ..HeadLimits::default() };
        assert_eq!(push(limits, &[b"GET /".as_slice(), &[b'a'; 40]].concat()), Err(414));
    }

    #[test]
    fn what_is_not_http_fails_at_the_first_byte_that_shows_it() {
        for garbage in [
            &b"\x16"[..],
            b"\x81",
            b"\r",
            b" ",
            b"GET\r",
            b"GET  ",
            b"GET /\r",
            b"GET /\x7f",
            b"GET /\xff",
            b"GET / HTTP/1.1\n",
            b"GET / HTTP/1.1\r\r",
            b"GET / HTTP/1.1\r\n ",
            b"GET / HTTP/1.1\r\nA: b\r\n\t",
            b"GET / HTTP/1.1\r\nA: b\n",
            b"GET / HTTP/1.1\r\nA: \0",
            b"GET / HTTP/1.1\r\nA: b\r\n\n",
            b"GET / HTTP/1.1\r\nA: b\r\n\r\r",
            &[b'a'; MAX_METHOD_SIZE + 1],
        ] {
            let (last, before) = garbage.split_last().unwrap();
            assert_eq!(push(HeadLimits::default(), before), Ok(Progress::Partial), "{garbage:?}");
            assert_eq!(push(HeadLimits::default(), garbage), Err(400), "{garbage:?} {last}");
        }
    }

    #[test]
    fn a_complete_head_takes_nothing_more() {
        let mut head = HeadBuffer::new();
        let limits = HeadLimits::default();
        head.push(&limits, HEAD).unwrap();
        assert_eq!(head.push(&limits, b"x"), Ok(Progress::Complete { consumed: 0 }));
    }
}

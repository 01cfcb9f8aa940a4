//! One compressed message on its way to be delivered.

use std::borrow::Cow;

use super::{Codec, Inflater, Pace};
use crate::{Error, Kind, utf8};

/// A message of which part is inflated.
#[derive(Debug)]
pub(crate) struct Inflation {
    kind: Kind,
    inflater: Inflater,
    /// The compressed bytes; those before the inflater's place were read.
    payload: Vec<u8>,
    output: Vec<u8>,
    /// How many bytes of the output are known to be valid UTF-8.
    valid: usize,
}

/// What a step led to.
#[derive(Debug)]
pub(crate) enum Inflated {
    /// The message lies in the codec's room and is so long.
    Short(usize),
    /// The message.
    Long(Vec<u8>),
    /// There is more to do.
    Working(Box<Inflation>),
}

/// What a receiver needs to inflate.
pub(crate) struct Context<'a> {
    pub(crate) codec: &'a mut Codec,
    /// What the sender may refer to.
    pub(crate) history: &'a [u8],
    /// Bytes in an inflated message; exactly so many pass.
    pub(crate) limit: u64,
}

/// The furthest that a reference may reach back.
const MAX_WINDOW: usize = 32 * 1024;

impl Inflation {
    /// The first step. Most messages end with it and take no memory of their own.
    pub(crate) fn begin(
        kind: Kind,
        payload: Cow<'_, [u8]>,
        context: &mut Context<'_>,
    ) -> Result<Inflated, Error> {
        let mut inflater = context.codec.take_inflater();
        inflater.begin(context.history)?;
        let mut inflation =
            Self { kind, inflater, payload: Vec::new(), output: Vec::new(), valid: 0 };
        let (len, pace) = inflation.inflater.step(&payload, context.room(0))?;
        context.check_size(&inflation.inflater)?;
        if pace == Pace::Done {
            let message = context.codec.written(len);
            if kind == Kind::Text && std::str::from_utf8(message).is_err() {
                return Err(Error::InvalidUtf8);
            }
            context.codec.return_inflater(inflation.inflater);
            return Ok(Inflated::Short(len));
        }
        inflation.payload = match payload {
            Cow::Owned(payload) => payload,
            Cow::Borrowed(payload) => {
                payload.get(inflation.inflater.take_read()..).unwrap_or_default().to_vec()
            }
        };
        inflation.keep(len, pace, context)?;
        Ok(Inflated::Working(Box::new(inflation)))
    }

    /// One more step.
    pub(crate) fn go_on(mut self: Box<Self>, context: &mut Context<'_>) -> Result<Inflated, Error> {
        let room = context.room(self.inflater.written());
        let (len, pace) = self.inflater.step(&self.payload, room)?;
        context.check_size(&self.inflater)?;
        self.keep(len, pace, context)?;
        if pace != Pace::Done {
            return Ok(Inflated::Working(self));
        }
        if self.kind == Kind::Text && self.valid < self.output.len() {
            return Err(Error::InvalidUtf8);
        }
        context.codec.return_inflater(self.inflater);
        Ok(Inflated::Long(self.output))
    }

    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Bytes on the heap.
    pub(crate) const fn size(&self) -> usize {
        size_of::<Self>() + Inflater::SIZE + self.payload.capacity() + self.output.capacity()
    }

    /// Takes over what the step wrote. Capacity doubles, but not beyond the limit.
    fn keep(&mut self, len: usize, pace: Pace, context: &Context<'_>) -> Result<(), Error> {
        let step = context.codec.written(len);
        let needed = self.output.len() + step.len();
        if needed > self.output.capacity() {
            let limit = usize::try_from(context.limit).unwrap_or(usize::MAX);
            let capacity = needed.max(2 * self.output.capacity()).min(limit).max(needed);
            self.output.reserve_exact(capacity - self.output.len());
        }
        self.output.extend_from_slice(step);
        if self.kind == Kind::Text {
            self.valid = utf8::check(&self.output, self.valid)?;
        }
        if pace == Pace::Final {
            let recent = self.output.len().saturating_sub(MAX_WINDOW);
            let recent = self.output.get(recent..).unwrap_or_default();
            self.inflater.resume(&[context.history, recent].concat())?;
        }
        Ok(())
    }
}

impl Context<'_> {
    /// Where the next step writes after so many bytes: one byte past the limit at most.
    fn room(&mut self, written: u64) -> &mut [u8] {
        let most = self.limit.saturating_sub(written).saturating_add(1);
        let room = self.codec.room();
        let len = usize::try_from(most).unwrap_or(usize::MAX).min(room.len());
        room.get_mut(..len).unwrap_or_default()
    }

    fn check_size(&self, inflater: &Inflater) -> Result<(), Error> {
        let (size, limit) = (inflater.written(), self.limit);
        if size > limit { Err(Error::MessageTooLarge { size, limit }) } else { Ok(()) }
    }
}

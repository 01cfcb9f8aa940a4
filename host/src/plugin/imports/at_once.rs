//! `wasi:io` for plugins that never wait: their only streams are the host's own output, which is
//! always ready, and an input that is always at its end.
//!
//! A function of `wasi:io` that may wait makes a call need a stack of its own to be suspended on.
//! Here each is a plain function instead.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::WasiView;
use wasmtime_wasi::p2::bindings::io::{poll as waiting_poll, streams as waiting};
use wasmtime_wasi::p2::bindings::sync::io::{poll, streams};
use wasmtime_wasi::p2::{
    DynInputStream as Input, DynOutputStream as Output, DynPollable as Pollable, StreamError,
    StreamResult,
};

use crate::plugin::host::Host;
use crate::plugin::store::Data;

struct Io;

impl HasData for Io {
    type Data<'a> = AtOnce<'a>;
}

struct AtOnce<'a>(&'a mut ResourceTable);

pub(super) fn link<H: Host>(linker: &mut Linker<Data<H>>) -> wasmtime::Result<()> {
    poll::add_to_linker::<_, Io>(linker, table)?;
    streams::add_to_linker::<_, Io>(linker, table)
}

fn table<H: Host>(data: &mut Data<H>) -> AtOnce<'_> {
    AtOnce(data.ctx().table)
}

/// What a future has at its first poll. All of those here have something then.
fn now<T>(future: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
    poll_once(future).unwrap_or_else(Err)
}

fn stream_now<T>(future: impl Future<Output = StreamResult<T>>) -> StreamResult<T> {
    poll_once(future).unwrap_or_else(|error| Err(StreamError::Trap(error)))
}

fn poll_once<T>(future: impl Future<Output = T>) -> wasmtime::Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => Err(wasmtime::Error::msg("this plugin cannot wait")),
    }
}

impl poll::Host for AtOnce<'_> {
    fn poll(&mut self, pollables: Vec<Resource<Pollable>>) -> wasmtime::Result<Vec<u32>> {
        now(waiting_poll::Host::poll(self.0, pollables))
    }
}

impl poll::HostPollable for AtOnce<'_> {
    fn ready(&mut self, pollable: Resource<Pollable>) -> wasmtime::Result<bool> {
        now(waiting_poll::HostPollable::ready(self.0, pollable))
    }

    fn block(&mut self, pollable: Resource<Pollable>) -> wasmtime::Result<()> {
        now(waiting_poll::HostPollable::block(self.0, pollable))
    }

    fn drop(&mut self, pollable: Resource<Pollable>) -> wasmtime::Result<()> {
        waiting_poll::HostPollable::drop(self.0, pollable)
    }
}

impl streams::Host for AtOnce<'_> {
    fn convert_stream_error(
        &mut self,
        error: StreamError,
    ) -> wasmtime::Result<streams::StreamError> {
        streams::Host::convert_stream_error(self.0, error)
    }
}

impl streams::HostOutputStream for AtOnce<'_> {
    fn drop(&mut self, stream: Resource<Output>) -> wasmtime::Result<()> {
        now(waiting::HostOutputStream::drop(self.0, stream))
    }

    fn check_write(&mut self, stream: Resource<Output>) -> StreamResult<u64> {
        waiting::HostOutputStream::check_write(self.0, stream)
    }

    fn write(&mut self, stream: Resource<Output>, bytes: Vec<u8>) -> StreamResult<()> {
        waiting::HostOutputStream::write(self.0, stream, bytes)
    }

    fn blocking_write_and_flush(
        &mut self,
        stream: Resource<Output>,
        bytes: Vec<u8>,
    ) -> StreamResult<()> {
        stream_now(waiting::HostOutputStream::blocking_write_and_flush(self.0, stream, bytes))
    }

    fn blocking_write_zeroes_and_flush(
        &mut self,
        stream: Resource<Output>,
        len: u64,
    ) -> StreamResult<()> {
        stream_now(waiting::HostOutputStream::blocking_write_zeroes_and_flush(self.0, stream, len))
    }

    fn subscribe(&mut self, stream: Resource<Output>) -> wasmtime::Result<Resource<Pollable>> {
        waiting::HostOutputStream::subscribe(self.0, stream)
    }

    fn write_zeroes(&mut self, stream: Resource<Output>, len: u64) -> StreamResult<()> {
        waiting::HostOutputStream::write_zeroes(self.0, stream, len)
    }

    fn flush(&mut self, stream: Resource<Output>) -> StreamResult<()> {
        waiting::HostOutputStream::flush(self.0, stream)
    }

    fn blocking_flush(&mut self, stream: Resource<Output>) -> StreamResult<()> {
        stream_now(waiting::HostOutputStream::blocking_flush(self.0, stream))
    }

    fn splice(
        &mut self,
        to: Resource<Output>,
        from: Resource<Input>,
        len: u64,
    ) -> StreamResult<u64> {
        waiting::HostOutputStream::splice(self.0, to, from, len)
    }

    fn blocking_splice(
        &mut self,
        to: Resource<Output>,
        from: Resource<Input>,
        len: u64,
    ) -> StreamResult<u64> {
        stream_now(waiting::HostOutputStream::blocking_splice(self.0, to, from, len))
    }
}

impl streams::HostInputStream for AtOnce<'_> {
    fn drop(&mut self, stream: Resource<Input>) -> wasmtime::Result<()> {
        now(waiting::HostInputStream::drop(self.0, stream))
    }

    fn read(&mut self, stream: Resource<Input>, len: u64) -> StreamResult<Vec<u8>> {
        waiting::HostInputStream::read(self.0, stream, len)
    }

    fn blocking_read(&mut self, stream: Resource<Input>, len: u64) -> StreamResult<Vec<u8>> {
        stream_now(waiting::HostInputStream::blocking_read(self.0, stream, len))
    }

    fn skip(&mut self, stream: Resource<Input>, len: u64) -> StreamResult<u64> {
        waiting::HostInputStream::skip(self.0, stream, len)
    }

    fn blocking_skip(&mut self, stream: Resource<Input>, len: u64) -> StreamResult<u64> {
        stream_now(waiting::HostInputStream::blocking_skip(self.0, stream, len))
    }

    fn subscribe(&mut self, stream: Resource<Input>) -> wasmtime::Result<Resource<Pollable>> {
        waiting::HostInputStream::subscribe(self.0, stream)
    }
}

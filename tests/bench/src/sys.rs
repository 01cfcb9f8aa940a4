//! The system calls that the standard library does not wrap.

#![expect(unsafe_code, reason = "epoll and socket options are reached through libc")]

use std::ffi::c_int;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// Connections that may wait to be accepted.
const BACKLOG: c_int = 4096;

/// Open files to ask for: the kernel's default ceiling (`fs.nr_open`).
const OPEN_FILES: libc::rlim_t = 1 << 20;

/// An epoll instance.
pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel has just made this descriptor, and nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Reports a socket as readable for as long as it is (level-triggered).
    pub(crate) fn add_listener(&self, socket: &impl AsFd, token: u64) -> io::Result<()> {
        self.add(socket, token, libc::EPOLLIN)
    }

    /// Reports a socket each time that it becomes readable or writable (edge-triggered).
    pub(crate) fn add_stream(&self, socket: &impl AsFd, token: u64) -> io::Result<()> {
        self.add(socket, token, libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET)
    }

    #[expect(clippy::cast_sign_loss, reason = "EPOLLET is the sign bit of a set of flags")]
    fn add(&self, socket: &impl AsFd, token: u64, flags: c_int) -> io::Result<()> {
        let mut event = libc::epoll_event { events: flags as u32, u64: token };
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: both descriptors are open, and `event` outlives the call.
        let done =
            unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        checked(done).map(drop)
    }

    /// Waits for events; returns how many came.
    pub(crate) fn wait(&self, events: &mut Events) -> io::Result<usize> {
        let capacity = c_int::try_from(events.0.len()).unwrap_or(c_int::MAX);
        let (epoll, buffer) = (self.0.as_raw_fd(), events.0.as_mut_ptr());
        // SAFETY: `buffer` has room for `capacity` events.
        let came = unsafe { libc::epoll_wait(epoll, buffer, capacity, -1) };
        match checked(came) {
            Ok(came) => Ok(usize::try_from(came).unwrap_or(0)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// Room for what one wait reports.
pub(crate) struct Events(Vec<libc::epoll_event>);

impl Events {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self(vec![libc::epoll_event { events: 0, u64: 0 }; capacity])
    }

    #[inline]
    #[expect(clippy::cast_sign_loss, reason = "the flags are small positive numbers")]
    pub(crate) fn get(&self, index: usize) -> Event {
        let event = self.0[index];
        let is = |flags: c_int| event.events & flags as u32 != 0;
        Event {
            token: event.u64,
            readable: is(libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLERR),
            writable: is(libc::EPOLLOUT),
        }
    }
}

/// What happened to a socket. An error counts as readable: reading tells which.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    pub(crate) token: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

/// A non-blocking listener with a long backlog, whose connections do not wait for acknowledgements
/// (`TCP_NODELAY`, which they inherit).
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    set(&listener, libc::IPPROTO_TCP, libc::TCP_NODELAY)?;
    // SAFETY: the call takes no pointers. On a socket that listens, it changes the backlog.
    checked(unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Accepts a connection as a non-blocking stream in one call.
pub(crate) fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: null pointers mean that the peer's address is not asked for.
    let fd = checked(unsafe {
        libc::accept4(listener.as_raw_fd(), ptr::null_mut(), ptr::null_mut(), flags)
    })?;
    // SAFETY: the kernel has just made this descriptor, and nobody else owns it.
    Ok(unsafe { TcpStream::from_raw_fd(fd) })
}

/// Allows this process as many open files as the system gives.
pub(crate) fn raise_open_files() -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: OPEN_FILES, rlim_max: OPEN_FILES };
    // SAFETY: `limit` outlives the call.
    if checked(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).is_ok() {
        return Ok(());
    }
    // SAFETY: `limit` outlives the call.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` outlives the call.
    checked(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}

/// Switches a socket option on.
fn set(socket: &impl AsFd, level: c_int, option: c_int) -> io::Result<()> {
    let on: c_int = 1;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `on` is an int of the length given and outlives the call.
    let done =
        unsafe { libc::setsockopt(fd, level, option, (&raw const on).cast(), socklen::<c_int>()) };
    checked(done).map(drop)
}

#[expect(clippy::cast_possible_truncation, reason = "the size of a small structure")]
fn socklen<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

fn checked(result: c_int) -> io::Result<c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

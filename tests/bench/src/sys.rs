//! The system calls that the standard library does not wrap.

#![expect(unsafe_code, reason = "epoll and socket options are reached through libc")]

use std::ffi::c_int;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

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

    /// Waits for events, for ever or for as long as `timeout`; returns how many came.
    pub(crate) fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<usize> {
        let capacity = c_int::try_from(events.0.len()).unwrap_or(c_int::MAX);
        let (epoll, buffer) = (self.0.as_raw_fd(), events.0.as_mut_ptr());
        let came = match timeout {
            // SAFETY: `buffer` has room for `capacity` events.
            None => unsafe { libc::epoll_wait(epoll, buffer, capacity, -1) },
            Some(timeout) => {
                let mut wait = timespec(timeout);
                // SAFETY: `buffer` has room for `capacity` events, `wait` outlives the call, and
                // no signal mask is given.
                unsafe { libc::epoll_pwait2(epoll, buffer, capacity, &raw mut wait, ptr::null()) }
            }
        };
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

/// Connects from a chosen source address. The port is chosen at connect time, so that all of the
/// range can be used again from every address.
pub(crate) fn connect_from(source: Ipv4Addr, target: SocketAddrV4) -> io::Result<TcpStream> {
    // SAFETY: the call takes no pointers.
    let fd =
        checked(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just made this descriptor, and nobody else owns it.
    let stream = unsafe { TcpStream::from_raw_fd(fd) };
    set(&stream, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT)?;
    let source = sockaddr(SocketAddrV4::new(source, 0));
    let target = sockaddr(target);
    let len = socklen::<libc::sockaddr_in>();
    // SAFETY: `source` is a valid IPv4 address of `len` bytes.
    checked(unsafe { libc::bind(fd, (&raw const source).cast(), len) })?;
    // SAFETY: `target` is a valid IPv4 address of `len` bytes.
    checked(unsafe { libc::connect(fd, (&raw const target).cast(), len) })?;
    Ok(stream)
}

/// Allows this process as many open files as the system gives; returns how many.
pub(crate) fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: OPEN_FILES, rlim_max: OPEN_FILES };
    // SAFETY: `limit` outlives the call.
    if checked(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).is_ok() {
        return Ok(limit.rlim_cur);
    }
    // SAFETY: `limit` outlives the call.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` outlives the call.
    checked(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(limit.rlim_cur)
}

/// Makes this thread's timeouts end on time. The default slack of 50 µs would count as latency of
/// the server.
pub(crate) fn precise_timeouts() -> io::Result<()> {
    let nanoseconds: libc::c_ulong = 1;
    // SAFETY: this option takes a number and no pointers.
    checked(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds) }).map(drop)
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

#[expect(clippy::cast_possible_truncation, reason = "the address family is a small number")]
fn sockaddr(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the sizes of two small structures")]
fn socklen<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(duration.subsec_nanos().cast_signed()),
    }
}

fn checked(result: c_int) -> io::Result<c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

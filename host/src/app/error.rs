//! Why the host does not serve.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::config::Source;
use crate::{files, plugin};

/// Displays as one sentence: what, where, and what to do.
#[derive(Debug)]
pub enum Error {
    /// A plugin's file cannot be read.
    Unreadable {
        /// Its name in the configuration.
        plugin: String,
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// A plugin's file is no plugin.
    Load {
        /// Its name in the configuration.
        plugin: String,
        /// Where it comes from.
        source: Source,
        /// Why not.
        cause: plugin::LoadError,
    },
    /// A plugin is one, but cannot serve.
    Instantiate {
        /// Its name in the configuration.
        plugin: String,
        /// Where it comes from.
        source: Source,
        /// Why not.
        cause: plugin::Failure,
    },
    /// WebAssembly cannot be run here.
    Engine(plugin::Error),
    /// A directory of files cannot be served.
    Files(files::Error),
    /// An address cannot be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        cause: io::Error,
    },
    /// The system gave no thread, descriptor or memory.
    System(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { plugin, path, cause } => {
                write!(f, "plugin `{plugin}`: cannot read {}: {cause}", path.display())
            }
            Self::Load { plugin, source, cause } => {
                write!(f, "plugin `{plugin}` ({source}): {cause}")
            }
            Self::Instantiate { plugin, source, cause } => {
                write!(f, "plugin `{plugin}` ({source}): {cause}")
            }
            Self::Engine(cause) => cause.fmt(f),
            Self::Files(cause) => cause.fmt(f),
            Self::Listen { address, cause } => match cause.kind() {
                io::ErrorKind::AddrInUse => write!(
                    f,
                    "cannot listen on {address}: the port is in use by another process, which \
                     does not share it with this one; stop that process, choose another port with \
                     --listen, or, if several hosts are to serve this one, set \
                     `server.reuse_port = true` for each of them"
                ),
                io::ErrorKind::PermissionDenied => write!(
                    f,
                    "cannot listen on {address}: ports below 1024 need privileges; choose a \
                     higher one with --listen"
                ),
                io::ErrorKind::AddrNotAvailable => {
                    write!(f, "cannot listen on {address}: this machine does not have that address")
                }
                io::ErrorKind::Unsupported => write!(
                    f,
                    "cannot listen on {address}: `server.reuse_port` needs Linux; set it to false"
                ),
                _ => write!(f, "cannot listen on {address}: {cause}"),
            },
            Self::System(cause) => write!(f, "the operating system refuses: {cause}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<plugin::Error> for Error {
    fn from(cause: plugin::Error) -> Self {
        Self::Engine(cause)
    }
}

impl From<files::Error> for Error {
    fn from(cause: files::Error) -> Self {
        Self::Files(cause)
    }
}

impl From<io::Error> for Error {
    fn from(cause: io::Error) -> Self {
        Self::System(cause)
    }
}

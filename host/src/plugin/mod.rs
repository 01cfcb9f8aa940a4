//! Business logic as sandboxed WebAssembly components; the only module that names wasmtime.
//!
//! ```text
//! Engine ── Version::load ──► Version ── instantiate ──► Instance ── call ──► Ok | Failure
//!                                │                          │ imports
//!                              Table                        ▼
//!                     (what serves each plugin)      Host (lent per call)
//! ```
//!
//! A guest is hostile until proven otherwise: it gets a deadline, a memory limit and no way to
//! make the host allocate more than it could itself. An instance that fails is thrown away with
//! its store; nothing of it is used again.

mod bindings;
mod deadline;
mod engine;
mod failure;
mod host;
mod imports;
mod instance;
mod limits;
mod load;
mod output;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod ticker;
mod version;

use std::time::Duration;

pub use engine::{Engine, Error};
pub use failure::Failure;
pub use host::{CloseError, EffectError, Host};
pub use instance::{Call, Instance};
pub use load::{Facts, LoadError};
pub use table::Table;
pub use ticker::Busy;
pub use version::Version;

/// The plugin that serves where nothing is configured: it sends each message back. A component
/// in text form.
pub const EMBEDDED_ECHO: &str = include_str!("echo.wat");

/// What the WebAssembly side may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes that one instance may hold: linear memories, tables and encoded frames together.
    pub memory_limit: u64,
    /// How long one call into a guest may take, computing and waiting together.
    pub call_deadline: Duration,
    /// Instances of one plugin version that exist at a time. At least 1.
    pub handlers: usize,
    /// Plugins in the configuration. At least 1.
    pub plugins: usize,
}

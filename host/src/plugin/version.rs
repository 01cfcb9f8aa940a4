//! One version of one plugin: compiled, checked, ready to make instances.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use super::engine::Engine;
use super::failure::Failure;
use super::host::Host;
use super::instance::{Blank, Instance};
use super::load::{self, Exports, Facts, LoadError};
use super::output::{Log, Output};
use super::store::Data;
use crate::types::PluginId;

/// Bytes of a digest that names a version: 12 hex digits.
const DIGEST: usize = 6;

static SERIAL: AtomicU64 = AtomicU64::new(1);

/// A plugin's code. Its instances share nothing but the compiled code.
pub struct Version<H: Host> {
    name: String,
    id: PluginId,
    digest: String,
    serial: u64,
    size: usize,
    facts: Facts,
    engine: Engine,
    pre: wasmtime::component::InstancePre<Data<H>>,
    exports: Exports,
    log: Arc<Log>,
}

impl<H: Host> Version<H> {
    /// Compiles a component, binary or text. Takes milliseconds for Rust, seconds for an
    /// interpreter, on all cores: never on an I/O thread.
    ///
    /// # Errors
    /// Where the bytes are no plugin that this host can run.
    pub fn load(
        engine: &Engine,
        name: &str,
        id: PluginId,
        bytes: &[u8],
    ) -> Result<Self, LoadError> {
        let loaded = load::load(engine, bytes)?;
        let digest = hex(&Sha256::digest(bytes), DIGEST);
        Ok(Self {
            log: Arc::new(Log::new(name, &digest)),
            name: name.to_owned(),
            id,
            digest,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            size: bytes.len(),
            facts: loaded.facts,
            engine: engine.clone(),
            pre: loaded.pre,
            exports: loaded.exports,
        })
    }

    /// Makes an instance: runs its start functions and `lifecycle.init`, each under the call
    /// deadline and the memory limit. About 10 µs for a small guest. Needs what
    /// [`Instance::call`] needs.
    ///
    /// # Errors
    /// [`Failure::Instantiate`] where no slot is free or a start function fails,
    /// [`Failure::Init`] where `init` returns an error, and what a call can fail with.
    pub async fn instantiate(&self) -> Result<Instance<H>, Failure> {
        self.blank().fill().await
    }

    /// The same for a plugin that does not [wait](Facts::waits), on this thread's stack. `host` is
    /// lent meanwhile, only to be [told](Host::overdue) where it takes long.
    ///
    /// # Errors
    /// As [`Version::instantiate`].
    pub fn instantiate_now(&self, host: &mut Option<Box<H>>) -> Result<Instance<H>, Failure> {
        self.blank().fill_now(host)
    }

    fn blank(&self) -> Blank<'_, H> {
        let (output, waits) = (Output::new(&self.log), self.facts.waits);
        Blank::new(&self.engine, &self.pre, &self.exports, output, waits, self.serial)
    }

    /// The plugin's name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The plugin's place in the configuration.
    #[must_use]
    pub fn id(&self) -> PluginId {
        self.id
    }

    /// Names the bytes: the first 12 hex digits of their SHA-256.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Names this load of them; no two versions in a process share it.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Bytes of the component as it was given.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// What the component imports and exports.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }
}

impl<H: Host> fmt::Debug for Version<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Version")
            .field("name", &self.name)
            .field("digest", &self.digest)
            .field("serial", &self.serial)
            .finish_non_exhaustive()
    }
}

fn hex(bytes: &[u8], count: usize) -> String {
    bytes.iter().take(count).map(|byte| format!("{byte:02x}")).collect()
}

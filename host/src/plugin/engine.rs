//! The compiler and the memory that all plugins share.

use std::fmt;
use std::sync::Arc;

use wasmtime::{
    Enabled, InstanceAllocationStrategy, PoolingAllocationConfig, WasmBacktraceDetails,
};

use super::Config;
use super::ticker::{Busy, Ticker};

/// Native stack that a guest may use; beyond it the guest traps.
const GUEST_STACK: usize = 1 << 20;
/// Stack of a fiber: the guest's and what the host functions below it need.
const FIBER_STACK: usize = 2 << 20;
/// Bytes of a linear memory that stay mapped when its slot is reused: writing them back is
/// cheaper than faulting them in again.
const KEEP_RESIDENT: usize = 2 << 20;
/// The same where the kernel cannot say which pages were touched, so that all of it is rewritten.
const KEEP_RESIDENT_BLIND: usize = 64 << 10;
/// Versions of one plugin that may have instances at a time: the old and the new of a swap.
const VERSIONS: usize = 2;
/// Instances beyond the pools' own: health checks, and stores that wait to be dropped.
const SLACK: usize = 16;
/// Core instances of one component. Python's libraries are one each.
pub(super) const CORE_INSTANCES: u32 = 256;
/// Linear memories of one component.
pub(super) const MEMORIES: u32 = 4;
/// Tables of one component.
pub(super) const TABLES: u32 = 32;
/// Elements of one table: the functions that a large interpreter takes the address of.
const TABLE_ELEMENTS: usize = 128 << 10;
/// Frames of a trap that are kept.
const BACKTRACE_FRAMES: usize = 16;

/// Compiles components and gives them memory. Cloning it is cheap.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    wasm: wasmtime::Engine,
    config: Config,
    ticker: Ticker,
}

/// Why there is no engine.
#[derive(Debug)]
pub struct Error(String);

impl Engine {
    /// Reserves address space for every instance that the configuration allows, 4 GiB each, and
    /// starts the ticker. No memory is used yet. Where the address space is limited, each instance
    /// reserves its own later; that makes a new instance several times dearer.
    ///
    /// # Errors
    /// Where the processor is not supported, or no thread can be started.
    pub fn new(config: &Config) -> Result<Self, Error> {
        let wasm = wasmtime::Engine::new(&settings(Some(pool(config)))).or_else(|error| {
            tracing::warn!(
                "cannot reserve address space for {} instances ({error:#}): new instances will be \
                 slow; raise the limit of virtual memory or lower workers.pool_size",
                instances(config),
            );
            wasmtime::Engine::new(&settings(None))
                .map_err(|error| Error(format!("cannot run WebAssembly here: {error:#}")))
        })?;
        let epoch = wasm.clone();
        let ticker = Ticker::start(move || epoch.increment_epoch())
            .map_err(|error| Error(format!("cannot start the plugin ticker: {error}")))?;
        Ok(Self(Arc::new(Inner { wasm, config: config.clone(), ticker })))
    }

    /// Keeps the epoch moving. A worker thread takes one when it leaves idle and drops it before
    /// it sleeps: whoever polls a call without one cannot be interrupted.
    pub fn busy(&self) -> Busy {
        self.0.ticker.busy()
    }

    /// Milliseconds, roughly, during which some worker was busy: a clock that costs one load.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.0.ticker.ticks()
    }

    /// What it was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    pub(super) fn wasm(&self) -> &wasmtime::Engine {
        &self.0.wasm
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("config", self.config()).finish_non_exhaustive()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

fn settings(pool: Option<PoolingAllocationConfig>) -> wasmtime::Config {
    let mut settings = wasmtime::Config::new();
    settings
        // Guests in other languages have no use for it, and it triples the cost of a call.
        .concurrency_support(false)
        .epoch_interruption(true)
        .consume_fuel(false)
        // Inlining makes compiling three times slower and calls no faster.
        .compiler_inlining(wasmtime::Inlining::No)
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(FIBER_STACK)
        // A trap must stay cheap, so no line tables; function names are kept.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(BACKTRACE_FRAMES));
    if let Some(pool) = pool {
        settings.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    }
    settings
}

fn instances(config: &Config) -> usize {
    config.handlers.saturating_mul(config.plugins).saturating_mul(VERSIONS).saturating_add(SLACK)
}

/// All of these are counters or address space; memory is used when an instance is made.
fn pool(config: &Config) -> PoolingAllocationConfig {
    let count = u32::try_from(instances(config)).unwrap_or(u32::MAX);
    let scan = PoolingAllocationConfig::is_pagemap_scan_available();
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(count)
        .total_core_instances(count.saturating_mul(CORE_INSTANCES))
        // Nearly every component has one memory and at most two tables.
        .total_memories(count.saturating_add(count / 4))
        .total_tables(count.saturating_mul(4))
        .total_stacks(count)
        .max_core_instances_per_component(CORE_INSTANCES)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(TABLES)
        .max_memories_per_module(MEMORIES)
        .max_tables_per_module(8)
        .max_component_instance_size(16 << 20)
        .max_core_instance_size(8 << 20)
        .table_elements(TABLE_ELEMENTS)
        .max_memory_size(usize::try_from(config.memory_limit.min(1 << 32)).unwrap_or(usize::MAX))
        .pagemap_scan(if scan { Enabled::Yes } else { Enabled::No })
        .linear_memory_keep_resident(if scan { KEEP_RESIDENT } else { KEEP_RESIDENT_BLIND })
        .table_keep_resident(KEEP_RESIDENT_BLIND);
    pool
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn more_instances_than_the_address_space_holds_fall_back_to_reserving_one_by_one() {
        let config = Config {
            memory_limit: 1 << 20,
            call_deadline: Duration::from_secs(1),
            handlers: 1 << 20,
            plugins: 1 << 10,
        };
        assert!(wasmtime::Engine::new(&settings(Some(pool(&config)))).is_err());
        assert!(Engine::new(&config).is_ok());
    }
}

//! What the standard libraries of guest languages need from WASI 0.2.
//!
//! Clocks, random numbers, and output that becomes log lines. A plugin in Rust imports no more
//! than that unless its code names files or sockets. The interpreters inside JavaScript and
//! Python plugins import files and sockets whether they use them or not, so these are there, with
//! nothing behind them: no directory is open, no socket can be made, no name is looked up.

use wasmtime::component::{HasData, Linker, ResourceTable};
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, io, random, sockets};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView};
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView};
use wasmtime_wasi::{WasiCtx, WasiView};

use crate::plugin::host::Host;
use crate::plugin::output::{Output, Stream};
use crate::plugin::store::Data;

/// Random bytes that a guest may ask for at once; the host makes them before it copies them.
const RANDOM_BYTES: u64 = 1 << 20;

/// The interfaces that [`link`] serves, without their versions.
pub(in crate::plugin) const SERVED: &[&str] = &[
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/network",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
];

/// Those among them with functions that may wait, `wasi:io` apart.
pub(in crate::plugin) const WAITING: &[&str] = &[
    "wasi:filesystem/types",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
];

struct Io;

impl HasData for Io {
    type Data<'a> = &'a mut ResourceTable;
}

/// No arguments, no environment, no input, no files, no network.
pub(in crate::plugin) fn context(output: &Output) -> WasiCtx {
    WasiCtx::builder()
        .stdout(output.stream(Stream::Stdout))
        .stderr(output.stream(Stream::Stderr))
        .max_random_size(RANDOM_BYTES)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .socket_addr_check(|_, _| Box::pin(async { false }))
        .build()
}

pub(super) fn link<H: Host>(linker: &mut Linker<Data<H>>) -> wasmtime::Result<()> {
    io::error::add_to_linker::<_, Io>(linker, table)?;
    clocks::wall_clock::add_to_linker::<_, WasiClocks>(linker, Data::clocks)?;
    clocks::monotonic_clock::add_to_linker::<_, WasiClocks>(linker, Data::clocks)?;
    random::random::add_to_linker::<_, WasiRandom>(linker, Data::random)?;
    random::insecure::add_to_linker::<_, WasiRandom>(linker, Data::random)?;
    random::insecure_seed::add_to_linker::<_, WasiRandom>(linker, Data::random)?;
    link_cli(linker)
}

/// What may wait, or can only be had by what may.
pub(super) fn link_waiting<H: Host>(linker: &mut Linker<Data<H>>) -> wasmtime::Result<()> {
    io::poll::add_to_linker::<_, Io>(linker, table)?;
    io::streams::add_to_linker::<_, Io>(linker, table)?;
    link_nothing_reachable(linker)
}

/// `exit` ends the call with an error, as a trap does.
fn link_cli<H: Host>(linker: &mut Linker<Data<H>>) -> wasmtime::Result<()> {
    cli::exit::add_to_linker::<_, WasiCli>(linker, Data::cli)?;
    cli::environment::add_to_linker::<_, WasiCli>(linker, Data::cli)?;
    cli::stdin::add_to_linker::<_, WasiCli>(linker, Data::cli)?;
    cli::stdout::add_to_linker::<_, WasiCli>(linker, Data::cli)?;
    cli::stderr::add_to_linker::<_, WasiCli>(linker, Data::cli)?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(linker, Data::cli)?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(linker, Data::cli)?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(linker, Data::cli)?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(linker, Data::cli)?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(linker, Data::cli)
}

fn link_nothing_reachable<H: Host>(linker: &mut Linker<Data<H>>) -> wasmtime::Result<()> {
    let stable = sockets::network::LinkOptions::default();
    filesystem::preopens::add_to_linker::<_, WasiFilesystem>(linker, Data::filesystem)?;
    filesystem::types::add_to_linker::<_, WasiFilesystem>(linker, Data::filesystem)?;
    sockets::instance_network::add_to_linker::<_, WasiSockets>(linker, Data::sockets)?;
    sockets::network::add_to_linker::<_, WasiSockets>(linker, &stable, Data::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<_, WasiSockets>(linker, Data::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<_, WasiSockets>(linker, Data::sockets)?;
    sockets::tcp::add_to_linker::<_, WasiSockets>(linker, Data::sockets)?;
    sockets::udp_create_socket::add_to_linker::<_, WasiSockets>(linker, Data::sockets)?;
    sockets::udp::add_to_linker::<_, WasiSockets>(linker, Data::sockets)
}

fn table<H: Host>(data: &mut Data<H>) -> &mut ResourceTable {
    data.ctx().table
}

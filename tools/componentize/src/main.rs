//! `componentize MODULE COMPONENT` makes a component of a core module whose custom sections
//! describe its world, as wit-bindgen writes them.
//!
//! `componentize --check COMPONENT…` prints each file's imports and exports, one a line, and
//! fails where a file is not a component that exports Plugsock's `handler`.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use wit_component::{ComponentEncoder, DecodedWasm};
use wit_parser::{Resolve, WorldItem, WorldKey};

const REQUIRED: &str = "plugsock:plugin/handler@0.1.0";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["--check", files @ ..] if !files.is_empty() => files.iter().try_for_each(|f| check(f)),
        [module, component] if !module.starts_with('-') => componentize(module, component),
        _ => {
            eprintln!("usage: componentize MODULE COMPONENT | componentize --check COMPONENT...");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("componentize: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn componentize(module: &str, component: &str) -> Result<()> {
    let bytes = fs::read(module).with_context(|| format!("cannot read {module}"))?;
    let bytes = ComponentEncoder::default()
        .module(&bytes)
        .and_then(|encoder| encoder.validate(true).encode())
        .with_context(|| format!("{module} does not become a component"))?;
    fs::write(component, bytes).with_context(|| format!("cannot write {component}"))
}

fn check(file: &str) -> Result<()> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {file}"))?;
    let decoded = wit_component::decode(&bytes).with_context(|| format!("cannot decode {file}"))?;
    let DecodedWasm::Component(resolve, world) = decoded else {
        bail!("{file} is a WIT package, not a component");
    };
    let world = &resolve.worlds[world];
    let exports: Vec<String> =
        world.exports.keys().map(|key| resolve.name_world_key(key)).collect();
    ensure!(exports.iter().any(|export| export == REQUIRED), "{file} does not export {REQUIRED}");

    let mut out = io::stdout().lock();
    writeln!(out, "{file}: {} bytes", bytes.len())?;
    for (key, item) in &world.imports {
        writeln!(out, "  import {}", describe(&resolve, key, item))?;
    }
    for (key, item) in &world.exports {
        writeln!(out, "  export {}", describe(&resolve, key, item))?;
    }
    Ok(())
}

/// `namespace:package/interface@version {function, …}`.
fn describe(resolve: &Resolve, key: &WorldKey, item: &WorldItem) -> String {
    let name = resolve.name_world_key(key);
    match item {
        WorldItem::Interface { id, .. } => {
            let functions: Vec<&str> =
                resolve.interfaces[*id].functions.keys().map(String::as_str).collect();
            format!("{name} {{{}}}", functions.join(", "))
        }
        WorldItem::Function(_) | WorldItem::Type { .. } => name,
    }
}

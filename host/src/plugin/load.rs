//! From bytes to a compiled component that is known to be a plugin.

use std::fmt;
use std::str;

use wasmtime::component::types::{ComponentInstance, ComponentItem};
use wasmtime::component::{
    Component, ComponentExportIndex, ComponentNamedList, InstancePre, Lift, Linker, Lower,
};

use super::bindings::{CloseFrame, GATE, HANDLER, LIFECYCLE, Message};
use super::engine::Engine;
use super::host::Host;
use super::imports;
use super::store::Data;

/// Names that a sentence lists before it counts the rest.
const LISTED: usize = 4;

/// What a component says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// It can ask for the upgrade request of a connection.
    pub wants_request: bool,
    /// It can read or replace a connection's attachment.
    pub wants_attachment: bool,
    /// It can commit before its handler returns.
    pub flushes: bool,
    /// It has `lifecycle`: each instance is prepared before its first call.
    pub has_lifecycle: bool,
    /// It has `gate`.
    pub has_gate: bool,
    /// It imports something to wait with. One that does not only computes, and its calls are
    /// plain function calls.
    pub waits: bool,
    /// Interfaces that it imports, with versions.
    pub imports: Vec<String>,
    /// Interfaces that it exports, with versions.
    pub exports: Vec<String>,
}

/// Why bytes are no plugin. Each displays as a sentence that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// Neither binary nor text form of WebAssembly.
    NotWasm,
    /// A core module.
    NotAComponent,
    /// Cut off, invalid, or using a feature that the host has not; with the compiler's words.
    Invalid(String),
    /// Larger than an instance may be; with the runtime's words.
    TooLarge(String),
    /// Of another world; with what it exports.
    NotAPlugin(Vec<String>),
    /// It imports interfaces that the host does not serve.
    NotServed(Vec<String>),
    /// It exports an interface that the host does not call yet, and relies on being called.
    NotCalled(&'static str),
    /// An interface has other types than the host's; with the interface and the difference.
    Mismatch(String, String),
}

/// A component with all its imports resolved.
pub(super) struct Loaded<H: Host> {
    pub(super) pre: InstancePre<Data<H>>,
    pub(super) exports: Exports,
    pub(super) facts: Facts,
}

/// Where a component's functions are.
#[derive(Clone, Copy)]
pub(super) struct Exports {
    pub(super) on_open: ComponentExportIndex,
    pub(super) on_message: ComponentExportIndex,
    pub(super) on_close: ComponentExportIndex,
    pub(super) init: Option<ComponentExportIndex>,
}

/// Compiles and checks; takes from milliseconds to seconds, so never on an I/O thread.
pub(super) fn load<H: Host>(engine: &Engine, bytes: &[u8]) -> Result<Loaded<H>, LoadError> {
    check_form(bytes)?;
    let component = Component::new(engine.wasm(), bytes).map_err(|error| invalid(&error))?;
    let (facts, missing) = examine(engine, &component);
    if component.get_export_index(None, HANDLER).is_none() {
        return Err(LoadError::NotAPlugin(facts.exports));
    }
    if !missing.is_empty() {
        return Err(LoadError::NotServed(missing));
    }
    if facts.has_gate {
        // To serve without asking would let in whom the plugin means to keep out.
        return Err(LoadError::NotCalled(GATE));
    }
    let mut linker = Linker::new(engine.wasm());
    let pre = imports::link(&mut linker, facts.waits)
        .and_then(|()| linker.instantiate_pre(&component))
        .map_err(|error| mismatched_import(&error))?;
    let exports = exports(&pre, &facts)?;
    Ok(Loaded { pre, exports, facts })
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWasm => f.write_str(
                "this is not WebAssembly: give the .wasm file that the plugin's build made",
            ),
            Self::NotAComponent => f.write_str(
                "this is a core WebAssembly module, not a component: build it for wasm32-wasip2, \
                 or make a component of it with `wasm-tools component new`",
            ),
            Self::Invalid(reason) => {
                write!(f, "this component cannot be compiled: {reason}; build it again")
            }
            Self::TooLarge(reason) => {
                write!(
                    f,
                    "this component needs more than an instance may have: {reason}; make it \
                     smaller or raise workers.memory_limit"
                )
            }
            Self::NotAPlugin(exports) => {
                let exports = if exports.is_empty() { "nothing".to_owned() } else { list(exports) };
                write!(
                    f,
                    "this component is no plugin: it exports {exports}, but must export \
                     `{HANDLER}`; in Rust write `register!(YourType);` in the library that is \
                     built, elsewhere build it against the world `plugin`"
                )
            }
            Self::NotServed(imports) => {
                write!(
                    f,
                    "this component imports {}, which this host does not serve: build it \
                     without{}",
                    list(imports),
                    hint(imports)
                )
            }
            Self::NotCalled(export) => write!(
                f,
                "this component exports `{export}`, which this host does not call yet: it would \
                 let in everybody; build it without"
            ),
            Self::Mismatch(interface, difference) => {
                write!(
                    f,
                    "this component uses `{interface}` with other types than this host: \
                     {difference}; build it against the host's own wit/"
                )
            }
        }
    }
}

impl std::error::Error for LoadError {}

fn check_form(bytes: &[u8]) -> Result<(), LoadError> {
    if let Some(rest) = bytes.strip_prefix(b"\0asm") {
        // Version 1, layer 0 is a core module; layer 1 is a component.
        return if rest.starts_with(&[1, 0, 0, 0]) {
            Err(LoadError::NotAComponent)
        } else {
            Ok(())
        };
    }
    let text = str::from_utf8(bytes).map_err(|_| LoadError::NotWasm)?;
    let mut tokens = text
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.is_empty() && !line.starts_with(";;"));
    match tokens.next() {
        Some(line) if line.starts_with("(module") => Err(LoadError::NotAComponent),
        Some(line) if line.starts_with('(') => Ok(()),
        _ => Err(LoadError::NotWasm),
    }
}

/// The facts, and the imports that the host does not serve.
fn examine(engine: &Engine, component: &Component) -> (Facts, Vec<String>) {
    let (mut facts, mut missing) = (Facts::default(), Vec::new());
    let ty = component.component_type();
    for (name, import) in ty.imports(engine.wasm()) {
        facts.imports.push(name.to_owned());
        let served = match &import.ty {
            // An interface of types alone needs nobody to serve it.
            ComponentItem::ComponentInstance(interface) => {
                imports::serves(unversioned(name)) || !has_functions(engine, interface)
            }
            _ => false,
        };
        if !served {
            missing.push(name.to_owned());
        }
        if let ComponentItem::ComponentInstance(interface) = &import.ty {
            facts.waits |= functions(engine, interface)
                .any(|function| imports::waits(unversioned(name), function));
            let has = |function| interface.get_export(engine.wasm(), function).is_some();
            match unversioned(name) {
                "plugsock:plugin/connections" => {
                    facts.wants_request = has("upgrade-request");
                    facts.wants_attachment = has("attachment") || has("set-attachment");
                }
                "plugsock:plugin/outbox" => facts.flushes = has("flush"),
                _ => {}
            }
        }
    }
    facts.exports.extend(ty.exports(engine.wasm()).map(|(name, _)| name.to_owned()));
    facts.has_lifecycle = component.get_export_index(None, LIFECYCLE).is_some();
    facts.has_gate = component.get_export_index(None, GATE).is_some();
    (facts, missing)
}

fn has_functions(engine: &Engine, interface: &ComponentInstance) -> bool {
    interface.exports(engine.wasm()).any(|(_, export)| {
        matches!(export.ty, ComponentItem::ComponentFunc(_) | ComponentItem::Resource(_))
    })
}

fn functions<'a>(
    engine: &'a Engine,
    interface: &'a ComponentInstance,
) -> impl Iterator<Item = &'a str> {
    interface
        .exports(engine.wasm())
        .filter(|(_, export)| matches!(export.ty, ComponentItem::ComponentFunc(_)))
        .map(|(name, _)| name)
}

fn exports<H: Host>(pre: &InstancePre<Data<H>>, facts: &Facts) -> Result<Exports, LoadError> {
    let init = if facts.has_lifecycle {
        Some(function::<_, (), (Result<(), String>,)>(pre, LIFECYCLE, "init")?)
    } else {
        None
    };
    Ok(Exports {
        on_open: function::<_, (u64,), ()>(pre, HANDLER, "on-open")?,
        on_message: function::<_, (u64, Message<'_>), ()>(pre, HANDLER, "on-message")?,
        on_close: function::<_, (u64, CloseFrame<'_>), ()>(pre, HANDLER, "on-close")?,
        init,
    })
}

fn function<H, Params, Return>(
    pre: &InstancePre<Data<H>>,
    interface: &str,
    name: &str,
) -> Result<ComponentExportIndex, LoadError>
where
    H: Host,
    Params: ComponentNamedList + Lower,
    Return: ComponentNamedList + Lift,
{
    let mismatch = |difference: String| LoadError::Mismatch(interface.to_owned(), difference);
    let component = pre.component();
    let parent = component.get_export_index(None, interface);
    match component.get_export(parent.as_ref(), name) {
        Some((ComponentItem::ComponentFunc(function), index)) => function
            .typecheck::<Params, Return>(&pre.instance_type())
            .map(|()| index)
            .map_err(|error| mismatch(format!("`{name}`: {}", one_line(&error)))),
        _ => Err(mismatch(format!("it has no function `{name}`"))),
    }
}

fn invalid(error: &wasmtime::Error) -> LoadError {
    let reason = one_line(error);
    // The runtime has no type for this; where its words change, the sentence is only less apt.
    if reason.contains("pooling allocator") {
        LoadError::TooLarge(reason)
    } else {
        LoadError::Invalid(reason)
    }
}

fn mismatched_import(error: &wasmtime::Error) -> LoadError {
    // The outermost of the error's sentences names the interface between backquotes.
    let outer = error.to_string();
    let interface = outer.split('`').nth(1).unwrap_or("an import").to_owned();
    let inner: Vec<_> = error.chain().skip(1).map(ToString::to_string).collect();
    let difference = if inner.is_empty() { outer } else { inner.join(": ") };
    LoadError::Mismatch(interface, difference.replace('\n', " "))
}

/// The first line of each of the error's sentences.
fn one_line(error: &wasmtime::Error) -> String {
    let sentences: Vec<_> = error
        .chain()
        .filter_map(|cause| cause.to_string().lines().next().map(str::to_owned))
        .collect();
    sentences.join(": ")
}

fn unversioned(interface: &str) -> &str {
    interface.split_once('@').map_or(interface, |(name, _)| name)
}

fn list(names: &[String]) -> String {
    let mut text: Vec<_> = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    if names.len() > LISTED {
        text.push(format!("{} more", names.len() - LISTED));
    }
    text.join(", ")
}

fn hint(imports: &[String]) -> &'static str {
    let any = |prefix: &str| imports.iter().any(|name| name.starts_with(prefix));
    if any("plugsock:plugin/timers") {
        " (timers are not served yet)"
    } else if any("plugsock:plugin/") {
        ", or with the wit/ of this host's version"
    } else if any("wasi:http/") {
        " (plugins cannot make HTTP requests yet)"
    } else {
        ""
    }
}

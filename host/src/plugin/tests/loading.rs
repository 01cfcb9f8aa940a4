//! What is and what is not a plugin.

use super::super::{EMBEDDED_ECHO, LoadError, Table};
use super::*;

fn refused(bytes: &[u8]) -> (LoadError, String) {
    let version = Version::<Recorder>::load(&engine(PATIENT), "test", PluginId(0), bytes);
    let error = version.unwrap_err();
    let sentence = error.to_string();
    assert!(!sentence.contains('\n'), "{sentence}");
    (error, sentence)
}

#[test]
fn bytes_that_are_not_webassembly() {
    for bytes in [&b""[..], b"\x7fELF\x02\x01\x01", b"hello", b"\0as", b" \n;; nothing\n"] {
        assert_eq!(refused(bytes).0, LoadError::NotWasm);
    }
}

#[test]
fn core_modules_are_told_how_to_become_components() {
    for bytes in [&b"\0asm\x01\0\0\0"[..], b";; one\n\n (module)"] {
        let (error, sentence) = refused(bytes);
        assert_eq!(error, LoadError::NotAComponent);
        assert!(sentence.contains("wasm32-wasip2"));
    }
}

#[test]
fn broken_components() {
    for bytes in [&b"\0asm\x0d\0\x01\0\x07\xff"[..], b"\0asm", b"(component", b"(component (what))"]
    {
        assert!(matches!(refused(bytes).0, LoadError::Invalid(_)));
    }
}

#[test]
fn memory_above_the_limit() {
    let memory = |pages: u64| guest(&[(";;MODULE", &format!("(memory $large {pages})"))]);
    load(&engine(PATIENT), &memory(MEMORY >> 16));
    let (error, sentence) = refused(memory((MEMORY >> 16) + 1).as_bytes());
    assert!(matches!(error, LoadError::TooLarge(_)));
    assert!(sentence.contains("workers.memory_limit"), "{sentence}");
}

#[test]
fn components_of_another_world() {
    let (_, sentence) = refused(b"(component)");
    assert!(sentence.contains("it exports nothing"), "{sentence}");
    assert!(sentence.contains("`register!(YourType);`"), "{sentence}");
    let other = r#"(component (instance $run) (export "wasi:cli/run@0.2.0" (instance $run)))"#;
    let (_, sentence) = refused(other.as_bytes());
    assert!(sentence.contains("it exports `wasi:cli/run@0.2.0`"), "{sentence}");
    assert!(sentence.contains("`plugsock:plugin/handler@0.1.0`"), "{sentence}");
}

#[test]
fn imports_that_nobody_serves_are_all_named() {
    let imports = r#"(component
        (import "wasi:http/outgoing-handler@0.2.0" (instance (export "handle" (func))))
        (import "plugsock:plugin/timers@0.1.0" (instance (export "cancel" (func))))"#;
    let (error, sentence) = refused(EMBEDDED_ECHO.replacen("(component", imports, 1).as_bytes());
    assert!(matches!(error, LoadError::NotServed(names) if names.len() == 2));
    assert!(sentence.contains("wasi:http/outgoing-handler@0.2.0"), "{sentence}");
    assert!(sentence.contains("plugsock:plugin/timers@0.1.0"), "{sentence}");
}

#[test]
fn interfaces_with_other_types() {
    let other = |from, to| {
        assert!(EMBEDDED_ECHO.contains(from));
        refused(EMBEDDED_ECHO.replace(from, to).as_bytes())
    };
    let (error, sentence) = other(r#"(case "over-budget")"#, r#"(case "out-of-budget")"#);
    assert!(matches!(error, LoadError::Mismatch(..)));
    assert!(sentence.contains("`plugsock:plugin/connections@0.1.0`"), "{sentence}");
    let (error, sentence) = other(r#"(export "on-close" (func $on-close))"#, "");
    assert!(matches!(error, LoadError::Mismatch(..)));
    assert!(sentence.contains("`on-close`"), "{sentence}");
    let (error, sentence) = other(r#"(field "code" u16)"#, r#"(field "status" u16)"#);
    assert!(matches!(error, LoadError::Mismatch(..)));
    assert!(sentence.contains("`on-close`") && sentence.contains("code"), "{sentence}");
}

/// A plugin that means to decide who comes in must not be run as if it did not.
#[test]
fn a_gate_that_would_not_be_asked_is_refused() {
    let handler = "(export \"plugsock:plugin/handler@0.1.0\" (instance $handler))";
    let gate = "(export \"plugsock:plugin/gate@0.1.0\" (instance $handler))";
    let component = EMBEDDED_ECHO.replace(handler, &format!("{handler} {gate}"));
    let (error, sentence) = refused(component.as_bytes());
    assert!(matches!(error, LoadError::NotCalled(_)));
    assert!(sentence.contains("`plugsock:plugin/gate@0.1.0`"), "{sentence}");
}

#[test]
fn facts_are_read_from_imports_and_exports() {
    let engine = engine(PATIENT);
    let echo = load(&engine, EMBEDDED_ECHO);
    let facts = echo.facts();
    assert!(!facts.wants_request && !facts.wants_attachment && !facts.flushes);
    assert!(!facts.has_lifecycle && !facts.has_gate);
    assert_eq!(facts.exports, ["plugsock:plugin/handler@0.1.0"]);
    assert_eq!(facts.imports.len(), 2);
    let all = load(&engine, &guest(&[]));
    let facts = all.facts();
    assert!(facts.wants_request && facts.wants_attachment && facts.flushes);
    assert!(facts.has_lifecycle && !facts.has_gate);
    assert_ne!(echo.digest(), all.digest());
    assert_eq!((all.name(), all.id(), all.digest().len()), ("test", PluginId(0), 12));
}

#[test]
fn a_table_serves_what_it_was_given_last() {
    let engine = engine(PATIENT);
    let table = Table::new([load(&engine, EMBEDDED_ECHO)]);
    let (id, unknown) = (PluginId(0), PluginId(1));
    assert!(table.active(unknown).is_none() && table.generation(unknown).is_none());
    let (first, generation) = (table.active(id).unwrap(), table.generation(id).unwrap());
    let second = Arc::new(load(&engine, EMBEDDED_ECHO));
    assert_ne!(first.serial(), second.serial());
    assert_eq!(first.digest(), second.digest());
    let before = table.replace(Arc::clone(&second)).unwrap();
    assert_eq!(before.serial(), first.serial());
    assert_eq!(table.active(id).unwrap().serial(), second.serial());
    assert_ne!(table.generation(id).unwrap(), generation);
    let stray = Version::load(&engine, "stray", unknown, EMBEDDED_ECHO.as_bytes()).unwrap();
    assert!(table.replace(Arc::new(stray)).is_none());
    assert_eq!(table.active(id).unwrap().serial(), second.serial());
}

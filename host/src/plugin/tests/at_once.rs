//! Plugins that cannot wait: their calls are plain function calls.

use super::*;
use crate::plugin::EMBEDDED_ECHO;

const LOOP: &str = "(loop $for-ever (br $for-ever))";

/// The embedded echo, which runs this code before it answers.
fn echo(code: &str) -> String {
    const ANSWER: &str = "(call $send (local.get $connection)";
    assert_eq!(EMBEDDED_ECHO.matches(ANSWER).count(), 1);
    EMBEDDED_ECHO.replace(ANSWER, &format!("{code} {ANSWER}"))
}

fn instance_now(version: &Version<Recorder>) -> Instance<Recorder> {
    assert!(!version.facts().waits);
    let mut instance = version.instantiate_now(&mut None).unwrap();
    instance.lend(Box::default());
    instance
}

#[test]
fn what_a_component_imports_says_whether_it_can_wait() {
    let engine = engine(PATIENT);
    assert!(!load(&engine, EMBEDDED_ECHO).facts().waits);
    assert!(load(&engine, &guest(&[])).facts().waits, "it imports subscribe-duration");
}

#[test]
fn the_embedded_echo_sends_back_any_message_of_0_bytes_to_4_mib() {
    let engine = engine(PATIENT);
    let mut instance = instance_now(&load(&engine, EMBEDDED_ECHO));
    let _busy = engine.busy();
    instance.call_now(Call::Open { conn: CONN }).unwrap();
    for length in [0, 1, 125, 126, 65_535, 65_536, 4 << 20, 3] {
        for kind in [Kind::Text, Kind::Binary] {
            let payload: Vec<u8> = (b'a'..=b'w').cycle().take(length).collect();
            instance.call_now(message(kind, &payload)).unwrap();
            let sent = std::mem::take(&mut instance.host_mut().unwrap().asked);
            // Not printed: it would fill the screen.
            assert!(sent == [Asked::Send(CONN, kind, payload)], "{length}");
        }
    }
    instance.call_now(Call::Close { conn: CONN, code: 1000, reason: "bye" }).unwrap();
    assert!(instance.reclaim().unwrap().asked.is_empty());
}

#[test]
fn a_call_that_computes_too_long_is_stopped_and_the_host_was_told_before() {
    let engine = engine(SHORT);
    let version = load(&engine, &echo(LOOP));
    let mut instance = instance_now(&version);
    let _busy = engine.busy();
    let failure = instance.call_now(message(Kind::Text, b"x")).unwrap_err();
    assert_eq!(failure, Failure::Deadline { after: SHORT });
    assert!(instance.dead());
    assert!(instance.call_now(message(Kind::Text, b"x")).is_err(), "it stays dead");
    let host = instance.reclaim().unwrap();
    assert_eq!(host.asked, []);
    assert!(host.overdue > 1, "{}", host.overdue);
}

#[test]
fn a_slow_call_that_ends_in_time_counts() {
    let engine = engine(PATIENT);
    let some_ms = "(local.set $case (i32.const 30000000))
        (loop $more
            (local.set $case (i32.sub (local.get $case) (i32.const 1)))
            (br_if $more (local.get $case)))";
    let mut instance = instance_now(&load(&engine, &echo(some_ms)));
    let _busy = engine.busy();
    for _ in 0..2 {
        instance.call_now(message(Kind::Text, b"x")).unwrap();
    }
    assert_eq!(instance.reclaim().unwrap().asked.len(), 2);
}

#[test]
fn a_trap_and_a_refused_allocation_have_their_own_names() {
    let engine = engine(PATIENT);
    let _busy = engine.busy();
    let mut instance = instance_now(&load(&engine, &echo("unreachable")));
    let failure = instance.call_now(message(Kind::Text, b"x")).unwrap_err();
    assert!(matches!(failure, Failure::Trap { .. }), "{failure:?}");
    let mut instance = instance_now(&load(&engine, EMBEDDED_ECHO));
    let failure = instance.call_now(message(Kind::Binary, &vec![0; 17 << 20])).unwrap_err();
    assert_eq!(failure, Failure::Memory { limit: MEMORY });
}

#[test]
fn a_guest_that_recurses_for_ever_traps_and_the_thread_lives() {
    let engine = engine(PATIENT);
    let _busy = engine.busy();
    let deep = EMBEDDED_ECHO.replace(
        "(func (export \"on-open\") (param $connection i64))",
        "(func $deep
            (export \"on-open\") (param $connection i64) (call $deep (local.get $connection)))",
    );
    let mut instance = instance_now(&load(&engine, &deep));
    let failure = instance.call_now(Call::Open { conn: CONN }).unwrap_err();
    assert!(failure.to_string().contains("stack"), "{failure}");
}

#[test]
fn a_start_function_that_never_ends_is_stopped_too() {
    let engine = engine(SHORT);
    let text = EMBEDDED_ECHO.replace(
        "(import \"heap\" \"reset\" (func $reset))",
        &format!("(import \"heap\" \"reset\" (func $reset)) (func $start {LOOP}) (start $start)"),
    );
    let version = load(&engine, &text);
    let mut host = Some(Box::<Recorder>::default());
    let failure = version.instantiate_now(&mut host).unwrap_err();
    assert_eq!(failure, Failure::Deadline { after: SHORT });
    assert!(host.unwrap().overdue > 0);
}

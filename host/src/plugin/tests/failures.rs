//! Guests that break, and what is left afterwards.

use super::super::EMBEDDED_ECHO;
use super::*;
use crate::clock;

const LOOP: &str = "(loop $again (br $again))";

fn trap(failure: Result<(), Failure>) -> String {
    match failure {
        Err(Failure::Trap { message }) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_trap_names_its_place_and_the_next_instance_works() {
    let code = "(if (i32.eqz (local.get $length)) (then unreachable))
        (call $send (local.get $connection)
            (local.get $case) (local.get $address) (local.get $length) (i32.const 0))";
    let engine = engine(PATIENT);
    let version = load(&engine, &guest(&[(";;ON-MESSAGE", code)]));
    run(async {
        let _busy = engine.busy();
        let mut first = instance(&version).await;
        first.call(message(Kind::Text, b"a")).await.unwrap();
        let failure = first.call(message(Kind::Text, b"")).await.unwrap_err();
        assert_eq!(failure.label(), "trap");
        let message_ = trap(Err(failure));
        assert!(message_.contains("unreachable"), "{message_}");
        assert!(first.dead());
        assert!(first.call(message(Kind::Text, b"a")).await.is_err(), "it stays dead");
        let mut second = version.instantiate().await.unwrap();
        second.lend(first.reclaim().unwrap());
        drop(first);
        second.call(message(Kind::Text, b"b")).await.unwrap();
        let sent = |text: &[u8]| Asked::Send(CONN, Kind::Text, text.to_vec());
        assert_eq!(second.reclaim().unwrap().asked, [sent(b"a"), sent(b"b")]);
    });
}

#[test]
fn a_trap_in_the_host_function_keeps_the_host() {
    // Text that is not UTF-8 breaks the component model's rules.
    let (ended, asked) = answer(
        PATIENT,
        "(call $flush)
        (i32.store8 (i32.const 0) (i32.const 255))
        (call $send (local.get $connection)
            (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 32))",
    );
    assert!(trap(ended).contains("utf-8"));
    assert_eq!(asked, [Asked::Flush]);
}

#[test]
fn an_endless_loop_ends_at_the_deadline() {
    let start = clock::now();
    let (ended, _) = answer(SHORT, LOOP);
    assert_eq!(ended, Err(Failure::Deadline { after: SHORT }));
    assert!(start.elapsed() >= SHORT);
}

#[test]
fn a_loop_of_host_calls_and_an_endless_sleep_end_at_the_deadline() {
    let calls = "(loop $again (drop (call $buffered (local.get $connection))) (br $again))";
    assert_eq!(answer(SHORT, calls).0, Err(Failure::Deadline { after: SHORT }));
    let sleep = "(call $block (call $subscribe-duration (i64.const -1)))";
    assert_eq!(answer(SHORT, sleep).0, Err(Failure::Deadline { after: SHORT }));
}

#[test]
fn guests_that_loop_do_not_hold_up_the_others_on_their_thread() {
    let engine = engine(PATIENT);
    let looping = load(&engine, &guest(&[(";;ON-MESSAGE", LOOP)]));
    let echo = load(&engine, EMBEDDED_ECHO);
    run(async {
        let _busy = engine.busy();
        let mut one = instance(&looping).await;
        let mut two = instance(&looping).await;
        let mut fast = instance(&echo).await;
        let fast = async {
            for _ in 0..3 {
                fast.call(message(Kind::Text, b"")).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            ended = one.call(message(Kind::Text, b"")) => panic!("{ended:?}"),
            ended = two.call(message(Kind::Text, b"")) => panic!("{ended:?}"),
            () = fast => {}
        }
        assert!(one.dead() && two.dead());
    });
}

#[test]
fn a_dropped_call_leaves_the_instance_dead_and_gives_the_host_back() {
    let engine = engine(PATIENT);
    let version = load(&engine, &guest(&[(";;ON-MESSAGE", &format!("(call $flush) {LOOP}"))]));
    run(async {
        let _busy = engine.busy();
        let mut instance = instance(&version).await;
        let call = instance.call(message(Kind::Text, b""));
        assert!(tokio::time::timeout(Duration::from_millis(5), call).await.is_err());
        assert!(instance.dead());
        assert_eq!(instance.reclaim().unwrap().asked, [Asked::Flush]);
    });
}

#[test]
fn growing_past_the_limit_is_refused_and_the_guest_may_go_on() {
    // As many pages as it gets; the last answer is -1.
    let grow = "(loop $again (br_if $again (i32.ne
        (memory.grow (i32.const 1)) (i32.const -1))))
        (i32.store (i32.const 0) (memory.size))
        (call $send (local.get $connection)
            (i32.const 1) (i32.const 0) (i32.const 4) (i32.const 32))";
    let (ended, asked) = answer(PATIENT, grow);
    ended.unwrap();
    let pages = u32::try_from(MEMORY >> 16).unwrap();
    assert_eq!(asked, [Asked::Send(CONN, Kind::Binary, pages.to_le_bytes().to_vec())]);
}

#[test]
fn a_guest_that_dies_of_a_refusal_failed_for_memory() {
    for grow in ["65535", "65536", "-1"] {
        let code = format!(
            "(if (i32.eq (memory.grow (i32.const {grow})) (i32.const -1)) (then unreachable))"
        );
        let (ended, _) = answer(PATIENT, &code);
        assert_eq!(ended, Err(Failure::Memory { limit: MEMORY }), "{grow}");
    }
}

#[test]
fn tables_count_against_the_memory_limit() {
    let table = "(table $many 0 funcref)";
    let grow = "(drop (table.grow $many (ref.null func) (i32.const 100000)))
        (if (i32.eq (memory.grow (i32.const 250)) (i32.const -1)) (then unreachable))";
    let engine = engine(PATIENT);
    let version = load(&engine, &guest(&[(";;MODULE", table), (";;ON-MESSAGE", grow)]));
    run(async {
        let _busy = engine.busy();
        let mut instance = instance(&version).await;
        let ended = instance.call(message(Kind::Text, b"")).await;
        assert_eq!(ended, Err(Failure::Memory { limit: MEMORY }));
    });
}

#[test]
fn a_message_that_does_not_fit_fails_for_memory() {
    let engine = engine(PATIENT);
    let version = load(&engine, EMBEDDED_ECHO);
    run(async {
        let _busy = engine.busy();
        let mut instance = instance(&version).await;
        let payload = vec![0; usize::try_from(MEMORY).unwrap()];
        let ended = instance.call(message(Kind::Binary, &payload)).await;
        assert_eq!(ended, Err(Failure::Memory { limit: MEMORY }));
    });
}

#[test]
fn frames_are_limited_in_number_and_by_memory() {
    let make = |count: u32, length: u32, drop: &str| {
        format!(
            "(memory.grow (i32.const 16)) (drop)
            (i32.store (i32.const 0) (i32.const {count}))
            (loop $again
                (call $new-frame (i32.const 1) (i32.const 0) (i32.const {length})) ({drop})
                (i32.store (i32.const 0) (i32.sub (i32.load (i32.const 0)) (i32.const 1)))
                (br_if $again (i32.load (i32.const 0))))"
        )
    };
    answer(PATIENT, &make(1024, 1, "drop")).0.unwrap();
    assert!(trap(answer(PATIENT, &make(1025, 1, "drop")).0).contains("1024 frames"));
    let memory = answer(PATIENT, &make(17, 1 << 20, "drop")).0;
    assert_eq!(memory, Err(Failure::Memory { limit: MEMORY }));
    answer(PATIENT, &make(5000, 1 << 20, "call $drop-frame")).0.unwrap();
}

#[test]
fn endless_recursion_is_a_trap() {
    let engine = engine(PATIENT);
    let module = "(func $deeper (param i32) (result i32)
        (i32.add (i32.const 1) (call $deeper (i32.add (local.get 0) (i32.const 1)))))";
    let code = "(drop (call $deeper (i32.const 0)))";
    let version = load(&engine, &guest(&[(";;MODULE", module), (";;ON-MESSAGE", code)]));
    run(async {
        let _busy = engine.busy();
        let mut instance = instance(&version).await;
        let message_ = trap(instance.call(message(Kind::Text, b"")).await);
        assert!(message_.contains("call stack exhausted"), "{message_}");
        assert!(message_.contains("deeper") && message_.len() <= 500, "{message_}");
    });
}

#[test]
fn exit_ends_the_instance_and_not_the_host() {
    assert!(trap(answer(PATIENT, "(call $exit (i32.const 0))").0).contains("status 0"));
    assert!(trap(answer(PATIENT, "(call $exit (i32.const 1))").0).contains("status 1"));
}

fn made(deadline: Duration, code: &[(&str, &str)]) -> Failure {
    let engine = engine(deadline);
    let version = load(&engine, &guest(code));
    run(async { version.instantiate().await.unwrap_err() })
}

#[test]
fn an_instance_that_cannot_start_says_why() {
    let refuse = "(i32.store (i32.const 512) (i32.const 1))
        (i32.store (i32.const 516) (i32.const 256))
        (i32.store (i32.const 520) (i32.const 5))";
    assert_eq!(made(PATIENT, &[(";;INIT", refuse)]), Failure::Init("lobby".to_owned()));
    assert_eq!(made(PATIENT, &[(";;INIT", "unreachable")]).label(), "trap");
    let late = Failure::Deadline { after: SHORT };
    assert_eq!(made(SHORT, &[(";;INIT", LOOP)]), late);
    let start = |body| format!("(func $start {body}) (start $start)");
    assert_eq!(made(SHORT, &[(";;MODULE", &start(LOOP))]), late);
    assert_eq!(made(PATIENT, &[(";;MODULE", &start("unreachable"))]).label(), "instantiate");
    // With the page of the guest's first memory one page too many.
    let large = format!("(memory $large {})", MEMORY >> 16);
    let failure = made(PATIENT, &[(";;MODULE", &large)]);
    assert_eq!(failure, Failure::Memory { limit: MEMORY });
}

#[test]
fn more_instances_than_the_pool_holds_are_refused_until_one_is_dropped() {
    let engine = engine(PATIENT);
    let version = load(&engine, EMBEDDED_ECHO);
    run(async {
        let mut all = Vec::new();
        let failure = loop {
            match version.instantiate().await {
                Ok(instance) => all.push(instance),
                Err(failure) => break failure,
            }
        };
        assert_eq!(failure.label(), "instantiate");
        assert!(all.len() >= 16, "{}", all.len());
        all.pop();
        assert!(version.instantiate().await.is_ok());
    });
}

#[test]
fn an_instance_sees_nothing_of_the_one_before_it() {
    let code = "(call $send (local.get $connection)
            (i32.const 1) (i32.const 600) (i32.const 1) (i32.const 32))
        (i32.store8 (i32.const 600) (i32.const 9))";
    let engine = engine(PATIENT);
    let version = load(&engine, &guest(&[(";;ON-MESSAGE", code)]));
    run(async {
        let _busy = engine.busy();
        for _ in 0..3 {
            let mut instance = instance(&version).await;
            instance.call(message(Kind::Text, b"")).await.unwrap();
            let fresh = Asked::Send(CONN, Kind::Binary, vec![0]);
            assert_eq!(instance.reclaim().unwrap().asked, [fresh]);
        }
    });
}

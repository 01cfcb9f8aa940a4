//! Clients that break off around the upgrade, where nobody may own the connection yet.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use socket2::SockRef;

use crate::support::{Client, HEAD, Site, Stage, answer, connect, frame};

const MANY: usize = 1_000;

fn head(target: &str) -> Vec<u8> {
    format!("{}\r\n", HEAD.replacen("/echo", target, 1)).into_bytes()
}

/// Ends the TCP connection with a reset.
fn reset(socket: TcpStream) {
    SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
}

#[test]
fn bl_13_a_reset_behind_the_head_leaves_nothing_behind() {
    let mut stage = Stage::new(Site::new());
    for target in ["/ledger", "/echo", "/builtin", "/nowhere"] {
        for _ in 0..MANY {
            let mut socket = connect(stage.address());
            socket.write_all(&head(target)).unwrap();
            reset(socket);
        }
        Client::open(stage.address(), "/echo").echo("the next one");
    }
    // How many of them the host saw before their reset is the kernel's affair.
    let codes = stage.expect_balance("resets");
    assert!(codes.len() <= MANY && codes.iter().all(|code| *code == 1006), "{codes:?}");
    stage.end();
}

#[test]
fn bl_13_a_bad_frame_in_the_segment_of_the_head_is_an_ordinary_error() {
    let mut stage = Stage::new(Site::new());
    let bytes = [head("/ledger"), frame(0xB1, b"")].concat();
    for number in 0..MANY {
        let mut socket = connect(stage.address());
        socket.write_all(&bytes).unwrap();
        // Every other one does not wait for the answer.
        if number % 2 == 0 {
            let answer = answer(socket);
            assert_eq!(answer.status, 101);
            assert!(answer.body.starts_with(&[0x88]), "{answer:?}");
            assert_eq!(answer.body[2..4], 1002_u16.to_be_bytes());
        } else {
            reset(socket);
        }
    }
    let codes = stage.expect_balance("bad frames");
    assert!((MANY / 2..=MANY).contains(&codes.len()), "{}", codes.len());
    assert!(codes.iter().all(|code| matches!(code, 1002 | 1006)), "{codes:?}");
    assert!(codes.iter().filter(|code| **code == 1002).count() >= MANY / 2);
    stage.end();
}

#[test]
fn bl_13_a_reset_while_on_open_runs_ends_it_once() {
    let mut stage = Stage::new(Site::new().set("workers.call_deadline", "1m"));
    let slow = head("/ledger?turns=20");
    for round in 0..5 {
        for _ in 0..20 {
            let mut socket = connect(stage.address());
            socket.write_all(&slow).unwrap();
            // The upgrade does not wait for the handler: one is in it, the others before it.
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            reset(socket);
        }
        stage.bystander().echo(&format!("round {round}"));
    }
    stage.expect_told(100, 1006, "resets within on-open");
    stage.expect_calm("resets within on-open");
    stage.end();
}

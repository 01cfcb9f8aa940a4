//! Negotiating permessage-deflate: faults seen in other servers, each with the offer.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use plugsock_ws::Role;
use plugsock_ws::extension::{Mismatch, Policy, WindowBits};
use plugsock_ws::handshake::{
    Failure, HeadBuffer, HeadLimits, Key, Offer, ResponseHead, Upgrade, accept_with,
};

use crate::support::{Random, agree};

fn bits(bits: u8) -> WindowBits {
    WindowBits::new(bits).unwrap()
}

const TAKEOVER: Policy = Policy {
    server_max_window_bits: WindowBits::MAX,
    client_max_window_bits: WindowBits::MAX,
    context_takeover: true,
};

/// The answer to one line of offers, with context takeover allowed.
fn answer(offers: &str) -> Option<String> {
    agree(&TAKEOVER, offers).map(|agreement| agreement.to_string())
}

fn answers(offers: &str, expected: &str) {
    assert_eq!(answer(offers).as_deref(), Some(expected), "{offers}");
}

fn declines(offers: &str) {
    assert_eq!(answer(offers), None, "{offers}");
}

#[test]
fn bl_12_only_a_well_formed_offer_counts() {
    declines("constructor");
    declines(",;x");
    declines(r#"x-a; v="1, permessage-deflate""#);
    declines(r#"x-a; v="1, permessage-deflate"#);
    declines(r#"permessage-deflate; server_max_window_bits="10"#);
    declines("permessage-deflat");
    declines("x-permessage-deflate");
    declines("");
    declines(&";".repeat(10 << 10));
    declines(&"\"".repeat(10 << 10));
    declines(&"permessage-deflate;".repeat(500));
    declines(&"permessage-deflate;x,".repeat(500));
    answers(r#"x-a; v="1, 2", permessage-deflate"#, "permessage-deflate");
    answers("constructor, __proto__; x, permessage-deflate", "permessage-deflate");
}

#[test]
fn bl_12_the_first_acceptable_offer_wins() {
    answers(
        "permessage-deflate; server_max_window_bits=8, permessage-deflate",
        "permessage-deflate",
    );
    answers(
        "permessage-deflate; x, permessage-deflate; server_max_window_bits=10, permessage-deflate",
        "permessage-deflate; server_max_window_bits=10",
    );
    let lines =
        [&b"x, permessage-deflate; foo"[..], b"permessage-deflate;client_max_window_bits=9"];
    let agreement = TAKEOVER.negotiate(lines).unwrap();
    assert_eq!(agreement.to_string(), "permessage-deflate; client_max_window_bits=9");
    assert_eq!(TAKEOVER.negotiate([]), None);
}

#[test]
fn bl_12_random_offers_never_panic_and_seldom_pass() {
    let mut random = Random::new(12);
    let valid = br#"permessage-deflate; server_max_window_bits="1\0"; client_max_window_bits, x"#;
    let mut agreed = 0;
    for _ in 0..20_000 {
        let mut offer = valid.to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(offer.len());
            offer[at] = match random.below(2) {
                0 => random.bytes(1)[0],
                _ => b",;=\"\\ 189"[random.below(9)],
            };
        }
        if let Some(agreement) = TAKEOVER.negotiate([offer.as_slice()]) {
            // What is answered must itself be an offer that gets the same answer.
            answers(&agreement.to_string(), &agreement.to_string());
            agreed += 1;
        }
    }
    assert!((100..10_000).contains(&agreed), "{agreed}");
}

#[test]
fn bl_14_window_bits_are_8_to_15_in_their_shortest_form() {
    for server in [9, 10, 15] {
        let offer = format!("permessage-deflate; server_max_window_bits={server}");
        answers(&offer, &offer);
    }
    for client in [8, 9, 15] {
        let offer = format!("permessage-deflate; client_max_window_bits={client}");
        answers(&offer, &offer);
    }
    let quoted = "permessage-deflate; server_max_window_bits=\"10\"";
    answers(quoted, "permessage-deflate; server_max_window_bits=10");
    for bad in ["7", "16", "08", "0", "010", "+9", "9x", "\" 9\"", "\"\"", "", "99", "-9", "1e1"] {
        declines(&format!("permessage-deflate; server_max_window_bits={bad}"));
        declines(&format!("permessage-deflate; client_max_window_bits={bad}"));
    }
    declines("permessage-deflate; server_max_window_bits=8");
    declines("permessage-deflate; server_max_window_bits");
}

#[test]
fn bl_14_repeated_unknown_and_valued_parameters_are_declined() {
    for parameter in [
        "server_no_context_takeover",
        "client_no_context_takeover",
        "server_max_window_bits=10",
        "client_max_window_bits=10",
        "client_max_window_bits",
    ] {
        assert!(answer(&format!("permessage-deflate; {parameter}")).is_some());
        declines(&format!("permessage-deflate; {parameter}; {parameter}"));
    }
    declines("permessage-deflate; client_max_window_bits; client_max_window_bits=9");
    declines("permessage-deflate; client_no_context_takeover=1");
    declines("permessage-deflate; server_no_context_takeover=\"true\"");
    declines("permessage-deflate; foo=1");
    declines("permessage-deflate; foo");
    declines("permessage-deflate; Server_no_context_takeover");
}

#[test]
fn bl_14_the_clients_window_is_answered_only_if_offered() {
    let policy = Policy { client_max_window_bits: bits(11), ..TAKEOVER };
    let answer = |offer: &str| agree(&policy, offer).unwrap().to_string();
    let offered = "permessage-deflate; client_max_window_bits";
    assert_eq!(answer(offered), "permessage-deflate; client_max_window_bits=11");
    let smaller = "permessage-deflate; client_max_window_bits=9";
    assert_eq!(answer(smaller), smaller);
    let larger = "permessage-deflate; client_max_window_bits=15";
    assert_eq!(answer(larger), "permessage-deflate; client_max_window_bits=11");
    let silent = agree(&policy, "permessage-deflate").unwrap();
    assert_eq!(silent.to_string(), "permessage-deflate; client_no_context_takeover");
    assert_eq!(silent.window_bits(Role::Client), WindowBits::MAX);
    assert_eq!(silent.max_history(), 32 << 10, "ours only");
}

#[test]
fn bl_18_the_answer_says_what_is_kept() {
    let no_takeover = Policy::default();
    for (offer, server, client) in [
        ("permessage-deflate", true, true),
        ("permessage-deflate; server_no_context_takeover", false, true),
        ("permessage-deflate; client_no_context_takeover", true, false),
        (
            "permessage-deflate; client_no_context_takeover; server_no_context_takeover",
            false,
            false,
        ),
    ] {
        let agreement = agree(&TAKEOVER, offer).unwrap();
        let denied = agree(&no_takeover, offer).unwrap();
        assert_eq!(agreement.context_takeover(Role::Server), server);
        assert_eq!(agreement.context_takeover(Role::Client), client);
        let answer = agreement.to_string();
        assert_eq!(answer.contains("server_no_context_takeover"), !server);
        assert_eq!(answer.contains("client_no_context_takeover"), !client);
        let both = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        assert_eq!((denied.to_string().as_str(), denied.max_history()), (both, 0));
    }
}

#[test]
fn a_smaller_window_of_the_server_is_announced() {
    let policy = Policy { server_max_window_bits: bits(12), ..TAKEOVER };
    let agreement = agree(&policy, "permessage-deflate; server_max_window_bits=15").unwrap();
    assert_eq!(agreement.to_string(), "permessage-deflate; server_max_window_bits=12");
    assert_eq!(agree(&policy, "permessage-deflate"), Some(agreement));
    assert_eq!(agreement.max_history(), (4 << 10) + (32 << 10));
}

#[test]
fn every_offer_of_ours_is_agreed_to_and_both_ends_see_the_same() {
    for server_bits in 8..=15 {
        for client_bits in 8..=15 {
            for context_takeover in [false, true] {
                let policy = Policy {
                    server_max_window_bits: bits(server_bits),
                    client_max_window_bits: bits(client_bits),
                    context_takeover,
                };
                for server in [TAKEOVER, Policy::default(), policy] {
                    let at_server = agree(&server, &policy.offer()).unwrap();
                    let answer = at_server.to_string();
                    let at_client = policy.verify([answer.as_bytes()]).unwrap().unwrap();
                    for role in [Role::Server, Role::Client] {
                        let window = |end: plugsock_ws::extension::Agreement| end.window_bits(role);
                        assert_eq!(window(at_server), window(at_client), "{answer}");
                        let kept = at_server.context_takeover(role);
                        assert_eq!(kept, at_client.context_takeover(role), "{answer}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_answer_that_does_not_fit_the_offer_fails() {
    let modest = Policy {
        server_max_window_bits: bits(10),
        client_max_window_bits: bits(12),
        context_takeover: false,
    };
    let verify = |policy: &Policy, answer: &str| {
        policy.verify([answer.as_bytes()]).map(|agreement| agreement.is_some())
    };
    assert_eq!(TAKEOVER.verify([]), Ok(None));
    assert_eq!(verify(&TAKEOVER, " , "), Ok(false));
    assert_eq!(verify(&TAKEOVER, "permessage-deflate"), Ok(true));
    let fits = "permessage-deflate; server_no_context_takeover; server_max_window_bits=10";
    assert_eq!(verify(&modest, fits), Ok(true));
    for bad in [
        "x",
        "permessage-deflate, permessage-deflate",
        "permessage-deflate; foo",
        "permessage-deflate; client_max_window_bits",
        "permessage-deflate; client_max_window_bits=8",
        "permessage-deflate; server_max_window_bits",
        "permessage-deflate;",
    ] {
        assert_eq!(verify(&TAKEOVER, bad), Err(Mismatch), "{bad}");
    }
    for bad in [
        "permessage-deflate",
        "permessage-deflate; server_no_context_takeover",
        "permessage-deflate; server_max_window_bits=10",
        "permessage-deflate; server_no_context_takeover; server_max_window_bits=11",
        &format!("{fits}; client_max_window_bits=13"),
    ] {
        assert_eq!(verify(&modest, bad), Err(Mismatch), "{bad}");
    }
}

#[test]
fn the_handshake_carries_offer_and_answer() {
    let key = Key::from_nonce([7; 16]);
    let offer = Offer { host: "t", target: "/", key, subprotocols: &[], fields: &[] };
    let mut bytes = Vec::new();
    offer.write_with(Some(&TAKEOVER), &mut bytes).unwrap();
    let mut head = HeadBuffer::new();
    head.push(&HeadLimits::default(), &bytes).unwrap();
    let request = head.request().unwrap();
    let upgrade = Upgrade::from_request(&request).unwrap().unwrap();
    let agreement = TAKEOVER.negotiate(upgrade.extensions()).unwrap();

    let mut bytes = Vec::new();
    accept_with(&upgrade.key(), None, Some(&agreement), &[], &mut bytes).unwrap();
    let mut head = ResponseHead::new();
    head.push(&HeadLimits::default(), &bytes).unwrap();
    let (_, agreed) = offer.verify_with(Some(&TAKEOVER), &head).unwrap();
    assert_eq!(agreed.unwrap().to_string(), agreement.to_string());
    assert_eq!(offer.verify(&head), Err(Failure::Extension));
}

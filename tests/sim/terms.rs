//! What the two ends want of compression, and what must come of it (RFC 7692 §7.1).

use plugsock_ws::Role;
use plugsock_ws::deflate::Settings;
use plugsock_ws::extension::{Agreement, Policy, WindowBits};

use crate::choices::Choices;

/// Both ends' wishes.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) client: Option<Policy>,
    pub(crate) server: Option<Policy>,
    /// How hard both of them compress.
    pub(crate) settings: Settings,
    /// Parameters that the client asks for besides.
    asks: [bool; 2],
}

const PARAMETERS: [&str; 2] = ["server_no_context_takeover", "client_no_context_takeover"];

impl Terms {
    pub(crate) fn new(choices: &mut Choices<'_>) -> Self {
        let how = choices.below(16);
        let mut terms =
            Self { client: None, server: None, settings: Settings::default(), asks: [false; 2] };
        if how < 3 {
            return terms;
        }
        if how != 3 {
            terms.client = Some(policy(choices));
        }
        if how != 4 {
            terms.server = Some(policy(choices));
        }
        let (level, mem_level) = choices.pick(&[(1, 8), (1, 1), (0, 8), (2, 3), (6, 9), (9, 5)]);
        terms.settings = Settings { level, mem_level };
        // Nothing may be asked for twice.
        if terms.client.is_some_and(|client| client.context_takeover) {
            terms.asks = [choices.once_in(3), choices.once_in(3)];
        }
        terms
    }

    /// The request with what the client asks for besides.
    pub(crate) fn amend(&self, request: &[u8]) -> Vec<u8> {
        let name = "permessage-deflate";
        let mut amended = String::from_utf8(request.to_vec()).unwrap();
        for (parameter, asked) in PARAMETERS.iter().zip(self.asks) {
            if asked {
                amended = amended.replacen(name, &format!("{name}; {parameter}"), 1);
            }
        }
        amended.into_bytes()
    }

    /// Whether one end may have agreed to this.
    pub(crate) fn check(&self, agreed: Option<&Agreement>) {
        let (Some(client), Some(server), Some(agreed)) = (self.client, self.server, agreed) else {
            let both = self.client.is_some() && self.server.is_some();
            assert!(!both && agreed.is_none(), "{self:?} came to {agreed:?}");
            return;
        };
        let takeover = client.context_takeover && server.context_takeover;
        let [server_asked, client_asked] = self.asks;
        assert_eq!(agreed.context_takeover(Role::Server), takeover && !server_asked);
        assert_eq!(agreed.context_takeover(Role::Client), takeover && !client_asked);
        let least =
            |one: WindowBits, other: WindowBits| one.min(other).max(WindowBits::MIN_TO_COMPRESS);
        let bits = least(client.server_max_window_bits, server.server_max_window_bits);
        assert_eq!(agreed.window_bits(Role::Server), bits);
        let bits = least(client.client_max_window_bits, server.client_max_window_bits);
        assert_eq!(agreed.window_bits(Role::Client), bits);
    }
}

/// A fuzzer's agreement, none for 0: two bits deny takeover, three each are windows from 9 bits.
pub(crate) fn agreement(choice: u8) -> Option<Agreement> {
    let mut offer = "permessage-deflate".to_owned();
    if choice == 0 {
        return None;
    }
    for (place, parameter) in PARAMETERS.iter().enumerate() {
        if choice >> place & 1 != 0 {
            offer += &format!("; {parameter}");
        }
    }
    for (place, side) in ["server", "client"].iter().enumerate() {
        let bits = 9 + (choice >> (2 + 3 * place) & 7).min(6);
        offer += &format!("; {side}_max_window_bits={bits}");
    }
    let policy = Policy { context_takeover: true, ..Policy::default() };
    policy.negotiate([offer.as_bytes()])
}

fn policy(choices: &mut Choices<'_>) -> Policy {
    let bits = |choices: &mut Choices<'_>| {
        let bits = choices.pick(&[15, 15, 9, 8, 10, 11, 12, 13, 14]);
        WindowBits::new(bits).unwrap()
    };
    Policy {
        server_max_window_bits: bits(choices),
        client_max_window_bits: bits(choices),
        context_takeover: !choices.once_in(3),
    }
}

//! From the request's bytes to an open connection, or a refusal.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plugsock_ws::Role;
use plugsock_ws::extension::Policy;
use plugsock_ws::handshake::{self, Progress, Refusal, Upgrade, choose_subprotocol};

use super::output::Source;
use super::phase::{Conn, Opening, Phase};
use super::route::{PagePermit, Route, Target};
use super::session::{Compressing, Session};
use super::{Env, RETRY_AFTER_S, Tick, Turn};
use crate::metrics::Counter;
use crate::outbound::Coding;
use crate::types::{ConnectionId, Header, Request};

/// What a good request leads to.
enum Granted<'a> {
    Upgrade(&'a Route, Compressing),
    Page(PagePermit),
}

impl Conn {
    /// More of the request's head; what follows it are frames already. Returns how many of their
    /// bytes have to wait.
    pub(super) fn shake_hands(&mut self, bytes: &mut [u8], turn: &mut Turn<'_>) -> usize {
        let id = self.id;
        let Phase::Handshake(opening) = &mut self.phase else { return 0 };
        let consumed = match opening.head.push(&turn.env.head_limits, bytes) {
            Ok(Progress::Partial) => return 0,
            Ok(Progress::Complete { consumed }) => consumed,
            Err(refusal) => {
                self.refuse(&refusal, turn);
                return 0;
            }
        };
        let mut response = Vec::new();
        match answer(opening, id, turn, &mut response) {
            Err(refusal) => self.refuse(&refusal, turn),
            Ok(Granted::Page(permit)) => {
                self.page = Some(permit);
                self.phase = Phase::Responding;
                self.deadline = turn.now.after(turn.env.config.handshake_timeout);
            }
            Ok(Granted::Upgrade(route, compressing)) => {
                let out = |out: &mut Vec<u8>| out.extend_from_slice(&response);
                turn.pieces.put(&mut self.queue, Source::Control, out);
                self.open(route.target, compressing, turn);
                return self.receive_frames(&mut bytes[consumed..], turn);
            }
        }
        0
    }

    fn open(&mut self, target: Target, compressing: Compressing, turn: &mut Turn<'_>) {
        turn.count(Counter::Opened);
        let mut session = Session::new(target, compressing);
        if let Target::Plugin { plugin, sequence } = target {
            turn.env.shared.directory.open(self.id, plugin, compressing.coding());
            turn.batch.open(self.id, plugin, sequence);
            session.pending = 1;
            self.announced = true;
            turn.submit_if_full();
        }
        self.phase = Phase::Open(session);
        self.deadline = first_ping(self.id, turn);
    }
}

/// Judges the request. For an upgrade, appends the response.
fn answer<'a>(
    opening: &Opening,
    id: ConnectionId,
    turn: &Turn<'a>,
    response: &mut Vec<u8>,
) -> Result<Granted<'a>, Refusal> {
    let env = turn.env;
    let request = opening.head.request()?;
    let route = env.routes.find(request.path());
    let pages = env.pages.as_ref().filter(|pages| pages.matches(request.path()));
    let asks_upgrade = request.has_token("upgrade", "websocket");
    if let Some(pages) = pages
        && !asks_upgrade
        && route.is_none()
    {
        let busy = || Refusal::unavailable("Too many requests at once.", RETRY_AFTER_S);
        let permit = pages.request(id, request.method(), request.path()).ok_or_else(busy)?;
        return Ok(Granted::Page(permit));
    }
    let route = route.ok_or_else(Refusal::not_found)?;
    let upgrade = Upgrade::from_request(&request)?.ok_or_else(Refusal::upgrade_required)?;
    if let Some(origin) = upgrade.origin() {
        let allowed = &env.config.allowed_origins;
        if !allowed.is_empty() && !allowed.iter().any(|one| one.eq_ignore_ascii_case(origin)) {
            return Err(Refusal::forbidden("This origin may not connect."));
        }
    }
    let subprotocol = choose_subprotocol(upgrade.subprotocols(), &route.subprotocols);
    if route.require_subprotocol && subprotocol.is_none() {
        return Err(Refusal::bad_request("None of the offered subprotocols is spoken here."));
    }
    let compressing = compress(&upgrade, env);
    let agreement = compressing.agreement.as_ref();
    handshake::accept_with(&upgrade.key(), subprotocol, agreement, &[], response)
        .map_err(|_| Refusal::bad_request("The subprotocol cannot be answered."))?;
    if let Target::Plugin { plugin, .. } = route.target
        && env.shared.wishes.any(plugin)
    {
        let wanted = env.shared.wishes.request(plugin);
        let request = wanted.then(|| Arc::new(describe(&upgrade, opening.client)));
        env.shared.notes.begin(id, plugin, request);
    }
    Ok(Granted::Upgrade(route, compressing))
}

/// What is agreed on about compression. Where the host's budget for windows is used up, nobody else
/// gets context takeover; without it a connection keeps nothing.
fn compress(upgrade: &Upgrade<'_>, env: &Env) -> Compressing {
    let Some(compression) = &env.config.compression else { return Compressing::default() };
    let policy = compression.policy;
    let agreed = |policy: Policy| {
        let agreement = policy.negotiate(upgrade.extensions())?;
        let reserved = agreement.max_history();
        reserve(&env.windows, reserved, compression.memory_budget).then_some(Compressing {
            agreement: Some(agreement),
            takes_shared: policy.server_max_window_bits <= agreement.window_bits(Role::Server),
            reserved: u32::try_from(reserved).unwrap_or(u32::MAX),
        })
    };
    let without_takeover = Policy { context_takeover: false, ..policy };
    agreed(policy).or_else(|| agreed(without_takeover)).unwrap_or_default()
}

fn reserve(used: &AtomicUsize, bytes: usize, most: usize) -> bool {
    let more = |used: usize| used.checked_add(bytes).filter(|sum| bytes == 0 || *sum <= most);
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

impl Compressing {
    /// How workers encode what they send to the connection.
    fn coding(&self) -> Coding {
        match self.agreement {
            None => Coding::Plain,
            Some(agreement) => {
                let bits = agreement.window_bits(Role::Server);
                match agreement.context_takeover(Role::Server) {
                    true => Coding::ByShard(bits),
                    false => Coding::Alone(bits),
                }
            }
        }
    }
}

fn describe(upgrade: &Upgrade<'_>, client: IpAddr) -> Request {
    let request = upgrade.request();
    let header = |field: handshake::Field<'_>| Header {
        name: field.name().to_ascii_lowercase(),
        value: field.value().to_vec(),
    };
    Request {
        path: request.path().to_owned(),
        query: request.query().map(str::to_owned),
        headers: request.fields().map(header).collect(),
        client_address: client,
        secure: false,
        subprotocols: upgrade.subprotocols().iter().map(|&name| name.to_owned()).collect(),
    }
}

/// Spread over the whole interval, so that clients who came at once are not pinged at once.
fn first_ping(id: ConnectionId, turn: &Turn<'_>) -> Tick {
    let Some(heartbeat) = turn.env.config.heartbeat else { return Tick::NEVER };
    let interval = Tick(0).after(heartbeat.interval).0.max(1);
    let spread = id.to_u64().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let part = (spread * u64::from(interval)) >> 32;
    Tick(turn.now.0.saturating_add(1 + u32::try_from(part).unwrap_or(interval)))
}

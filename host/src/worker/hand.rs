//! A thread of a crew while it has the role.

use std::str;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::QUANTUM;
use super::crew::{Crew, Leftover, Role};
use super::desk::Desk;
use crate::inbound::{Happening, Work};
use crate::plugin::{Call, Failure, Instance, Version};
use crate::types::ConnectionId;

/// Takes work from the queues and runs the handlers of plugins that do not wait. Work for others
/// goes to the lanes.
#[derive(Debug)]
pub(super) struct Hand<'a> {
    pub(super) crew: &'a Arc<Crew>,
    /// Unless an instance has it.
    desk: Option<Box<Desk>>,
}

impl<'a> Hand<'a> {
    pub(super) fn new(crew: &'a Arc<Crew>, desk: Box<Desk>) -> Self {
        Self { crew, desk: Some(desk) }
    }

    /// Works until another thread has the role, or there will be no more work.
    pub(super) fn serve(&mut self) {
        let crew = self.crew;
        let (common, env) = (&crew.common, &crew.common.env);
        let mut busy = Some(env.engine.busy());
        while let Some(role) = self.role() {
            crew.enter_leftovers(role);
            let Some(work) = env.inbound.take(crew.number, QUANTUM) else {
                if role.ledger.settle() > 0 {
                    continue;
                }
                busy = None;
                if !crew.rest() {
                    return;
                }
                busy.get_or_insert_with(|| env.engine.busy());
                continue;
            };
            let version = role.version(common, work.plugin()).cloned();
            match version {
                Some(version) if version.facts().waits => {
                    common.abroad.fetch_add(1, Ordering::SeqCst);
                    common.inbox.push(work);
                }
                version => self.handle(work, version.as_ref()),
            }
            if let Some(role) = self.role()
                && role.ledger.is_due()
            {
                role.ledger.settle();
            }
        }
        drop(busy);
    }

    /// None where another thread has it by now.
    pub(super) fn role(&mut self) -> Option<&mut Role> {
        self.desk.as_mut()?.role()
    }

    /// Runs the handlers of one connection's events.
    pub(super) fn handle(&mut self, work: Work, version: Option<&Arc<Version<Desk>>>) {
        let conn = work.conn();
        let mut leased = None;
        let (mut events, mut bytes) = (0, 0);
        let mut last = None;
        for (what, payload) in work.events() {
            events += 1;
            bytes += payload.len();
            let closes = matches!(what, Happening::Close(_));
            let mut outcome = Ok(());
            if let Some(version) = version {
                outcome = self.call(version, &work, &mut leased, event(conn, what, payload));
            }
            let desk = leased.as_mut().and_then(Instance::host_mut).or(self.desk.as_deref_mut());
            let Some(role) = desk.and_then(Desk::role) else {
                last = Some((closes, outcome));
                break;
            };
            if let (Some(version), Err(failure)) = (version, &outcome) {
                role.ledger.fail(version, conn, failure);
            }
            if closes {
                role.ledger.finished(conn);
            }
            if self.was_overdue(&mut leased) {
                // One slow call is enough: others have their turn before the next.
                break;
            }
        }
        if let Some(instance) = &mut leased {
            self.desk = instance.reclaim();
        }
        match (last, version) {
            (None, _) => {
                let Some(role) = self.role() else { return };
                if let Some(instance) = leased {
                    role.instances.put(work.plugin(), instance, work.is_single());
                }
                role.ledger.enter(&work, events, bytes);
            }
            (Some((closes, outcome)), Some(version)) => {
                let Some(effects) = self.desk.take() else { return };
                let version = Arc::clone(version);
                let instance = leased;
                self.crew.leave(Leftover {
                    work,
                    events,
                    bytes,
                    version,
                    outcome,
                    closes,
                    effects,
                    instance,
                });
            }
            (Some(_), None) => {}
        }
    }

    /// One call, and its effects if it returns. `leased` is what the run has leased so far; it has
    /// the desk, and a failure leaves none.
    fn call(
        &mut self,
        version: &Version<Desk>,
        work: &Work,
        leased: &mut Option<Instance<Desk>>,
        call: Call<'_>,
    ) -> Result<(), Failure> {
        let instance = match leased {
            Some(instance) => instance,
            None => {
                let ready =
                    self.role().and_then(|role| role.instances.take(version, work.is_single()));
                let mut instance = match ready {
                    Some(instance) => instance,
                    None => version.instantiate_now(&mut self.desk)?,
                };
                if let Some(desk) = self.desk.take() {
                    instance.lend(desk);
                }
                leased.insert(instance)
            }
        };
        if let Some(desk) = instance.host_mut() {
            desk.effects.begin(version.id());
            if version.facts().flushes
                && let Some(role) = desk.role()
            {
                role.ledger.post();
            }
        }
        let outcome = instance.call_now(call);
        if outcome.is_err() {
            self.desk = instance.reclaim();
            *leased = None;
        } else if let Some(Desk { effects, duty: Some(duty) }) = instance.host_mut()
            && let Some(role) = &mut duty.role
        {
            role.ledger.absorb(effects);
        }
        outcome
    }

    /// Whether a call took longer than a tick since this was last asked.
    fn was_overdue(&mut self, leased: &mut Option<Instance<Desk>>) -> bool {
        let desk = leased.as_mut().and_then(Instance::host_mut).or(self.desk.as_deref_mut());
        let duty = desk.and_then(|desk| desk.duty.as_mut());
        let overdue = duty.is_some_and(|duty| std::mem::take(&mut duty.overdue));
        if overdue {
            self.crew.relieve();
        }
        overdue
    }
}

/// What a guest is told of an event.
pub(super) fn event(conn: ConnectionId, what: Happening, payload: &[u8]) -> Call<'_> {
    match what {
        Happening::Open => Call::Open { conn },
        Happening::Message(kind) => Call::Message { conn, kind, payload },
        Happening::Close(code) => {
            Call::Close { conn, code, reason: str::from_utf8(payload).unwrap_or_default() }
        }
    }
}

//! What lies before whoever runs a handler.

use std::sync::Arc;

use super::Common;
use super::crew::{Crew, Role};
use crate::outbound::{Effects, Refused};
use crate::plugin::{CloseError, EffectError, Host};
use crate::types::{ConnectionId, Kind, Message, Request};

/// Lent to an instance for the time of a call: the guest talks to the call's effects.
#[derive(Debug)]
pub struct Desk {
    pub(super) effects: Effects,
    pub(super) duty: Option<Duty>,
}

/// What a thread does besides the call, until the call takes too long.
#[derive(Debug)]
pub(super) struct Duty {
    pub(super) crew: Arc<Crew>,
    /// None where another thread has it by now.
    pub(super) role: Option<Box<Role>>,
    /// The call took longer than a tick.
    pub(super) overdue: bool,
}

impl Desk {
    pub(super) fn new(common: &Common, duty: Option<Duty>) -> Box<Self> {
        let env = &common.env;
        let effects = Effects::new(Arc::clone(&env.shared), env.encoding.clone());
        Box::new(Self { effects, duty })
    }

    pub(super) fn role(&mut self) -> Option<&mut Role> {
        self.duty.as_mut()?.role.as_deref_mut()
    }
}

impl Host for Desk {
    fn send(&mut self, conn: ConnectionId, kind: Kind, payload: &[u8]) -> Result<(), EffectError> {
        Ok(self.effects.send(conn, kind, payload)?)
    }

    fn close(&mut self, conn: ConnectionId, code: u16, reason: &str) -> Result<(), CloseError> {
        Ok(self.effects.close(conn, code, reason)?)
    }

    fn upgrade_request(&mut self, conn: ConnectionId) -> Option<Arc<Request>> {
        self.effects.upgrade_request(conn)
    }

    fn attachment(&mut self, conn: ConnectionId) -> Option<Vec<u8>> {
        self.effects.attachment(conn)
    }

    fn set_attachment(&mut self, conn: ConnectionId, bytes: &[u8]) -> Result<(), EffectError> {
        Ok(self.effects.set_attachment(conn, bytes)?)
    }

    fn buffered(&mut self, conn: ConnectionId) -> u64 {
        self.effects.buffered(conn)
    }

    fn subscribe(&mut self, conn: ConnectionId, channel: &str) -> Result<(), EffectError> {
        Ok(self.effects.subscribe(conn, channel)?)
    }

    fn unsubscribe(&mut self, conn: ConnectionId, channel: &str) -> Result<(), EffectError> {
        Ok(self.effects.unsubscribe(conn, channel)?)
    }

    fn publish(
        &mut self,
        channel: &str,
        message: Message<'_>,
        except: Option<ConnectionId>,
    ) -> Result<(), EffectError> {
        Ok(self.effects.publish(channel, message, except)?)
    }

    fn broadcast(&mut self, message: Message<'_>) -> Result<(), EffectError> {
        Ok(self.effects.broadcast(message)?)
    }

    fn subscribers(&mut self, channel: &str) -> u64 {
        self.effects.subscribers(channel)
    }

    fn flush(&mut self) {
        self.effects.flush();
    }

    fn overdue(&mut self) {
        let Some(duty) = &mut self.duty else { return };
        duty.overdue = true;
        if let Some(mut role) = duty.role.take() {
            // What other connections wait for leaves first.
            role.ledger.settle();
            duty.role = duty.crew.hand_over(role).err();
        }
    }
}

impl From<Refused> for EffectError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NotOpen => Self::NotOpen,
            // Effects other than a close have no code.
            Refused::TooLarge | Refused::InvalidCode => Self::TooLarge,
            Refused::OverBudget => Self::OverBudget,
        }
    }
}

impl From<Refused> for CloseError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NotOpen => Self::NotOpen,
            Refused::InvalidCode => Self::InvalidCode,
            Refused::TooLarge => Self::ReasonTooLong,
            Refused::OverBudget => Self::OverBudget,
        }
    }
}

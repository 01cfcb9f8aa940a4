//! A call's effects are what the guest talks to.

use std::sync::Arc;

use crate::outbound::{Effects, Refused};
use crate::plugin::{CloseError, EffectError, Host};
use crate::types::{ConnectionId, Kind, Request};

impl Host for Effects {
    fn send(&mut self, conn: ConnectionId, kind: Kind, payload: &[u8]) -> Result<(), EffectError> {
        Ok(self.send(conn, kind, payload)?)
    }

    fn close(&mut self, conn: ConnectionId, code: u16, reason: &str) -> Result<(), CloseError> {
        Ok(self.close(conn, code, reason)?)
    }

    fn upgrade_request(&mut self, conn: ConnectionId) -> Option<Arc<Request>> {
        Self::upgrade_request(self, conn)
    }

    fn attachment(&mut self, conn: ConnectionId) -> Option<Vec<u8>> {
        Self::attachment(self, conn)
    }

    fn set_attachment(&mut self, conn: ConnectionId, bytes: &[u8]) -> Result<(), EffectError> {
        Ok(self.set_attachment(conn, bytes)?)
    }

    fn buffered(&mut self, conn: ConnectionId) -> u64 {
        Self::buffered(self, conn)
    }

    fn subscribe(&mut self, conn: ConnectionId, channel: &str) -> Result<(), EffectError> {
        Ok(self.subscribe(conn, channel)?)
    }

    fn unsubscribe(&mut self, conn: ConnectionId, channel: &str) -> Result<(), EffectError> {
        Ok(self.unsubscribe(conn, channel)?)
    }

    fn publish(
        &mut self,
        channel: &str,
        kind: Kind,
        payload: &[u8],
        except: Option<ConnectionId>,
    ) -> Result<(), EffectError> {
        Ok(self.publish(channel, kind, payload, except)?)
    }

    fn broadcast(&mut self, kind: Kind, payload: &[u8]) -> Result<(), EffectError> {
        Ok(self.broadcast(kind, payload)?)
    }

    fn subscribers(&mut self, channel: &str) -> u64 {
        Self::subscribers(self, channel)
    }

    fn flush(&mut self) {
        self.flush();
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

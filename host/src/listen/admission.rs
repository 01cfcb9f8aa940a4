//! Who is let in: at most so many connections in all, and from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Config;

/// Refused clients that are still told so at a time; further ones are just dropped.
const MAX_TURNED_AWAY: usize = 1024;

/// Counts connections of the whole host. A [`Permit`] gives its place back when it is dropped, on
/// whichever way.
#[derive(Debug)]
pub struct Admission {
    most: usize,
    most_per_address: usize,
    connections: AtomicUsize,
    turned_away: AtomicUsize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection's place.
#[derive(Debug)]
pub struct Permit {
    admission: Arc<Admission>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Connection,
    ConnectionOf(Box<IpAddr>),
    /// Of one who is being told that there is no place.
    TurnedAway,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// `max_connections` is reached.
    Full,
    /// `max_connections_per_ip` is reached.
    TooManyFromAddress,
}

impl Admission {
    /// Nobody is here yet.
    #[must_use]
    pub fn new(config: &Config) -> Arc<Self> {
        Arc::new(Self {
            most: config.max_connections,
            most_per_address: config.max_connections_per_ip,
            connections: AtomicUsize::new(0),
            turned_away: AtomicUsize::new(0),
            by_address: Mutex::default(),
        })
    }

    /// A place for a client.
    ///
    /// # Errors
    /// Which limit stands against it.
    pub fn admit(self: &Arc<Self>, client: IpAddr) -> Result<Permit, Rejected> {
        if !take(&self.connections, self.most) {
            return Err(Rejected::Full);
        }
        if self.most_per_address == 0 {
            return Ok(self.permit(Place::Connection));
        }
        let address = network_of(client);
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by_address.entry(address).or_default();
        if *count >= self.most_per_address {
            drop(by_address);
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return Err(Rejected::TooManyFromAddress);
        }
        *count += 1;
        Ok(self.permit(Place::ConnectionOf(Box::new(address))))
    }

    /// A short stay for one who is to be told that there is no place.
    #[must_use]
    pub fn turn_away(self: &Arc<Self>) -> Option<Permit> {
        take(&self.turned_away, MAX_TURNED_AWAY).then(|| self.permit(Place::TurnedAway))
    }

    /// Connections that are here now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    fn permit(self: &Arc<Self>, place: Place) -> Permit {
        Permit { admission: Arc::clone(self), place }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let admission = &self.admission;
        let Place::ConnectionOf(address) = &self.place else {
            let counter = match self.place {
                Place::TurnedAway => &admission.turned_away,
                _ => &admission.connections,
            };
            counter.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        admission.connections.fetch_sub(1, Ordering::Relaxed);
        let mut by_address = admission.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_address.get_mut(address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(address);
            }
        }
    }
}

fn take(counter: &AtomicUsize, most: usize) -> bool {
    let more = |count| (count < most).then_some(count + 1);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

/// Who counts as one client: an IPv4 address, or an IPv6 /64, which one customer usually has.
fn network_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let network = u128::from(address) & (u128::MAX << 64);
            IpAddr::V6(network.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(most: usize, per_address: usize) -> Arc<Admission> {
        let config = Config {
            max_connections: most,
            max_connections_per_ip: per_address,
            ..Config::default()
        };
        Admission::new(&config)
    }

    fn ip(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    #[test]
    fn a_place_is_free_again_when_its_permit_goes() {
        let admission = admission(2, 0);
        let first = admission.admit(ip("10.0.0.1")).unwrap();
        let _second = admission.admit(ip("10.0.0.1")).unwrap();
        assert_eq!(admission.admit(ip("10.0.0.2")).unwrap_err(), Rejected::Full);
        drop(first);
        assert_eq!(admission.connections(), 1);
        assert!(admission.admit(ip("10.0.0.2")).is_ok());
    }

    #[test]
    fn one_address_has_its_own_limit_and_a_refusal_costs_no_place() {
        let admission = admission(10, 1);
        let first = admission.admit(ip("2001:db8::1")).unwrap();
        let same_network = admission.admit(ip("2001:db8::2")).unwrap_err();
        assert_eq!(same_network, Rejected::TooManyFromAddress);
        assert!(admission.admit(ip("2001:db8:0:1::1")).is_ok());
        assert_eq!(admission.connections(), 1);
        let _mapped = admission.admit(ip("::ffff:10.0.0.1")).unwrap();
        assert!(admission.admit(ip("10.0.0.1")).is_err(), "the same client");
        drop(first);
        assert!(admission.admit(ip("2001:db8::2")).is_ok());
        assert_eq!(admission.by_address.lock().unwrap().len(), 1, "only the mapped one is left");
    }

    #[test]
    fn only_so_many_are_told_that_there_is_no_place() {
        let admission = admission(0, 0);
        let told: Vec<_> = (0..MAX_TURNED_AWAY).map(|_| admission.turn_away().unwrap()).collect();
        assert!(admission.turn_away().is_none());
        drop(told);
        assert!(admission.turn_away().is_some());
    }
}

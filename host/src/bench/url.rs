//! Where to connect to.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// A `ws://` address (RFC 6455 §3). There is no TLS in the generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// As in the Host field: with the port only where the URL has one.
    host: String,
    port: u16,
    /// Path and query.
    target: String,
}

const DEFAULT_PORT: u16 = 80;

impl Url {
    /// Host, and the port where it was written.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Path and query, from the slash on.
    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// The first address of the host.
    pub(super) fn resolve(&self) -> Result<SocketAddr, String> {
        let name = self.host.strip_suffix(&format!(":{}", self.port)).unwrap_or(&self.host);
        let name = name.trim_matches(['[', ']']);
        let mut found = (name, self.port).to_socket_addrs().map_err(|error| {
            format!("cannot find the host of {self}: {error}; is its name right?")
        })?;
        found.next().ok_or_else(|| format!("the host of {self} has no address"))
    }
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix("ws://") else {
            return Err(match text.starts_with("wss://") {
                true => "there is no TLS here: measure the server behind the proxy, with ws://",
                false => "write it as ws://HOST:PORT/PATH",
            }
            .to_owned());
        };
        let (host, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let graphic = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !graphic || text.contains(['#', '@']) {
            return Err("a host, a port, a path and a query, all in printable ASCII".to_owned());
        }
        let port = match host.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => port.parse().ok().filter(|port| *port > 0),
            _ => Some(DEFAULT_PORT),
        };
        if host.is_empty() || host.starts_with(':') {
            return Err("the host is missing".to_owned());
        }
        let port = port.ok_or("the port is a number from 1 to 65535")?;
        let target = match target.starts_with('/') {
            true => target.to_owned(),
            false => format!("/{target}"),
        };
        Ok(Self { host: host.to_owned(), port, target })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ws://{}{}", self.host, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_a_port_and_a_target() {
        for (text, host, port, target) in [
            ("ws://127.0.0.1:8080/echo?a=b", "127.0.0.1:8080", 8080, "/echo?a=b"),
            ("ws://localhost", "localhost", 80, "/"),
            ("ws://localhost?room=tea", "localhost", 80, "/?room=tea"),
            ("ws://[::1]:9/", "[::1]:9", 9, "/"),
            ("ws://[::1]", "[::1]", 80, "/"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((url.host(), url.port, url.target()), (host, port, target));
        }
    }

    #[test]
    fn addresses_are_found_without_asking_anybody() {
        let found = |text: &str| text.parse::<Url>().unwrap().resolve().unwrap().to_string();
        assert_eq!(found("ws://127.0.0.1:8080/"), "127.0.0.1:8080");
        assert_eq!(found("ws://127.0.0.1/"), "127.0.0.1:80");
        assert_eq!(found("ws://[::1]:9/"), "[::1]:9");
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for wrong in [
            "wss://localhost/",
            "localhost:8080",
            "ws://",
            "ws:///echo",
            "ws://:80/",
            "ws://h:0/",
            "ws://h:65536/",
            "ws://h:x/",
            "ws://h/a b",
            "ws://h/#a",
            "ws://me@h/",
        ] {
            assert!(wrong.parse::<Url>().is_err(), "{wrong}");
        }
    }
}

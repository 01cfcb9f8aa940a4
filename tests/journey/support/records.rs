//! What the guest `recorder` tells about the hooks that were called.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::Client;

/// A client that reads along, and what it has heard of each connection, by name and in order.
#[derive(Debug)]
pub(crate) struct Records {
    watcher: Client,
    by_name: BTreeMap<String, Vec<String>>,
    /// Everything in the order in which it was heard.
    pub(crate) all: Vec<(String, String)>,
    /// Times that a connection's `on-close` was heard of.
    pub(crate) ended: usize,
}

impl Records {
    pub(crate) fn watch(address: SocketAddr) -> Self {
        let mut watcher = Client::open(address, "/recorder?watch");
        watcher.expect("watching");
        Self { watcher, by_name: BTreeMap::new(), all: Vec::new(), ended: 0 }
    }

    /// Reads on until so many connections have ended in all.
    pub(crate) fn until_ended(&mut self, number: usize) {
        while self.ended < number {
            let line = self.watcher.next_text();
            self.note(&line);
        }
    }

    /// Reads on until this was said about a connection.
    pub(crate) fn until(&mut self, name: &str, what: &str) {
        while !self.of(name).iter().any(|said| said == what) {
            let line = self.watcher.next_text();
            self.note(&line);
        }
    }

    /// Reads what has been said up to now.
    pub(crate) fn settle(&mut self) {
        self.watcher.text("close ?");
        loop {
            match self.watcher.next_text() {
                end if end == "not a number" => return,
                line => self.note(&line),
            }
        }
    }

    /// The hooks of one connection.
    pub(crate) fn of(&self, name: &str) -> &[String] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Of every connection `on-open` must have come first, `on-close` last, and each once, with
    /// all that it sends refused. Returns the close codes by name.
    pub(crate) fn close_codes(&self) -> BTreeMap<&str, u16> {
        let code = |(name, hooks): (_, &Vec<String>)| {
            assert_eq!(hooks.first().map(String::as_str), Some("open"), "{name}: {hooks:?}");
            let ends = hooks.iter().filter(|hook| hook.starts_with("close ")).count();
            let opens = hooks.iter().filter(|hook| *hook == "open").count();
            assert_eq!((opens, ends), (1, 1), "{name}: {hooks:?}");
            let last = hooks.last().and_then(|hook| hook.strip_prefix("close "));
            let code = last.and_then(|last| last.strip_suffix(" NotOpen NotOpen"));
            code.unwrap_or_else(|| panic!("{name}: {hooks:?}")).parse().unwrap()
        };
        self.by_name.iter().map(|(name, hooks)| (name.as_str(), code((name, hooks)))).collect()
    }

    fn note(&mut self, line: &str) {
        let (name, what) = line.split_once(' ').unwrap();
        self.ended += usize::from(what.starts_with("close "));
        self.by_name.entry(name.to_owned()).or_default().push(what.to_owned());
        self.all.push((name.to_owned(), what.to_owned()));
    }
}

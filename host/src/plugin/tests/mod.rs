//! Guests in text form against the whole module, with a host that records what they ask for.

mod at_once;
mod calls;
mod contract;
mod failures;
mod loading;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::{Call, CloseError, Config, EffectError, Engine, Failure, Host, Instance, Version};
use crate::types::{ConnectionId, Header, Kind, Message, PluginId, Request};

/// Long enough that no honest call reaches it on a busy machine.
const PATIENT: Duration = Duration::from_secs(60);
/// For guests that never end.
const SHORT: Duration = Duration::from_millis(50);
const MEMORY: u64 = 16 << 20;
const CONN: ConnectionId = ConnectionId::new(1, 2, 3);

/// What a guest asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Send(ConnectionId, Kind, Vec<u8>),
    Close(ConnectionId, u16, String),
    Attach(ConnectionId, Vec<u8>),
    Subscribe(ConnectionId, String),
    Unsubscribe(ConnectionId, String),
    Publish(String, Kind, Vec<u8>, Option<ConnectionId>),
    Broadcast(Kind, Vec<u8>),
    Flush,
}

#[derive(Default)]
struct Recorder {
    asked: Vec<Asked>,
    /// Ticks that found a call running: on a busy machine that may be any call.
    overdue: u32,
    /// Of messages that the guest keeps.
    compressions: u32,
}

impl Recorder {
    fn asked(&mut self, asked: Asked) -> Result<(), EffectError> {
        self.asked.push(asked);
        Ok(())
    }

    /// Compresses a message to itself, as the host would for its receivers.
    fn compressed(&mut self, message: Message<'_>) -> (Kind, Vec<u8>) {
        let Message { kind, payload, kept } = message;
        if let Some(kept) = kept {
            kept.get_or_make(|out| {
                out.extend_from_slice(payload);
                self.compressions += 1;
            });
        }
        (kind, payload.to_vec())
    }
}

impl Host for Recorder {
    fn send(&mut self, conn: ConnectionId, kind: Kind, payload: &[u8]) -> Result<(), EffectError> {
        self.asked(Asked::Send(conn, kind, payload.to_vec()))
    }

    fn close(&mut self, conn: ConnectionId, code: u16, reason: &str) -> Result<(), CloseError> {
        if code == 1005 {
            return Err(CloseError::InvalidCode);
        }
        self.asked.push(Asked::Close(conn, code, reason.to_owned()));
        Ok(())
    }

    fn upgrade_request(&mut self, _: ConnectionId) -> Option<Arc<Request>> {
        Some(Arc::new(Request {
            path: "/chat".to_owned(),
            query: None,
            headers: vec![Header { name: "host".to_owned(), value: b"example".to_vec() }],
            client_address: [192, 0, 2, 1].into(),
            secure: true,
            subprotocols: vec!["v1".to_owned()],
        }))
    }

    fn attachment(&mut self, _: ConnectionId) -> Option<Vec<u8>> {
        self.asked.iter().rev().find_map(|asked| match asked {
            Asked::Attach(_, bytes) => Some(bytes.clone()),
            _ => None,
        })
    }

    fn set_attachment(&mut self, conn: ConnectionId, bytes: &[u8]) -> Result<(), EffectError> {
        self.asked(Asked::Attach(conn, bytes.to_vec()))
    }

    fn buffered(&mut self, _: ConnectionId) -> u64 {
        7
    }

    fn subscribe(&mut self, conn: ConnectionId, channel: &str) -> Result<(), EffectError> {
        self.asked(Asked::Subscribe(conn, channel.to_owned()))
    }

    fn unsubscribe(&mut self, conn: ConnectionId, channel: &str) -> Result<(), EffectError> {
        self.asked(Asked::Unsubscribe(conn, channel.to_owned()))
    }

    fn publish(
        &mut self,
        channel: &str,
        message: Message<'_>,
        except: Option<ConnectionId>,
    ) -> Result<(), EffectError> {
        let (kind, payload) = self.compressed(message);
        self.asked(Asked::Publish(channel.to_owned(), kind, payload, except))
    }

    fn broadcast(&mut self, message: Message<'_>) -> Result<(), EffectError> {
        let (kind, payload) = self.compressed(message);
        self.asked(Asked::Broadcast(kind, payload))
    }

    fn subscribers(&mut self, _: &str) -> u64 {
        3
    }

    fn flush(&mut self) {
        self.asked.push(Asked::Flush);
    }

    fn overdue(&mut self) {
        self.overdue += 1;
    }
}

fn engine(call_deadline: Duration) -> Engine {
    let config = Config { memory_limit: MEMORY, call_deadline, handlers: 8, plugins: 1 };
    Engine::new(&config).unwrap()
}

/// `guest.wat` with code in place of its marks.
fn guest(code: &[(&str, &str)]) -> String {
    let mut text = include_str!("guest.wat").to_owned();
    for (mark, code) in code {
        assert!(text.contains(mark), "{mark}");
        text = text.replace(mark, code);
    }
    text
}

fn load(engine: &Engine, text: &str) -> Version<Recorder> {
    match Version::load(engine, "test", PluginId(0), text.as_bytes()) {
        Ok(version) => version,
        Err(error) => panic!("{error}"),
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

/// A new instance of a guest, with a host lent.
async fn instance(version: &Version<Recorder>) -> Instance<Recorder> {
    let mut instance = version.instantiate().await.unwrap();
    instance.lend(Box::default());
    instance
}

fn message(kind: Kind, payload: &[u8]) -> Call<'_> {
    Call::Message { conn: CONN, kind, payload }
}

/// One message to a new instance of this code: how it ended, and what the guest asked for.
fn answer(deadline: Duration, on_message: &str) -> (Result<(), Failure>, Vec<Asked>) {
    let engine = engine(deadline);
    let version = load(&engine, &guest(&[(";;ON-MESSAGE", on_message)]));
    run(async {
        let _busy = engine.busy();
        let mut instance = instance(&version).await;
        let ended = instance.call(message(Kind::Text, b"hello")).await;
        assert_eq!(instance.dead(), ended.is_err());
        (ended, instance.reclaim().unwrap().asked)
    })
}

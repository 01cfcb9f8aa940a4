//! Plain requests are answered on a thread of their own, since reading a file may block.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::conn::{PagePermit, Pages};
use crate::files::Files;
use crate::outbound::{Commit, Entry, Shared};
use crate::task;
use crate::types::ConnectionId;

/// Answers that are being made or sent; further requests get 503. Each takes up to twice
/// [`crate::files::MAX_FILE`] of memory, so 512 MiB if all were of the largest size.
const ANSWERS: usize = 32;

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Service {
    files: Arc<Files>,
    requests: SyncSender<Request>,
    taken: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Request {
    conn: ConnectionId,
    method: String,
    path: String,
}

/// Starts the thread. It ends when the last shard has.
pub(super) fn start(files: Files, shared: Arc<Shared>) -> io::Result<Arc<Service>> {
    let files = Arc::new(files);
    let (requests, queue) = sync_channel(ANSWERS);
    let to_serve = Arc::clone(&files);
    task::spawn("files", move || serve(&to_serve, &queue, &shared))?;
    Ok(Arc::new(Service { files, requests, taken: Arc::default() }))
}

impl Pages for Service {
    fn matches(&self, path: &str) -> bool {
        self.files.matches(path)
    }

    fn request(&self, conn: ConnectionId, method: &str, path: &str) -> Option<PagePermit> {
        let permit = PagePermit::take(&self.taken, ANSWERS)?;
        let request = Request { conn, method: method.to_owned(), path: path.to_owned() };
        self.requests.try_send(request).is_ok().then_some(permit)
    }
}

fn serve(files: &Files, queue: &Receiver<Request>, shared: &Shared) {
    for Request { conn, method, path } in queue {
        let mut commit = Commit::default();
        files.respond(&method, &path, &mut commit.bytes);
        commit.entries.push(Entry::Respond { conn, at: 0, len: commit.end() });
        shared.hub.post(conn.shard(), commit);
    }
}

//! Kept-alive connections to workspaces, by where they listen. Small on purpose: that is near, so a new
//! connection is cheap, and a stale one costs a retry.
//!
//! Each thread has its own: a connection is woken where it was opened, so that is where it should be
//! used, and then nobody contends for the lock either.

use std::{
    cell::Cell,
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use codehub_upstream::Upstream;

use super::workspace::Wire;
use crate::error::ProxyError;

/// Programs on Node close idle connections after five seconds: be earlier.
const IDLE_FOR: Duration = Duration::from_secs(4);
const IDLE_PER_WORKSPACE: usize = 64;
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// The same for what is reached from inside: the way there may have to be made first.
const DIAL_WITHIN: Duration = Duration::from_secs(10);
/// More threads than this share.
const SHELVES: usize = 16;

struct Idle {
    wire: Box<Wire>,
    since: Instant,
}

type Shelf = HashMap<Upstream, Vec<Idle>>;

#[derive(Default)]
pub(crate) struct Pool {
    shelves: [Arc<Mutex<Shelf>>; SHELVES],
}

/// A connection in use. Dropping it closes the connection.
pub(crate) struct Lease {
    pub(crate) wire: Box<Wire>,
    upstream: Upstream,
    shelf: Arc<Mutex<Shelf>>,
    /// How long it had been idle; `None` for a new one.
    pub(crate) reused_after: Option<Duration>,
}

impl Lease {
    /// The answer has been read whole: others may use the connection, unless it is still busy with a
    /// request that was answered before its end.
    pub(crate) fn give_back(mut self) {
        if self.wire.is_idle() {
            put(&self.shelf, self.upstream, self.wire);
        }
    }
}

fn lock(shelf: &Mutex<Shelf>) -> MutexGuard<'_, Shelf> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}

fn put(shelf: &Mutex<Shelf>, upstream: Upstream, wire: Box<Wire>) {
    let mut shelf = lock(shelf);
    let waiting = shelf.entry(upstream).or_default();
    if waiting.len() < IDLE_PER_WORKSPACE {
        waiting.push(Idle { wire, since: Instant::now() });
    }
}

impl Pool {
    fn shelf(&self) -> &Arc<Mutex<Shelf>> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static THREAD: Cell<usize> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed) % SHELVES));
        &self.shelves[THREAD.get()]
    }

    /// An idle connection, if there is one that is still open. The newest: the others may grow old
    /// and go.
    pub(crate) fn take(&self, upstream: &Upstream) -> Option<Lease> {
        self.take_within(upstream, IDLE_FOR)
    }

    /// One that has been idle for less than this.
    pub(crate) fn take_within(&self, upstream: &Upstream, at_most: Duration) -> Option<Lease> {
        let mine = self.shelf();
        let mut shelf = lock(mine);
        let waiting = shelf.get_mut(upstream)?;
        let now = Instant::now();
        if waiting.last().is_some_and(|newest| (at_most..IDLE_FOR).contains(&(now - newest.since))) {
            return None;
        }
        while let Some(Idle { mut wire, since }) = waiting.pop() {
            let idle = now - since;
            if idle < IDLE_FOR && wire.is_idle() {
                let upstream = upstream.clone();
                return Some(Lease { wire, upstream, shelf: mine.clone(), reused_after: Some(idle) });
            }
        }
        shelf.remove(upstream);
        None
    }

    /// A new connection.
    ///
    /// # Errors
    /// Nothing listens there, or not in time.
    pub(crate) async fn connect(&self, upstream: &Upstream) -> Result<Lease, ProxyError> {
        let within = if upstream.address.is_inside() { DIAL_WITHIN } else { CONNECT_WITHIN };
        let wire = tokio::time::timeout(within, Wire::connect(upstream))
            .await
            .unwrap_or_else(|_| Err(ProxyError::Connect(std::io::ErrorKind::TimedOut.into())))?;
        let upstream = upstream.clone();
        Ok(Lease { wire: Box::new(wire), upstream, shelf: self.shelf().clone(), reused_after: None })
    }

    /// Closes what has been idle for too long. Called from time to time, so that workspaces nobody
    /// visits any more keep no connections.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        for shelf in &self.shelves {
            lock(shelf).retain(|_, waiting| {
                waiting.retain(|idle| now - idle.since < IDLE_FOR);
                !waiting.is_empty()
            });
        }
    }
}

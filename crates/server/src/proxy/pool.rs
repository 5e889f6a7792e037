//! Kept-alive connections to workspaces, by address. Small on purpose: addresses are local, so a new
//! connection is cheap, and a stale one costs a retry.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{body::ToWorkspace, error::ProxyError};

/// Programs on Node close idle connections after five seconds: be earlier.
const IDLE_FOR: Duration = Duration::from_secs(4);
const IDLE_PER_ADDRESS: usize = 64;
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Bounds what one slow reader can hold of a fast workspace, and the size of a response's head.
const BUFFER_BYTES: usize = 64 * 1024;

pub(super) type Sender = SendRequest<ToWorkspace>;

struct Idle {
    sender: Sender,
    since: Instant,
}

#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<HashMap<SocketAddr, Vec<Idle>>>,
}

/// A connection in use. Dropping it closes the connection.
pub struct Lease {
    pub sender: Sender,
    addr: SocketAddr,
    pool: Arc<Pool>,
    /// How long it had been idle; `None` for a new one.
    pub reused_after: Option<Duration>,
}

impl Lease {
    /// The answer has been read whole: others may use the connection.
    pub fn give_back(self) {
        if !self.sender.is_closed() {
            self.pool.put(self.addr, self.sender);
        }
    }
}

impl Pool {
    /// An idle connection, if there is one that is still open.
    pub(super) fn take(self: &Arc<Self>, addr: SocketAddr) -> Option<Lease> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle.get_mut(&addr)?;
        let now = Instant::now();
        waiting.retain(|idle| !idle.sender.is_closed() && now - idle.since < IDLE_FOR);
        // The newest: the others may grow old and go. One that is not ready is still finishing its
        // last exchange.
        let at = waiting.iter().rposition(|idle| idle.sender.is_ready());
        let found = at.map(|at| waiting.swap_remove(at));
        if waiting.is_empty() {
            idle.remove(&addr);
        }
        let Idle { sender, since } = found?;
        Some(Lease { sender, addr, pool: self.clone(), reused_after: Some(now - since) })
    }

    fn put(&self, addr: SocketAddr, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle.entry(addr).or_default();
        if waiting.len() < IDLE_PER_ADDRESS {
            waiting.push(Idle { sender, since: Instant::now() });
        }
    }

    /// A new connection.
    ///
    /// # Errors
    /// Nothing listens there, or not in time.
    pub(super) async fn connect(self: &Arc<Self>, addr: SocketAddr) -> Result<Lease, ProxyError> {
        let stream = match tokio::time::timeout(CONNECT_WITHIN, TcpStream::connect(addr)).await {
            Ok(connected) => connected.map_err(ProxyError::Connect)?,
            Err(_) => return Err(ProxyError::Connect(std::io::ErrorKind::TimedOut.into())),
        };
        stream.set_nodelay(true).map_err(ProxyError::Connect)?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(BUFFER_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(ProxyError::Died)?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::trace!(%error, "a connection to a workspace ended");
            }
        });
        Ok(Lease { sender, addr, pool: self.clone(), reused_after: None })
    }

    /// Closes what has been idle for too long. Called from time to time, so that workspaces nobody
    /// visits any more keep no connections.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, waiting| {
            waiting.retain(|idle| !idle.sender.is_closed() && now - idle.since < IDLE_FOR);
            !waiting.is_empty()
        });
    }
}

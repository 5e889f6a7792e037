//! Who works in which workspace: recorded in memory by the proxy, flushed to the bus.
//!
//! Recording is one relaxed atomic store into a cell that the caller already holds, because it
//! happens for every request and every message. Everything else (times, merging, pruning) is the
//! flusher's business, a few times a minute.
//!
//! Guarantees:
//! - the host's wall clock never decides: ages are measured monotonically and become times by the
//!   database's clock when they are flushed;
//! - nothing is lost while the bus or the database is away: cells keep the latest moment until a
//!   flush has succeeded;
//! - no counter leaves this process, so a crash leaves nothing behind that keeps a workspace awake.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use codehub_domain::{Timestamp, WorkspaceId, activity::ActivityMode};
use tokio_util::sync::CancellationToken;

mod sleep;

#[cfg(test)]
mod tests;

/// A cell nobody uses is dropped this long after its last activity.
const FORGET_AFTER: Duration = Duration::from_secs(3600);

/// Where a process tells what it saw: the database's clock, and the way to the leader.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// The database's clock.
    async fn now(&self) -> anyhow::Result<Timestamp>;
    /// Whether what was told before may be lost; true once per loss.
    async fn forgot(&self) -> anyhow::Result<bool>;
    /// These workspaces were active at these moments. `Ok`: told, and need not be told again.
    async fn add(&self, seen: &[(WorkspaceId, Timestamp)]) -> anyhow::Result<()>;
    /// Everything this process saw until `ago` has been told: while a replica is behind, nobody is put to
    /// sleep.
    async fn flushed(&self, ago: Duration) -> anyhow::Result<()>;
}

/// What somebody did. Kept apart so that the API can say why a workspace is awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivityKind {
    /// An HTTP request, or bytes of its body.
    Http,
    /// A WebSocket was opened (or, where connections count, closed).
    Socket,
    /// Somebody types.
    Typing,
    /// A terminal prints.
    TerminalOutput,
    /// Another message from the browser.
    FromClient,
    /// Another message from the workspace.
    FromWorkspace,
}

impl ActivityKind {
    pub const ALL: [Self; 6] =
        [Self::Http, Self::Socket, Self::Typing, Self::TerminalOutput, Self::FromClient, Self::FromWorkspace];

    /// What the API calls it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Socket => "connection",
            Self::Typing => "typing",
            Self::TerminalOutput => "terminal_output",
            Self::FromClient => "browser_message",
            Self::FromWorkspace => "workspace_message",
        }
    }

    const fn slot(self) -> usize {
        self as usize
    }
}

/// The activity of one workspace. Moments are milliseconds since the process began to record, plus
/// one, so that zero is "never".
#[derive(Debug)]
pub struct Cell {
    epoch: Instant,
    last: [AtomicU64; ActivityKind::ALL.len()],
    flushed: AtomicU64,
    sockets: AtomicU32,
    /// Open connections count, messages do not: the workspace's mode, or the deployment's.
    by_connections: AtomicBool,
}

impl Cell {
    fn new(epoch: Instant, mode: ActivityMode) -> Self {
        Self {
            epoch,
            last: Default::default(),
            flushed: AtomicU64::new(0),
            sockets: AtomicU32::new(0),
            by_connections: AtomicBool::new(mode == ActivityMode::Connections),
        }
    }

    /// From here on this mode is the workspace's, also for what is open already.
    pub fn set_mode(&self, mode: ActivityMode) {
        self.by_connections.store(mode == ActivityMode::Connections, Relaxed);
    }

    fn by_connections(&self) -> bool {
        self.by_connections.load(Relaxed)
    }

    /// Notes that this happened now: at most one atomic store. Not one in the same millisecond, so that threads
    /// which are busy in one workspace do not take the memory from each other all the time.
    pub fn record(&self, kind: ActivityKind) {
        let (last, now) = (&self.last[kind.slot()], millis(self.epoch));
        if last.load(Relaxed) != now {
            last.store(now, Relaxed);
        }
    }

    /// When this kind last happened, as an age.
    pub fn age(&self, kind: ActivityKind) -> Option<Duration> {
        let at = self.last[kind.slot()].load(Relaxed);
        (at != 0).then(|| Duration::from_millis(millis(self.epoch).saturating_sub(at)))
    }

    pub fn open_sockets(&self) -> u32 {
        self.sockets.load(Relaxed)
    }

    fn latest(&self) -> u64 {
        self.last.iter().map(|at| at.load(Relaxed)).max().unwrap_or(0)
    }
}

/// An open WebSocket. Counted while it lives.
#[derive(Debug)]
pub struct OpenSocket {
    cell: Arc<Cell>,
}

impl OpenSocket {
    /// A data message passed. Where open connections count, messages add nothing.
    pub fn message(&self, kind: ActivityKind) {
        if !self.cell.by_connections() {
            self.cell.record(kind);
        }
    }
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.cell.sockets.fetch_sub(1, Relaxed);
        if self.cell.by_connections() {
            // The TTL starts when the last connection closes, not at the last flush before.
            self.cell.record(ActivityKind::Socket);
        }
    }
}

/// The activity of this process. Cheap to clone: a handle.
#[derive(Debug, Clone)]
pub struct Activity(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    epoch: Instant,
    /// What the database's clock said at `epoch`, in microseconds: this host's own guess until the first flush
    /// has asked. Only for showing times; what is flushed asks anew.
    epoch_at: AtomicI64,
    mode: ActivityMode,
    cells: RwLock<HashMap<WorkspaceId, Arc<Cell>>>,
}

impl Activity {
    pub fn new(mode: ActivityMode) -> Self {
        let epoch_at = AtomicI64::new(Timestamp::now().as_microsecond());
        Self(Arc::new(Inner { epoch: Instant::now(), epoch_at, mode, cells: RwLock::default() }))
    }

    pub fn mode(&self) -> ActivityMode {
        self.0.mode
    }

    /// The cell of a workspace; callers keep it, so that recording needs no look-up.
    pub fn cell(&self, id: WorkspaceId) -> Arc<Cell> {
        if let Some(cell) = self.peek(id) {
            return cell;
        }
        let mut cells = self.0.cells.write().unwrap_or_else(PoisonError::into_inner);
        cells.entry(id).or_insert_with(|| Arc::new(Cell::new(self.0.epoch, self.0.mode))).clone()
    }

    /// The cell of a workspace that was active in this process.
    pub fn peek(&self, id: WorkspaceId) -> Option<Arc<Cell>> {
        self.0.cells.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Notes an activity by id, for callers that hold no cell.
    pub fn record(&self, id: WorkspaceId, kind: ActivityKind) {
        self.cell(id).record(kind);
    }

    /// A WebSocket opened: counts as activity, unless a tab reconnected by itself, and is counted
    /// until dropped.
    pub fn open_socket(&self, cell: &Arc<Cell>, reconnection: bool) -> OpenSocket {
        cell.sockets.fetch_add(1, Relaxed);
        if !reconnection {
            cell.record(ActivityKind::Socket);
        }
        OpenSocket { cell: cell.clone() }
    }

    /// Tells the sink about everything since the last successful flush; how many workspaces.
    ///
    /// # Errors
    /// The database or the bus does not answer. Nothing is lost: the next flush tells it.
    pub async fn flush(&self, sink: &dyn Sink) -> anyhow::Result<usize> {
        if sink.forgot().await? {
            tracing::info!("the bus has lost activity it was told; it is told again");
            self.tell_again();
        }
        let pending = self.pending();
        if pending.is_empty() {
            self.prune();
            return Ok(0);
        }
        // Taken before the database is asked: an age can only come out too small, so a moment can
        // only come out too late by the time the answer took. Never too early.
        let asked_at = millis(self.0.epoch);
        let now = sink.now().await?;
        self.0.epoch_at.store(before(now, asked_at).as_microsecond(), Relaxed);
        let seen: Vec<(WorkspaceId, Timestamp)> = pending
            .iter()
            .map(|&(id, _, latest)| (id, before(now, asked_at.saturating_sub(latest))))
            .collect();
        sink.add(&seen).await?;
        for (_, cell, latest) in &pending {
            cell.flushed.fetch_max(*latest, Relaxed);
        }
        let count = pending.len();
        drop(pending);
        self.prune();
        Ok(count)
    }

    /// Nothing counts as told any more.
    fn tell_again(&self) {
        let cells = self.0.cells.read().unwrap_or_else(PoisonError::into_inner);
        for cell in cells.values() {
            cell.flushed.store(0, Relaxed);
        }
    }

    /// What a flush has to tell: the cell and its latest moment.
    fn pending(&self) -> Vec<(WorkspaceId, Arc<Cell>, u64)> {
        let now = millis(self.0.epoch);
        let cells = self.0.cells.read().unwrap_or_else(PoisonError::into_inner);
        let mut pending = Vec::new();
        for (id, cell) in cells.iter() {
            let held_open = cell.by_connections() && cell.open_sockets() > 0;
            let latest = if held_open { now } else { cell.latest() };
            if latest > cell.flushed.load(Relaxed) {
                pending.push((*id, cell.clone(), latest));
            }
        }
        pending
    }

    fn prune(&self) {
        let forget = FORGET_AFTER.as_millis() as u64;
        let now = millis(self.0.epoch);
        let mut cells = self.0.cells.write().unwrap_or_else(PoisonError::into_inner);
        // A cell can only be reached through this map, so one that nobody holds stays unheld while
        // the map is locked.
        cells.retain(|_, cell| {
            let latest = cell.latest();
            let told = latest <= cell.flushed.load(Relaxed);
            let old = latest == 0 || now.saturating_sub(latest) > forget;
            !(told && old) || Arc::strong_count(cell) > 1
        });
    }

    /// Flushes every interval, and once more when `shutdown` is cancelled.
    pub async fn run_flusher(self, interval: Duration, sink: Arc<dyn Sink>, shutdown: CancellationToken) {
        let mut failing = false;
        loop {
            let last = tokio::select! {
                () = tokio::time::sleep(interval) => false,
                () = shutdown.cancelled() => true,
            };
            let begun = Instant::now();
            let flushed = async {
                let count = self.flush(&*sink).await?;
                sink.flushed(begun.elapsed()).await?;
                anyhow::Ok(count)
            };
            match flushed.await {
                Ok(count) => {
                    if failing {
                        tracing::info!(workspaces = count, "activity is flushed again");
                    }
                    failing = false;
                }
                Err(error) => {
                    metrics::counter!("codehub_activity_flush_failures_total").increment(1);
                    if !failing || last {
                        tracing::warn!(%error, "activity could not be flushed; it is kept and tried again");
                    }
                    failing = true;
                }
            }
            if last {
                return;
            }
        }
    }
}

impl Default for Activity {
    fn default() -> Self {
        Self::new(ActivityMode::Traffic)
    }
}

fn millis(epoch: Instant) -> u64 {
    epoch.elapsed().as_millis() as u64 + 1
}

fn before(now: Timestamp, age_millis: u64) -> Timestamp {
    now.checked_sub(jiff::SignedDuration::from_millis(age_millis.min(i64::MAX as u64) as i64)).unwrap_or(now)
}

//! What is known of each workspace, for a couple of seconds.
//!
//! The hot path reads an entry without asking anybody. Entries go stale by time, and at once when
//! the store says that something changed; whoever waits for a workspace (a held navigation, an open
//! WebSocket) subscribes to its entry and is told.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use codehub_domain::{WorkspaceId, change::Change, origins::Origins};
use codehub_upstream::Upstream;
use tokio::sync::{broadcast::error::RecvError, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    activity::{Activity, Cell},
    authorize::Callers,
    error::ProxyError,
    gate::{Gate, Woken, WorkspaceView},
    route::Base,
};

/// How long an entry is believed without news. News normally come at once.
pub const FRESH_FOR: Duration = Duration::from_secs(2);
/// Unused entries are dropped after this.
const FORGET_EVERY: Duration = Duration::from_secs(60);
const RETRY_REFRESH: Duration = Duration::from_millis(500);

/// One workspace's entry.
pub struct Entry {
    pub id: WorkspaceId,
    pub cell: Arc<Cell>,
    pub(super) base: Base,
    /// Told to whoever waits.
    latest: watch::Sender<Latest>,
    /// Grows with every piece of news; a reading that began before is not believed.
    news: AtomicU64,
    /// Grows whenever the address is forgotten.
    moves: AtomicU64,
    freshness: Mutex<Freshness>,
    /// Somebody opens ports of it, so that what its owner said about them is read with the rest.
    ports: AtomicBool,
    /// One reader at a time asks the store; the others wait for what it finds.
    reading: tokio::sync::Mutex<()>,
    /// The last answer to a wake, and when it was given: see `wake`.
    pub(super) woken: tokio::sync::Mutex<Option<(Instant, Woken)>>,
}

/// What somebody who waits for a workspace wants to hear.
#[derive(Clone, Default)]
pub struct Latest {
    /// `None` until read, or when there is no such workspace.
    pub view: Option<Arc<WorkspaceView>>,
    /// Grows when the owner's access changed: a session ended, an account was disabled.
    pub access: u64,
    /// Grows when whoever waits should look at themselves.
    nudges: u64,
}

#[derive(Default)]
struct Freshness {
    until: Option<Instant>,
    upstream: Option<Upstream>,
}

impl Entry {
    fn new(id: WorkspaceId, cell: Arc<Cell>, origins: &Origins) -> Self {
        Self {
            id,
            cell,
            base: Base::of(id, origins),
            latest: watch::Sender::default(),
            news: AtomicU64::new(0),
            moves: AtomicU64::new(0),
            freshness: Mutex::default(),
            ports: AtomicBool::new(false),
            reading: tokio::sync::Mutex::default(),
            woken: tokio::sync::Mutex::default(),
        }
    }

    fn freshness(&self) -> std::sync::MutexGuard<'_, Freshness> {
        self.freshness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Told whenever a newer view was read, or the owner's access changed.
    pub fn subscribe(&self) -> watch::Receiver<Latest> {
        self.latest.subscribe()
    }

    fn fresh(&self) -> Option<Arc<WorkspaceView>> {
        let until = self.freshness().until?;
        if Instant::now() < until { self.latest.borrow().view.clone() } else { None }
    }

    /// What is cached may be wrong: the next reader asks the store.
    pub fn invalidate(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
        *self.freshness() = Freshness::default();
    }

    /// The cached address did not answer: the next reader asks the runtime.
    pub fn forget_upstream(&self) {
        self.moves.fetch_add(1, Ordering::AcqRel);
        self.freshness().upstream = None;
    }

    /// Where it was reached last, if nothing has been heard against that.
    pub fn upstream_hint(&self) -> Option<Upstream> {
        self.freshness().upstream.clone()
    }

    /// Whoever waits should look whether it is their time.
    pub(crate) fn nudge(&self) {
        self.latest.send_modify(|latest| latest.nudges += 1);
    }

    fn somebody_waits(&self) -> bool {
        self.latest.receiver_count() > 0
    }
}

/// All that is known of a workspace, and how to tell that it still holds without taking a lock.
pub(super) struct Fresh {
    pub entry: Arc<Entry>,
    pub view: Arc<WorkspaceView>,
    pub upstream: Upstream,
    until: Instant,
    news: u64,
    moves: u64,
}

impl Fresh {
    pub(super) fn is_current(&self, now: Instant) -> bool {
        now < self.until
            && self.entry.news.load(Ordering::Acquire) == self.news
            && self.entry.moves.load(Ordering::Acquire) == self.moves
    }
}

/// Everything known of the workspaces that somebody asks for.
pub struct Routes {
    gate: Arc<dyn Gate>,
    activity: Activity,
    origins: Origins,
    entries: RwLock<HashMap<WorkspaceId, Arc<Entry>>>,
}

impl Routes {
    /// Knows no workspace yet; asks `gate`, and tells `activity` who is in use.
    pub fn new(gate: Arc<dyn Gate>, activity: Activity, origins: Origins) -> Self {
        Self { gate, activity, origins, entries: RwLock::default() }
    }

    fn get(&self, id: WorkspaceId) -> Option<Arc<Entry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// The entry of a workspace and its view, from the cache when that is fresh. With `ports`, the view tells what the
    /// owner said about them.
    ///
    /// # Errors
    /// There is no such workspace, or the store does not answer.
    pub async fn find(
        &self,
        id: WorkspaceId,
        ports: bool,
    ) -> Result<(Arc<Entry>, Arc<WorkspaceView>), ProxyError> {
        let entry = match self.get(id) {
            Some(entry) => entry,
            None => {
                // In the map before it is read, so that no news are missed in between.
                let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
                let new = || Arc::new(Entry::new(id, self.activity.cell(id), &self.origins));
                entries.entry(id).or_insert_with(new).clone()
            }
        };
        if ports && !entry.ports.swap(true, Ordering::AcqRel) {
            // What was read without them does not count.
            entry.invalidate();
        }
        if let Some(view) = entry.fresh() {
            return Ok((entry, view));
        }
        match Box::pin(self.view(&entry)).await {
            Ok(view) => Ok((entry, view)),
            Err(error) => {
                if matches!(error, ProxyError::NotFound) {
                    // Guessing ids fills nothing.
                    self.entries.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
                }
                Err(error)
            }
        }
    }

    /// What is known of a workspace, where all of it is known.
    pub(super) fn fresh(&self, id: WorkspaceId) -> Option<Fresh> {
        let entry = self.get(id)?;
        // Before what they guard.
        let (news, moves) = (entry.news.load(Ordering::Acquire), entry.moves.load(Ordering::Acquire));
        let (until, upstream) = {
            let freshness = entry.freshness();
            (freshness.until?, freshness.upstream.clone()?)
        };
        let view = entry.latest.borrow().view.clone()?;
        let fresh = Fresh { entry, view, upstream, until, news, moves };
        fresh.is_current(Instant::now()).then_some(fresh)
    }

    /// The current view of an entry.
    ///
    /// # Errors
    /// The workspace does not exist (any more), or the store does not answer.
    pub async fn view(&self, entry: &Entry) -> Result<Arc<WorkspaceView>, ProxyError> {
        if let Some(view) = entry.fresh() {
            return Ok(view);
        }
        let _reading = entry.reading.lock().await;
        if let Some(view) = entry.fresh() {
            return Ok(view);
        }
        self.refresh(entry).await
    }

    /// A view read after this call began, whatever is cached.
    ///
    /// # Errors
    /// As [`Routes::view`].
    pub async fn view_now(&self, entry: &Entry) -> Result<Arc<WorkspaceView>, ProxyError> {
        entry.invalidate();
        self.view(entry).await
    }

    async fn read(&self, entry: &Entry) -> Result<Option<WorkspaceView>, ProxyError> {
        let ports = entry.ports.load(Ordering::Acquire);
        self.gate.workspace(entry.id, ports).await.map_err(|error| ProxyError::Store(error.to_string()))
    }

    async fn refresh(&self, entry: &Entry) -> Result<Arc<WorkspaceView>, ProxyError> {
        let news = entry.news.load(Ordering::Acquire);
        let view = self.read(entry).await?.map(Arc::new);
        if let Some(view) = &view {
            entry.cell.set_mode(view.activity_mode.unwrap_or_else(|| self.activity.mode()));
        }
        let changed = entry.latest.send_if_modified(|latest| {
            let changed = latest.view != view;
            latest.view.clone_from(&view);
            changed
        });
        if changed || entry.upstream_hint().is_some_and(|upstream| upstream.address.port().is_some()) {
            // It may have been stopped and started elsewhere, and somebody else may listen there now. A port may be
            // anybody's once its program is gone, whether the row tells of that or not; a socket is nobody else's.
            entry.forget_upstream();
        }
        if entry.news.load(Ordering::Acquire) == news {
            entry.freshness().until = Some(Instant::now() + FRESH_FOR);
        }
        view.ok_or(ProxyError::NotFound)
    }

    /// Where the workspace listens: a hint that may be out of date.
    ///
    /// # Errors
    /// Nothing listens, or the runtime does not answer.
    pub async fn upstream(&self, entry: &Entry) -> Result<Upstream, ProxyError> {
        if let Some(upstream) = entry.upstream_hint() {
            return Ok(upstream);
        }
        let found = self.gate.upstream(entry.id).await.map_err(|error| {
            tracing::warn!(workspace = %entry.id, %error, "the runtime cannot say where a workspace listens");
            ProxyError::NoUpstream
        })?;
        entry.freshness().upstream.clone_from(&found);
        found.ok_or(ProxyError::NoUpstream)
    }

    fn all(&self) -> Vec<Arc<Entry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Owners have open connections, and others where ports are shared: those are the entries to tell.
    fn access_changed(&self, concerns: impl Fn(&WorkspaceView) -> bool) {
        for entry in self.all() {
            entry.latest.send_if_modified(|latest| {
                let concerned = latest.view.as_deref().is_none_or(&concerns);
                latest.access += u64::from(concerned);
                concerned
            });
        }
    }

    fn forget_unused(&self) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| {
            let stale = entry.freshness().until.is_none_or(|until| until < Instant::now());
            !stale || Arc::strong_count(entry) > 1
        });
    }

    /// Invalidates, and reads again for those who wait.
    fn news(self: &Arc<Self>, entry: Arc<Entry>) {
        entry.invalidate();
        if !entry.somebody_waits() {
            return;
        }
        let routes = self.clone();
        tokio::spawn(async move {
            while let Err(ProxyError::Store(_)) = routes.view(&entry).await {
                tokio::time::sleep(RETRY_REFRESH).await;
                if !entry.somebody_waits() {
                    return;
                }
            }
        });
    }

    /// Follows the store's changes until shut down. Must run for invalidation to be immediate;
    /// without it everything is still right after [`FRESH_FOR`].
    pub async fn follow(self: Arc<Self>, callers: Arc<Callers>, shutdown: CancellationToken) {
        let mut changes = self.gate.changes();
        let mut forget = tokio::time::interval(FORGET_EVERY);
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                _ = forget.tick() => {
                    self.forget_unused();
                    callers.forget_expired();
                    continue;
                }
                () = shutdown.cancelled() => {
                    self.all().iter().for_each(|entry| entry.nudge());
                    return;
                }
            };
            match change {
                Ok(Change::Updated { workspace, .. } | Change::Deleted { workspace, .. }) => {
                    if let Some(entry) = self.get(workspace) {
                        self.news(entry);
                    }
                }
                Ok(Change::Access { user }) => {
                    callers.forget(user);
                    self.access_changed(|view| view.owner == user || view.is_shared());
                }
                Ok(Change::Wake) => {}
                Ok(Change::Resync) | Err(RecvError::Lagged(_)) => {
                    tracing::debug!(
                        "changes of the store may have been missed; forgetting everything cached"
                    );
                    callers.forget_all();
                    self.access_changed(|_| true);
                    for entry in self.all() {
                        self.news(entry);
                    }
                }
                Err(RecvError::Closed) => {
                    changes = self.gate.changes();
                    tokio::time::sleep(RETRY_REFRESH).await;
                }
            }
        }
    }
}

//! What the streams of one user in this process share: each change is read once and written down once,
//! however many streams it goes to.
//!
//! A feed is one task. It alone reads, so what it passes on is in order: an older state never follows a
//! newer one, and nothing about a workspace follows its end. A stream enters with a snapshot that was read
//! after it came, and hears everything since. When the database does not answer, the feed tries again
//! until it does; its streams stay open.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::body::Bytes;
use codehub_domain::{UserId, Workspace, WorkspaceId, user::User};
use codehub_store::{ListFilter, StoreError, bus::Event};
use serde_json::json;
use tokio::{
    sync::{
        broadcast::{self, error::RecvError},
        mpsc, oneshot,
    },
    time::Instant,
};

use super::{super::view::WorkspaceView, text};
use crate::app::App;

/// How far a stream may fall behind before it enters again.
const BACKLOG: usize = 256;
const PAGE: u32 = 500;
const RETRY: Duration = Duration::from_millis(250);

/// One workspace, as it goes out.
#[derive(Debug, Clone)]
pub(super) struct Announced {
    pub(super) id: WorkspaceId,
    pub(super) revision: i64,
    /// The message without its number.
    pub(super) text: Bytes,
}

#[derive(Debug, Clone)]
pub(super) enum News {
    Updated(Announced),
    Deleted(WorkspaceId, Bytes),
}

/// What a stream begins with: everything there is, and what happens from then on.
pub(super) struct Entered {
    pub(super) now: Arc<[Announced]>,
    pub(super) news: broadcast::Receiver<News>,
}

type Asking = mpsc::UnboundedSender<oneshot::Sender<Entered>>;

/// The feeds of this process, by user.
#[derive(Debug, Default, Clone)]
pub(super) struct Feeds(Arc<Mutex<HashMap<UserId, Asking>>>);

impl Feeds {
    /// `None`: the database does not answer.
    pub(super) async fn enter(&self, app: &Arc<App>, user: &User) -> Option<Entered> {
        let (enter, entered) = oneshot::channel();
        {
            let mut feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let asking = feeds.entry(user.id).or_insert_with(|| Feed::start(self, app, user));
            if let Err(mpsc::error::SendError(enter)) = asking.send(enter) {
                // It ended without saying so, which only a panic can do.
                *asking = Feed::start(self, app, user);
                let _ = asking.send(enter);
            }
        }
        entered.await.ok()
    }
}

struct Feed {
    feeds: Feeds,
    app: Arc<App>,
    user: UserId,
    username: String,
    entering: mpsc::UnboundedReceiver<oneshot::Sender<Entered>>,
    news: broadcast::Sender<News>,
    /// The revision that was last passed on.
    known: HashMap<WorkspaceId, i64>,
    /// Something was missed: everything is read again then.
    behind: Option<Instant>,
}

impl Feed {
    fn start(feeds: &Feeds, app: &Arc<App>, user: &User) -> Asking {
        let (asking, entering) = mpsc::unbounded_channel();
        // From now on: what happens before the first reading is in it.
        let events = app.bus().subscribe(user.id);
        let feed = Self {
            feeds: feeds.clone(),
            app: Arc::clone(app),
            user: user.id,
            username: user.username.clone(),
            entering,
            news: broadcast::Sender::new(BACKLOG),
            known: HashMap::new(),
            behind: None,
        };
        tokio::spawn(feed.run(events));
        asking
    }

    async fn run(mut self, mut events: broadcast::Receiver<Event>) {
        let (app, news) = (Arc::clone(&self.app), self.news.clone());
        loop {
            let behind = self.behind;
            tokio::select! {
                biased;
                () = app.shutdown.cancelled() => return,
                Some(enter) = self.entering.recv() => self.enter(enter).await,
                event = events.recv() => match event {
                    Ok(event) => self.heard(event, &mut events).await,
                    Err(RecvError::Lagged(_)) => self.read_again().await,
                    Err(RecvError::Closed) => return,
                },
                () = tokio::time::sleep_until(behind.unwrap_or_else(Instant::now)), if behind.is_some() => {
                    self.read_again().await;
                }
                () = news.closed() => {
                    // Whoever enters does so while holding the lock.
                    let mut feeds = self.feeds.0.lock().unwrap_or_else(PoisonError::into_inner);
                    if self.entering.is_empty() && self.news.receiver_count() == 0 {
                        feeds.remove(&self.user);
                        return;
                    }
                }
            }
        }
    }

    /// One reading for all who wait; it begins after they came.
    async fn enter(&mut self, first: oneshot::Sender<Entered>) {
        let mut waiting = vec![first];
        while let Ok(another) = self.entering.try_recv() {
            waiting.push(another);
        }
        // Dropping them says that it did not work.
        let Some(now) = self.read_all().await else { return };
        let now: Arc<[Announced]> = now.into();
        for enter in waiting {
            let _ = enter.send(Entered { now: Arc::clone(&now), news: self.news.subscribe() });
        }
    }

    /// Together with whatever else is waiting, each workspace once.
    async fn heard(&mut self, first: Event, events: &mut broadcast::Receiver<Event>) {
        let mut updated = BTreeSet::new();
        let mut next = Some(Ok(first));
        while let Some(event) = next {
            match event {
                Ok(Event::Updated { workspace }) => drop(updated.insert(workspace)),
                Ok(Event::Deleted { workspace }) => {
                    updated.remove(&workspace);
                    self.deleted(workspace);
                }
                Ok(Event::Resync) | Err(broadcast::error::TryRecvError::Lagged(_)) => {
                    return self.read_again().await;
                }
                Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed) => break,
            }
            next = Some(events.try_recv());
        }
        if updated.is_empty() {
            return;
        }
        let ids: Vec<WorkspaceId> = updated.iter().copied().collect();
        match self.app.store().workspaces_get(&ids).await {
            Ok(found) => {
                let user = self.user;
                for workspace in found.iter().filter(|found| found.owner == user) {
                    if workspace.deleted_at.is_none() {
                        self.updated(workspace);
                    } else {
                        self.deleted(workspace.id);
                    }
                }
            }
            Err(error) => self.fell_behind(&error),
        }
    }

    async fn read_again(&mut self) {
        let _ = self.read_all().await;
    }

    /// Passes on what is new and what has gone; everything there is.
    async fn read_all(&mut self) -> Option<Vec<Announced>> {
        let workspaces = match self.list().await {
            Ok(workspaces) => workspaces,
            Err(error) => {
                self.fell_behind(&error);
                return None;
            }
        };
        self.behind = None;
        let gone: BTreeSet<WorkspaceId> = self.known.keys().copied().collect();
        let there: BTreeSet<WorkspaceId> = workspaces.iter().map(|workspace| workspace.id).collect();
        for id in gone.difference(&there) {
            self.deleted(*id);
        }
        Some(workspaces.iter().map(|workspace| self.updated(workspace)).collect())
    }

    async fn list(&self) -> Result<Vec<Workspace>, StoreError> {
        let mut all = Vec::new();
        let mut filter = ListFilter { owner: Some(self.user), limit: PAGE, ..ListFilter::default() };
        loop {
            let page = self.app.store().workspace_list(&filter).await?;
            filter.before = page.items.last().map(|last| last.id);
            all.extend(page.items);
            if !page.more || filter.before.is_none() {
                return Ok(all);
            }
        }
    }

    fn updated(&mut self, workspace: &Workspace) -> Announced {
        let view = WorkspaceView::of(workspace, &self.username, &self.app);
        let told = Announced {
            id: workspace.id,
            revision: workspace.revision,
            text: text("workspace_updated", &view),
        };
        let known = self.known.insert(told.id, told.revision);
        if known.is_none_or(|known| known < told.revision) {
            // Nobody listening is fine.
            let _ = self.news.send(News::Updated(told.clone()));
        }
        told
    }

    fn deleted(&mut self, id: WorkspaceId) {
        self.known.remove(&id);
        let _ = self.news.send(News::Deleted(id, deleted(id)));
    }

    fn fell_behind(&mut self, error: &StoreError) {
        tracing::debug!(user = %self.user, %error, "event streams are behind; reading again");
        self.behind = Some(Instant::now() + RETRY);
    }
}

/// That it is gone, as it goes out.
pub(super) fn deleted(id: WorkspaceId) -> Bytes {
    text("workspace_deleted", &json!({ "id": id }))
}

//! The event stream: first the user's workspaces as they are, then every change.
//!
//! Guarantees: one user never sees another's; an older state never follows a newer one; nothing about a
//! workspace follows its `workspace_deleted`. Events on the bus carry ids only, the row is read here:
//! a reader that missed something reads it all again and is whole.
//!
//! A client that does not read is let go: at most [`BUFFER`] messages wait for it, and when one cannot
//! be handed over for [`PATIENCE`] its connection is closed. It reconnects and gets a snapshot.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use codehub_adapters::{
    bus::Event,
    store::{ListFilter, StoreError},
};
use codehub_domain::{Workspace, WorkspaceId};
use futures::StreamExt as _;
use http::{
    HeaderMap, HeaderName,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use serde::Serialize;
use serde_json::json;
use tokio::{
    sync::{broadcast::error::RecvError, mpsc},
    time::{Instant, MissedTickBehavior, sleep_until},
};
use tokio_stream::wrappers::ReceiverStream;
use utoipa::OpenApi;

use super::{
    error::{ErrorBody, Result},
    extract::CurrentUser,
    view::WorkspaceView,
};
use crate::{
    app::App,
    auth::{self, Identity},
    serve::ConnectionHandle,
};

const BUFFER: usize = 64;
const PATIENCE: Duration = Duration::from_secs(15);
/// After this long the stream ends and the client comes again, so that a session or token that ran out
/// does not live on in a stream.
const LONGEST: Duration = Duration::from_secs(3600);
const PAGE: u32 = 200;

#[derive(OpenApi)]
#[openapi(paths(stream))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/events", get(stream))
}

/// Events
///
/// `text/event-stream`: one `workspace_updated` (the whole workspace) per workspace of one's own, then
/// `workspace_updated`, `workspace_deleted` (`{"id"}`) and `heartbeat` (`{}`) as they happen.
#[utoipa::path(get, path = "/events", tag = "events", responses(
    (status = 200, description = "The stream", body = String, content_type = "text/event-stream"),
    (status = 401, description = "UNAUTHORIZED", body = ErrorBody),
))]
async fn stream(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    headers: HeaderMap,
    connection: Option<Extension<ConnectionHandle>>,
) -> Result<Response> {
    let (sender, receiver) = mpsc::channel(BUFFER);
    let writer = Writer { sender, next_id: 0, connection: connection.map(|Extension(handle)| handle) };
    let reader = Stream { app, me, headers, writer, known: HashMap::new() };
    tokio::spawn(reader.run());
    let body = Body::from_stream(ReceiverStream::new(receiver).map(Ok::<_, std::convert::Infallible>));
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        // Reverse proxies that buffer would hold events back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, body).into_response())
}

/// Why a stream ends.
enum End {
    /// The client has gone, or does not read.
    Client,
    Store(StoreError),
}

impl From<StoreError> for End {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What the client was last told of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Revision(i64),
    Deleted,
}

struct Stream {
    app: Arc<App>,
    me: Identity,
    headers: HeaderMap,
    writer: Writer,
    known: HashMap<WorkspaceId, Known>,
}

impl Stream {
    async fn run(mut self) {
        let user = self.me.user.id;
        match self.follow().await {
            Ok(()) => tracing::debug!(%user, "an event stream ended"),
            Err(End::Client) => tracing::debug!(%user, "an event stream's client has gone"),
            Err(End::Store(error)) => {
                tracing::warn!(%user, %error, "an event stream ends: its client will come again");
            }
        }
    }

    async fn follow(&mut self) -> std::result::Result<(), End> {
        let app = Arc::clone(&self.app);
        let user = self.me.user.id;
        // Subscribed before the snapshot is read: what happens in between is told.
        let mut events = app.bus().subscribe(user);
        let mut access = app.access_changed.subscribe();
        self.snapshot().await?;
        let mut heartbeat = tokio::time::interval(app.config.sse_heartbeat);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        let end = Instant::now() + LONGEST;
        loop {
            tokio::select! {
                () = app.shutdown.cancelled() => return Ok(()),
                () = self.writer.sender.closed() => return Err(End::Client),
                () = sleep_until(end) => return Ok(()),
                _ = heartbeat.tick() => self.writer.send("heartbeat", &json!({})).await?,
                changed = access.recv() => {
                    let mine = !matches!(changed, Ok(Some(other)) if other != user);
                    if mine && auth::identify(&app, &self.headers).await.is_err() {
                        return Ok(());
                    }
                }
                event = events.recv() => match event {
                    Ok(Event::Updated { workspace }) => self.updated(workspace).await?,
                    Ok(Event::Deleted { workspace }) => self.deleted(workspace).await?,
                    Ok(Event::Resync) | Err(RecvError::Lagged(_)) => self.snapshot().await?,
                    Err(RecvError::Closed) => return Ok(()),
                },
            }
        }
    }

    /// Tells everything that is not known yet, and what has gone since.
    async fn snapshot(&mut self) -> std::result::Result<(), End> {
        let mut gone: Vec<WorkspaceId> = self.known.keys().copied().collect();
        let mut before = None;
        loop {
            let filter =
                ListFilter { owner: Some(self.me.user.id), before, limit: PAGE, ..ListFilter::default() };
            let page = self.app.store().workspace_list(&filter).await?;
            before = page.items.last().map(|last| last.id);
            for workspace in &page.items {
                gone.retain(|id| *id != workspace.id);
                self.tell(workspace).await?;
            }
            if !page.more || before.is_none() {
                break;
            }
        }
        for id in gone {
            self.deleted(id).await?;
        }
        Ok(())
    }

    /// The row says what is new; [`Stream::tell`] knows what the client has seen of it.
    async fn updated(&mut self, id: WorkspaceId) -> std::result::Result<(), End> {
        if self.known.get(&id) == Some(&Known::Deleted) {
            return Ok(());
        }
        match self.app.store().workspace_get(id).await? {
            Some(workspace) if workspace.owner != self.me.user.id => Ok(()),
            Some(workspace) if workspace.deleted_at.is_none() => self.tell(&workspace).await,
            Some(_) | None => self.deleted(id).await,
        }
    }

    async fn tell(&mut self, workspace: &Workspace) -> std::result::Result<(), End> {
        let news = match self.known.get(&workspace.id) {
            Some(Known::Deleted) => false,
            Some(Known::Revision(known)) => workspace.revision > *known,
            None => true,
        };
        if !news {
            return Ok(());
        }
        self.known.insert(workspace.id, Known::Revision(workspace.revision));
        let view = WorkspaceView::of(workspace, &self.me.user.username, &self.app.config);
        self.writer.send("workspace_updated", &view).await
    }

    async fn deleted(&mut self, id: WorkspaceId) -> std::result::Result<(), End> {
        if self.known.insert(id, Known::Deleted) == Some(Known::Deleted) {
            return Ok(());
        }
        self.writer.send("workspace_deleted", &json!({ "id": id })).await
    }
}

/// Numbers the messages and hands them over.
struct Writer {
    sender: mpsc::Sender<Bytes>,
    next_id: u64,
    connection: Option<ConnectionHandle>,
}

impl Writer {
    async fn send(&mut self, event: &str, data: &impl Serialize) -> std::result::Result<(), End> {
        self.next_id += 1;
        let message = message(self.next_id, event, data);
        match self.sender.send_timeout(message, PATIENCE).await {
            Ok(()) => Ok(()),
            Err(_) => {
                // What is half written to a client that does not read cannot be ended politely.
                if let Some(connection) = &self.connection
                    && !self.sender.is_closed()
                {
                    connection.close();
                }
                Err(End::Client)
            }
        }
    }
}

/// JSON has no line breaks of its own, so a message is always these three lines.
fn message(id: u64, event: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_else(|_| "{}".into());
    Bytes::from(format!("id: {id}\nevent: {event}\ndata: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_three_lines() {
        let text = message(7, "workspace_deleted", &json!({ "id": "a\nb" }));
        assert_eq!(&text[..], b"id: 7\nevent: workspace_deleted\ndata: {\"id\":\"a\\nb\"}\n\n");
    }
}

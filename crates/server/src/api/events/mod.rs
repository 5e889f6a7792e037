//! The event stream: first the user's workspaces as they are, then every change.
//!
//! Guarantees: one user never sees another's; an older state never follows a newer one; nothing about a
//! workspace follows its `workspace_deleted`. Events on the bus carry ids only; the rows are read by a
//! [`feed`] that all streams of a user share. A stream that missed something enters it again and is whole.
//!
//! A client that does not read is let go: at most [`BUFFER`] messages wait for it, and when one cannot
//! be handed over for [`PATIENCE`] its connection is closed. It reconnects and gets a snapshot.
//!
//! A stream may watch one workspace, whose ports it tells of, too: they are looked at only while somebody does.

mod feed;

use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use codehub_domain::{WorkspaceId, user::User};
use futures::{StreamExt as _, stream};
use http::{
    HeaderName,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::{
    sync::{
        broadcast::{self, error::RecvError},
        mpsc,
    },
    time::{Instant, MissedTickBehavior, sleep_until},
};
use tokio_stream::wrappers::ReceiverStream;
use utoipa::OpenApi;

use self::feed::{Announced, Feeds, News};
use super::{
    error::{ApiError, ErrorBody, Result},
    extract,
    ports::{PortView, may_list_ports},
    revalidated::Revalidated,
};
use codehub_proxy::front::ConnectionHandle;

use crate::{
    app::App,
    service::{self, Access, ports::Followed},
};

const BUFFER: usize = 64;
const PATIENCE: Duration = Duration::from_secs(15);
/// After this long the stream ends and the client comes again: a page that is open keeps its session alive.
const LONGEST: Duration = Duration::from_secs(3600);

#[derive(OpenApi)]
#[openapi(paths(follow))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/events", get(follow)).layer(Extension(Feeds::default()))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// The id of a workspace of one's own: `ports_changed` tells of its ports, too.
    watch: Option<String>,
}

/// Events
///
/// `text/event-stream`: one `workspace_updated` (the whole workspace) per workspace of one's own, then
/// `workspace_updated`, `workspace_deleted` (`{"id"}`) and `heartbeat` (`{}`) as they happen. With `watch`, also
/// `ports_changed` (`{"id", "items"}`, the items as those of `…/ports`): once at the beginning, then within 2 seconds of
/// a change. A watched workspace is looked into every 2 seconds, which is no activity.
#[utoipa::path(get, path = "/events", tag = "events", params(EventsQuery), responses(
    (status = 200, description = "The stream", body = String, content_type = "text/event-stream"),
    (status = 400, description = "INVALID_REQUEST: an unknown parameter, or an id that is none", body = ErrorBody),
    (status = 401, description = "UNAUTHORIZED", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: somebody else's workspace is to be watched, or ports are switched off", body = ErrorBody),
    (status = 404, description = "NOT_FOUND: the workspace to watch", body = ErrorBody),
))]
async fn follow(
    State(app): State<Arc<App>>,
    Extension(feeds): Extension<Feeds>,
    revalidated: Revalidated,
    connection: Option<Extension<ConnectionHandle>>,
    extract::Params(query): extract::Params<EventsQuery>,
) -> Result<Response> {
    let watched = match &query.watch {
        None => None,
        Some(id) => {
            let id = id.parse().map_err(|_| ApiError::invalid("watch", "must be the id of a workspace"))?;
            service::find(&app, &revalidated.me.user, id, Access::Own).await?;
            may_list_ports(&app)?;
            let mut ports = service::ports::follow(&app, id);
            // What is known already is news to this stream.
            ports.mark_changed();
            Some((id, ports))
        }
    };
    let (sender, receiver) = mpsc::channel(BUFFER);
    let writer = Writer { sender, next_id: 0, connection: connection.map(|Extension(handle)| handle) };
    let me = revalidated.me.user.clone();
    let reader = Stream { me, app, feeds, writer, known: HashMap::new(), watched };
    tokio::spawn(reader.run(revalidated));
    let chunks = ReceiverStream::new(receiver).flat_map(stream::iter);
    let body = Body::from_stream(chunks.map(Ok::<_, std::convert::Infallible>));
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        // Reverse proxies that buffer would hold events back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, body).into_response())
}

/// Why a stream ends before its time. Its client comes again.
enum End {
    /// The client has gone, or does not read.
    Client,
    /// There was no snapshot to be had.
    Database,
}

/// What the client was last told of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastSent {
    Revision(i64),
    Deleted,
}

struct Stream {
    app: Arc<App>,
    feeds: Feeds,
    me: User,
    writer: Writer,
    known: HashMap<WorkspaceId, LastSent>,
    /// The workspace whose ports it tells of.
    watched: Option<(WorkspaceId, Followed)>,
}

impl Stream {
    async fn run(mut self, revalidated: Revalidated) {
        let user = self.me.id;
        match self.follow(revalidated).await {
            Ok(()) => tracing::debug!(%user, "an event stream ended"),
            Err(End::Client) => tracing::debug!(%user, "an event stream's client has gone"),
            Err(End::Database) => {
                tracing::warn!(%user, "an event stream ends because the database does not answer");
            }
        }
    }

    async fn follow(&mut self, revalidated: Revalidated) -> std::result::Result<(), End> {
        let app = Arc::clone(&self.app);
        let mut not_allowed = pin!(revalidated.ended(Arc::clone(&app), None));
        let mut news = self.enter().await?;
        let mut heartbeat = tokio::time::interval(app.config.sse_heartbeat);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        let end = Instant::now() + LONGEST;
        loop {
            tokio::select! {
                () = app.shutdown.cancelled() => return Ok(()),
                () = self.writer.sender.closed() => return Err(End::Client),
                () = sleep_until(end) => return Ok(()),
                _ = heartbeat.tick() => self.writer.send(Bytes::from_static(HEARTBEAT)).await?,
                () = &mut not_allowed => return Ok(()),
                heard = news.recv() => match heard {
                    Ok(News::Updated(told)) => self.tell(&told).await?,
                    Ok(News::Deleted(id, text)) => self.deleted(id, text).await?,
                    Err(RecvError::Lagged(_)) => news = self.enter().await?,
                    Err(RecvError::Closed) => return Ok(()),
                },
                true = changed(&mut self.watched) => self.tell_ports().await?,
            }
        }
    }

    async fn tell_ports(&mut self) -> std::result::Result<(), End> {
        let Some((id, ports)) = &mut self.watched else { return Ok(()) };
        let Some((listening, said)) = ports.borrow_and_update().clone() else { return Ok(()) };
        let listening = listening.said().cloned().unwrap_or_default();
        let ports = service::ports::merged(&self.app, *id, listening, &said);
        let items: Vec<PortView> = ports.into_iter().map(Into::into).collect();
        self.writer.send(text("ports_changed", &json!({ "id": id, "items": items }))).await
    }

    /// Tells everything that is not known yet, and what has gone since.
    async fn enter(&mut self) -> std::result::Result<broadcast::Receiver<News>, End> {
        let entered = self.feeds.enter(&self.app, &self.me).await.ok_or(End::Database)?;
        let mut gone = self.known.clone();
        for told in entered.now.iter() {
            gone.remove(&told.id);
            self.tell(told).await?;
        }
        for id in gone.into_keys() {
            self.deleted(id, feed::deleted(id)).await?;
        }
        Ok(entered.news)
    }

    async fn tell(&mut self, told: &Announced) -> std::result::Result<(), End> {
        let news = match self.known.get(&told.id) {
            Some(LastSent::Deleted) => false,
            Some(LastSent::Revision(known)) => told.revision > *known,
            None => true,
        };
        if !news {
            return Ok(());
        }
        self.known.insert(told.id, LastSent::Revision(told.revision));
        self.writer.send(told.text.clone()).await
    }

    async fn deleted(&mut self, id: WorkspaceId, text: Bytes) -> std::result::Result<(), End> {
        if self.known.insert(id, LastSent::Deleted) == Some(LastSent::Deleted) {
            return Ok(());
        }
        self.writer.send(text).await
    }
}

/// Resolves when there is news of ports, and never where none are watched.
async fn changed(watched: &mut Option<(WorkspaceId, Followed)>) -> bool {
    if let Some((_, ports)) = watched
        && ports.changed().await.is_ok()
    {
        return true;
    }
    // None are, or the server is shutting down.
    std::future::pending().await
}

const HEARTBEAT: &[u8] = b"event: heartbeat\ndata: {}\n\n";

/// Numbers the messages and hands them over.
struct Writer {
    sender: mpsc::Sender<[Bytes; 2]>,
    next_id: u64,
    connection: Option<ConnectionHandle>,
}

impl Writer {
    async fn send(&mut self, text: Bytes) -> std::result::Result<(), End> {
        self.next_id += 1;
        let number = Bytes::from(format!("id: {}\n", self.next_id));
        match self.sender.send_timeout([number, text], PATIENCE).await {
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

/// JSON has no line breaks of its own, so a message is always its number and these two lines.
fn text(event: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_else(|_| "{}".into());
    Bytes::from(format!("event: {event}\ndata: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_is_two_lines() {
        let text = text("workspace_deleted", &json!({ "id": "a\nb" }));
        assert_eq!(&text[..], b"event: workspace_deleted\ndata: {\"id\":\"a\\nb\"}\n\n");
    }
}

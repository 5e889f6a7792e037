//! WebSockets and other upgrades: the handshake passes through, then bytes are relayed until either
//! side ends, the workspace stops, or the server shuts down.

use std::{
    future::poll_fn,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use bytes::Bytes;
use codehub_upstream::Connection;
use futures::future::Either;
use http::{HeaderValue, Response, StatusCode, Version, header};
use tokio::{
    sync::watch,
    time::{timeout, timeout_at},
};

use crate::{
    Proxy,
    activity::ActivityKind,
    authorize::Pass,
    error::ProxyError,
    forward::Answer,
    front::Takeover,
    http1::body::ProxyBody,
    idle::Watch,
    policy::{self, location::Mount},
    polled_when_woken::PolledWhenWoken,
    routes::{Entry, Latest},
    tls::ClientStream,
};

pub(crate) mod deadlines;
pub(crate) mod frames;
mod relay;

use frames::close_frame;
use relay::{Event, Ledger, Relay};

/// "Going away": what a client hears when the workspace stops or the server shuts down.
const GOING_AWAY: u16 = 1001;
/// "Policy violation": whoever opened this may not any more.
const NOT_ALLOWED: u16 = 1008;
/// How long a frame that is under way may take to end before the connection is cut without a word.
const LAST_FRAME: Duration = Duration::from_secs(2);
/// How long the good-bye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// Why we end a connection ourselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Stopped,
    Shutdown,
    SignedOut,
    /// Signed in as ever, but not let in any more.
    NotAdmitted,
}

impl Ending {
    fn code(self) -> u16 {
        match self {
            Self::Stopped | Self::Shutdown => GOING_AWAY,
            Self::SignedOut | Self::NotAdmitted => NOT_ALLOWED,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Stopped => "the workspace stopped",
            Self::Shutdown => "the server is shutting down",
            Self::SignedOut => "signed out",
            Self::NotAdmitted => "not shared any more",
        }
    }
}

/// The browser's side of an upgrade, and what let it in.
pub(super) struct Client {
    pub(super) pass: Pass,
    /// What the rules of the IDE make of its messages.
    pub(super) watch: Option<Box<Watch>>,
    /// Nobody asked for it: the tab lost its connection and wants it back.
    pub(super) reconnection: bool,
    /// What passes is work, as far as the rules say. Not at ports: their pages are told what to load anew.
    pub(super) counts: bool,
}

/// Whether the workspace agreed to switch protocols.
pub(super) fn agreed(answer: &Answer) -> bool {
    answer.response.status() == StatusCode::SWITCHING_PROTOCOLS
}

/// Answers 101 and relays from then on.
pub(super) fn switch(
    proxy: &Arc<Proxy>,
    entry: &Arc<Entry>,
    answer: Answer,
    client: Client,
    place: &Mount<'_>,
) -> Result<Response<ProxyBody>, ProxyError> {
    let protocol = answer
        .response
        .headers()
        .get(header::UPGRADE)
        .cloned()
        .ok_or_else(|| ProxyError::BadResponse("101 without saying to which protocol".into()))?;
    let websocket = protocol.as_bytes().eq_ignore_ascii_case(b"websocket");
    let wire = answer.lease.wire;

    let (mut parts, ()) = answer.response.into_parts();
    parts.headers = policy::clean_response(&parts.headers, *place);
    parts.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    parts.headers.insert(header::UPGRADE, protocol);
    parts.version = Version::HTTP_11;
    parts.extensions = http::Extensions::new();

    let socket = client.counts.then(|| proxy.activity.open_socket(&entry.cell, client.reconnection));
    // From here on nothing is missed that would end the connection.
    let (proxy, news) = (proxy.clone(), News::of(entry.clone(), client.pass));
    let takeover = Takeover::new(move |browser: ClientStream, client_said: Bytes| {
        let (workspace, workspace_said) = wire.into_stream();
        let ledger = socket.map(|socket| Ledger { socket, watch: client.watch });
        let relay = Relay::new(browser, workspace, websocket, ledger).after(&client_said, &workspace_said);
        let tracker = proxy.relays.clone();
        tracker.spawn(run(proxy, news, relay));
    });
    parts.extensions.insert(takeover);
    Ok(Response::from_parts(parts, ProxyBody::Empty))
}

/// A relay between a client and a workspace.
type Both = Relay<ClientStream, Connection>;

#[expect(
    clippy::manual_async_fn,
    reason = "an async fn holds its arguments twice, and there are thousands of these"
)]
fn run(proxy: Arc<Proxy>, mut news: News, mut relay: Both) -> impl Future<Output = ()> + Send {
    async move {
        let _open = proxy.metrics.websocket();
        if let Some(ending) = until_it_ends(&proxy, &mut news, &mut relay).await {
            Box::pin(goodbye(&mut relay, ending)).await;
        }
    }
}

/// Relays until either side ends, or we end it ourselves: then for that reason.
async fn until_it_ends(proxy: &Proxy, news: &mut News, relay: &mut Both) -> Option<Ending> {
    let entry = news.entry.clone();
    let mut news = PolledWhenWoken::new(news.ends(proxy));
    loop {
        let event = poll_fn(|cx| match relay.poll_event(cx) {
            Poll::Ready(event) => Poll::Ready(Either::Left(event)),
            Poll::Pending => news.poll(cx).map(Either::Right),
        });
        let event = match event.await {
            Either::Left(event) => event,
            Either::Right(ending) => return Some(ending),
        };
        match event {
            Ok(Event::WorkspaceGone) => {
                if Box::pin(stops(proxy, &entry)).await {
                    return Some(Ending::Stopped);
                }
                relay.pass_end();
            }
            Ok(Event::Done) => return None,
            Err(error) => {
                tracing::trace!(workspace = %entry.id, %error, "a relay ended");
                return None;
            }
        }
    }
}

/// Whether a workspace that ended a connection does so because it stops. The wish to stop is written before anything
/// is stopped, so this look is in time.
async fn stops(proxy: &Proxy, entry: &Entry) -> bool {
    proxy.routes.view_now(entry).await.map_or_else(
        |error| matches!(error, ProxyError::NotFound),
        |view| view.stopping() || view.desired != codehub_domain::Desired::Running,
    )
}

/// What is heard about the workspace while a connection lasts.
struct News {
    entry: Arc<Entry>,
    latest: watch::Receiver<Latest>,
    /// `None`: nobody has looked since the handshake began, which may have taken its time.
    access: Option<u64>,
    pass: Pass,
}

impl News {
    fn of(entry: Arc<Entry>, pass: Pass) -> Self {
        let latest = entry.subscribe();
        Self { entry, latest, access: None, pass }
    }

    /// Resolves when this connection must end.
    async fn ends(&mut self, proxy: &Proxy) -> Ending {
        let entry = self.entry.clone();
        let last_work = || {
            [ActivityKind::Typing, ActivityKind::FromClient]
                .into_iter()
                .filter_map(|kind| entry.cell.age(kind))
                .min()
        };
        let mut reminded = None;
        loop {
            // Shutting down nudges, too.
            if proxy.shutdown.is_cancelled() {
                return Ending::Shutdown;
            }
            let access = {
                let latest = self.latest.borrow_and_update();
                let Some(view) = latest.view.as_ref().filter(|view| !view.stopping()) else {
                    return Ending::Stopped;
                };
                if !proxy.callers.still_admits(view, &self.pass) {
                    return Ending::NotAdmitted;
                }
                latest.access
            };
            if self.pass.is_due(Instant::now(), last_work) || Some(access) != self.access {
                self.access = Some(access);
                if !Box::pin(proxy.callers.still_valid(&mut self.pass)).await {
                    return Ending::SignedOut;
                }
            }
            let next = self.pass.look_at();
            if next != reminded
                && let Some(at) = next
            {
                proxy.deadlines.remind(&self.entry, at);
            }
            reminded = next;
            if self.latest.changed().await.is_err() {
                return Ending::Stopped;
            }
        }
    }
}

async fn goodbye(relay: &mut Both, ending: Ending) {
    let to_client = close_frame(ending.code(), ending.reason(), false);
    let to_workspace = close_frame(ending.code(), ending.reason(), true);
    let cut_at = tokio::time::Instant::now() + LAST_FRAME;
    // Frames under way are let through to their end: the good-bye goes between frames.
    let told = timeout_at(cut_at, async {
        while !relay.say_goodbye(&to_client, &to_workspace) {
            let ended = poll_fn(|cx| {
                let event = relay.poll_event(cx);
                if relay.say_goodbye(&to_client, &to_workspace) {
                    return Poll::Ready(false);
                }
                event.map(|event| !matches!(event, Ok(Event::WorkspaceGone)))
            })
            .await;
            if ended {
                return;
            }
        }
    });
    let _ = told.await;
    let _ = timeout(GOODBYE, poll_fn(|cx| relay.poll_linger(cx))).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, B, C, F: Future>(_: impl FnOnce(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    /// There are thousands of idle ones.
    #[test]
    fn an_idle_relay_is_small() {
        let (task, held) = (size_of_future(run), size_of::<Both>() + size_of::<News>());
        assert!(task <= held + 256, "{task} bytes for {held}");
    }
}

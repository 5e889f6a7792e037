//! WebSockets and other upgrades: the handshake passes through, then bytes are relayed until either
//! side ends, the workspace stops, or the server shuts down.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use futures::future::Either;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::{rt::TokioIo, server::conn::auto};
use tokio::{
    sync::watch,
    time::{Instant, timeout, timeout_at},
};

use super::{
    Proxy,
    authorize::Pass,
    body::ProxyBody,
    error::ProxyError,
    forward::Answer,
    frames::close_frame,
    framing::Accepted,
    headers,
    location::Place,
    relay::{Event, Ledger, Relay},
    routes::{Entry, Latest},
};
use crate::{activity::Kind, idle::Watch, rarely::Rarely};

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
}

impl Ending {
    fn code(self) -> u16 {
        match self {
            Self::Stopped | Self::Shutdown => GOING_AWAY,
            Self::SignedOut => NOT_ALLOWED,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Stopped => "the workspace stopped",
            Self::Shutdown => "the server is shutting down",
            Self::SignedOut => "signed out",
        }
    }
}

/// The browser's side of an upgrade, and what let it in.
pub(super) struct Client {
    pub(super) upgraded: OnUpgrade,
    pub(super) pass: Pass,
    /// What the rules of the IDE make of its messages.
    pub(super) watch: Option<Box<Watch>>,
    /// Nobody asked for it: the tab lost its connection and wants it back.
    pub(super) reconnection: bool,
}

/// Asks for the upgrade on this hop too.
pub(super) fn request_headers(headers: &mut HeaderMap, protocol: HeaderValue, withhold_compression: bool) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocol);
    if withhold_compression {
        headers.remove(header::SEC_WEBSOCKET_EXTENSIONS);
    }
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
    place: &Place<'_>,
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
    headers::clean_response(&mut parts.headers, place);
    parts.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    parts.headers.insert(header::UPGRADE, protocol);
    parts.version = Version::HTTP_11;
    parts.extensions = http::Extensions::new();

    let socket = proxy.activity.open_socket(&entry.cell, client.reconnection);
    // From here on nothing is missed that would end the connection.
    let news = News::of(entry);
    let (proxy, entry) = (proxy.clone(), entry.clone());
    let tracker = proxy.relays.clone();
    tracker.spawn(async move {
        let _open = proxy.metrics.websocket();
        // Both sides switch, or neither is kept.
        let Client { upgraded, pass, watch, .. } = client;
        let browser = match upgraded.await {
            Ok(browser) => browser,
            Err(error) => {
                tracing::debug!(workspace = %entry.id, %error, "an upgrade was not completed");
                return;
            }
        };
        let (workspace, early) = wire.into_stream();
        let ledger = Ledger { socket, watch };
        // The bare connection, wherever it is one that we accepted ourselves.
        match auto::upgrade::downcast::<TokioIo<Accepted>>(browser) {
            Ok(parts) => {
                let browser = parts.io.into_inner().into_inner().0;
                let relay = Relay::new(browser, workspace, websocket, ledger).after(&parts.read_buf, &early);
                drop((parts.read_buf, early));
                run(&proxy, &entry, pass, news, relay).await;
            }
            Err(browser) => {
                let relay =
                    Relay::new(TokioIo::new(browser), workspace, websocket, ledger).after(&[], &early);
                drop(early);
                Box::pin(run(&proxy, &entry, pass, news, relay)).await;
            }
        }
    });
    Ok(Response::from_parts(parts, ProxyBody::Empty))
}

async fn run<C, W>(proxy: &Proxy, entry: &Entry, mut pass: Pass, mut news: News, mut relay: Relay<C, W>)
where
    C: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    W: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut news = Rarely::new(async { news.ends(proxy, entry, &mut pass).await });
    let ending = loop {
        let event = poll_fn(|cx| match relay.poll_event(cx) {
            Poll::Ready(event) => Poll::Ready(Either::Left(event)),
            Poll::Pending => news.poll(cx).map(Either::Right),
        });
        let event = match event.await {
            Either::Left(event) => event,
            Either::Right(ending) => break ending,
        };
        match event {
            Ok(Event::WorkspaceGone) => {
                // The wish to stop is written before anything is stopped, so this look is in time.
                let stops = proxy.routes.view_now(entry).await.map_or_else(
                    |error| matches!(error, ProxyError::NotFound),
                    |view| view.stopping() || view.desired != codehub_domain::Desired::Running,
                );
                if stops {
                    break Ending::Stopped;
                }
                relay.pass_end();
            }
            Ok(Event::Done) => return,
            Err(error) => {
                tracing::trace!(workspace = %entry.id, %error, "a relay ended");
                return;
            }
        }
    };
    goodbye(relay, ending).await;
}

/// What is heard about the workspace while a connection lasts.
struct News {
    latest: watch::Receiver<Latest>,
    access: u64,
}

impl News {
    fn of(entry: &Entry) -> Self {
        let latest = entry.subscribe();
        let access = latest.borrow().access;
        Self { latest, access }
    }

    /// Resolves when this connection must end.
    async fn ends(&mut self, proxy: &Proxy, entry: &Entry, pass: &mut Pass) -> Ending {
        tokio::select! {
            ending = self.decided(proxy, entry, pass) => ending,
            () = proxy.shutdown.cancelled() => Ending::Shutdown,
        }
    }

    async fn decided(&mut self, proxy: &Proxy, entry: &Entry, pass: &mut Pass) -> Ending {
        let last_work =
            || [Kind::Typing, Kind::FromClient].into_iter().filter_map(|kind| entry.cell.age(kind)).min();
        let mut ran_out = false;
        loop {
            let Latest { view, access } = self.latest.borrow_and_update().clone();
            if view.is_none_or(|view| view.stopping()) {
                return Ending::Stopped;
            }
            if access != self.access || ran_out {
                if !proxy.callers.still_valid(pass).await {
                    return Ending::SignedOut;
                }
                self.access = access;
            }
            ran_out = tokio::select! {
                changed = self.latest.changed() => match changed {
                    Ok(()) => false,
                    Err(_) => return Ending::Stopped,
                },
                () = pass.runs_out(last_work) => true,
            };
        }
    }
}

async fn goodbye<C, W>(mut relay: Relay<C, W>, ending: Ending)
where
    C: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    W: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let to_client = close_frame(ending.code(), ending.reason(), false);
    let to_workspace = close_frame(ending.code(), ending.reason(), true);
    let cut_at = Instant::now() + LAST_FRAME;
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

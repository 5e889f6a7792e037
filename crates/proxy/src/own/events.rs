//! How a page hears of its workspace: does it run, when will it sleep, and, where it asks for that, what listens in it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use codehub_domain::Timestamp;
use futures::{StreamExt as _, stream::BoxStream};
use http::{HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::StreamBody;
use serde::Serialize;
use tokio::{sync::watch, time::Instant};

use super::{
    super::{
        Proxy, ProxyBody,
        authorize::Pass,
        credential::runs_out,
        error::ProxyError,
        gate::{Listening, Sleep, WorkspaceView},
        http1::body::BoxError,
        routes::{Entry, Latest},
        wake::resolve::{Answer, Closed, Visit, decide},
    },
    waiting_name,
};

/// So long before sleep a page is told, unless the TTL is so short that it would be told all the time.
const WARNING: Duration = Duration::from_secs(60);
/// How often somebody who was warned is told anew when activity that was seen elsewhere moved the moment.
const WHILE_WARNED: Duration = Duration::from_secs(2);
/// How often it is asked again where nothing is said of a sleep that will come some day.
const UNSAID: Duration = Duration::from_secs(30);
/// Something passes at least this often, so that nothing in between takes the stream for dead.
const HEARTBEAT: Duration = Duration::from_secs(25);
const RETRY: Duration = Duration::from_secs(1);

/// What a page is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct News {
    state: &'static str,
    /// How long without activity it stays awake; 0 is for ever.
    ttl_seconds: u32,
    /// Only where it is near: until then it moves with every activity.
    stops_at: Option<Timestamp>,
}

impl News {
    fn of(view: &WorkspaceView, sleep: &Sleep) -> Self {
        let state = match decide(view, Visit::Navigation) {
            Answer::Forward => "running",
            Answer::Wake | Answer::Asleep => "asleep",
            Answer::Wait(waiting) => waiting_name(waiting),
            Answer::Close(Closed::Archived) => "archived",
            Answer::Close(Closed::NotStarted) => "not_started",
            Answer::Close(Closed::Broken) => "broken",
            Answer::Gone => "gone",
        };
        let stops_at = sleep.stops_at.filter(|at| state == "running" && before(sleep, *at).is_zero());
        Self { state, ttl_seconds: sleep.ttl_seconds, stops_at }
    }

    /// As an event, with the clock by which `stops_at` is meant.
    fn event(&self, now: Timestamp) -> Bytes {
        #[derive(Serialize)]
        struct Event<'a> {
            #[serde(flatten)]
            news: &'a News,
            now: Timestamp,
        }
        let event = serde_json::to_string(&Event { news: self, now }).unwrap_or_default();
        format!("data: {event}\n\n").into()
    }
}

/// How long it is until the warning of a sleep at this moment; zero from then on.
fn before(sleep: &Sleep, stops_at: Timestamp) -> Duration {
    let warning = WARNING.min(Duration::from_secs(sleep.ttl_seconds.into()) / 2);
    Duration::try_from(stops_at.duration_since(sleep.now)).unwrap_or_default().saturating_sub(warning)
}

/// A stream of events, one now and one whenever something is new. Nothing is asked while nothing can be new.
/// With `ports_from`, the host that was asked for, an event named `ports` tells what listens whenever that changes.
pub(super) fn stream(
    proxy: &Arc<Proxy>,
    entry: &Arc<Entry>,
    pass: Pass,
    ports_from: Option<String>,
) -> Response<ProxyBody> {
    let latest = entry.subscribe();
    let access = latest.borrow().access;
    let stream = Events {
        proxy: proxy.clone(),
        entry: entry.clone(),
        pass,
        latest,
        access,
        told: None,
        ask_at: Some(Instant::now()),
        ports: ports_from.map(|asked| (proxy.gate.follow_listening(entry.id), asked)),
    };
    let stream = futures::stream::unfold(stream, |mut events| async move {
        let bytes = events.next().await?;
        Some((Ok::<_, BoxError>(Frame::data(bytes)), events))
    });
    let mut response = Response::new(ProxyBody::boxed(StreamBody::new(stream)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct Events {
    proxy: Arc<Proxy>,
    entry: Arc<Entry>,
    pass: Pass,
    latest: watch::Receiver<Latest>,
    access: u64,
    told: Option<News>,
    /// When time alone makes it worth asking again.
    ask_at: Option<Instant>,
    /// What listens, and from where it is seen.
    ports: Option<(BoxStream<'static, Vec<Listening>>, String)>,
}

/// What listens next; never where that was not asked for.
async fn next(ports: &mut Option<(BoxStream<'static, Vec<Listening>>, String)>) -> Option<Vec<Listening>> {
    match ports {
        Some((ports, _)) => ports.next().await,
        None => std::future::pending().await,
    }
}

impl Events {
    /// What is sent next; `None` ends the stream: the workspace or the right to it is gone, or the server stops.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.ask_at.is_some_and(|at| at <= Instant::now()) {
                if self.told.as_ref().is_some_and(|told| told.state == "gone") {
                    return None;
                }
                if let Some(event) = self.ask().await {
                    return Some(event);
                }
            }
            let heartbeat = Instant::now() + HEARTBEAT;
            let wake_at = self.ask_at.map_or(heartbeat, |at| at.min(heartbeat));
            tokio::select! {
                changed = self.latest.changed() => {
                    changed.ok()?;
                    let access = self.latest.borrow_and_update().access;
                    if access != self.access && !self.proxy.callers.still_valid(&mut self.pass).await {
                        return None;
                    }
                    self.access = access;
                    self.ask_at = Some(Instant::now());
                }
                // A stream is no use of a session: one that runs out ends here.
                () = runs_out(self.pass.end()) => {
                    if !self.proxy.callers.still_valid(&mut self.pass).await {
                        return None;
                    }
                }
                Some(listening) = next(&mut self.ports) => return Some(self.ports_event(&listening)),
                () = self.proxy.shutdown.cancelled() => return None,
                () = tokio::time::sleep_until(wake_at) => {
                    if wake_at == heartbeat {
                        return Some(Bytes::from_static(b":\n\n"));
                    }
                }
            }
        }
    }

    fn ports_event(&self, listening: &[Listening]) -> Bytes {
        let asked = self.ports.as_ref().map_or("", |(_, asked)| asked);
        let addressed = |one: &'_ Listening| {
            let url = self.proxy.port_url(self.entry.id, one.port, asked)?;
            Some(
                serde_json::json!({ "port": one.port, "process": one.process, "label": one.label, "url": url }),
            )
        };
        let ports: Vec<serde_json::Value> = listening.iter().filter_map(addressed).collect();
        let ports = serde_json::to_string(&ports).unwrap_or_default();
        format!("event: ports\ndata: {ports}\n\n").into()
    }

    /// Looks, and decides when to look again. `None` where nothing is new.
    async fn ask(&mut self) -> Option<Bytes> {
        let asked = async {
            let view = match self.proxy.routes.view(&self.entry).await {
                Ok(view) => view,
                Err(ProxyError::NotFound) => return Ok(None),
                Err(error) => return Err(error.to_string()),
            };
            let sleep = self.proxy.gate.sleep(self.entry.id).await.map_err(|error| error.to_string())?;
            Ok(sleep.map(|sleep| (view, sleep)))
        };
        let (news, now, again) = match asked.await {
            Ok(Some((view, sleep))) => {
                let news = News::of(&view, &sleep);
                let again = match sleep.stops_at {
                    _ if news.state == "gone" => Some(Duration::ZERO),
                    _ if news.state != "running" || sleep.ttl_seconds == 0 => None,
                    None => Some(UNSAID),
                    Some(at) => Some(before(&sleep, at).max(WHILE_WARNED)),
                };
                (news, sleep.now, again)
            }
            Ok(None) => {
                let gone = News { state: "gone", ttl_seconds: 0, stops_at: None };
                (gone, Timestamp::now(), Some(Duration::ZERO))
            }
            Err(error) => {
                tracing::debug!(workspace = %self.entry.id, error, "a page waits to hear of its workspace");
                self.ask_at = Some(Instant::now() + RETRY);
                return None;
            }
        };
        self.ask_at = again.map(|again| Instant::now() + again);
        if self.told.as_ref() == Some(&news) {
            return None;
        }
        let event = news.event(now);
        self.told = Some(news);
        Some(event)
    }
}

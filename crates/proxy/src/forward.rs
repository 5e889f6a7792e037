//! One HTTP exchange with a workspace: connect or reuse, send, and hand the answer on as it comes.

use std::{sync::Arc, time::Duration};

use codehub_upstream::Upstream;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, Version, header};
use http_body::Body;

use crate::{
    Proxy,
    activity::Cell,
    error::{ProxyError, Retry, Side},
    http1::body::{FromWorkspace, ProxyBody, ToWorkspace},
    http1::{encode::Framing, pool::Lease},
    policy::{self, Sent, location::Mount},
    routes::Entry,
    warrant::Warrant,
};

/// A connection younger than this in the pool is taken for alive: what ended it is then the request
/// itself, which is not sent again.
pub(super) const SURELY_ALIVE: Duration = Duration::from_millis(250);
/// How long a client that waits for "100 Continue" is kept waiting by a workspace that ignores it.
const CONTINUE_PATIENCE: Duration = Duration::from_secs(1);

/// A request as it leaves for the workspace.
pub(super) struct Outgoing<'a> {
    pub method: &'a Method,
    /// The whole head.
    pub head: &'a [u8],
    /// How the body is framed, where there is one.
    pub sent: Sent,
    /// The trailers that were announced.
    pub trailers: Vec<HeaderName>,
}

impl Outgoing<'_> {
    fn framed(&self, body: ToWorkspace) -> Option<(ToWorkspace, Framing)> {
        match self.sent {
            Sent::Nothing | Sent::Length(0) => None,
            Sent::Length(length) => Some((body, Framing::Length(length))),
            Sent::Chunked => Some((body, Framing::Chunks(self.trailers.clone()))),
        }
    }
}

/// How a body is framed anew for the workspace.
pub(super) fn framing(headers: &HeaderMap, body: &ProxyBody) -> Sent {
    match body.size_hint().exact() {
        _ if body.is_end_stream() => {
            if headers.contains_key(header::CONTENT_LENGTH) {
                Sent::Length(0)
            } else {
                Sent::Nothing
            }
        }
        Some(length) => Sent::Length(length),
        None => Sent::Chunked,
    }
}

/// Whether the client waits for "100 Continue" before it sends this body.
pub(super) fn expects_go_on(headers: &HeaderMap, body: &ProxyBody) -> bool {
    let expects = headers.get(header::EXPECT).map(HeaderValue::as_bytes);
    expects.is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue")) && !body.is_end_stream()
}

/// A request's body as the workspace will get it: after "100 Continue", where the client waits for that.
pub(super) fn body(body: ProxyBody, expects: bool, cell: Option<Arc<Cell>>) -> ToWorkspace {
    ToWorkspace::new(body, cell, expects.then_some(CONTINUE_PATIENCE))
}

/// An answer, the connection it comes on, and where that leads.
pub(super) struct Answer {
    pub response: Response<()>,
    pub lease: Lease,
    pub upstream: Upstream,
}

/// Where the workspace listens.
///
/// # Errors
/// Nowhere, as far as is known. The controller has been told to look.
pub(super) async fn upstream(proxy: &Proxy, entry: &Entry) -> Result<Upstream, ProxyError> {
    let found = proxy.routes.upstream(entry).await;
    if let Err(error) = &found {
        failed(proxy, entry, error).await;
    }
    found
}

/// Sends the request to wherever the workspace listens, which was `upstream` a moment ago.
///
/// # Errors
/// The workspace cannot be reached or broke off. The controller has been told to look.
pub(super) async fn exchange(
    proxy: &Proxy,
    entry: &Entry,
    upstream: Upstream,
    outgoing: &Outgoing<'_>,
    body: ToWorkspace,
) -> Result<Answer, ProxyError> {
    // What the owner's own programs do is nothing that the controller could look after.
    let inside = upstream.address.is_inside();
    let result = attempt(proxy, entry, upstream, outgoing, body).await;
    if let Err(error) = &result
        && error.side() == Side::Upstream
        && !inside
    {
        failed(proxy, entry, error).await;
    }
    result
}

/// What is believed of the workspace is wrong, and the controller should look.
pub(super) async fn failed(proxy: &Proxy, entry: &Entry, error: &ProxyError) {
    proxy.metrics.upstream_failed(error);
    entry.forget_upstream();
    proxy.gate.look(entry.id).await;
}

async fn attempt(
    proxy: &Proxy,
    entry: &Entry,
    mut upstream: Upstream,
    outgoing: &Outgoing<'_>,
    mut body: ToWorkspace,
) -> Result<Answer, ProxyError> {
    let mut pooled = proxy.pool.take(&upstream);
    loop {
        let mut lease = match pooled.take() {
            Some(lease) => lease,
            None => {
                let (found, lease) = Box::pin(connect(proxy, entry, upstream)).await?;
                upstream = found;
                lease
            }
        };
        let stale = lease.reused_after.is_some_and(|idle| idle > SURELY_ALIVE);
        // Only what is repeatable and has no body may be sent again.
        let spare = (stale && outgoing.method.is_idempotent()).then(|| body.replay()).flatten();
        let sent = lease.wire.send(outgoing.method, outgoing.head, outgoing.framed(body));
        match (sent.await, spare) {
            (Ok(response), _) => return Ok(Answer { response, lease, upstream }),
            (Err(error), Some(spare)) if error.retry() == Retry::MaybeSent => body = spare,
            (Err(error), _) => return Err(error),
        }
    }
}

/// Connects; when the address turns out to be wrong, asks once more where the workspace is.
async fn connect(proxy: &Proxy, entry: &Entry, hint: Upstream) -> Result<(Upstream, Lease), ProxyError> {
    match proxy.pool.connect(&hint).await {
        Err(error) if error.retry() == Retry::Unsent && !hint.address.is_inside() => {
            entry.forget_upstream();
            let upstream = proxy.routes.upstream(entry).await?;
            if upstream.secret != hint.secret {
                // The head was written for another instance.
                return Err(ProxyError::NoUpstream);
            }
            let lease = proxy.pool.connect(&upstream).await?;
            Ok((upstream, lease))
        }
        connected => Ok((hint, connected?)),
    }
}

/// Makes the workspace's answer ours. Its body is noted in the cell, if there is one.
pub(super) fn respond(
    cell: Option<Arc<Cell>>,
    answer: Answer,
    warrant: Option<Warrant>,
    place: &Mount<'_>,
) -> Result<Response<ProxyBody>, ProxyError> {
    let (mut parts, ()) = answer.response.into_parts();
    if parts.status.is_informational() {
        return Err(ProxyError::BadResponse(format!(
            "{} to a request that did not ask for it",
            parts.status
        )));
    }
    let events =
        parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| policy::is_event_stream(kind.as_bytes()));
    parts.headers = policy::clean_response(&parts.headers, *place);
    parts.version = Version::HTTP_11;
    parts.extensions = http::Extensions::new();
    let cell = cell.filter(|_| !events);
    let body = ProxyBody::FromWorkspace(FromWorkspace::new(answer.lease, cell, warrant));
    Ok(Response::from_parts(parts, body))
}

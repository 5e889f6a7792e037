//! One HTTP exchange with a workspace: connect or reuse, send, and hand the answer on as it comes.

use std::{sync::Arc, time::Duration};

use codehub_upstream::Upstream;
use http::{HeaderMap, Response, Version, header};
use http_body::Body;

use super::{
    Proxy,
    body::{FromWorkspace, ProxyBody, ToWorkspace},
    error::{ProxyError, Retry},
    headers,
    location::Place,
    outbound::Head,
    pool::Lease,
    routes::Entry,
};
use crate::activity::Cell;

/// A connection younger than this in the pool is taken for alive: what ended it is then the request
/// itself, which is not sent again.
pub(super) const SURELY_ALIVE: Duration = Duration::from_millis(250);
/// How long a client that waits for "100 Continue" is kept waiting by a workspace that ignores it.
const CONTINUE_PATIENCE: Duration = Duration::from_secs(1);

/// A request's body as the workspace will get it: after "100 Continue", where the client waits for that.
pub(super) fn body(headers: &mut HeaderMap, body: ProxyBody, cell: Option<Arc<Cell>>) -> ToWorkspace {
    let expects = headers
        .get(header::EXPECT)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    let patience = if expects && !body.is_end_stream() {
        Some(CONTINUE_PATIENCE)
    } else {
        headers.remove(header::EXPECT);
        None
    };
    ToWorkspace::new(body, cell, patience)
}

/// An answer, the connection it comes on, and where that leads.
pub(super) struct Answer {
    pub response: Response<()>,
    pub lease: Lease,
    pub upstream: Upstream,
}

/// Sends the request to wherever the workspace listens.
///
/// # Errors
/// The workspace cannot be reached or broke off. The controller has been told to look.
pub(super) async fn exchange(
    proxy: &Proxy,
    entry: &Entry,
    head: &Head<'_>,
    body: ToWorkspace,
) -> Result<Answer, ProxyError> {
    let result = attempt(proxy, entry, head, body).await;
    if let Err(error) = &result {
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
    head: &Head<'_>,
    mut body: ToWorkspace,
) -> Result<Answer, ProxyError> {
    let mut upstream = proxy.routes.upstream(entry).await?;
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
        let spare = (stale && head.method.is_idempotent()).then(|| body.replay()).flatten();
        match (lease.wire.send(head, body).await, spare) {
            (Ok(response), _) => return Ok(Answer { response, lease, upstream }),
            (Err(error), Some(spare)) if error.retry() == Retry::MaybeSent => body = spare,
            (Err(error), _) => return Err(error),
        }
    }
}

/// Connects; when the address turns out to be wrong, asks once more where the workspace is.
async fn connect(proxy: &Proxy, entry: &Entry, hint: Upstream) -> Result<(Upstream, Lease), ProxyError> {
    match proxy.pool.connect(&hint).await {
        Err(error) if error.retry() == Retry::Unsent => {
            entry.forget_upstream();
            let upstream = proxy.routes.upstream(entry).await?;
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
    place: &Place<'_>,
) -> Result<Response<ProxyBody>, ProxyError> {
    let (mut parts, ()) = answer.response.into_parts();
    if parts.status.is_informational() {
        return Err(ProxyError::BadResponse(format!(
            "{} to a request that did not ask for it",
            parts.status
        )));
    }
    let events =
        parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| headers::is_event_stream(kind.as_bytes()));
    headers::clean_response(&mut parts.headers, place);
    parts.version = Version::HTTP_11;
    parts.extensions = http::Extensions::new();
    let cell = cell.filter(|_| !events);
    let body = ProxyBody::FromWorkspace(FromWorkspace::new(answer.lease, cell));
    Ok(Response::from_parts(parts, body))
}

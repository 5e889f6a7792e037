//! One HTTP exchange with a workspace: connect or reuse, send, and hand the answer on as it comes.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use http_body::Body;
use hyper::body::Incoming;
use tokio::sync::oneshot;

use super::{
    Proxy,
    body::{FromWorkspace, GoAhead, ProxyBody, ToWorkspace},
    error::{ProxyError, Retry},
    headers,
    location::Place,
    pool::Lease,
    routes::Entry,
};
use crate::activity::Cell;

/// A connection younger than this in the pool is taken for alive, and no copy of the request is kept.
const SURELY_ALIVE: Duration = Duration::from_millis(250);
/// How long a client that waits for "100 Continue" is kept waiting by a workspace that ignores it.
const CONTINUE_PATIENCE: Duration = Duration::from_secs(1);

/// A request as the workspace will see it.
pub(super) struct Outgoing {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: ToWorkspace,
    pub said_continue: Option<oneshot::Sender<()>>,
}

impl Outgoing {
    /// Frames the body anew for this hop and arranges for `Expect: 100-continue`.
    pub(super) fn new(
        method: Method,
        uri: Uri,
        mut headers: HeaderMap,
        body: ProxyBody,
        cell: Option<Arc<Cell>>,
    ) -> Self {
        let streams = !body.is_end_stream();
        if streams && body.size_hint().exact().is_none() {
            headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        let expects = headers
            .get(header::EXPECT)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        let (said_continue, go_ahead) = if expects && streams {
            let (said, hears) = oneshot::channel();
            (Some(said), Some(GoAhead::new(hears, CONTINUE_PATIENCE)))
        } else {
            headers.remove(header::EXPECT);
            (None, None)
        };
        Self { method, uri, headers, body: ToWorkspace::new(body, cell, go_ahead), said_continue }
    }

    fn into_request(self) -> Request<ToWorkspace> {
        let mut request = Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = self.headers;
        if let Some(said) = self.said_continue {
            let said = std::sync::Mutex::new(Some(said));
            hyper::ext::on_informational(&mut request, move |response| {
                if response.status() == StatusCode::CONTINUE
                    && let Ok(mut said) = said.lock()
                    && let Some(said) = said.take()
                {
                    let _ = said.send(());
                }
            });
        }
        request
    }
}

/// A copy of a request that may be sent again, if it may: repeatable, and without a body.
fn replay(request: &Request<ToWorkspace>) -> Option<Request<ToWorkspace>> {
    if !request.method().is_idempotent() {
        return None;
    }
    let mut copy = Request::new(request.body().replay()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

/// An answer, the connection it comes on, and the address that gave it.
pub(super) struct Answer {
    pub response: Response<Incoming>,
    pub lease: Lease,
    pub addr: SocketAddr,
}

/// Sends the request to wherever the workspace listens.
///
/// # Errors
/// The workspace cannot be reached or broke off. The controller has been told to look.
pub(super) async fn exchange(proxy: &Proxy, entry: &Entry, outgoing: Outgoing) -> Result<Answer, ProxyError> {
    let result = attempt(proxy, entry, outgoing.into_request()).await;
    if let Err(error) = &result {
        proxy.metrics.upstream_failed(error);
        entry.forget_upstream();
        proxy.gate.look(entry.id).await;
    }
    result
}

async fn attempt(
    proxy: &Proxy,
    entry: &Entry,
    mut request: Request<ToWorkspace>,
) -> Result<Answer, ProxyError> {
    let mut addr = proxy.routes.upstream(entry).await?;
    let mut pooled = proxy.pool.take(addr);
    loop {
        let mut lease = match pooled.take() {
            Some(lease) => lease,
            None => {
                let (found, lease) = Box::pin(connect(proxy, entry, addr)).await?;
                addr = found;
                lease
            }
        };
        let spare = match lease.reused_after {
            Some(idle) if idle > SURELY_ALIVE => replay(&request),
            _ => None,
        };
        let reused = lease.reused_after.is_some();
        let mut failed = match lease.wire.send(request).await {
            Ok(response) => return Ok(Answer { response, lease, addr }),
            Err(failed) => failed,
        };
        // Nothing of it had left: the connection was closed before.
        if let Some(unsent) = failed.take_message().filter(|_| reused) {
            request = unsent;
            continue;
        }
        let error = ProxyError::Died(failed.into_error());
        match spare {
            Some(spare) if error.retry() == Retry::MaybeSent => request = spare,
            _ => return Err(error),
        }
    }
}

/// Connects; when the address turns out to be wrong, asks once more where the workspace is.
async fn connect(proxy: &Proxy, entry: &Entry, hint: SocketAddr) -> Result<(SocketAddr, Lease), ProxyError> {
    match proxy.pool.connect(hint).await {
        Err(error) if error.retry() == Retry::Unsent => {
            entry.forget_upstream();
            let addr = proxy.routes.upstream(entry).await?;
            Ok((addr, proxy.pool.connect(addr).await?))
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
    let (mut parts, body) = answer.response.into_parts();
    if parts.status.is_informational() {
        return Err(ProxyError::BadResponse(format!(
            "{} to a request that did not ask for it",
            parts.status
        )));
    }
    let events = parts
        .headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream"));
    headers::clean_response(&mut parts.headers, place);
    parts.version = Version::HTTP_11;
    parts.extensions = http::Extensions::new();
    let cell = cell.filter(|_| !events);
    let body = ProxyBody::FromWorkspace(FromWorkspace::new(body, answer.lease, cell));
    Ok(Response::from_parts(parts, body))
}

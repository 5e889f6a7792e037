//! The short way, for the requests there are most of: pages and assets of workspaces.
//!
//! A connection begins here. While its requests are plain (`GET` or `HEAD` of a workspace, no body, no upgrade,
//! nothing that could be read in two ways) one task reads them, speaks to the workspace and answers, without
//! the HTTP library in between. The first request that is anything else goes, with the connection and every
//! byte of it, to the library, which stays the judge of all that is not obvious; the connection does not come
//! back.
//!
//! Most plain requests are [`express`]: who asks and where the workspace listens is known, so the bytes that
//! came are the bytes that leave, less what must not pass and plus what is ours to add. All others take every
//! phase of [`Proxy::serve`].

use std::{
    future::poll_fn,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, BufMut as _, BytesMut};
use http::{HeaderValue, Method, Request, Response};
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    time::{Instant, Sleep},
};
use tokio_util::{
    io::poll_read_buf,
    sync::{CancellationToken, WaitForCancellationFuture},
};

use super::{
    Peer, Proxy, ProxyBody,
    body::FromWorkspace,
    error::ProxyError,
    forward::{self, Answer},
    log_answered,
    metrics::Outcome,
    outbound::{Framing, Outbound, SMALL},
    routes::Fresh,
    wake::NotReady,
};
use crate::{activity::Kind, rarely::Rarely};

mod answer;
mod express;
mod names;
mod request;

use express::{Begun, Client};
use request::Judged;

/// A longer head is the library's, and so is what a client sends ahead beyond this.
const MAX_HEAD: usize = 16 * 1024;
const READ_BYTES: usize = 4 * 1024;

/// Serves a connection for as long as its requests are plain. What comes back is to be served by the library:
/// the connection, and what was read of it. `None`: it has ended.
pub async fn serve(
    stream: TcpStream,
    addr: SocketAddr,
    proxy: &Arc<Proxy>,
    heads_within: Duration,
    shutdown: &CancellationToken,
) -> Option<(TcpStream, BytesMut)> {
    let mut lane = Lane {
        client: Client::new(proxy, Peer { addr, tls: false }),
        proxy,
        stream,
        ahead: BytesMut::new(),
        answering: 0,
        answer: Outbound::default(),
        patience: Patience { within: heads_within, since: None, sleep: None },
        shutdown: Rarely::new(shutdown.cancelled()),
        ending: false,
    };
    loop {
        let goes_on = match poll_fn(|cx| lane.poll_next(cx)).await {
            Next::Ended => return None,
            Next::NotPlain => return Some((lane.stream, lane.ahead)),
            Next::Express(begun) => lane.express(begun).await,
            Next::Plain { request, close } => Box::pin(lane.proxied(*request, close)).await,
        };
        if !goes_on {
            return None;
        }
    }
}

struct Lane<'a> {
    proxy: &'a Arc<Proxy>,
    client: Client,
    stream: TcpStream,
    /// What the client sent and has not been answered.
    ahead: BytesMut,
    /// How much of that belongs to the request that is being answered.
    answering: usize,
    answer: Outbound<ProxyBody>,
    patience: Patience,
    shutdown: Rarely<WaitForCancellationFuture<'a>>,
    /// No request after this one.
    ending: bool,
}

enum Next {
    Ended,
    NotPlain,
    /// On its way to the workspace.
    Express(Begun),
    Plain {
        request: Box<Request<ProxyBody>>,
        close: bool,
    },
}

impl Lane<'_> {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        loop {
            match self.judge() {
                Judged::Plain(next) => {
                    self.patience.since = None;
                    return Poll::Ready(next);
                }
                Judged::NotPlain => return Poll::Ready(Next::NotPlain),
                Judged::Half if self.ahead.len() >= MAX_HEAD => return Poll::Ready(Next::NotPlain),
                Judged::Half => {}
            }
            match self.poll_read(cx) {
                Poll::Ready(true) => continue,
                Poll::Ready(false) => return Poll::Ready(Next::Ended),
                Poll::Pending => {}
            }
            self.hear(cx);
            if self.ending && self.ahead.is_empty() {
                return Poll::Ready(Next::Ended);
            }
            return self.patience.poll(cx).map(|()| Next::Ended);
        }
    }

    /// Looks at what was read, and begins what can be begun.
    fn judge(&mut self) -> Judged<Next> {
        let (proxy, client) = (self.proxy, &mut self.client);
        let judged = request::judge(&self.ahead, |plain| {
            let next = match express::begin(proxy, client, plain) {
                Some(begun) => Next::Express(begun),
                None => Next::Plain { request: Box::new(request::whole(plain.bytes)?), close: plain.close },
            };
            Some((next, plain.bytes.len()))
        });
        match judged {
            Judged::Plain(Some((next, length))) => {
                self.answering = length;
                Judged::Plain(next)
            }
            Judged::Plain(None) | Judged::NotPlain => Judged::NotPlain,
            Judged::Half => Judged::Half,
        }
    }

    /// The head of the request that is being answered.
    fn request(&self) -> &[u8] {
        &self.ahead[..self.answering]
    }

    /// It is needed no more.
    fn request_is_answered(&mut self) {
        self.ahead.advance(std::mem::take(&mut self.answering));
    }

    /// Reads once. False: the client has ended.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.ahead.reserve(READ_BYTES);
        let read = ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.ahead));
        Poll::Ready(read.is_ok_and(|bytes| bytes > 0))
    }

    /// Whether the server shuts down.
    fn hear(&mut self, cx: &mut Context<'_>) {
        self.ending = self.ending || self.shutdown.poll(cx).is_ready();
    }

    /// Ready when the client is there no more. One that has sent its next request is.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.hear(cx);
        if self.ahead.len() == self.answering && !ready!(self.poll_read(cx)) {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// True when another request may follow.
    async fn express(&mut self, mut begun: Begun) -> bool {
        let answered = poll_fn(|cx| match begun.poll(cx, self.answer.head(), self.ending) {
            Poll::Ready(answered) => Poll::Ready(Some(answered)),
            Poll::Pending => self.poll_gone(cx).map(|()| None),
        });
        let Some(answered) = answered.await else { return false };
        let close = begun.close || self.ending;
        match answered {
            Ok(answer::Read::Plain { status, length, .. }) => {
                if tracing::enabled!(tracing::Level::DEBUG)
                    && let Some(request) = request::whole(self.request())
                {
                    let id = String::from_utf8_lossy(&begun.id);
                    log_answered(&id, begun.memo.fresh.entry.id, request.uri().path(), status);
                }
                self.request_is_answered();
                self.proxy.metrics.request(Outcome::Proxied);
                let Begun { mut lease, memo, work, .. } = begun;
                let cell = &memo.fresh.entry.cell;
                if length <= SMALL as u64
                    && let Some(body) = lease.wire.take_whole_body()
                {
                    self.answer.head().put_slice(&body);
                    if work {
                        cell.record(Kind::Http);
                    }
                    drop(body);
                    lease.give_back();
                } else {
                    let body = FromWorkspace::new(lease, work.then(|| cell.clone()));
                    self.answer.follow_with(ProxyBody::FromWorkspace(body), Framing::Length(length));
                }
                self.client.memo = Some(memo);
                self.flush(close).await
            }
            other => Box::pin(self.by_every_phase(begun, other)).await,
        }
    }

    /// An express request whose answer is not plain, or did not come.
    async fn by_every_phase(&mut self, begun: Begun, answered: Result<answer::Read, ProxyError>) -> bool {
        let Begun { lease, memo, work, id, close, .. } = begun;
        let Fresh { entry, view, upstream, .. } = &memo.fresh;
        // It was read before.
        let Some(request) = request::whole(self.request()) else { return false };
        self.request_is_answered();
        let mut context = self.proxy.context(entry.id, &request, Some(self.client.peer));
        if let Ok(id) = HeaderValue::from_bytes(&id) {
            context.request_id = id;
        }
        let response = match answered {
            Ok(answer::Read::Other(response)) => {
                let place = context.place(entry, upstream, view.ide.strip_prefix);
                let cell = work.then(|| entry.cell.clone());
                forward::respond(cell, Answer { response, lease, upstream: upstream.clone() }, &place)
                    .inspect(|_| self.proxy.metrics.request(Outcome::Proxied))
            }
            // A plain one is not brought here.
            Ok(answer::Read::Plain { .. }) => return false,
            Err(error) => {
                drop(lease);
                forward::failed(self.proxy, entry, &error).await;
                Err(context.unreachable(error))
            }
        };
        let response = response.map_err(NotReady::from);
        let response = self.proxy.conclude(context, request.uri(), response).await;
        self.send(response, request.method(), close).await
    }

    async fn proxied(&mut self, request: Request<ProxyBody>, close: bool) -> bool {
        self.request_is_answered();
        let (proxy, method) = (self.proxy, request.method().clone());
        let mut serving = pin!(proxy.serve(request, Some(self.client.peer)));
        let response = poll_fn(|cx| match serving.as_mut().poll(cx) {
            Poll::Ready(response) => Poll::Ready(Some(response)),
            Poll::Pending => self.poll_gone(cx).map(|()| None),
        });
        match response.await {
            Some(response) => self.send(response, &method, close).await,
            None => false,
        }
    }

    async fn send(&mut self, response: Response<ProxyBody>, method: &Method, close: bool) -> bool {
        let close = answer::write(&mut self.answer, response, method, close || self.ending);
        self.flush(close).await
    }

    async fn flush(&mut self, close: bool) -> bool {
        let sent = poll_fn(|cx| match self.answer.poll_send(cx, &mut self.stream) {
            Poll::Ready(sent) => Poll::Ready(sent.is_ok()),
            Poll::Pending => self.poll_gone(cx).map(|()| false),
        });
        if !sent.await {
            return false;
        }
        if close {
            let _ = self.stream.shutdown().await;
        }
        !close
    }
}

/// How long a client may take for the head of its next request. The timer is one for the whole connection, and
/// moved on only when it fires.
struct Patience {
    within: Duration,
    since: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = *self.since.get_or_insert_with(Instant::now) + self.within;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        loop {
            ready!(sleep.as_mut().poll(cx));
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(due);
        }
    }
}

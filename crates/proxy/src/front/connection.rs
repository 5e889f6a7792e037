//! A client's HTTP/1 connection: one task reads its requests, has them answered and writes the answers.
//!
//! Every request is judged by the one reader of heads. Most of those for workspaces are
//! [`remembered`]: who asks and where the workspace listens is known, so they are passed on at once. All others
//! are taken apart and take every phase of [`Proxy::serve`](crate::Proxy::serve), or are the application's.
//! Whatever a request brings along (a body, the wish for another protocol), the connection stays here.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use tokio::io::AsyncWriteExt as _;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture, WaitForCancellationFutureOwned};

use super::{
    ConnectionHandle, Front, Place, Takeover,
    remembered::{self, Begun, Client},
};
use crate::{
    Door, Peer,
    activity::ActivityKind,
    error::{Malformed, ProxyError},
    forward,
    http1::{
        answer::{self, Asked, Copied},
        body::{FromWorkspace, ProxyBody},
        client_body::{ClientBody, ClientReader, Loan},
        decode::Decoder,
        encode::{Outbound, SMALL},
        head,
        reader::Reader,
    },
    log_answered,
    metrics::Outcome,
    pages::answers,
    patience::Patience,
    policy,
    polled_when_woken::PolledWhenWoken,
    tls::{self, ClientStream, WriteSide},
    wake::NotReady,
};

const READ_BYTES: usize = 4 * 1024;
/// What an HTTP/2 client says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A client that is refused may still be sending: what comes is read away for so long, and so much of it, lest the
/// answer is lost with the connection.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 1024 * 1024;

/// What a connection comes to.
pub(crate) enum Next {
    Ended,
    /// It speaks HTTP/2: the connection, and what was read of it.
    Http2(ClientStream, BytesMut),
}

/// Serves a connection until it ends, or turns out to be HTTP/2.
pub(crate) async fn serve(
    stream: ClientStream,
    peer: Peer,
    front: &Front,
    place: &Arc<Place>,
    shutdown: &CancellationToken,
) -> Next {
    let (reading, writer) = tls::split(stream);
    let mut connection = Connection {
        front,
        client: Client::new(front, peer),
        reader: Some(Reader::new(reading, BytesMut::new())),
        writer,
        loan: None,
        answering: 0,
        answer: Outbound::default(),
        patience: Patience::new(place.patience(front.heads_within)),
        place,
        headless: true,
        stranger: true,
        shutdown: PolledWhenWoken::new(shutdown.cancelled()),
        closing: None,
        ending: false,
        closed: false,
    };
    loop {
        let goes_on = match poll_fn(|cx| connection.poll_next(cx)).await {
            Incoming::Ended => return Next::Ended,
            Incoming::Http2 => {
                let Some((stream, ahead)) = connection.into_stream() else { return Next::Ended };
                return Next::Http2(stream, ahead);
            }
            Incoming::Remembered(begun) => {
                connection.recognized();
                connection.remembered(begun).await
            }
            Incoming::Request(found) => Box::pin(connection.taken_apart(*found)).await,
            Incoming::Refused(malformed) => {
                Box::pin(connection.refuse(malformed)).await;
                GoesOn::No
            }
        };
        match goes_on {
            GoesOn::Yes => {}
            GoesOn::No => return Next::Ended,
            GoesOn::AsAnother(takeover) => {
                if let Some((stream, ahead)) = connection.into_stream() {
                    takeover.begin(stream, ahead.freeze());
                }
                return Next::Ended;
            }
        }
    }
}

struct Connection<'a> {
    front: &'a Front,
    place: &'a Arc<Place>,
    /// No head has come.
    headless: bool,
    /// Nobody who is signed in has sent anything, as far as is known here.
    stranger: bool,
    client: Client,
    /// `None` while the body of a request has it.
    reader: Option<ClientReader>,
    writer: WriteSide,
    /// From whom the reader comes back.
    loan: Option<Arc<Loan>>,
    /// How much of what was read is the head of the request that is being answered.
    answering: usize,
    answer: Outbound<ProxyBody>,
    patience: Patience,
    shutdown: PolledWhenWoken<WaitForCancellationFuture<'a>>,
    /// The application may close it at once. Only where it has had a request.
    closing: Option<(ConnectionHandle, PolledWhenWoken<WaitForCancellationFutureOwned>)>,
    /// No request after this one.
    ending: bool,
    /// The application closed it.
    closed: bool,
}

enum Incoming {
    Ended,
    Http2,
    /// On its way to the workspace.
    Remembered(Begun),
    Request(Box<TakenApart>),
    Refused(Malformed),
}

/// A request that takes every phase.
struct TakenApart {
    request: Request<()>,
    body: Decoder,
    close: bool,
}

enum GoesOn {
    Yes,
    No,
    /// The client and somebody else speak another protocol from here on.
    AsAnother(Takeover),
}

impl GoesOn {
    fn unless(close: bool) -> Self {
        if close { Self::No } else { Self::Yes }
    }
}

impl Connection<'_> {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Incoming> {
        loop {
            if let Some(found) = self.find() {
                self.patience.begin_anew();
                if std::mem::take(&mut self.headless) {
                    self.place.head_came();
                    self.patience.set(self.place.patience(self.front.heads_within));
                }
                return Poll::Ready(found);
            }
            match self.poll_read(cx) {
                Poll::Ready(true) => continue,
                Poll::Ready(false) => return Poll::Ready(Incoming::Ended),
                Poll::Pending => {}
            }
            self.hear(cx);
            if self.closed || (self.ending && self.is_between_requests()) {
                return Poll::Ready(Incoming::Ended);
            }
            ready!(self.patience.poll(cx));
            self.place.gave_up();
            return Poll::Ready(Incoming::Ended);
        }
    }

    fn is_between_requests(&self) -> bool {
        self.reader.as_ref().is_none_or(|reader| reader.ahead.is_empty())
    }

    /// Looks at what was read, and begins what can be begun. `None`: there is no whole head yet.
    fn find(&mut self) -> Option<Incoming> {
        let reader = self.reader.as_mut()?;
        let ahead = &mut reader.ahead;
        if ahead.is_empty() || (PREFACE.starts_with(ahead) && ahead.len() < PREFACE.len()) {
            return None;
        }
        if ahead.starts_with(PREFACE) {
            return Some(Incoming::Http2);
        }
        let client = &mut self.client;
        let proxy = self.front.proxy.as_deref().filter(|_| self.front.serves(client.peer));
        let found = head::request(ahead, |request| {
            let begun = proxy.and_then(|proxy| remembered::begin(proxy, client, request));
            (begun.ok_or((request.body, request.close)), request.lines.raw().len())
        });
        Some(match found {
            Err(malformed) => Incoming::Refused(malformed),
            Ok(None) => return None,
            Ok(Some((Ok(begun), length))) => {
                self.answering = length;
                Incoming::Remembered(begun)
            }
            Ok(Some((Err((body, close)), length))) => {
                // Copied, so that what is kept of it does not hold the buffer.
                let head = Bytes::copy_from_slice(&ahead[..length]);
                ahead.advance(length);
                match head::whole_request(&head) {
                    Some(request) => Incoming::Request(Box::new(TakenApart { request, body, close })),
                    None => Incoming::Refused(Malformed::new("an invalid address")),
                }
            }
        })
    }

    /// Reads once. False: the client has ended.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(reader) = &mut self.reader else { return Poll::Pending };
        let more = ready!(reader.poll_more(cx, READ_BYTES));
        Poll::Ready(more.unwrap_or(false))
    }

    /// Whether the server shuts down, or the application closed the connection.
    fn hear(&mut self, cx: &mut Context<'_>) {
        self.ending = self.ending || self.shutdown.poll(cx).is_ready();
        if let Some((_, closing)) = &mut self.closing {
            self.closed = self.closed || closing.poll(cx).is_ready();
        }
    }

    /// Takes the reading side back from the body of a request. The loan is over, unless there is more of the body
    /// than has come: nobody will read that.
    fn take_back(&mut self, cx: &mut Context<'_>) {
        if let Some(loan) = &self.loan
            && let Some(mut returned) = loan.take(cx)
        {
            if returned.skip_rest() {
                self.loan = None;
            }
            self.reader = Some(returned.reader);
        }
    }

    /// Ready when the client is there no more. One that has sent its next request is.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.hear(cx);
        if self.closed {
            return Poll::Ready(());
        }
        self.take_back(cx);
        let Some(reader) = &self.reader else { return Poll::Pending };
        if self.loan.is_none() && reader.ahead.len() == self.answering && !ready!(self.poll_read(cx)) {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Somebody who is signed in has sent something. Only the first time is any work.
    fn recognized(&mut self) {
        if std::mem::take(&mut self.stranger) {
            self.place.signed_in();
            self.patience.set(self.front.heads_within);
        }
    }

    /// The head of the request that is being answered is needed no more.
    fn request_is_answered(&mut self) {
        let answered = std::mem::take(&mut self.answering);
        if let Some(reader) = &mut self.reader {
            reader.ahead.advance(answered);
        }
    }

    fn request(&self) -> Option<Request<()>> {
        let head = self.reader.as_ref()?.ahead.get(..self.answering)?;
        head::whole_request(&Bytes::copy_from_slice(head))
    }

    async fn remembered(&mut self, mut begun: Begun) -> GoesOn {
        let answered = poll_fn(|cx| match begun.poll(cx, self.answer.head(), self.ending) {
            Poll::Ready(answered) => Poll::Ready(Some(answered)),
            Poll::Pending => self.poll_gone(cx).map(|()| None),
        });
        let Some(answered) = answered.await else { return GoesOn::No };
        match answered {
            Ok(copied) => self.pass_on(begun, copied).await,
            Err(error) => Box::pin(self.explain(begun, error)).await,
        }
    }

    /// Sends an answer whose head is written already.
    async fn pass_on(&mut self, begun: Begun, Copied { status, framing, events }: Copied) -> GoesOn {
        if tracing::enabled!(tracing::Level::DEBUG)
            && let Some(request) = self.request()
        {
            let id = String::from_utf8_lossy(&begun.id);
            log_answered(&id, begun.memo.fresh.entry.id, request.uri().path(), status);
        }
        self.request_is_answered();
        let Begun { mut lease, memo, work, close, .. } = begun;
        let close = close || self.ending;
        if let Some(proxy) = &self.front.proxy {
            proxy.metrics.request(Outcome::Proxied);
        }
        let cell = Some(&memo.fresh.entry.cell).filter(|_| work && !events);
        match framing {
            None => lease.give_back(),
            Some(_) if lease.wire.put_small_body(self.answer.head(), SMALL) => {
                if let Some(cell) = cell {
                    cell.record(ActivityKind::Http);
                }
                lease.give_back();
            }
            Some(framing) => {
                let warrant = self.front.proxy.as_ref().and_then(|proxy| memo.warrant(proxy));
                let body = FromWorkspace::new(lease, cell.cloned(), warrant);
                self.answer.follow_with(ProxyBody::FromWorkspace(body), framing);
            }
        }
        self.client.memo = Some(memo);
        GoesOn::unless(!self.flush().await || self.end(close, false).await)
    }

    /// A remembered request that the workspace did not answer.
    async fn explain(&mut self, begun: Begun, error: ProxyError) -> GoesOn {
        let Begun { lease, memo, id, close, .. } = begun;
        drop(lease);
        // It was read before.
        let (Some(request), Some(proxy)) = (self.request(), &self.front.proxy) else { return GoesOn::No };
        self.request_is_answered();
        let request = request.map(|()| ProxyBody::Empty);
        let door = if memo.fresh.entry.base.apart { Door::Apart } else { Door::Path };
        let mut context = proxy.context(memo.fresh.entry.id, None, door, &request, self.client.peer);
        if let Ok(id) = HeaderValue::from_bytes(&id) {
            context.request_id = id;
        }
        forward::failed(proxy, &memo.fresh.entry, &error).await;
        let not_ready = NotReady::from(context.unreachable(error));
        let response = proxy.conclude(context, request.uri(), request.headers(), Err(not_ready)).await;
        let asked =
            Asked { method: request.method().clone(), version: Version::HTTP_11, trailers: false, close };
        self.send(response, &asked).await
    }

    async fn taken_apart(&mut self, TakenApart { request, body, close }: TakenApart) -> GoesOn {
        let headers = request.headers();
        let asked = Asked {
            method: request.method().clone(),
            version: request.version(),
            trailers: policy::takes_trailers(headers),
            close,
        };
        let expects = headers.get(header::EXPECT).map(HeaderValue::as_bytes);
        let held = expects.is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"))
            && asked.version == Version::HTTP_11;
        let body = match self.reader.take_if(|_| body != Decoder::Ended) {
            Some(reader) => {
                let (body, loan) = ClientBody::new(reader, body, held);
                self.loan = Some(loan);
                ProxyBody::FromClient(body)
            }
            None => ProxyBody::Empty,
        };
        let handle = self.front.is_for_application(&request).then(|| self.handle());
        let request = request.map(|()| body);
        let front = self.front;
        let mut serving = pin!(front.answer(request, self.client.peer, self.place, handle));
        let response = poll_fn(|cx| match serving.as_mut().poll(cx) {
            Poll::Ready(response) => Poll::Ready(response.ok()),
            Poll::Pending => {
                self.say_go_on(cx);
                self.poll_gone(cx).map(|()| None)
            }
        });
        let Some(response) = response.await else { return GoesOn::No };
        if self.stranger && !self.place.is_strangers() {
            self.recognized();
        }
        let asked = Asked { close: asked.close || self.place.goes_back(), ..asked };
        self.send(response, &asked).await
    }

    fn handle(&mut self) -> ConnectionHandle {
        let (handle, _) = self.closing.get_or_insert_with(|| {
            let handle = ConnectionHandle::default();
            let closed = handle.closed();
            (handle, PolledWhenWoken::new(closed))
        });
        handle.clone()
    }

    /// Tells a client that waits for it to send its body, once somebody wants it.
    fn say_go_on(&mut self, cx: &mut Context<'_>) {
        if self.loan.as_ref().is_some_and(|loan| loan.wants_to_go_on()) {
            self.answer.head().put_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        if !self.answer.is_done() {
            // What is wrong with the connection is found out when it is read.
            let _ = self.answer.poll_send(cx, &mut self.writer);
        }
    }

    async fn send(&mut self, mut response: Response<ProxyBody>, asked: &Asked) -> GoesOn {
        let takeover = response.extensions_mut().remove::<Takeover>();
        // A body that nobody will read on ends the connection, and says so.
        self.look_for_the_body().await;
        let unread = self.loan.is_some() && self.reader.is_some();
        let close = answer::write(&mut self.answer, response, asked, self.ending || unread);
        if !self.flush().await {
            return GoesOn::No;
        }
        if let Some(takeover) = takeover {
            return GoesOn::AsAnother(takeover);
        }
        self.look_for_the_body().await;
        let unread = self.loan.take().is_some();
        // On a place that others are waiting for nobody lingers.
        let lingers = unread && !self.place.goes_back();
        GoesOn::unless(self.end(close || unread, lingers).await)
    }

    /// Takes the reading side back, if the body of the request has no more use for it.
    async fn look_for_the_body(&mut self) {
        poll_fn(|cx| {
            self.take_back(cx);
            Poll::Ready(())
        })
        .await;
    }

    /// Sends what there is to send. False: nobody is there to take it.
    async fn flush(&mut self) -> bool {
        poll_fn(|cx| match self.answer.poll_send(cx, &mut self.writer) {
            Poll::Ready(sent) => Poll::Ready(sent.is_ok()),
            Poll::Pending => self.poll_gone(cx).map(|()| false),
        })
        .await
    }

    /// Ends our side, if this was the last answer. Whether it was.
    async fn end(&mut self, close: bool, still_sending: bool) -> bool {
        if close {
            // By TLS this takes a few bytes more, for which there may be no room.
            let _ = tokio::time::timeout(LINGER, self.writer.shutdown()).await;
            if still_sending {
                let mut read = 0;
                let lingering = poll_fn(|cx| self.poll_linger(cx, &mut read));
                let _ = tokio::time::timeout(LINGER, lingering).await;
            }
        }
        close
    }

    fn poll_linger(&mut self, cx: &mut Context<'_>, read: &mut usize) -> Poll<()> {
        while let Some(reader) = &mut self.reader
            && *read < LINGER_BYTES
        {
            *read += reader.ahead.len();
            reader.ahead.clear();
            if !ready!(self.poll_read(cx)) {
                break;
            }
        }
        Poll::Ready(())
    }

    /// Answers what is no request. What follows it is none either.
    async fn refuse(&mut self, malformed: Malformed) {
        if let Some(proxy) = &self.front.proxy {
            proxy.metrics.request(Outcome::Refused);
        }
        tracing::debug!(peer = %self.client.peer.addr, reason = malformed.reason, "a request was refused");
        let response = if malformed.too_large {
            super::head_too_large(malformed.reason)
        } else {
            answers::json(StatusCode::BAD_REQUEST, "INVALID_REQUEST", malformed.reason)
        };
        let asked = Asked { method: Method::GET, version: Version::HTTP_11, trailers: false, close: true };
        answer::write(&mut self.answer, response, &asked, true);
        // The client is not asked whether it is gone: what it sends meanwhile is not read as requests.
        let sent = poll_fn(|cx| self.answer.poll_send(cx, &mut self.writer)).await;
        if sent.is_ok() {
            self.end(true, true).await;
        }
    }

    fn into_stream(mut self) -> Option<(ClientStream, BytesMut)> {
        let Reader { stream, ahead } = self.reader.take()?;
        tls::unsplit(stream, self.writer).map(|stream| (stream, ahead))
    }
}

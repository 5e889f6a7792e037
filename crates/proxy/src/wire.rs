//! A connection to a workspace, driven by the task of the request that uses it.
//!
//! Not the HTTP library's client: that would have every connection be a task of its own, spoken to
//! through channels, and would move every request and answer through them. Here whoever waits for an
//! answer polls the socket itself: [`outbound`](super::outbound) writes straight from the request's
//! headers, [`inbound`](super::inbound) hands out parts of what was read.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use bytes::{Bytes, BytesMut};
use codehub_upstream::{Connection, Upstream};
use http::{Method, Response, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::io::poll_read_buf;

use super::{
    body::ToWorkspace,
    error::ProxyError,
    inbound::{self, Incoming, Malformed, Step},
    outbound::{Head, Outbound, Stopped},
};

/// Bounds what one slow reader can hold of a fast workspace, and the size of a response's head.
const BUFFER_BYTES: usize = 64 * 1024;
/// What is read at once where nothing large is expected.
const READ_BYTES: usize = 8 * 1024;

/// Something read from the head of an answer.
pub(super) trait Answered {
    fn status(&self) -> StatusCode;
}

impl Answered for Response<()> {
    fn status(&self) -> StatusCode {
        self.status()
    }
}

pub(super) struct Wire {
    stream: Connection,
    outbound: Outbound<ToWorkspace>,
    incoming: Incoming,
    /// What has been read and not yet understood.
    ahead: Bytes,
    /// Room to read into. What was read from it shares its memory, and when that is gone it is used anew.
    room: BytesMut,
    /// Nothing has happened that forbids another request.
    keep: bool,
}

impl Wire {
    /// # Errors
    /// Nothing listens there.
    pub(super) async fn connect(upstream: &Upstream) -> Result<Self, ProxyError> {
        let stream = upstream.connect().await.map_err(ProxyError::Connect)?;
        Ok(Self {
            stream,
            outbound: Outbound::default(),
            incoming: Incoming::Ended,
            ahead: Bytes::new(),
            room: BytesMut::new(),
            keep: true,
        })
    }

    /// Whether the last exchange is over and another may begin. Afterwards the connection has no waker.
    pub(super) fn is_idle(&mut self) -> bool {
        let over = self.keep && self.has_ended() && self.ahead.is_empty() && self.outbound.is_done();
        // Nobody was asked anything: the end of the stream is as bad as bytes.
        over && {
            let cx = &mut Context::from_waker(Waker::noop());
            Pin::new(&mut self.stream).poll_read(cx, &mut ReadBuf::new(&mut [0])).is_pending()
        }
    }

    /// Sends a request and waits for the head of the answer. Its body is then to be read with
    /// [`poll_body`](Self::poll_body), while the rest of the request may still be on its way.
    ///
    /// # Errors
    /// The connection broke off, or what came is no answer.
    pub(super) async fn send(
        &mut self,
        head: &Head<'_>,
        body: ToWorkspace,
    ) -> Result<Response<()>, ProxyError> {
        self.outbound.begin(head, body);
        let response = poll_fn(|cx| self.poll_answer(cx, inbound::head)).await?;
        self.expect_body_of(head.method, &response)?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS && !self.outbound.is_done() {
            return Err(ProxyError::BadResponse("101 in the middle of a request".into()));
        }
        Ok(response)
    }

    /// Begins a request without a body; its head is to be written there. The answer's is then read with
    /// [`poll_answer`](Self::poll_answer), and its body's framing told with [`expect`](Self::expect).
    pub(super) fn begin(&mut self) -> &mut BytesMut {
        self.outbound.head()
    }

    /// The same, as this answer says.
    ///
    /// # Errors
    /// It says so in more than one way, or in none that is known.
    pub(super) fn expect_body_of(
        &mut self,
        request: &Method,
        response: &Response<()>,
    ) -> Result<(), Malformed> {
        self.expect(Incoming::of(request, response)?, inbound::keeps_alive(response));
        Ok(())
    }

    /// The body that follows the answer's head, and whether another request may follow that.
    pub(super) fn expect(&mut self, incoming: Incoming, keep: bool) {
        self.incoming = incoming;
        self.keep = self.keep && keep;
    }

    /// Sends the request and reads the head of the answer, with what makes an answer of the bytes at hand.
    pub(super) fn poll_answer<T: Answered>(
        &mut self,
        cx: &mut Context<'_>,
        mut read: impl FnMut(&mut Bytes) -> Result<Option<T>, Malformed>,
    ) -> Poll<Result<T, ProxyError>> {
        loop {
            self.send_on(cx).map_err(ProxyError::Died)?;
            if !self.ahead.is_empty()
                && let Some(answer) = read(&mut self.ahead)?
            {
                match answer.status() {
                    StatusCode::CONTINUE => self.outbound.go_ahead(),
                    // News on the way to the answer; nobody asked for it.
                    status if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS => {}
                    _ => return Poll::Ready(Ok(answer)),
                }
                continue;
            }
            if self.ahead.len() >= BUFFER_BYTES {
                return Poll::Ready(Err(ProxyError::BadResponse("an endless head".into())));
            }
            let more = ready!(self.poll_more(cx, READ_BYTES)).map_err(ProxyError::Died)?;
            if !more {
                return Poll::Ready(Err(if self.ahead.is_empty() {
                    ProxyError::Died(io::ErrorKind::UnexpectedEof.into())
                } else {
                    ProxyError::BadResponse("half a head".into())
                }));
            }
        }
    }

    /// Sends what can be sent of the request.
    fn send_on(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.outbound.is_done() {
            return Ok(());
        }
        match self.outbound.poll_send(cx, &mut self.stream) {
            Poll::Ready(Err(Stopped::AtSource(error))) => Err(io::Error::other(error)),
            Poll::Ready(Err(Stopped::ByReader)) => {
                // Whatever it had to say before it stopped listening is still there to be read.
                self.outbound = Outbound::default();
                self.keep = false;
                Ok(())
            }
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    /// Reads once. False at the end of the stream.
    fn poll_more(&mut self, cx: &mut Context<'_>, at_once: usize) -> Poll<io::Result<bool>> {
        self.room.reserve(at_once);
        let read = ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.room))?;
        let fresh = self.room.split().freeze();
        if self.ahead.is_empty() {
            self.ahead = fresh;
        } else {
            // A line came in two parts.
            let mut joined = BytesMut::from(std::mem::take(&mut self.ahead));
            joined.extend_from_slice(&fresh);
            self.ahead = joined.freeze();
        }
        Poll::Ready(Ok(read > 0))
    }

    /// The next piece of the answer's body.
    pub(super) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = ready!(self.poll_piece(cx));
        if frame.is_err() {
            self.keep = false;
        }
        Poll::Ready(frame.transpose())
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Frame<Bytes>>>> {
        self.send_on(cx)?;
        loop {
            match self.incoming.step(&mut self.ahead).map_err(io::Error::other)? {
                Step::Frame(frame) => return Poll::Ready(Ok(Some(frame))),
                Step::Ended => return Poll::Ready(Ok(None)),
                Step::More => {}
            }
            if self.ahead.len() >= BUFFER_BYTES {
                return Poll::Ready(Err(io::Error::other("endless trailers")));
            }
            let at_once = match self.incoming {
                Incoming::Length(left) if left <= READ_BYTES as u64 => READ_BYTES,
                _ => BUFFER_BYTES,
            };
            if !ready!(self.poll_more(cx, at_once))? {
                if self.incoming != Incoming::UntilClose {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                self.incoming = Incoming::Ended;
                self.keep = false;
            }
        }
    }

    /// All of the body, where it came with the head.
    pub(super) fn take_whole_body(&mut self) -> Option<Bytes> {
        let Incoming::Length(length) = self.incoming else { return None };
        let length = usize::try_from(length).ok().filter(|length| *length <= self.ahead.len())?;
        self.incoming = Incoming::Ended;
        Some(self.ahead.split_to(length))
    }

    /// Whether the answer has been read whole.
    pub(super) fn has_ended(&self) -> bool {
        self.incoming == Incoming::Ended
    }

    /// How much of the answer is still to come.
    pub(super) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }

    /// The bare connection once HTTP is over on it, and what was read beyond that.
    pub(super) fn into_stream(self) -> (Connection, Bytes) {
        (self.stream, self.ahead)
    }
}

//! A connection to a workspace, driven by the task of the request that uses it.
//!
//! Not the HTTP library's client: that would have every connection be a task of its own, spoken to
//! through channels, and would move every request and answer through them. Here whoever waits for an
//! answer polls the socket itself.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use bytes::{Buf as _, Bytes, BytesMut};
use codehub_upstream::{Connection, Upstream};
use http::{Method, Response, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, ReadBuf};

use super::{
    decode::Decoder,
    encode::{Framing, Outbound, Stopped},
    head,
    reader::{READ_BYTES, Reader},
};
use crate::{error::ProxyError, http1::body::ToWorkspace};

/// A connection to a workspace, and where in an exchange it is.
pub(crate) struct Wire {
    reader: Reader<Connection>,
    outbound: Outbound<ToWorkspace>,
    incoming: Decoder,
    /// Nothing has happened that forbids another request.
    keep: bool,
}

impl Wire {
    /// # Errors
    /// Nothing listens there.
    pub(crate) async fn connect(upstream: &Upstream) -> Result<Self, ProxyError> {
        let stream = upstream.connect().await.map_err(ProxyError::Connect)?;
        let reader = Reader::new(stream, BytesMut::new());
        Ok(Self { reader, outbound: Outbound::default(), incoming: Decoder::Ended, keep: true })
    }

    /// Whether the last exchange is over and another may begin. Afterwards the connection has no waker.
    pub(crate) fn is_idle(&mut self) -> bool {
        let over = self.keep && self.has_ended() && self.reader.ahead.is_empty() && self.outbound.is_done();
        // Nobody was asked anything: the end of the stream is as bad as bytes.
        over && {
            let cx = &mut Context::from_waker(Waker::noop());
            Pin::new(&mut self.reader.stream).poll_read(cx, &mut ReadBuf::new(&mut [0])).is_pending()
        }
    }

    /// Sends a request and waits for the head of the answer. Its body is then to be read with
    /// [`poll_body`](Self::poll_body), while the rest of the request may still be on its way.
    ///
    /// # Errors
    /// The connection broke off, what came is no answer, or the client did not send what it announced.
    pub(crate) async fn send(
        &mut self,
        method: &Method,
        head: &[u8],
        body: Option<(ToWorkspace, Framing)>,
    ) -> Result<Response<()>, ProxyError> {
        self.outbound.begin(head, body);
        // Copied, so that what is kept of it does not hold the buffer.
        let copy = |answer: &head::Answer<'_>| Bytes::copy_from_slice(answer.lines.raw());
        let head = poll_fn(|cx| self.poll_answer(cx, method, copy)).await?;
        let response = head::whole_answer(&head)?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS && !self.outbound.is_done() {
            return Err(ProxyError::BadResponse("101 in the middle of a request".into()));
        }
        Ok(response)
    }

    /// Begins a request without a body: its head is to be written there, and the answer's read with
    /// [`poll_answer`](Self::poll_answer).
    pub(crate) fn begin(&mut self) -> &mut BytesMut {
        self.outbound.head()
    }

    /// Sends the request and reads the head of the answer, of which `make` makes something.
    pub(crate) fn poll_answer<T>(
        &mut self,
        cx: &mut Context<'_>,
        method: &Method,
        mut make: impl FnMut(&head::Answer<'_>) -> T,
    ) -> Poll<Result<T, ProxyError>> {
        loop {
            self.send_on(cx)?;
            let found = head::answer(&self.reader.ahead, method, |answer| {
                // News on the way to the answer; nobody asked for them.
                let news =
                    answer.status.is_informational() && answer.status != StatusCode::SWITCHING_PROTOCOLS;
                self.incoming = answer.body;
                self.keep = self.keep && answer.keep;
                let made = if news { Err(answer.status) } else { Ok(make(answer)) };
                (made, answer.lines.raw().len())
            })?;
            match found {
                Some((made, length)) => {
                    self.reader.ahead.advance(length);
                    match made {
                        Ok(made) => return Poll::Ready(Ok(made)),
                        Err(StatusCode::CONTINUE) => self.outbound.go_ahead(),
                        Err(_) => {}
                    }
                }
                None => {
                    let more = ready!(self.reader.poll_more(cx, READ_BYTES)).map_err(ProxyError::Died)?;
                    if !more {
                        return Poll::Ready(Err(if self.reader.ahead.is_empty() {
                            ProxyError::Died(io::ErrorKind::UnexpectedEof.into())
                        } else {
                            ProxyError::BadResponse("half a head".into())
                        }));
                    }
                }
            }
        }
    }

    /// Sends what can be sent of the request.
    fn send_on(&mut self, cx: &mut Context<'_>) -> Result<(), ProxyError> {
        if self.outbound.is_done() {
            return Ok(());
        }
        match self.outbound.poll_send(cx, &mut self.reader.stream) {
            Poll::Ready(Err(Stopped::AtSource(error))) => Err(ProxyError::of_request_body(&*error)),
            Poll::Ready(Err(Stopped::ByReader)) => {
                // Whatever it had to say before it stopped listening is still there to be read.
                self.outbound = Outbound::default();
                self.keep = false;
                Ok(())
            }
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    /// The next piece of the answer's body.
    pub(crate) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let until_close = self.incoming == Decoder::UntilClose;
        let frame = match self.send_on(cx) {
            Ok(()) => ready!(self.reader.poll_body(cx, &mut self.incoming)),
            Err(error) => Err(io::Error::other(error)),
        };
        if frame.is_err() || until_close {
            self.keep = false;
        }
        Poll::Ready(frame.transpose())
    }

    /// Puts all of the body behind what is there, if it is not larger than this and came with the head.
    pub(crate) fn put_small_body(&mut self, out: &mut BytesMut, most: usize) -> bool {
        let Decoder::Length(length) = self.incoming else { return false };
        let ahead = &mut self.reader.ahead;
        let Some(length) = usize::try_from(length).ok().filter(|length| *length <= ahead.len().min(most))
        else {
            return false;
        };
        out.extend_from_slice(&ahead[..length]);
        ahead.advance(length);
        self.incoming = Decoder::Ended;
        true
    }

    /// Whether the answer has been read whole.
    pub(crate) fn has_ended(&self) -> bool {
        self.incoming == Decoder::Ended
    }

    /// How much of the answer is still to come.
    pub(crate) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }

    /// The bare connection once HTTP is over on it, and what was read beyond that.
    pub(crate) fn into_stream(self) -> (Connection, BytesMut) {
        (self.reader.stream, self.reader.ahead)
    }
}

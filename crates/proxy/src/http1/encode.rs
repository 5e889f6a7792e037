//! A message on its way out: its head, and its body as it comes, framed anew for this hop.

use std::{
    io::{self, IoSlice, Write as _},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::HeaderName;
use http_body::{Body, Frame};
use tokio::io::AsyncWrite;

use crate::{
    http1::body::{BoxError, ToWorkspace},
    policy,
};

/// What is not larger leaves together with what stands before it, in one piece.
pub(crate) const SMALL: usize = 8 * 1024;

/// Why a message cannot be sent to its end.
pub(crate) enum Stopped {
    /// Whoever it goes to does not take any more of it. A workspace may have answered all the same.
    ByReader,
    /// Where it comes from broke off, or sent something else than was announced.
    AtSource(BoxError),
}

pub(crate) enum Framing {
    /// So much is still to be sent.
    Length(u64),
    /// With the trailers that were announced.
    Chunks(Vec<HeaderName>),
    /// For those who know no chunks: the end of the connection is the end.
    UntilClose,
}

/// What is still to be sent. Memory is kept from one message to the next.
pub(crate) struct Outbound<B> {
    pieces: BytesMut,
    /// Comes after those; too large to be worth a copy.
    large: Bytes,
    /// The large piece is a chunk, and its line end is missing.
    chunk_open: bool,
    body: Option<(B, Framing)>,
}

impl<B> Default for Outbound<B> {
    fn default() -> Self {
        Self { pieces: BytesMut::new(), large: Bytes::new(), chunk_open: false, body: None }
    }
}

impl Outbound<ToWorkspace> {
    /// Begins a request: its head as it leaves, and the body that follows.
    pub(crate) fn begin(&mut self, head: &[u8], body: Option<(ToWorkspace, Framing)>) {
        self.pieces.put_slice(head);
        self.body = body;
    }

    /// The workspace said "100 Continue".
    pub(crate) fn go_ahead(&mut self) {
        if let Some((body, _)) = &mut self.body {
            body.go_ahead();
        }
    }
}

impl<B> Outbound<B>
where
    B: Body<Data = Bytes, Error = BoxError> + Unpin,
{
    /// Where the head is written before it is sent.
    pub(crate) fn head(&mut self) -> &mut BytesMut {
        &mut self.pieces
    }

    /// What comes after the head.
    pub(crate) fn follow_with(&mut self, body: B, framing: Framing) {
        self.body = Some((body, framing));
    }

    pub(crate) fn is_done(&self) -> bool {
        self.body.is_none() && self.pieces.is_empty() && self.large.is_empty()
    }

    /// Sends what can be sent; ready when that was all, and has left us.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<Result<(), Stopped>> {
        loop {
            let more = self.fill(cx).map_err(Stopped::AtSource)?;
            ready!(self.poll_write(cx, stream)).map_err(|_| Stopped::ByReader)?;
            let waits = !more && !self.is_done();
            if waits && std::mem::take(&mut self.chunk_open) {
                self.pieces.put_slice(b"\r\n");
                continue;
            }
            if waits || self.is_done() {
                // By TLS, what was written may still be with us.
                ready!(Pin::new(&mut *stream).poll_flush(cx)).map_err(|_| Stopped::ByReader)?;
                return if waits { Poll::Pending } else { Poll::Ready(Ok(())) };
            }
        }
    }

    /// Takes from the body what fits. False: there is nothing more for now.
    fn fill(&mut self, cx: &mut Context<'_>) -> Result<bool, BoxError> {
        while let Some((body, framing)) = &mut self.body
            && self.large.is_empty()
            && self.pieces.len() < SMALL
        {
            let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else { return Ok(false) };
            if self.chunk_open {
                self.pieces.put_slice(b"\r\n");
                self.chunk_open = false;
            }
            let Some(frame) = frame.transpose()? else {
                match framing {
                    Framing::Length(0) | Framing::UntilClose => {}
                    Framing::Length(_) => return Err("it ended before its announced length".into()),
                    Framing::Chunks(_) => self.pieces.put_slice(b"0\r\n\r\n"),
                }
                self.body = None;
                break;
            };
            match (frame.into_data().map_err(Frame::into_trailers), &mut *framing) {
                (Ok(data), Framing::Length(left)) => {
                    *left = left
                        .checked_sub(data.len() as u64)
                        .ok_or("it is longer than its announced length")?;
                    if *left == 0 {
                        self.body = None;
                    }
                    self.put(data);
                }
                (Ok(data), Framing::Chunks(_)) if !data.is_empty() => {
                    write!((&mut self.pieces).writer(), "{:x}\r\n", data.len())?;
                    self.put(data);
                    self.chunk_open = !self.large.is_empty();
                    if !self.chunk_open {
                        self.pieces.put_slice(b"\r\n");
                    }
                }
                (Ok(data), Framing::UntilClose) => self.put(data),
                (Err(Ok(trailers)), Framing::Chunks(announced)) => {
                    self.pieces.put_slice(b"0\r\n");
                    for (name, value) in
                        trailers.iter().filter(|(name, _)| policy::may_trail(name, announced))
                    {
                        let line = [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"];
                        policy::put(&mut self.pieces, &line);
                    }
                    self.pieces.put_slice(b"\r\n");
                    self.body = None;
                }
                _ => {}
            }
        }
        Ok(true)
    }

    fn put(&mut self, data: Bytes) {
        if data.len() <= SMALL {
            self.pieces.put(data);
        } else {
            self.large = data;
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        let mut stream = Pin::new(stream);
        while !self.pieces.is_empty() || !self.large.is_empty() {
            let written = if self.large.is_empty() {
                ready!(stream.as_mut().poll_write(cx, &self.pieces))?
            } else {
                let both = [IoSlice::new(&self.pieces), IoSlice::new(&self.large)];
                ready!(stream.as_mut().poll_write_vectored(cx, &both))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let small = written.min(self.pieces.len());
            self.pieces.advance(small);
            self.large.advance(written - small);
            if self.large.is_empty() {
                // So that whoever reads into its memory may use that again.
                self.large = Bytes::new();
            }
        }
        Poll::Ready(Ok(()))
    }
}

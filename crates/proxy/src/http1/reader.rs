//! Reading from either side: what came and has not been understood yet, and the bodies in it.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use tokio::io::AsyncRead;
use tokio_util::io::poll_read_buf;

use super::decode::{Decoded, Decoder};

/// Bounds what one slow reader can hold of a fast writer.
const BUFFER_BYTES: usize = 64 * 1024;
/// What is read at once where nothing large is expected.
pub(crate) const READ_BYTES: usize = 8 * 1024;

pub(crate) struct Reader<T> {
    pub stream: T,
    /// What has been read and not yet understood. What is taken from it shares its memory, and when that is
    /// gone it is used anew.
    pub ahead: BytesMut,
}

impl<T: AsyncRead + Unpin> Reader<T> {
    pub(crate) fn new(stream: T, ahead: BytesMut) -> Self {
        Self { stream, ahead }
    }

    /// Reads once. False at the end of the stream.
    pub(crate) fn poll_more(&mut self, cx: &mut Context<'_>, at_once: usize) -> Poll<io::Result<bool>> {
        self.ahead.reserve(at_once);
        poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.ahead).map_ok(|read| read > 0)
    }

    /// The next piece of a body.
    ///
    /// # Errors
    /// The connection broke off, or the body is not framed as announced: then it is a
    /// [`Malformed`](crate::error::Malformed) within.
    pub(crate) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        decoder: &mut Decoder,
    ) -> Poll<io::Result<Option<Frame<Bytes>>>> {
        loop {
            match decoder.step(&mut self.ahead).map_err(io::Error::other)? {
                Decoded::Frame(frame) => return Poll::Ready(Ok(Some(frame))),
                Decoded::Ended => return Poll::Ready(Ok(None)),
                Decoded::More => {}
            }
            let at_once = match decoder {
                Decoder::Length(left) if *left <= READ_BYTES as u64 => READ_BYTES,
                _ => BUFFER_BYTES,
            };
            if !ready!(self.poll_more(cx, at_once))? {
                if *decoder != Decoder::UntilClose {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                *decoder = Decoder::Ended;
            }
        }
    }
}

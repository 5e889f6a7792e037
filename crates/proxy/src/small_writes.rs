//! Small messages leave in one piece.
//!
//! The HTTP library keeps head and body apart and writes them with one gathering call. That saves a copy
//! where the body is large; of an answer that fits into a page or two the copy is the cheaper part.

use std::{
    cell::RefCell,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const SMALL: usize = 8 * 1024;

thread_local!(static PIECE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });

#[derive(Debug)]
pub struct SmallWrites<T>(pub T);

impl<T: AsyncRead + Unpin> AsyncRead for SmallWrites<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for SmallWrites<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let io = Pin::new(&mut self.0);
        if let [only] = slices {
            return io.poll_write(cx, only);
        }
        if slices.iter().map(|slice| slice.len()).sum::<usize>() > SMALL {
            return io.poll_write_vectored(cx, slices);
        }
        PIECE.with_borrow_mut(|piece| {
            piece.clear();
            slices.iter().for_each(|slice| piece.extend_from_slice(slice));
            io.poll_write(cx, piece)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

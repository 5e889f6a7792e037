//! A connection to a workspace, driven by the task of the request that uses it.
//!
//! The HTTP library would have every connection be a task of its own, spoken to through channels: two
//! more tasks to wake for every request, often on another thread. Here whoever waits for an answer
//! polls the connection itself. Whatever those channels would wake somebody for then happens inside
//! that very poll, so their ends are polled without a waker, and nobody is woken twice.

use std::{
    future::poll_fn,
    net::SocketAddr,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use hyper::{
    body::Incoming,
    client::conn::{
        TrySendError,
        http1::{self, Connection, SendRequest},
    },
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{body::ToWorkspace, error::ProxyError, small_writes::SmallWrites};

/// Bounds what one slow reader can hold of a fast workspace, and the size of a response's head.
const BUFFER_BYTES: usize = 64 * 1024;

pub(super) struct Wire {
    sender: SendRequest<ToWorkspace>,
    connection: Connection<TokioIo<SmallWrites<TcpStream>>, ToWorkspace>,
    /// The connection has come to its end, and must not be polled any more.
    ended: bool,
}

impl Wire {
    /// # Errors
    /// Nothing listens there.
    pub(super) async fn connect(addr: SocketAddr) -> Result<Self, ProxyError> {
        let stream = TcpStream::connect(addr).await.map_err(ProxyError::Connect)?;
        stream.set_nodelay(true).map_err(ProxyError::Connect)?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(BUFFER_BYTES)
            .handshake(TokioIo::new(SmallWrites(stream)))
            .await
            .map_err(ProxyError::Died)?;
        Ok(Self { sender, connection, ended: false })
    }

    /// Moves everything that can be moved: the request's body out, the answer in.
    fn drive(&mut self, cx: &mut Context<'_>) {
        if !self.ended && self.connection.poll_without_shutdown(cx).is_ready() {
            // Whoever waits for something has been given the error.
            self.ended = true;
        }
    }

    /// Whether the last exchange is over and another may begin. Afterwards the connection has no waker.
    pub(super) fn is_idle(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        !self.ended && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of the answer.
    ///
    /// # Errors
    /// The connection broke off; the request comes back where nothing of it had been sent.
    pub(super) async fn send(
        &mut self,
        request: Request<ToWorkspace>,
    ) -> Result<Response<Incoming>, TrySendError<Request<ToWorkspace>>> {
        // Without a waker it must not be put off for having been lucky too often.
        let mut answer = pin!(tokio::task::unconstrained(self.sender.try_send_request(request)));
        poll_fn(|cx| {
            self.drive(cx);
            answer.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        })
        .await
    }

    /// The next piece of an answer that came on this connection.
    pub(super) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut Incoming,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        self.drive(cx);
        Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()))
    }

    /// The bare connection once HTTP is over on it, and what was read beyond that.
    pub(super) async fn into_stream(mut self: Box<Self>) -> (TcpStream, Bytes) {
        poll_fn(|cx| {
            self.drive(cx);
            if self.ended { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let parts = self.connection.into_parts();
        (parts.io.into_inner().0, parts.read_buf)
    }
}

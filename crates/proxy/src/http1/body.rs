//! The bodies that pass through. Nothing is collected: a frame is asked for when the other side has
//! room for it, so a slow reader slows its writer down.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use tokio::time::Sleep;

use crate::{
    activity::{ActivityKind, Cell},
    http1::{client_body::ClientBody, pool::Lease},
    patience::Patience,
    warrant::Warrant,
};

/// The body of a request is given up when nothing of it came for so long.
const BYTES_WITHIN: Duration = Duration::from_secs(300);

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body on its way through the proxy, in either direction.
pub enum ProxyBody {
    Empty,
    Full(Bytes),
    /// From an HTTP/1 client, straight from its connection.
    FromClient(ClientBody),
    /// From an HTTP/2 client.
    Incoming(Incoming),
    /// From a framework that wrapped it.
    Boxed(UnsyncBoxBody<Bytes, BoxError>),
    FromWorkspace(FromWorkspace),
}

impl ProxyBody {
    /// Any other body, at the price of an allocation.
    pub fn boxed<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::Boxed(body.map_err(Into::into).boxed_unsync())
    }
}

impl From<Incoming> for ProxyBody {
    fn from(body: Incoming) -> Self {
        Self::Incoming(body)
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Self::FromClient(body) => Pin::new(body).poll_frame(cx),
            Self::Incoming(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::Boxed(body) => Pin::new(body).poll_frame(cx),
            Self::FromWorkspace(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(bytes) => bytes.is_empty(),
            Self::FromClient(body) => body.is_end_stream(),
            Self::Incoming(body) => body.is_end_stream(),
            Self::Boxed(body) => body.is_end_stream(),
            Self::FromWorkspace(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::FromClient(body) => body.size_hint(),
            Self::Incoming(body) => body.size_hint(),
            Self::Boxed(body) => body.size_hint(),
            Self::FromWorkspace(body) => body.size_hint(),
        }
    }
}

/// The body of a workspace's answer. When it has been read to its end, the connection it came on goes
/// back to the pool; when it is dropped before, the connection is closed.
pub struct FromWorkspace {
    /// Given back only when dropped.
    lease: Option<Lease>,
    /// Where a download counts as activity while it lasts; `None` for polls, and for event streams,
    /// whose heartbeats are nobody's work.
    cell: Option<Arc<Cell>>,
    /// The workspace broke off; said one turn later, so that what came before is sent on first.
    broke_off: Option<io::Error>,
    /// What it is let out by. Whatever is small is gone before that could end.
    warrant: Option<Box<Warrant>>,
}

impl FromWorkspace {
    pub(crate) fn new(lease: Lease, cell: Option<Arc<Cell>>, warrant: Option<Warrant>) -> Self {
        Self { lease: Some(lease), cell, broke_off: None, warrant: warrant.map(Box::new) }
    }
}

impl Body for FromWorkspace {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(error) = self.broke_off.take() {
            return Poll::Ready(Some(Err(error.into())));
        }
        if let Some(warrant) = &mut self.warrant
            && warrant.poll_ended(cx).is_ready()
        {
            return Poll::Ready(Some(Err("whoever asked for this may not read on".into())));
        }
        let Some(lease) = &mut self.lease else { return Poll::Ready(None) };
        match ready!(lease.wire.poll_body(cx)) {
            Some(Ok(frame)) => {
                if let Some(cell) = &self.cell {
                    cell.record(ActivityKind::Http);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "a workspace broke off in the middle of an answer");
                self.broke_off = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.lease.as_ref().is_none_or(|lease| lease.wire.has_ended())
    }

    fn size_hint(&self) -> SizeHint {
        self.lease.as_ref().map_or_else(SizeHint::default, |lease| lease.wire.size_hint())
    }
}

impl Drop for FromWorkspace {
    fn drop(&mut self) {
        // Whoever sends it on stops at the announced length, without asking for the end.
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }
}

/// A request's body on its way to the workspace.
pub(crate) struct ToWorkspace {
    body: ProxyBody,
    /// `None` for polls, which are nobody's work.
    cell: Option<Arc<Cell>>,
    /// How long the client may send nothing.
    bytes: Patience,
    /// `Expect: 100-continue`: nothing is read from the client before the workspace wants it, or did
    /// not say anything for a while.
    patience: Option<Pin<Box<Sleep>>>,
}

impl ToWorkspace {
    pub(crate) fn new(body: ProxyBody, cell: Option<Arc<Cell>>, patience: Option<Duration>) -> Self {
        let patience = patience.map(|patience| Box::pin(tokio::time::sleep(patience)));
        Self { body, cell, bytes: Patience::new(BYTES_WITHIN), patience }
    }

    /// The workspace wants it.
    pub(crate) fn go_ahead(&mut self) {
        self.patience = None;
    }

    /// This body once more, for a second try; `None` unless it is empty.
    pub(crate) fn replay(&self) -> Option<Self> {
        self.body.is_end_stream().then(|| Self {
            body: ProxyBody::Empty,
            cell: self.cell.clone(),
            bytes: Patience::new(BYTES_WITHIN),
            patience: None,
        })
    }
}

impl Body for ToWorkspace {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(patience) = &mut self.patience {
            ready!(patience.as_mut().poll(cx));
            self.patience = None;
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            let late = || io::Error::from(io::ErrorKind::TimedOut);
            return self.bytes.poll(cx).map(|()| Some(Err(late().into())));
        };
        self.bytes.begin_anew();
        if frame.is_some()
            && let Some(cell) = &self.cell
        {
            cell.record(ActivityKind::Http);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

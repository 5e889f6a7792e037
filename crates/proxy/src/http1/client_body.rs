//! The body of a client's request. It reads the connection itself, wherever it is polled; while it lasts, it has the
//! reading side to itself, and gives it back when it has ended or is dropped.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::task::AtomicWaker;
use http_body::{Body, Frame, SizeHint};

use super::body::BoxError;
use super::{
    decode::{Decoded, Decoder},
    reader::Reader,
};
use crate::tls::ReadSide;

pub(crate) type ClientReader = Reader<ReadSide>;

/// What a connection and the body of its request share.
#[derive(Default)]
pub(crate) struct Loan {
    returned: Mutex<Option<Returned>>,
    /// The client waits for "100 Continue", and somebody wants to read.
    wanted: AtomicBool,
    connection: AtomicWaker,
}

/// The reading side, and how far the body was read.
pub(crate) struct Returned {
    pub reader: ClientReader,
    decoder: Decoder,
}

impl Returned {
    /// Passes over what is left of the body, as far as it is here. Whether that was all.
    pub(crate) fn skip_rest(&mut self) -> bool {
        loop {
            match self.decoder.step(&mut self.reader.ahead) {
                Ok(Decoded::Frame(_)) => {}
                Ok(Decoded::Ended) => return true,
                Ok(Decoded::More) | Err(_) => return false,
            }
        }
    }
}

impl Loan {
    /// What was lent, once it is back. Until then the task is woken when something changes.
    pub(crate) fn take(&self, cx: &mut Context<'_>) -> Option<Returned> {
        self.connection.register(cx.waker());
        self.returned.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether "100 Continue" is to be said now.
    pub(crate) fn wants_to_go_on(&self) -> bool {
        self.wanted.swap(false, Ordering::AcqRel)
    }
}

/// The body of an HTTP/1 request as it arrives from the client.
pub struct ClientBody {
    reader: Option<ClientReader>,
    decoder: Decoder,
    loan: Arc<Loan>,
    /// Nobody has told the client to go on.
    held: bool,
}

impl ClientBody {
    pub(crate) fn new(reader: ClientReader, decoder: Decoder, held: bool) -> (Self, Arc<Loan>) {
        let loan = Arc::<Loan>::default();
        (Self { reader: Some(reader), decoder, loan: loan.clone(), held }, loan)
    }

    fn give_back(&mut self) {
        if let Some(reader) = self.reader.take() {
            let returned = Returned { reader, decoder: self.decoder };
            *self.loan.returned.lock().unwrap_or_else(PoisonError::into_inner) = Some(returned);
            self.loan.connection.wake();
        }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if std::mem::take(&mut this.held) {
            this.loan.wanted.store(true, Ordering::Release);
            this.loan.connection.wake();
        }
        let Some(reader) = &mut this.reader else { return Poll::Ready(None) };
        let frame = ready!(reader.poll_body(cx, &mut this.decoder));
        if frame.is_err() || this.decoder == Decoder::Ended {
            this.give_back();
        }
        Poll::Ready(frame.transpose().map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.decoder == Decoder::Ended
    }

    fn size_hint(&self) -> SizeHint {
        self.decoder.size_hint()
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        self.give_back();
    }
}

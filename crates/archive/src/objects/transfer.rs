//! Joins the blocking ends to an async store.
//!
//! Both directions go through bounded channels and hold a fixed number of
//! pieces in memory. A transfer that is dropped half-way cancels its
//! blocking end.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use object_store::path::Path as Location;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::pair::blocking;
use super::s3_uploads::Uploads;
use crate::error::{ArchiveError, Result};
use crate::pack::PackSummary;

/// Stores take at most 10,000 parts of at least 5 MiB, some of them only
/// parts of one size, so the size is chosen before the first byte.
pub(crate) const PART: usize = 8 * 1024 * 1024;
/// Stays below the limit when a home turns out larger than estimated.
const MOST_PARTS: u64 = 8_000;

/// Parts in memory: one being filled, the others on their way.
const PARTS: usize = 3;

const RANGE: u64 = 2 * 1024 * 1024;
const RANGES_AHEAD: usize = 4;
const READ_TRIES: u32 = 5;
const FIRST_BACKOFF: Duration = Duration::from_millis(100);

/// The part size for a home of about `estimate` bytes: the smallest multiple
/// of [`PART`] with which even an incompressible home has few enough parts.
/// Above 64 GiB parts, and with them memory, grow along with the home.
pub(crate) fn part_size(estimate: u64) -> usize {
    let parts = estimate.div_ceil(MOST_PARTS * PART as u64).max(1);
    usize::try_from(parts).unwrap_or(usize::MAX).saturating_mul(PART)
}

/// Uploads what `produce` writes. The object appears only when `produce`
/// ended well and every byte it wrote has arrived. Where the store shows its
/// unfinished uploads, what arrived of one that failed is kept for the next.
pub(crate) async fn upload(
    store: &dyn ObjectStore,
    uploads: Option<&Uploads>,
    location: &Location,
    part_size: usize,
    cancel: &CancellationToken,
    produce: impl FnOnce(&mut dyn Write) -> Result<PackSummary> + Send + 'static,
) -> Result<PackSummary> {
    // Unbounded, but every part in it holds one of the few permits.
    let (sender, mut parts) = mpsc::unbounded_channel();
    let runtime = Handle::current();
    let producer = blocking(move || produce(&mut Parts::new(sender, part_size, runtime)));
    let (first, second) = (parts.recv().await, parts.recv().await);
    let Some(second) = second else {
        // Small enough for a single request.
        let summary = joined(producer.await)?;
        let only = first.map(|part: Part| part.bytes).unwrap_or_default();
        check_length(&summary, only.len() as u64)?;
        let put = store.put(location, only.into()).await;
        put.map_err(|e| ArchiveError::store("upload", location.as_ref(), &e))?;
        return Ok(summary);
    };
    let failed = |e: &object_store::Error| ArchiveError::store("upload", location.as_ref(), e);
    let begun = match uploads {
        Some(uploads) => uploads.resume(location).await,
        None => store.put_multipart(location).await,
    };
    let mut multipart = begun.map_err(|e| failed(&e))?;
    let sent = tokio::select! {
        sent = send_parts(&mut *multipart, [first, Some(second)], &mut parts) => sent.map_err(|e| failed(&e)),
        () = cancel.cancelled() => Err(ArchiveError::Cancelled),
    };
    // The producer must end before its home may be touched again.
    drop(parts);
    let produced = joined(producer.await);
    let outcome = match (sent, produced) {
        (Ok(sent), Ok(summary)) => check_length(&summary, sent).map(|()| summary),
        // A producer without a receiver fails too; the store's reason is why.
        (Err(error), _) | (Ok(_), Err(error)) => Err(error),
    };
    let outcome = match outcome {
        Ok(summary) => match multipart.complete().await {
            Ok(_) => Ok(summary),
            // The answer may have been lost, and asked again the store knows of no such upload. What
            // is there is verified by the caller.
            Err(error) => match store.head(location).await {
                Ok(found) if found.size == summary.size => return Ok(summary),
                _ => Err(failed(&error)),
            },
        },
        Err(error) => Err(error),
    };
    if outcome.is_err()
        && uploads.is_none()
        && let Err(error) = multipart.abort().await
    {
        tracing::debug!(%error, %location, "an unfinished upload could not be aborted");
    }
    outcome
}

/// Sends every part; returns their total length.
async fn send_parts(
    multipart: &mut dyn MultipartUpload,
    early: [Option<Part>; 2],
    rest: &mut mpsc::UnboundedReceiver<Part>,
) -> object_store::Result<u64> {
    let mut under_way = JoinSet::new();
    let mut sent = 0;
    let mut send = |part: Part, under_way: &mut JoinSet<object_store::Result<()>>| {
        sent += part.bytes.len() as u64;
        let upload = multipart.put_part(part.bytes.into());
        let permit = part.permit;
        under_way.spawn(async move {
            let outcome = upload.await;
            drop(permit);
            outcome
        });
    };
    for part in early.into_iter().flatten() {
        send(part, &mut under_way);
    }
    loop {
        tokio::select! {
            Some(uploaded) = under_way.join_next() => uploaded??,
            part = rest.recv() => match part {
                Some(part) => send(part, &mut under_way),
                None => break,
            },
        }
    }
    while let Some(uploaded) = under_way.join_next().await {
        uploaded??;
    }
    Ok(sent)
}

fn check_length(summary: &PackSummary, sent: u64) -> Result<()> {
    if summary.size == sent {
        return Ok(());
    }
    let message = format!("sent {sent} bytes of {}", summary.size);
    Err(ArchiveError::Unreachable { message })
}

/// A piece of an upload, and the right to keep it in memory.
struct Part {
    bytes: Bytes,
    permit: OwnedSemaphorePermit,
}

/// Collects what is written into parts and hands them over, waiting while
/// too many earlier ones are still on their way.
struct Parts {
    sender: mpsc::UnboundedSender<Part>,
    permits: Arc<Semaphore>,
    filling: Option<(BytesMut, OwnedSemaphorePermit)>,
    size: usize,
    runtime: Handle,
}

impl Parts {
    fn new(sender: mpsc::UnboundedSender<Part>, size: usize, runtime: Handle) -> Self {
        Self { sender, permits: Arc::new(Semaphore::new(PARTS)), filling: None, size, runtime }
    }

    fn begin(&self) -> io::Result<(BytesMut, OwnedSemaphorePermit)> {
        let permit = self.runtime.block_on(self.permits.clone().acquire_owned());
        let permit = permit.map_err(io::Error::other)?;
        Ok((BytesMut::with_capacity(self.size), permit))
    }

    fn send(&self, bytes: BytesMut, permit: OwnedSemaphorePermit) -> io::Result<()> {
        let bytes = bytes.freeze();
        let sent = self.sender.send(Part { bytes, permit });
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (mut part, permit) = match self.filling.take() {
            Some(filling) => filling,
            None => self.begin()?,
        };
        let take = bytes.len().min(self.size - part.len());
        part.extend_from_slice(&bytes[..take]);
        if part.len() == self.size {
            self.send(part, permit)?;
        } else {
            self.filling = Some((part, permit));
        }
        Ok(take)
    }

    /// Called once, at the end: what is left is the last part.
    fn flush(&mut self) -> io::Result<()> {
        match self.filling.take() {
            Some((part, permit)) => self.send(part, permit),
            None => Ok(()),
        }
    }
}

/// Gives a range of an object to `consume`, on a blocking thread. It is
/// fetched in pieces, ahead, and again when a read fails.
pub(crate) async fn read_through<T: Send + 'static>(
    store: &Arc<dyn ObjectStore>,
    location: &Location,
    range: Range<u64>,
    cancel: &CancellationToken,
    consume: impl FnOnce(Pieces, CancellationToken) -> Result<T> + Send + 'static,
) -> Result<T> {
    let stop = cancel.child_token();
    let _stop_when_dropped = stop.clone().drop_guard();
    let (sender, receiver) = mpsc::channel(1);
    let consumer = blocking({
        let stop = stop.clone();
        move || consume(Pieces::new(receiver), stop)
    });
    let Range { start, end } = range;
    let starts = (0..(end - start).div_ceil(RANGE)).map(move |n| start + n * RANGE);
    let mut ranges = stream::iter(starts)
        .map(|start| read_range(store, location, start..end.min(start + RANGE)))
        .buffered(RANGES_AHEAD);
    let pump = async move {
        loop {
            let piece = tokio::select! {
                piece = ranges.next() => piece,
                // Nobody listens any more: the consumer says why.
                () = sender.closed() => None,
            };
            let Some(piece) = piece else { return Ok(()) };
            if sender.send(piece?).await.is_err() {
                return Ok(());
            }
        }
    };
    let pumped = tokio::select! {
        pumped = pump => pumped,
        () = stop.cancelled() => Err(ArchiveError::Cancelled),
    };
    // A broken stream looks like a short one from the other end, so what
    // broke it is the better reason.
    if pumped.is_err() {
        stop.cancel();
    }
    let consumed = joined(consumer.await);
    pumped?;
    consumed
}

/// A range of an object, asked for again when a read fails.
pub(crate) async fn read_range(
    store: &Arc<dyn ObjectStore>,
    location: &Location,
    range: Range<u64>,
) -> Result<Bytes> {
    let mut backoff = FIRST_BACKOFF;
    let mut tries = 0;
    loop {
        let failure = match store.get_range(location, range.clone()).await {
            Ok(bytes) if bytes.len() as u64 == range.end - range.start => return Ok(bytes),
            Ok(bytes) => ArchiveError::Unreachable {
                message: format!("{location}: got {} bytes of {range:?}", bytes.len()),
            },
            Err(error) => ArchiveError::store("read", location.as_ref(), &error),
        };
        tries += 1;
        if tries == READ_TRIES || matches!(failure, ArchiveError::NotFound { .. }) {
            return Err(failure);
        }
        tracing::debug!(error = %failure, "reading an archive failed, trying again");
        tokio::time::sleep(backoff).await;
        backoff *= 2;
    }
}

/// The stream as the blocking end reads it.
pub(crate) struct Pieces {
    receiver: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl Pieces {
    fn new(receiver: mpsc::Receiver<Bytes>) -> Self {
        Self { receiver, piece: Bytes::new() }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            self.piece = self.receiver.blocking_recv().unwrap_or_default();
        }
        let take = self.piece.len().min(buffer.len());
        buffer[..take].copy_from_slice(&self.piece.split_to(take));
        Ok(take)
    }
}

pub(crate) fn joined<T>(outcome: Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    outcome.unwrap_or_else(|error| {
        let source = io::Error::other(error);
        Err(ArchiveError::local("an archive thread ended early", source))
    })
}

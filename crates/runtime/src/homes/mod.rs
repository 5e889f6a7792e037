//! The home transfer port: how a home gets off its volume as an archive's bytes, and back onto one.
//!
//! The object store is the same for every backend ([`crate::archives::StoredArchives`]); only the way between
//! it and a volume differs. Both directions are a blocking end that reads or writes the archive's bytes on the
//! store's own thread, and, for backends whose volumes are elsewhere, work that has to go on beside it. A
//! directory is packed straight into the store's writer; nothing lies in between.

mod directory;

use std::io::{Read, Write};

use async_trait::async_trait;
use codehub_archive::{ArchiveError, ArchiveMeta, PackSummary, Packed, Progress, UnpackSummary};
use codehub_domain::{ArchiveRecord, VolumeKey};
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub use directory::DirectoryTransfer;

use crate::Fence;

pub(crate) type Result<T> = std::result::Result<T, ArchiveError>;

/// How a transfer is followed, ended and fenced.
#[derive(Debug, Clone, Default)]
pub struct Transfer {
    /// How far it is.
    pub progress: Progress,
    /// Ends it early; so does dropping whoever waits for it.
    pub cancel: CancellationToken,
    /// Whether whoever asked for it still leads.
    pub fence: Fence,
    /// Of a home that is archived: what it was when it was archived last.
    pub base: Option<ArchiveRecord>,
}

/// Writes a home's archive, and says what it wrote. Blocks.
pub type WriteArchive = Box<dyn FnOnce(&mut dyn Write) -> Result<PackSummary> + Send>;
/// Reads a home's archive, and says what it made of it. Blocks; ends early when the token says so.
pub type ReadArchive =
    Box<dyn FnOnce(&mut (dyn Read + Send), &CancellationToken) -> Result<UnpackSummary> + Send>;

/// A home about to be packed. Dropping it ends what was begun for it.
pub struct Packing {
    /// About how many bytes there are before compression.
    pub total: u64,
    /// The blocking end, for the store's own thread.
    pub write: WriteArchive,
    /// To be driven to its end while `write` runs, also where that failed.
    pub beside: BoxFuture<'static, Result<()>>,
}

/// A home about to be unpacked. Dropping it ends what was begun for it.
pub struct Unpacking {
    /// The blocking end, for the store's own thread.
    pub read: ReadArchive,
    /// To be driven to its end while `read` runs, also where that failed.
    pub beside: BoxFuture<'static, Result<()>>,
}

/// Nothing to be done beside the blocking end.
pub fn nothing_beside() -> BoxFuture<'static, Result<()>> {
    Box::pin(std::future::ready(Ok(())))
}

/// Moves homes between volumes and archives. An error means "could not", never "is not there".
#[async_trait]
pub trait HomeTransfer: Send + Sync + 'static {
    /// Begins to pack the volume, which nothing writes to meanwhile, as `packed` says. Changes nothing on it. The same
    /// volume packed in the same way gives the same bytes. They count only when `write` returned its summary of exactly them: a stream that was cut off is an error.
    ///
    /// # Errors
    /// The volume does not exist or cannot be read, or the fence is closed.
    async fn pack(&self, volume: &VolumeKey, packed: Packed, transfer: &Transfer) -> Result<Packing>;

    /// Begins to unpack the archive that `meta` describes into the volume, which exists and is empty. `read` is given
    /// what [`codehub_archive::ObjectArchives::fetch_with`] gives of such an archive. The
    /// fence is asked before the first byte. `Ok` of both parts means: all of it, and durable; after an error
    /// the volume holds something unfinished and is thrown away by the caller.
    ///
    /// # Errors
    /// The volume does not exist or cannot be written to, or the fence is closed.
    async fn unpack(&self, volume: &VolumeKey, meta: &ArchiveMeta, transfer: &Transfer) -> Result<Unpacking>;
}

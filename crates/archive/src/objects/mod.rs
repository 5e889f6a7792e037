//! Archives in an object store.
//!
//! An archive is two objects: the data, and a meta object that is written
//! after the data was verified. Only both together are an archive.
//!
//! Guarantees:
//! - A finished archive is never written to again. A second `put` under its
//!   key checks that the stored bytes are this home's and uploads nothing.
//! - `put` returns success only when the data and the meta object were seen
//!   in the store, durable where the store is a directory.
//! - `fetch` returns success only when every stored byte matched the meta
//!   object and the restored home is durable.
//! - "Not there" is only said when the store could be asked.
//!
//! One `put` per key at a time is the caller's business. Should two overlap
//! all the same, they write the same bytes: packing is deterministic.

mod browse;
mod chunked;
mod export;
mod local;
mod local_write;
mod pair;
pub(crate) mod s3;
mod s3_http;
mod s3_resume;
mod s3_uploads;
pub(crate) mod transfer;

pub use browse::{FilePage, FileStream};
pub use chunked::Packed;
pub use local::MARKER;
pub use s3::S3Config;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Location;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt};
use tokio_util::sync::CancellationToken;

use self::local::LocalRoot;
use self::pair::{blocking, not_altered, unfindable};
use self::s3_uploads::Uploads;
use self::transfer::{Pieces, joined, part_size, read_through, upload};
use super::chunked_pack::pack_chunked;
use super::error::{ArchiveError, Result};
use super::frames::PackOptions;
use super::manifest::{CHUNKED_FORMAT, TAR_FORMAT};
use super::meta::{ArchiveMeta, Expected};
use super::pack::{PackSummary, estimate_home, pack, pack_nothing};
use super::progress::Progress;
use super::said::said;
use super::source::digest;
use super::unpack::{Limits, UnpackSummary, unpack, unpack_tar};

/// The last part of every key that [`ObjectArchives::list`] finds.
pub const DATA_NAME: &str = "home.tar.zst";
/// What the key of an archive's commit mark has after the key of its data.
pub(crate) const META_SUFFIX: &str = ".meta";

/// How `put` makes sure that the data arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Compare the size; the store is trusted with the rest.
    Size,
    /// Read everything back and compare the checksum.
    Content,
}

/// An object or pair of objects found in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Below the prefix of the store.
    pub key: String,
    /// Stored bytes, as far as they are there.
    pub size: u64,
    /// By the store's clock, of the newer object.
    pub last_modified: Timestamp,
    /// Whether data and meta are both there.
    pub complete: bool,
}

/// The archives of one deployment.
#[derive(Clone, Debug)]
pub struct ObjectArchives {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) prefix: String,
    pub(crate) local: Option<LocalRoot>,
    /// Where unfinished uploads can be seen and gone on with, if the store is a bucket.
    uploads: Option<Arc<Uploads>>,
    options: PackOptions,
    verify: Verify,
    /// Of new archives.
    format: u32,
}

impl ObjectArchives {
    /// The key under which an operation stores a home.
    #[must_use]
    pub fn key(workspace_id: &str, op_id: &str) -> String {
        format!("{workspace_id}/{op_id}/{DATA_NAME}")
    }

    /// Archives in any object store, below `prefix` (which may be empty).
    /// The store must be durable when it says that a write is done.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self {
            store,
            prefix: prefix.trim_matches('/').into(),
            local: None,
            uploads: None,
            options: PackOptions::default(),
            verify: Verify::Size,
            format: TAR_FORMAT,
        }
    }

    /// Whether there are archives of ours below `root`: an empty mount point has none.
    pub fn is_local(root: &Path) -> Result<bool> {
        local::is_store(root).map_err(|e| ArchiveError::local("cannot look at the archive directory", e))
    }

    /// Archives as files below `root`, which is made if it is missing.
    /// Writes are synced, and read back before they count.
    pub fn open_local(root: &Path, prefix: &str) -> Result<Self> {
        let context = "cannot open the archive directory";
        let local = LocalRoot::create(root).map_err(|e| ArchiveError::local(context, e))?;
        let store = LocalFileSystem::new_with_prefix(root)
            .map_err(|e| ArchiveError::store("open", "the archive directory", &e))?
            .with_fsync(true)
            .with_automatic_cleanup(true);
        Ok(Self { local: Some(local), verify: Verify::Content, ..Self::new(Arc::new(store), prefix) })
    }

    /// Below which all archives are.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Sets compression level and threads.
    #[must_use]
    pub fn with_options(self, options: PackOptions) -> Self {
        Self { options, ..self }
    }

    /// How `put` makes sure that the data arrived.
    #[must_use]
    pub fn with_verify(self, verify: Verify) -> Self {
        Self { verify, ..self }
    }

    /// Whether new archives store only what has changed since the last one (format 3), or everything (format 2). What
    /// is there already is read, whichever it is.
    #[must_use]
    pub fn incremental(self, incremental: bool) -> Self {
        Self { format: if incremental { CHUNKED_FORMAT } else { TAR_FORMAT }, ..self }
    }

    pub(crate) fn with_uploads(self, uploads: Uploads) -> Self {
        Self { uploads: Some(Arc::new(uploads)), ..self }
    }

    /// Archives the home directory `home` under `key`.
    pub async fn put(
        &self,
        key: &str,
        home: &Path,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<ArchiveMeta> {
        self.put_since(key, None, home, progress, cancel).await
    }

    /// [`ObjectArchives::put`], where the last archive of this home is `base`.
    pub async fn put_since(
        &self,
        key: &str,
        base: Option<(&str, &Expected)>,
        home: &Path,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<ArchiveMeta> {
        let packed = self.packed_as(key, base).await?;
        let stop = cancel.child_token();
        let _stop_when_dropped = stop.clone().drop_guard();
        let total = {
            let (home, stop) = (home.to_owned(), stop.clone());
            joined(blocking(move || estimate_home(&home, &stop)).await)?
        };
        progress.start(total);
        let (home, options) = (home.to_owned(), self.options);
        let (counted, token) = (progress.clone(), stop.clone());
        self.put_with(key, total, progress, &stop, move |sink| match packed {
            Packed::Whole => pack(&home, sink, options, &counted, &token),
            Packed::Without(known) => pack_chunked(&home, &known, sink, options, &counted, &token),
        })
        .await
    }

    /// Archives what `produce` writes under `key`. About `total` bytes are to be expected before compression. Where
    /// a finished archive is there already it is compared with what `produce` writes, and nothing is uploaded: whoever
    /// can write to the store may have put another one there.
    pub async fn put_with(
        &self,
        key: &str,
        total: u64,
        progress: &Progress,
        cancel: &CancellationToken,
        produce: impl FnOnce(&mut dyn Write) -> Result<PackSummary> + Send + 'static,
    ) -> Result<ArchiveMeta> {
        let Some(meta) = self.finished(key, progress, cancel).await? else {
            return self.store_new(key, part_size(total), progress, cancel, produce).await;
        };
        let packed = joined(blocking(move || produce(&mut std::io::sink())).await)?;
        // Not removed: should somebody else have made it the home meanwhile, it is the only copy.
        meta.hold_against(key, &ArchiveMeta::new(&packed).expected())?;
        self.check_parts(key, &meta).await?;
        Ok(meta)
    }

    /// Archives an empty home under `key`.
    pub async fn put_empty(&self, key: &str) -> Result<ArchiveMeta> {
        let (progress, cancel) = (Progress::new(), CancellationToken::new());
        self.put_with(key, 0, &progress, &cancel, |sink| pack_nothing(sink)).await
    }

    /// Restores the archive `key` into `target`, an empty directory.
    pub async fn fetch(
        &self,
        key: &str,
        target: &Path,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<ArchiveMeta> {
        let Some(meta) = self.head(key).await? else {
            return Err(ArchiveError::NotFound { key: key.into() });
        };
        progress.start(meta.uncompressed);
        let limits = Limits { uncompressed: meta.uncompressed, entries: meta.entries };
        let (target, progress) = (target.to_owned(), progress.clone());
        let chunked = meta.is_chunked();
        self.fetch_with(key, &meta, cancel, move |stream, cancel| match chunked {
            true => unpack_tar(stream, &target, limits, &progress, cancel),
            false => unpack(stream, &target, limits, &progress, cancel),
        })
        .await?;
        Ok(meta)
    }

    /// Gives the stored bytes of the archive `key`, of which [`ObjectArchives::head`] said `meta`, to
    /// `consume`, and checks what it made of them against that. Of an archive of format 3 it gets the plain tar stream
    /// ([`super::unpack_tar`]), of any other what [`super::unpack`] reads.
    pub async fn fetch_with(
        &self,
        key: &str,
        meta: &ArchiveMeta,
        cancel: &CancellationToken,
        consume: impl FnOnce(&mut (dyn Read + Send), &CancellationToken) -> Result<UnpackSummary> + Send + 'static,
    ) -> Result<()> {
        if meta.is_chunked() {
            let consume = move |mut tar, cancel| consume(&mut tar, &cancel);
            return self.read_chunked(key, meta, cancel, consume).await.map_err(|error| named(error, key));
        }
        self.read(key, meta, cancel, move |mut stream, cancel| consume(&mut stream, &cancel)).await
    }

    async fn read(
        &self,
        key: &str,
        meta: &ArchiveMeta,
        cancel: &CancellationToken,
        consume: impl FnOnce(Pieces, CancellationToken) -> Result<UnpackSummary> + Send + 'static,
    ) -> Result<()> {
        let data = self.data(key)?;
        let found = read_through(&self.store, &data, 0..meta.size, cancel, consume)
            .await
            .map_err(|error| named(error, key))?;
        let expected = (&meta.sha256, meta.size, meta.uncompressed, meta.entries);
        let actual = (&found.sha256, found.size, found.uncompressed, found.entries);
        if actual != expected {
            let message = format!("{key}: restored {actual:?}, its meta object says {expected:?}");
            return Err(ArchiveError::Corrupted { message });
        }
        Ok(())
    }

    /// What a finished archive says about itself; `None` when it is not
    /// there or not finished. Data of another size than it should have is
    /// an error.
    pub async fn head(&self, key: &str) -> Result<Option<ArchiveMeta>> {
        let Some(meta) = self.read_meta(key).await? else {
            return Ok(None);
        };
        let Some(size) = self.data_size(key).await? else {
            return Ok(None);
        };
        if size != meta.size {
            let expected = meta.size;
            let message = format!("{key}: has {size} bytes, should have {expected}");
            return Err(ArchiveError::Corrupted { message });
        }
        Ok(Some(meta))
    }

    /// Everything below the prefix that is, or was to become, an archive.
    pub async fn list(&self) -> Result<Vec<ListedObject>> {
        self.list_below("").await
    }

    /// Those of one workspace; nothing else is looked at.
    pub async fn list_of(&self, workspace_id: &str) -> Result<Vec<ListedObject>> {
        self.list_below(workspace_id).await
    }

    async fn list_below(&self, part: &str) -> Result<Vec<ListedObject>> {
        let prefix = self.location(&self.prefix)?;
        let below = self.location(&format!("{}/{part}", self.prefix))?;
        let failed = |e: &StoreError| match ArchiveError::store("list", &self.prefix, e) {
            // A missing bucket; a missing prefix is an empty list.
            ArchiveError::NotFound { key } => {
                ArchiveError::Unreachable { message: format!("cannot list {key}: {}", said(e)) }
            }
            error => error,
        };
        let mut found: BTreeMap<String, (Option<u64>, bool, Timestamp)> = BTreeMap::new();
        let mut objects = self.store.list(Some(&below));
        while let Some(object) = objects.try_next().await.map_err(|e| failed(&e))? {
            let path = object.location.as_ref();
            let Some(path) = path.strip_prefix(prefix.as_ref()) else {
                continue;
            };
            let path = path.trim_start_matches('/');
            let (key, is_meta) = match path.strip_suffix(META_SUFFIX) {
                Some(key) => (key, true),
                None => (path, false),
            };
            if !is_key(key) {
                continue;
            }
            let nanos = object.last_modified.timestamp_nanos_opt().unwrap_or(0);
            let modified = Timestamp::from_nanosecond(nanos.into()).unwrap_or_default();
            let entry = found.entry(key.into()).or_default();
            match is_meta {
                true => entry.1 = true,
                false => entry.0 = Some(object.size),
            }
            entry.2 = entry.2.max(modified);
        }
        if found.is_empty() {
            self.check_present().await?;
        }
        let listed = found.into_iter();
        let listed = listed.map(|(key, (size, has_meta, last_modified))| ListedObject {
            key,
            size: size.unwrap_or(0),
            last_modified,
            complete: has_meta && size.is_some(),
        });
        Ok(listed.collect())
    }

    /// Removes an archive, finished or not. The meta object goes first, so
    /// what is half deleted never looks complete.
    pub async fn delete(&self, key: &str) -> Result<()> {
        self.delete_mark(key).await?;
        self.remove(key, self.data(key)?).await
    }

    /// Removes what makes it an archive. Its data stays, for archives that have parts there.
    pub async fn delete_mark(&self, key: &str) -> Result<()> {
        self.remove(key, self.meta(key)?).await
    }

    async fn remove(&self, key: &str, location: Location) -> Result<()> {
        match self.store.delete(&location).await {
            Ok(()) => {}
            Err(StoreError::NotFound { .. }) => self.check_present().await?,
            Err(error) => return Err(ArchiveError::store("delete", key, &error)),
        }
        self.on_disk(move |local| local.sync_removal(location.as_ref())).await?;
        Ok(())
    }

    /// Removes what uploads that never ended have left behind, and nobody went on with for so long.
    pub async fn sweep_unfinished(&self, older_than: Duration) -> Result<u64> {
        if let Some(uploads) = &self.uploads {
            return uploads.sweep(self.location(&self.prefix)?.as_ref(), older_than).await;
        }
        let swept = self.on_disk(move |local| local.sweep(older_than)).await?;
        Ok(swept.unwrap_or(0))
    }

    /// What an archive is that nothing was noted about yet: its meta object's word, and its index. `None` when it is
    /// not there or not finished.
    pub async fn describe(&self, key: &str) -> Result<Option<Expected>> {
        let Some(meta) = self.head(key).await? else { return Ok(None) };
        let mut found = meta.expected();
        if found.format >= 2 && found.index_sha256.is_none() {
            found.index_sha256 = Some(self.index_digest(key, &meta).await?);
        }
        Ok(Some(found))
    }

    /// A finished archive under this key, its content checked. Meta without
    /// data is no archive any more and is cleared away.
    pub async fn finished(
        &self,
        key: &str,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<Option<ArchiveMeta>> {
        if let Some(meta) = self.head(key).await? {
            self.check_content(key, &meta, progress, cancel).await?;
            return Ok(Some(meta));
        }
        if self.read_meta(key).await?.is_some() {
            self.delete(key).await?;
        }
        Ok(None)
    }

    /// Stores data, verifies it, stores meta, verifies both.
    async fn store_new(
        &self,
        key: &str,
        part_size: usize,
        progress: &Progress,
        cancel: &CancellationToken,
        produce: impl FnOnce(&mut dyn Write) -> Result<PackSummary> + Send + 'static,
    ) -> Result<ArchiveMeta> {
        let summary = match &self.local {
            Some(local) => self.write_file(local, key, progress, cancel, produce).await?,
            None => self.upload_data(key, part_size, progress, cancel, produce).await?,
        };
        let meta = ArchiveMeta::new(&summary);
        if cancel.is_cancelled() {
            return Err(ArchiveError::Cancelled);
        }
        self.check_parts(key, &meta).await.map_err(unfindable)?;
        self.write_meta(key, &meta).await?;
        match self.head(key).await? {
            Some(stored) if stored == meta => Ok(meta),
            _ => Err(ArchiveError::Unreachable { message: format!("{key}: was written but is not there") }),
        }
    }

    /// Into a directory: checked before it has its name.
    async fn write_file(
        &self,
        local: &LocalRoot,
        key: &str,
        progress: &Progress,
        cancel: &CancellationToken,
        produce: impl FnOnce(&mut dyn Write) -> Result<PackSummary> + Send + 'static,
    ) -> Result<PackSummary> {
        // What earlier tries have left. A forgotten one that is still writing finds its file gone and fails.
        for location in [self.data(key)?, self.meta(key)?] {
            self.on_disk(move |local| local.sweep_object(location.as_ref())).await?;
        }
        let (local, data, verify) = (local.clone(), self.data(key)?, self.verify);
        let (progress, cancel) = (progress.clone(), cancel.clone());
        joined(blocking(move || local.write(data.as_ref(), verify, &progress, &cancel, produce)).await)
    }

    /// Into a store that is asked again what it has.
    async fn upload_data(
        &self,
        key: &str,
        part_size: usize,
        progress: &Progress,
        cancel: &CancellationToken,
        produce: impl FnOnce(&mut dyn Write) -> Result<PackSummary> + Send + 'static,
    ) -> Result<PackSummary> {
        let data = self.data(key)?;
        let uploads = self.uploads.as_deref();
        let uploaded = upload(&*self.store, uploads, &data, part_size, cancel, produce).await;
        let summary = uploaded.map_err(unfindable)?;
        let arrived = self.data_size(key).await?;
        if arrived != Some(summary.size) {
            return Err(ArchiveError::Unreachable {
                message: format!("{key}: uploaded {} bytes, found {arrived:?}", summary.size),
            });
        }
        if self.verify == Verify::Content {
            let consume = {
                let counted = progress.clone();
                move |stream, cancel| digest(stream, &counted, &cancel)
            };
            let read = read_through(&self.store, &data, 0..summary.size, cancel, consume).await;
            not_altered(key, &summary, &read.map_err(unfindable)?)?;
        }
        Ok(summary)
    }

    /// Reads the stored bytes again and compares their checksum.
    async fn check_content(
        &self,
        key: &str,
        meta: &ArchiveMeta,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<()> {
        let data = self.data(key)?;
        let counted = progress.clone();
        let actual = if self.local.is_some() {
            let name = data.as_ref().to_owned();
            let file = self.on_disk(move |local| local.open(&name)).await?;
            let stop = cancel.child_token();
            let _stop_when_dropped = stop.clone().drop_guard();
            let work = blocking(move || file.map(|file| digest(file, &counted, &stop)).transpose());
            joined(work.await)?.unwrap_or_default()
        } else {
            let consume = move |stream, cancel| digest(stream, &counted, &cancel);
            read_through(&self.store, &data, 0..meta.size, cancel, consume).await.map_err(unfindable)?
        };
        if actual != meta.sha256 {
            let message = format!("{key}: stored bytes have checksum {actual}, not {}", meta.sha256);
            return Err(ArchiveError::Corrupted { message });
        }
        Ok(())
    }
}

/// `{workspace_id}/{op_id}/home.tar.zst`, and nothing else that may be lying
/// around below the prefix.
fn is_key(key: &str) -> bool {
    let parts: Vec<&str> = key.split('/').collect();
    matches!(parts[..], [workspace, op, DATA_NAME] if !workspace.is_empty() && !op.is_empty())
}

/// Says which archive is meant where the engine could not know.
fn named(error: ArchiveError, key: &str) -> ArchiveError {
    match error {
        ArchiveError::Corrupted { message } => {
            ArchiveError::Corrupted { message: format!("{key}: {message}") }
        }
        ArchiveError::Refused { message } => ArchiveError::Refused { message: format!("{key}: {message}") },
        ArchiveError::NotFound { .. } => ArchiveError::NotFound { key: key.into() },
        other => other,
    }
}

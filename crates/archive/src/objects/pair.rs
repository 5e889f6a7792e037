//! The two objects an archive consists of, one at a time.
//!
//! What is common to every operation of [`ObjectArchives`]: where the objects
//! are, reading and writing the meta object, and being sure that "not there"
//! is an answer and not a store that is gone.

use std::io;

use futures::TryStreamExt;
use object_store::path::Path as Location;
use object_store::{Error as StoreError, ObjectStoreExt, PutMode};

use super::local::LocalRoot;
use super::transfer::joined;
use super::{META_SUFFIX, ObjectArchives};
use crate::error::{ArchiveError, Result};
use crate::meta::{ArchiveMeta, MAX_META_BYTES};
use crate::pack::PackSummary;
use crate::said::said;

impl ObjectArchives {
    /// Writes the commit mark, never over another one where the store can
    /// promise that.
    pub(crate) async fn write_meta(&self, key: &str, meta: &ArchiveMeta) -> Result<()> {
        let location = self.meta(key)?;
        let bytes = meta.encode()?;
        let create = self.store.put_opts(&location, bytes.clone().into(), PutMode::Create.into());
        let written = match create.await {
            Err(error) if does_not_know(&error) => self.store.put(&location, bytes.into()).await,
            other => other,
        };
        match written {
            // Already there: our own write whose answer was lost, or not
            // ours; reading it back decides.
            Ok(_) | Err(StoreError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(unfindable(ArchiveError::store("commit", key, &error))),
        }
    }

    pub(crate) async fn read_meta(&self, key: &str) -> Result<Option<ArchiveMeta>> {
        let location = self.meta(key)?;
        let result = match self.store.get(&location).await {
            Ok(result) => result,
            Err(error) => return self.absent(key, &error).await,
        };
        if result.meta.size > MAX_META_BYTES {
            let message = format!("{key}: meta object is too large");
            return Err(ArchiveError::Corrupted { message });
        }
        match result.bytes().await {
            Ok(bytes) => ArchiveMeta::decode(&bytes).map(Some),
            Err(error) => self.absent(key, &error).await,
        }
    }

    pub(crate) async fn data_size(&self, key: &str) -> Result<Option<u64>> {
        match self.store.head(&self.data(key)?).await {
            Ok(object) => Ok(Some(object.size)),
            Err(error) => self.absent(key, &error).await,
        }
    }

    /// `None` for "not found" by a store that is itself there.
    async fn absent<T>(&self, key: &str, error: &StoreError) -> Result<Option<T>> {
        match ArchiveError::store("look at", key, error) {
            ArchiveError::NotFound { .. } => self.check_present().await.map(|()| None),
            error => Err(error),
        }
    }

    /// For tests: what is stored under this name, as anybody with access to the store reads it.
    #[cfg(any(test, feature = "testing"))]
    pub async fn raw(&self, name: &str) -> Result<Vec<u8>> {
        let failed = |error: &StoreError| ArchiveError::store("read", name, error);
        let found = self.store.get(&self.data(name)?).await.map_err(|error| failed(&error))?;
        Ok(found.bytes().await.map_err(|error| failed(&error))?.to_vec())
    }

    /// For tests: puts this there, as anybody with access to the store can.
    #[cfg(any(test, feature = "testing"))]
    pub async fn put_raw(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let written = self.store.put(&self.data(name)?, bytes.to_vec().into()).await;
        written.map(|_| ()).map_err(|error| ArchiveError::store("write", name, &error))
    }

    /// Whether nothing at all is below the prefix.
    pub async fn is_empty(&self) -> Result<bool> {
        let prefix = self.location(&self.prefix)?;
        match self.store.list(Some(&prefix)).try_next().await {
            Ok(first) => Ok(first.is_none()),
            Err(error) => Err(ArchiveError::Unreachable { message: said(&error) }),
        }
    }

    /// Fails when the store as a whole is missing: a bucket that was
    /// removed, a disk that is not mounted.
    pub(crate) async fn check_present(&self) -> Result<()> {
        if self.local.is_none() {
            return self.is_empty().await.map(|_| ());
        }
        match self.on_disk(LocalRoot::is_present).await? {
            Some(false) => Err(ArchiveError::Unreachable {
                message: "the archive directory does not exist; is its disk mounted?".into(),
            }),
            _ => Ok(()),
        }
    }

    /// Runs something on the store's directory, if it is one.
    pub(crate) async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LocalRoot) -> io::Result<T> + Send + 'static,
    ) -> Result<Option<T>> {
        let Some(local) = self.local.clone() else {
            return Ok(None);
        };
        let outcome = blocking(move || {
            work(&local).map_err(|e| ArchiveError::Unreachable { message: format!("archive directory: {e}") })
        });
        joined(outcome.await).map(Some)
    }

    pub(crate) fn data(&self, key: &str) -> Result<Location> {
        self.location(&format!("{}/{key}", self.prefix))
    }

    pub(crate) fn meta(&self, key: &str) -> Result<Location> {
        self.location(&format!("{}/{key}{META_SUFFIX}", self.prefix))
    }

    pub(crate) fn location(&self, path: &str) -> Result<Location> {
        let path = path.trim_matches('/');
        Location::parse(path)
            .map_err(|error| ArchiveError::Unreachable { message: format!("not a possible key: {error}") })
    }
}

/// Whether the store says that it cannot do that at all. Servers say it with 501.
fn does_not_know(error: &StoreError) -> bool {
    match error {
        StoreError::NotImplemented { .. } | StoreError::NotSupported { .. } => true,
        StoreError::Generic { source, .. } => source.to_string().contains("501 Not Implemented"),
        _ => false,
    }
}

/// What was read back must be what was written. The home is still where it was, so this is a failed
/// attempt and not a damaged archive.
pub(crate) fn not_altered(key: &str, written: &PackSummary, read: &str) -> Result<()> {
    if read == written.sha256 {
        return Ok(());
    }
    let message = format!("wrote {}, read back {read}", written.sha256);
    Err(ArchiveError::local(format!("{key}: the store altered what it was given"), io::Error::other(message)))
}

/// While writing, "not found" is the store's trouble, not an answer about
/// the archive.
pub(crate) fn unfindable(error: ArchiveError) -> ArchiveError {
    match error {
        ArchiveError::NotFound { key } => {
            ArchiveError::Unreachable { message: format!("{key} disappeared while it was being written") }
        }
        other => other,
    }
}

pub(crate) fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::task::spawn_blocking(work)
}

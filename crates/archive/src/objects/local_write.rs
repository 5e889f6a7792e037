//! A large object written into a directory.
//!
//! The bytes go from the compressor's buffers right into the file. A second
//! thread brings them to the disk meanwhile, so that little is left to wait
//! for at the end; and while the rest is being synced the file is read back.
//! It gets its name last.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use tokio_util::sync::CancellationToken;

use super::Verify;
use super::local::{LocalRoot, sync_dir};
use super::pair::not_altered;
use crate::error::{ArchiveError, Result, panicked};
use crate::pack::PackSummary;
use crate::progress::Progress;
use crate::source::digest;

/// Bytes after which the disk is asked to begin.
const SYNC_EVERY: usize = 32 * 1024 * 1024;

impl LocalRoot {
    /// Stores what `produce` writes as `object`. Blocks. The object is there, whole, durable and (with
    /// [`Verify::Content`]) read back, when this succeeds, and as it was before when not.
    pub(crate) fn write(
        &self,
        object: &str,
        verify: Verify,
        progress: &Progress,
        cancel: &CancellationToken,
        produce: impl FnOnce(&mut dyn Write) -> Result<PackSummary>,
    ) -> Result<PackSummary> {
        let failed = |error: io::Error| ArchiveError::storing(object, &error);
        if !self.is_present().map_err(failed)? {
            return Err(failed(io::Error::other(
                "the archive directory does not exist; is its disk mounted?",
            )));
        }
        let draft = Draft::create(&self.0, object).map_err(failed)?;
        let summary = draft.fill(object, cancel, produce)?;
        let (synced, read) = thread::scope(|scope| {
            let syncing = scope.spawn(|| draft.file.sync_all());
            let read = match verify {
                Verify::Content => {
                    File::open(&draft.path).map_err(failed).and_then(|file| digest(file, progress, cancel))
                }
                Verify::Size => Ok(summary.sha256.clone()),
            };
            (syncing.join(), read)
        });
        synced.unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))).map_err(failed)?;
        not_altered(object, &summary, &read?)?;
        let size = draft.file.metadata().map_err(failed)?.len();
        if size != summary.size {
            return Err(failed(io::Error::other(format!("{size} bytes of {} are there", summary.size))));
        }
        draft.publish(&self.0, object).map_err(failed)?;
        Ok(summary)
    }
}

/// A file that has no name yet that counts. Dropped, it is removed.
struct Draft {
    file: File,
    path: PathBuf,
    published: bool,
}

impl Draft {
    fn create(root: &Path, object: &str) -> io::Result<Self> {
        let destination = root.join(object);
        destination.parent().map_or(Ok(()), fs::create_dir_all)?;
        // Nobody else's, not even that of a forgotten try under the same key.
        let number = uuid::Uuid::new_v4().as_u64_pair().0;
        let mut path = destination.into_os_string();
        path.push(format!("#{number}"));
        let path = PathBuf::from(path);
        let file = File::create_new(&path)?;
        Ok(Self { file, path, published: false })
    }

    fn fill(
        &self,
        object: &str,
        cancel: &CancellationToken,
        produce: impl FnOnce(&mut dyn Write) -> Result<PackSummary>,
    ) -> Result<PackSummary> {
        let (written, behind) = sync_channel(1);
        let mut sink = Sink { file: &self.file, written, unsynced: 0, cancel, failure: None };
        let (produced, failure, synced) = thread::scope(|scope| {
            let syncing = scope.spawn(move || sync_behind(&self.file, behind));
            let produced = produce(&mut sink);
            let Sink { written, failure, .. } = sink;
            drop(written);
            (produced, failure, syncing.join())
        });
        if cancel.is_cancelled() {
            return Err(ArchiveError::Cancelled);
        }
        // A producer whose sink fails does, too; the sink's reason is why. And an error of the disk is
        // told only once, so it must not be lost here.
        let synced = synced.map_err(|_| panicked("cannot sync the archive"))?;
        if let Some(error) = failure.or(synced.err()) {
            return Err(ArchiveError::storing(object, &error));
        }
        produced
    }

    /// Gives it its name, durably.
    fn publish(mut self, root: &Path, object: &str) -> io::Result<()> {
        let destination = root.join(object);
        fs::rename(&self.path, &destination)?;
        self.published = true;
        let mut dir = destination.as_path();
        // Each directory may be new, and then its name is in the one around it.
        while let Some(around) = dir.parent().filter(|around| around.starts_with(root)) {
            sync_dir(around)?;
            dir = around;
        }
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published
            && let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %self.path.display(), "an unfinished archive could not be removed");
        }
    }
}

/// What is written, on its way to the disk while more is written.
fn sync_behind(file: &File, written: Receiver<()>) -> io::Result<()> {
    written.into_iter().try_for_each(|()| file.sync_data())
}

struct Sink<'a> {
    file: &'a File,
    written: SyncSender<()>,
    unsynced: usize,
    cancel: &'a CancellationToken,
    failure: Option<io::Error>,
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        let mut file = self.file;
        match file.write(bytes) {
            Ok(taken) => {
                self.unsynced += taken;
                // Full: the disk is behind, and is asked again when it has caught up.
                if self.unsynced >= SYNC_EVERY && self.written.try_send(()).is_ok() {
                    self.unsynced = 0;
                }
                Ok(taken)
            }
            Err(error) => {
                if error.kind() != io::ErrorKind::Interrupted {
                    self.failure = Some(io::Error::new(error.kind(), error.to_string()));
                }
                Err(error)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

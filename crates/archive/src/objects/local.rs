//! What a directory needs to be as trustworthy as an object store.
//!
//! Files are written beside their destination, synced and renamed: small ones
//! by `object_store`, large ones by [`super::local_write`]. What is here are
//! the temporary files that a crash leaves, and telling "this archive is not there" from "the disk that should
//! hold it is not mounted".

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Marks a directory as a store of ours; without it nothing there is
/// believed to be absent.
pub const MARKER: &str = ".codehub-archives";

/// Whether this directory is a store of ours.
pub(crate) fn is_store(root: &Path) -> io::Result<bool> {
    root.join(MARKER).try_exists()
}

#[derive(Clone, Debug)]
pub(crate) struct LocalRoot(pub(crate) PathBuf);

impl LocalRoot {
    /// Makes the directory a store, durably.
    pub(crate) fn create(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let root = &root.canonicalize()?;
        let marker = root.join(MARKER);
        if !marker.try_exists()? {
            fs::File::create(&marker)?.sync_all()?;
            sync_dir(root)?;
            root.parent().map_or(Ok(()), sync_dir)?;
        }
        Ok(Self(root.into()))
    }

    /// Whether the store is there at all.
    pub(crate) fn is_present(&self) -> io::Result<bool> {
        is_store(&self.0)
    }

    /// Opens an object for reading.
    pub(crate) fn open(&self, object: &str) -> io::Result<fs::File> {
        fs::File::open(self.0.join(object))
    }

    /// Makes the removal of an object durable. Its directory may have gone
    /// with it, then the one around counts.
    pub(crate) fn sync_removal(&self, object: &str) -> io::Result<()> {
        let mut dir = self.0.join(object);
        while dir.pop() && dir.starts_with(&self.0) {
            match sync_dir(&dir) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                other => return other,
            }
        }
        Ok(())
    }

    /// Removes what an unfinished upload of this object has left.
    pub(crate) fn sweep_object(&self, object: &str) -> io::Result<u64> {
        let path = self.0.join(object);
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(0);
        };
        sweep_dir(dir, &|file, _| base_of_upload(file) == Some(name.as_bytes()))
    }

    /// Removes unfinished uploads not written to for `older_than`.
    pub(crate) fn sweep(&self, older_than: Duration) -> io::Result<u64> {
        let now = SystemTime::now();
        let mut swept = 0;
        let mut dirs = vec![self.0.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in listed(&dir)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    dirs.push(entry.path());
                }
            }
            swept += sweep_dir(&dir, &|file, modified| {
                base_of_upload(file).is_some()
                    && now.duration_since(modified).is_ok_and(|age| age >= older_than)
            })?;
        }
        Ok(swept)
    }
}

fn listed(dir: &Path) -> io::Result<Vec<io::Result<fs::DirEntry>>> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn sweep_dir(dir: &Path, stale: &dyn Fn(&OsStr, SystemTime) -> bool) -> io::Result<u64> {
    let mut swept = 0;
    for entry in listed(dir)? {
        let entry = entry?;
        let gone = |error: &io::Error| error.kind() == ErrorKind::NotFound;
        let modified = match entry.metadata().and_then(|meta| meta.modified()) {
            Err(error) if gone(&error) => continue,
            other => other?,
        };
        if stale(&entry.file_name(), modified) {
            match fs::remove_file(entry.path()) {
                Err(error) if gone(&error) => {}
                other => {
                    other?;
                    swept += 1;
                }
            }
        }
    }
    Ok(swept)
}

/// An unfinished upload is named `{name}#{number}`, by `object_store` and by us.
fn base_of_upload(file: &OsStr) -> Option<&[u8]> {
    let bytes = file.as_bytes();
    let hash = bytes.iter().rposition(|byte| *byte == b'#')?;
    let number = &bytes[hash + 1..];
    (!number.is_empty() && number.iter().all(u8::is_ascii_digit)).then(|| &bytes[..hash])
}

pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

//! The data directory, and that only one server uses it.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

const LOCK_FILE: &str = "codehub.lock";

/// Why a server cannot have the directory.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error(
        "another CodeHub server ({holder}) already uses {path}: stop it, or choose another data directory with --data-dir or CODEHUB_DATA_DIR (several servers on one directory need PostgreSQL and Redis)"
    )]
    InUse { path: String, holder: String },
    #[error(
        "the data directory {path} cannot be {what}: {why}; choose another with --data-dir or CODEHUB_DATA_DIR"
    )]
    Unusable { path: String, what: &'static str, why: std::io::Error },
}

/// Held for as long as the server runs. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct DataDir(#[expect(dead_code, reason = "holding it is what it is for")] Option<File>);

impl DataDir {
    /// Makes the directory (for its owner only) for a server that may share it: with PostgreSQL who may
    /// write is settled there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn share(path: &Path) -> Result<Self, DataDirError> {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|why| DataDirError::Unusable {
            path: path.display().to_string(),
            what: "made",
            why,
        })?;
        Ok(Self(None))
    }

    /// Makes the directory (for its owner only) and takes it.
    ///
    /// # Errors
    /// It cannot be written to, or another server has it.
    pub fn lock(path: &Path) -> Result<Self, DataDirError> {
        let shown = || path.display().to_string();
        let unusable = |what| move |why| DataDirError::Unusable { path: shown(), what, why };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable("made"))?;
        let mut open = OpenOptions::new();
        open.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = open.open(path.join(LOCK_FILE)).map_err(unusable("written to"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                let holder = match file.read_to_string(&mut pid) {
                    Ok(_) if !pid.trim().is_empty() => format!("process {}", pid.trim()),
                    Ok(_) | Err(_) => "another process".into(),
                };
                return Err(DataDirError::InUse { path: shown(), holder });
            }
            Err(error) => return Err(unusable("locked")(error.into())),
        }
        // The pid is for people; the lock is what counts.
        let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| {
            writeln!(file, "{}", std::process::id())?;
            file.flush()
        });
        written.map_err(unusable("written to"))?;
        Ok(Self(Some(file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_server_is_told_who_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/data");
        let first = DataDir::lock(&path).unwrap();
        let message = DataDir::lock(&path).unwrap_err().to_string();
        assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
        assert!(message.contains(path.to_str().unwrap()) && message.contains("--data-dir"), "{message}");
        drop(first);
        DataDir::lock(&path).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let message = DataDir::lock(&file.join("below")).unwrap_err().to_string();
        assert!(message.contains("cannot be made") && message.contains("file/below"), "{message}");
    }
}

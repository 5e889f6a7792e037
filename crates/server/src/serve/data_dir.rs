//! The data directory, and that only one server uses it.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use anyhow::bail;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

const LOCK_FILE: &str = "codehub.lock";

/// Held for as long as the server runs. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct DataDir(#[expect(dead_code, reason = "holding it is what it is for")] File);

impl DataDir {
    /// Makes the directory (for its owner only) and takes it.
    ///
    /// # Errors
    /// It cannot be written to, or another server has it.
    pub fn lock(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let advice = "choose another with --data-dir or CODEHUB_DATA_DIR";
        if let Err(error) = DirBuilder::new().recursive(true).mode(0o700).create(path) {
            bail!("the data directory {shown} cannot be made: {error}; {advice}");
        }
        let mut open = OpenOptions::new();
        open.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = match open.open(path.join(LOCK_FILE)) {
            Ok(file) => file,
            Err(error) => bail!("the data directory {shown} cannot be written to: {error}; {advice}"),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                let holder = match file.read_to_string(&mut pid) {
                    Ok(_) if !pid.trim().is_empty() => format!("process {}", pid.trim()),
                    Ok(_) | Err(_) => "another process".into(),
                };
                bail!("another CodeHub server ({holder}) already uses {shown}: stop it, or {advice}");
            }
            Err(error) => bail!("the data directory {shown} cannot be locked: {error}; {advice}"),
        }
        // The pid is for people; the lock is what counts.
        let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| {
            writeln!(file, "{}", std::process::id())?;
            file.flush()
        });
        if let Err(error) = written {
            bail!("the data directory {shown} cannot be written to: {error}; {advice}");
        }
        Ok(Self(file))
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

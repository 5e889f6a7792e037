//! What is remembered of a workspace's process: `{data}/instances/{workspace}.json`.
//!
//! The record is written before the process is started (so that its port is taken and its generation
//! known), again when it has a process id, and when it ended. Each write replaces the file whole. A
//! record is worth no more than one boot, so nothing waits for the disk: one that a power cut tore or lost was about
//! a process that the cut ended, too.
//!
//! Beside it lies the launch lock. Whoever starts, ends or adopts the process holds it, and the
//! process that is being started inherits it until it has become the program: a lock that is free
//! means that nobody is half-way there, even if whoever was starting it has been killed meanwhile.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use codehub_domain::{Generation, Timestamp, WorkspaceId, observed::EndedBy};
use serde::{Deserialize, Serialize};

use super::proc_scan::Identity;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum State {
    /// About to be launched; whether it was is not known yet.
    Starting,
    Running {
        process: Identity,
    },
    /// It ended, and nobody asked for that. `process` for what may be left of its session.
    Ended {
        how: String,
        #[serde(default = "by_program")]
        by: EndedBy,
        process: Option<Identity>,
    },
}

/// What records that do not say so are about.
fn by_program() -> EndedBy {
    EndedBy::Program
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) workspace: WorkspaceId,
    pub(super) generation: Generation,
    pub(super) port: u16,
    /// It listens on its socket, and not on the port. CodeHub's before it had sockets do not say.
    #[serde(default)]
    pub(super) socket: bool,
    pub(super) ide: String,
    pub(super) health_path: String,
    pub(super) sandboxed: bool,
    pub(super) started_at: Timestamp,
    #[serde(flatten)]
    pub(super) state: State,
}

impl Record {
    pub(super) fn process(&self) -> Option<&Identity> {
        match &self.state {
            State::Starting => None,
            State::Running { process } => Some(process),
            State::Ended { process, .. } => process.as_ref(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Records {
    dir: PathBuf,
}

impl Records {
    pub(super) fn open(data_dir: &Path) -> io::Result<Self> {
        let dir = data_dir.join("instances");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        Ok(Self { dir })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    fn file(&self, id: WorkspaceId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    /// `None` also for a record that cannot be understood: what it was about is then found by the
    /// marks of the process, or is gone.
    pub(super) fn load(&self, id: WorkspaceId) -> io::Result<Option<Record>> {
        let bytes = match fs::read(self.file(id)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match serde_json::from_slice::<Record>(&bytes) {
            Ok(record) if record.workspace == id => Ok(Some(record)),
            Ok(_) => Ok(None),
            Err(error) => {
                tracing::warn!(workspace = %id, %error, "the record of a workspace's process is damaged");
                Ok(None)
            }
        }
    }

    pub(super) fn save(&self, record: &Record) -> io::Result<()> {
        let text = serde_json::to_vec(record).map_err(io::Error::other)?;
        let fresh = self.dir.join(format!(".{}.{}", record.workspace, uuid::Uuid::new_v4().simple()));
        let written = (|| {
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&fresh)?;
            file.write_all(&text)?;
            fs::rename(&fresh, self.file(record.workspace))
        })();
        if written.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        written
    }

    pub(super) fn remove(&self, id: WorkspaceId) -> io::Result<()> {
        match fs::remove_file(self.file(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Every workspace with a record. The directory was made at start: if it is not there now, that
    /// is an error and not an empty list.
    pub(super) fn all(&self) -> io::Result<Vec<WorkspaceId>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".json"));
            found.extend(id.and_then(|id| id.parse::<WorkspaceId>().ok()));
        }
        Ok(found)
    }

    /// The launch lock, if nobody has it.
    pub(super) fn try_lock(&self, id: WorkspaceId) -> io::Result<Option<LaunchLock>> {
        let path = self.dir.join(format!("{id}.lock"));
        loop {
            let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Whoever held it before may have removed the file we opened.
            match fs::metadata(&path) {
                Ok(there) if there.ino() == file.metadata()?.ino() => {
                    return Ok(Some(LaunchLock { file, path }));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The launch lock, as soon as nobody has it. A launch takes milliseconds, and somebody waits for it in front of
    /// a browser: it is asked for every millisecond at first, and less often only where it takes long anyway.
    pub(super) async fn lock(&self, id: WorkspaceId, patience: Duration) -> io::Result<LaunchLock> {
        const USUAL: Duration = Duration::from_millis(20);
        let begun = tokio::time::Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(lock) = self.try_lock(id)? {
                return Ok(lock);
            }
            if begun.elapsed() > patience {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it is still being started"));
            }
            tokio::time::sleep(pause).await;
            if begun.elapsed() > USUAL {
                pause = (pause * 2).min(Duration::from_millis(20));
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct LaunchLock {
    file: File,
    path: PathBuf,
}

impl LaunchLock {
    /// For the process that is launched: it keeps the lock until it is the program.
    pub(super) fn into_file(self) -> File {
        self.file
    }

    /// Nothing is left that it would guard.
    pub(super) fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

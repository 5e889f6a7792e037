//! What workspaces print: `{data}/logs/{workspace}.log`, and one older piece beside it.
//!
//! A workspace outlives CodeHub, so it writes to the file itself and not to a pipe that would break.
//! Nobody can make it open another file, so a log that has grown too long is copied aside and
//! emptied; the program appends, and goes on at the front. A line written in between may be lost.

use std::{
    collections::{HashSet, VecDeque},
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use codehub_domain::WorkspaceId;
use futures::stream;
use rustix::fs::seek;

use super::super::{LogQuery, LogStream};

const CHUNK: usize = 64 * 1024;
/// What file systems give and take room in.
const BLOCK: u64 = 4096;
const POLL: Duration = Duration::from_millis(200);

/// How much of what workspaces print is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Of each of the two pieces.
    pub max_bytes: u64,
    /// How often lengths are looked at. Between two looks a log may be longer.
    pub check_every: Duration,
    /// Logs of workspaces that have not run for so long are removed.
    pub keep: Duration,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            max_bytes: 5 * 1024 * 1024,
            check_every: Duration::from_secs(1),
            keep: Duration::from_secs(30 * 24 * 3600),
        }
    }
}

#[derive(Debug)]
pub(super) struct Logs {
    dir: PathBuf,
    limits: LogLimits,
}

impl Logs {
    pub(super) fn open(data_dir: &Path, limits: LogLimits) -> io::Result<Self> {
        let dir = data_dir.join("logs");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        Ok(Self { dir, limits })
    }

    fn current(&self, id: WorkspaceId) -> PathBuf {
        self.dir.join(format!("{id}.log"))
    }

    fn older(&self, id: WorkspaceId) -> PathBuf {
        self.dir.join(format!("{id}.log.1"))
    }

    /// For the program to write to.
    pub(super) fn append(&self, id: WorkspaceId) -> io::Result<File> {
        File::options().append(true).create(true).mode(0o600).open(self.current(id))
    }

    /// Shortens the logs of these workspaces where needed.
    pub(super) fn rotate(&self, ids: &[WorkspaceId]) -> io::Result<()> {
        // Several CodeHubs may serve one data directory; one of them is enough.
        let turn = File::options().write(true).create(true).truncate(false).open(self.dir.join(".lock"))?;
        if turn.try_lock().is_err() {
            return Ok(());
        }
        for &id in ids {
            match fs::metadata(self.current(id)) {
                Ok(found) if found.len() > self.limits.max_bytes => self.rotate_one(id, found.len())?,
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn rotate_one(&self, id: WorkspaceId, len: u64) -> io::Result<()> {
        // Everything stays at its place, for whoever is reading; what is too old becomes a hole.
        let from = len.saturating_sub(self.limits.max_bytes) / BLOCK * BLOCK;
        let mut log = File::options().read(true).write(true).open(self.current(id))?;
        log.seek(SeekFrom::Start(from))?;
        let fresh = self.dir.join(format!(".{id}.rotating"));
        let mut copy = File::options().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        copy.seek(SeekFrom::Start(from))?;
        io::copy(&mut (&mut log).take(self.limits.max_bytes + BLOCK), &mut copy)?;
        fs::rename(&fresh, self.older(id))?;
        log.set_len(0)
    }

    /// Removes what nobody will ask for any more.
    pub(super) fn prune(&self, running: &HashSet<WorkspaceId>) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            let id = name.strip_suffix(".1").unwrap_or(name).strip_suffix(".log");
            let Some(id) = id.and_then(|id| id.parse::<WorkspaceId>().ok()) else { continue };
            let age = entry.metadata()?.modified()?;
            let age = SystemTime::now().duration_since(age).unwrap_or_default();
            if age > self.limits.keep && !running.contains(&id) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// The last line with words in it, from `from` on.
    pub(super) fn last_words(&self, id: WorkspaceId, from: u64) -> Option<String> {
        let file = File::open(self.current(id)).ok()?;
        let mut text = vec![0; 4096];
        let len = file.metadata().ok()?.len();
        let read = file.read_at(&mut text, from.max(len.saturating_sub(4096))).ok()?;
        let text = String::from_utf8_lossy(&text[..read]).into_owned();
        text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
    }

    /// The last lines, then (if asked) whatever comes, until the reader goes away.
    pub(super) async fn read(&self, id: WorkspaceId, query: LogQuery) -> io::Result<LogStream> {
        let (current, older) = (self.current(id), self.older(id));
        let paths = (current.clone(), older.clone());
        // A log that has outgrown its limit before anybody looked is not read from its beginning.
        let most = self.limits.max_bytes.saturating_mul(2);
        let (pos, before) = tokio::task::spawn_blocking(move || -> io::Result<_> {
            let (current, older) = paths;
            let mut tail = Tail { wanted: query.tail, most };
            let pos = tail.start_in(&current)?;
            let before = if pos == 0 && tail.wanted > 0 { Some(tail.start_in(&older)?) } else { None };
            Ok((pos, before))
        })
        .await??;
        let reader = Reader {
            parts: before.map(|pos| (older.clone(), pos)).into_iter().collect(),
            current,
            older,
            pos,
            follow: query.follow,
        };
        let stream = stream::unfold(Some(reader), |reader| async move {
            let mut reader = reader?;
            match reader.next().await {
                Ok(Some(bytes)) => Some((Ok(bytes), Some(reader))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(Box::pin(stream))
    }
}

/// Looks for where the last so many lines begin.
struct Tail {
    wanted: usize,
    most: u64,
}

impl Tail {
    fn start_in(&mut self, path: &Path) -> io::Result<u64> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        let len = file.metadata()?.len();
        let hole = seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap_or(0);
        let floor = len.saturating_sub(self.most).max(hole.min(len));
        let mut end = len;
        let mut block = vec![0; CHUNK];
        if self.wanted == 0 {
            return Ok(len);
        }
        while end > floor {
            let begin = end.saturating_sub(CHUNK as u64).max(floor);
            let block = &mut block[..usize::try_from(end - begin).unwrap_or(CHUNK)];
            file.read_exact_at(block, begin)?;
            for (index, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                let after = begin + index as u64 + 1;
                // The newline at the very end ends the last line and begins none.
                if after == len {
                    continue;
                }
                self.wanted -= 1;
                if self.wanted == 0 {
                    return Ok(after);
                }
            }
            end = begin;
        }
        // The first line of the file has no newline before it.
        if len > 0 {
            self.wanted -= 1;
        }
        Ok(floor)
    }
}

struct Reader {
    current: PathBuf,
    older: PathBuf,
    /// Of the current piece.
    pos: u64,
    /// What comes before that.
    parts: VecDeque<(PathBuf, u64)>,
    follow: bool,
}

impl Reader {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some((path, pos)) = self.parts.front_mut() {
                let (bytes, _) = read_at(path.clone(), *pos).await?;
                if bytes.is_empty() {
                    self.parts.pop_front();
                    continue;
                }
                *pos += bytes.len() as u64;
                return Ok(Some(bytes));
            }
            let (bytes, len) = read_at(self.current.clone(), self.pos).await?;
            if len < self.pos {
                // It was emptied: what we have not seen of it is in the older piece now.
                let (_, copied) = read_at(self.older.clone(), 0).await?;
                if copied >= self.pos {
                    self.parts.push_back((self.older.clone(), self.pos));
                }
                self.pos = 0;
                continue;
            }
            if !bytes.is_empty() {
                self.pos += bytes.len() as u64;
                return Ok(Some(bytes));
            }
            if !self.follow {
                return Ok(None);
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Some bytes from there on, and how long the file is; nothing if there is no file.
async fn read_at(path: PathBuf, pos: u64) -> io::Result<(Bytes, u64)> {
    tokio::task::spawn_blocking(move || {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Bytes::new(), 0)),
            Err(error) => return Err(error),
        };
        let len = file.metadata()?.len();
        if len <= pos {
            return Ok((Bytes::new(), len));
        }
        let mut block = vec![0; usize::try_from(len - pos).unwrap_or(CHUNK).min(CHUNK)];
        let read = file.read_at(&mut block, pos)?;
        block.truncate(read);
        Ok((Bytes::from(block), len))
    })
    .await?
}

#[cfg(test)]
#[path = "logs_tests.rs"]
mod tests;

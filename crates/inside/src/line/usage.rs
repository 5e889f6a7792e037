//! `GET /usage`: what the workspace uses.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;

use super::Context;
use super::protocol::Usage;
use crate::error::{Result, blocking};
use crate::process_table;

/// A home is not counted again within this time.
const KEPT: Duration = Duration::from_secs(60);
/// Nor for longer than this.
const COUNTED_FOR: Duration = Duration::from_secs(5);

/// The bytes of the home, when they were last counted, and whether that was all.
#[derive(Debug, Default)]
pub(super) struct CountedHome(Mutex<Option<(Instant, u64, bool)>>);

pub(super) async fn usage(State(context): State<Arc<Context>>) -> Result<Json<Usage>> {
    blocking(move || {
        let (home_bytes, home_complete) = context.counted.of(&context.home);
        let processes = process_table::ours();
        Ok(Json(Usage {
            home_bytes,
            home_complete,
            memory_bytes: processes.iter().map(process_table::Process::memory).sum(),
            processes: u32::try_from(processes.len()).unwrap_or(u32::MAX),
        }))
    })
    .await
}

impl CountedHome {
    /// One at a time: who comes while it is counted gets the same.
    fn of(&self, home: &Path) -> (u64, bool) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *counted {
            Some((at, bytes, complete)) if at.elapsed() < KEPT => (bytes, complete),
            _ => {
                let (bytes, complete) = count(home, Instant::now() + COUNTED_FOR);
                *counted = Some((Instant::now(), bytes, complete));
                (bytes, complete)
            }
        }
    }
}

/// Bytes on disk of a directory, of its own file system only. Each name of a file with several counts for its part.
fn count(home: &Path, until: Instant) -> (u64, bool) {
    let Ok(device) = home.symlink_metadata().map(|meta| meta.dev()) else { return (0, false) };
    let (mut bytes, mut complete) = (0, true);
    let mut todo = vec![home.to_owned()];
    while let Some(dir) = todo.pop() {
        if Instant::now() >= until {
            return (bytes, false);
        }
        let Ok(entries) = std::fs::read_dir(&dir) else {
            complete = false;
            continue;
        };
        for entry in entries.flatten() {
            // Of the entry itself: links are not followed.
            let Ok(meta) = entry.metadata() else { continue };
            let names = if meta.is_dir() { 1 } else { meta.nlink().max(1) };
            bytes += meta.blocks() * 512 / names;
            if meta.is_dir() && meta.dev() == device {
                todo.push(entry.path());
            }
        }
    }
    (bytes, complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_the_disk_is_counted_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        std::fs::create_dir_all(home.join("a/b")).unwrap();
        std::fs::write(dir.path().join("outside"), vec![1; 4 << 20]).unwrap();
        std::os::unix::fs::symlink(dir.path(), home.join("up")).unwrap();
        std::fs::write(home.join("a/b/file"), vec![1; 1 << 20]).unwrap();
        std::fs::hard_link(home.join("a/b/file"), home.join("again")).unwrap();
        let (bytes, complete) = count(&home, Instant::now() + COUNTED_FOR);
        assert!(complete && (1 << 20..2 << 20).contains(&bytes), "{bytes}");
        assert!(!count(&home, Instant::now()).1);
    }
}

//! Volumes as directories: `{data}/homes/users/{user}/workspaces/{workspace}/home-{generation}`.
//!
//! Guarantees:
//! - A volume that [`create`](Volumes::create) returned for is on disk: every directory made on the way
//!   is synced into its parent.
//! - [`delete`](Volumes::delete) first renames the volume into `{data}/homes/.trash` and syncs that, then
//!   removes it. A crash leaves a whole volume or none; what is left in the trash is swept later.
//! - "Not there" is only said of a tree known to be there: `{data}/homes` carries a marker file, and
//!   without it (a disk that is not mounted, a wrong data directory) every call is an error. Nobody's
//!   home is declared lost because a mount is missing.
//!
//! Names that CodeHub did not make are left alone and never listed.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use codehub_domain::{Generation, UserId, VolumeKey, WorkspaceId};

use super::{ListedVolume, Result, Scope, VolumeError, Volumes, purge};
use crate::Fence;

const MARKER: &str = ".codehub";
const MARKER_TEXT: &str = "The homes of CodeHub's workspaces are kept here. CodeHub refuses to work with this directory\nwhen this file is missing, because then the disk with the homes is probably not mounted.\n";
const TRASH: &str = ".trash";

/// The directory that holds all generations of one workspace's home.
pub fn workspace_dir(data_dir: &Path, owner: UserId, workspace: WorkspaceId) -> PathBuf {
    let users = data_dir.join("homes").join("users");
    users.join(owner.to_string()).join("workspaces").join(workspace.to_string())
}

/// Where a volume is.
pub fn home_dir(data_dir: &Path, key: &VolumeKey) -> PathBuf {
    workspace_dir(data_dir, key.owner, key.workspace).join(format!("home-{}", key.generation))
}

/// A name for the home of a running workspace that is the same for every generation: a link beside the
/// volumes, kept by whoever runs the workspace.
pub fn home_link(data_dir: &Path, key: &VolumeKey) -> PathBuf {
    workspace_dir(data_dir, key.owner, key.workspace).join("home")
}

/// Volumes as directories on this machine.
#[derive(Debug, Clone)]
pub struct DirectoryVolumes {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    data_dir: PathBuf,
    homes: PathBuf,
    /// Making and tidying up the directories above the volumes must not cross.
    tree: Mutex<()>,
}

impl DirectoryVolumes {
    /// Touches nothing yet: see [`DirectoryVolumes::prepare`].
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        let data_dir = data_dir.into();
        let homes = data_dir.join("homes");
        Self { inner: Arc::new(Inner { data_dir, homes, tree: Mutex::new(()) }) }
    }

    /// Call once at start. Makes `{data}/homes` with its marker if there is no such directory, and
    /// sweeps what an interrupted deletion left (in the background). A directory without its marker
    /// is refused.
    ///
    /// When the database already knows of homes on volumes, call [`Volumes::ping`] instead: then a
    /// missing directory is a missing disk, not a first start.
    pub async fn prepare(&self) -> Result<()> {
        self.blocking(Inner::prepare).await?;
        let inner = Arc::clone(&self.inner);
        tokio::task::spawn_blocking(move || inner.sweep());
        Ok(())
    }

    async fn blocking<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Inner) -> Result<T> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        tokio::task::spawn_blocking(move || work(&inner))
            .await
            .map_err(|error| VolumeError::Failed(format!("a task on the volumes died: {error}")))?
    }
}

#[async_trait]
impl Volumes for DirectoryVolumes {
    fn kind(&self) -> &'static str {
        "directory"
    }

    async fn ping(&self) -> Result<()> {
        self.blocking(|inner| {
            inner.check_marker()?;
            rustix::fs::access(&inner.homes, rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK)
                .map_err(|error| unreachable("use", &inner.homes, &error.into()))
        })
        .await
    }

    async fn create(&self, key: &VolumeKey, at_least: u64) -> Result<()> {
        let key = *key;
        self.blocking(move |inner| inner.create(&key, at_least)).await
    }

    async fn delete(&self, key: &VolumeKey, fence: &Fence) -> Result<()> {
        fence.check().await?;
        let key = *key;
        self.blocking(move |inner| inner.delete(&key)).await
    }

    async fn list(&self, scope: Scope<'_>) -> Result<Vec<ListedVolume>> {
        let of = match scope {
            Scope::All => None,
            Scope::Of(pairs) => Some(pairs.to_vec()),
        };
        self.blocking(move |inner| inner.list(of.as_deref())).await
    }
}

impl Inner {
    fn prepare(&self) -> Result<()> {
        if fs::symlink_metadata(&self.homes).is_ok() {
            return self.check_marker();
        }
        let make = || -> io::Result<()> {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.data_dir)?;
            // Made whole under another name, so that a crash never leaves one without its marker.
            let fresh = self.data_dir.join(format!(".homes-{}", uuid::Uuid::new_v4().simple()));
            fs::DirBuilder::new().mode(0o700).create(&fresh)?;
            let marker = fresh.join(MARKER);
            fs::write(&marker, MARKER_TEXT)?;
            fs::File::open(&marker)?.sync_all()?;
            sync_dir(&fresh)?;
            match fs::rename(&fresh, &self.homes) {
                // Another process that shares the data directory was first.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => fs::remove_dir_all(&fresh)?,
                renamed => renamed?,
            }
            sync_dir(&self.data_dir)
        };
        make().map_err(|error| failed("make", &self.homes, &error))?;
        self.check_marker()
    }

    fn check_marker(&self) -> Result<()> {
        let marker = self.homes.join(MARKER);
        match fs::symlink_metadata(&marker) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(VolumeError::Unreachable(format!(
                "the homes are not there: {} does not exist. Is the disk with the data directory mounted? \
                 If this directory really is the right one, make that (empty) file",
                marker.display()
            ))),
            Err(error) => Err(unreachable("look at", &marker, &error)),
        }
    }

    fn tree(&self) -> MutexGuard<'_, ()> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn create(&self, key: &VolumeKey, at_least: u64) -> Result<()> {
        self.check_marker()?;
        let volume = home_dir(&self.data_dir, key);
        if at_least > 0 && !volume.exists() {
            self.check_room(at_least)?;
        }
        let below = volume.strip_prefix(&self.homes).unwrap_or(&volume);
        let _tree = self.tree();
        let mut at = self.homes.clone();
        for part in below {
            let parent = at.clone();
            at.push(part);
            match fs::DirBuilder::new().mode(0o700).create(&at) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let found = fs::symlink_metadata(&at).map_err(|error| failed("make", &at, &error))?;
                    if !found.is_dir() {
                        return Err(VolumeError::Failed(format!("{} is not a directory", at.display())));
                    }
                }
                Err(error) => return Err(failed("make", &at, &error)),
            }
            // Also where it was there already: whoever made it may have died before this line.
            sync_dir(&parent).map_err(|error| failed("sync", &parent, &error))?;
        }
        Ok(())
    }

    /// Refuses what the disk plainly cannot hold, before it is filled to the brim for everybody.
    fn check_room(&self, at_least: u64) -> Result<()> {
        let disk = rustix::fs::statvfs(&self.homes)
            .map_err(|error| unreachable("look at", &self.homes, &error.into()))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free >= at_least {
            return Ok(());
        }
        Err(VolumeError::NoCapacity(format!(
            "the disk with the homes ({}) has {} MiB free, and this home needs {} MiB",
            self.homes.display(),
            free >> 20,
            at_least.div_ceil(1 << 20)
        )))
    }

    fn delete(&self, key: &VolumeKey) -> Result<()> {
        self.check_marker()?;
        let volume = home_dir(&self.data_dir, key);
        let trash = self.homes.join(TRASH);
        let moved = self.discard(&volume, &trash);
        moved.map_err(|error| failed("delete", &volume, &error))?;
        self.tidy(key);
        self.sweep();
        Ok(())
    }

    /// After this the volume does not exist any more, whatever happens to the bytes.
    fn discard(&self, volume: &Path, trash: &Path) -> io::Result<()> {
        match fs::symlink_metadata(volume) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(trash)?;
        let bin = trash.join(uuid::Uuid::now_v7().simple().to_string());
        fs::DirBuilder::new().mode(0o700).create(&bin)?;
        let target = bin.join("volume");
        match fs::rename(volume, &target) {
            // Moving a directory that may not be written to needs it to be writable: its `..` changes.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                purge::unlock(volume)?;
                fs::rename(volume, &target)?;
            }
            other => other?,
        }
        sync_dir(&bin)?;
        sync_dir(trash)?;
        volume.parent().map_or(Ok(()), sync_dir)
    }

    /// Removes the directories above a volume that hold nothing any more. Best effort: an empty
    /// directory is no volume.
    fn tidy(&self, key: &VolumeKey) {
        let _tree = self.tree();
        let workspace = workspace_dir(&self.data_dir, key.owner, key.workspace);
        let link = home_link(&self.data_dir, key);
        if fs::symlink_metadata(&link).is_ok_and(|it| it.is_symlink()) && fs::metadata(&link).is_err() {
            let _ = fs::remove_file(&link);
        }
        for dir in workspace.ancestors().take(3) {
            if fs::remove_dir(dir).is_err() {
                break;
            }
        }
    }

    /// Empties the trash. What cannot be removed now is tried again at the next deletion.
    fn sweep(&self) {
        let trash = self.homes.join(TRASH);
        let bins = match fs::read_dir(&trash) {
            Ok(bins) => bins,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                tracing::warn!(path = %trash.display(), %error, "the trash of deleted homes cannot be read");
                return;
            }
        };
        for bin in bins.flatten() {
            if let Err(error) = purge::remove_tree(&bin.path()) {
                tracing::warn!(
                    path = %bin.path().display(), %error,
                    "a deleted home still takes up space: part of it cannot be removed"
                );
            }
        }
    }

    fn list(&self, of: Option<&[(UserId, WorkspaceId)]>) -> Result<Vec<ListedVolume>> {
        self.check_marker()?;
        let mut found = Vec::new();
        match of {
            Some(pairs) => {
                for &(owner, workspace) in pairs {
                    self.list_one(owner, workspace, &mut found)?;
                }
            }
            None => {
                let users = self.homes.join("users");
                for owner in named::<UserId>(&users)? {
                    let workspaces = users.join(owner.to_string()).join("workspaces");
                    for workspace in named::<WorkspaceId>(&workspaces)? {
                        self.list_one(owner, workspace, &mut found)?;
                    }
                }
            }
        }
        // "Not found" half-way through may have been the disk going away.
        self.check_marker()?;
        Ok(found)
    }

    fn list_one(&self, owner: UserId, workspace: WorkspaceId, found: &mut Vec<ListedVolume>) -> Result<()> {
        let dir = workspace_dir(&self.data_dir, owner, workspace);
        for (Numbered(generation), is_dir) in entries::<Numbered>(&dir)? {
            let key = VolumeKey { owner, workspace, generation };
            // Perhaps the home was moved, and a link put in its place: it is not lost.
            let trouble = (!is_dir).then(|| {
                let path = home_dir(&self.data_dir, &key);
                format!(
                    "{} is not a directory (a link is not followed): put the home back there",
                    path.display()
                )
            });
            found.push(ListedVolume { key, trouble });
        }
        Ok(())
    }
}

/// `home-{generation}` in its one spelling.
struct Numbered(Generation);

impl FromStr for Numbered {
    type Err = ();

    fn from_str(name: &str) -> std::result::Result<Self, ()> {
        let digits = name.strip_prefix("home-").ok_or(())?;
        let number: u32 = digits.parse().map_err(|_| ())?;
        if number.to_string() == digits { Ok(Self(Generation(number))) } else { Err(()) }
    }
}

/// The directories in `dir` whose names are a `T`; none if there is no such `dir`.
fn named<T: FromStr>(dir: &Path) -> Result<Vec<T>> {
    Ok(entries(dir)?.into_iter().filter_map(|(name, is_dir)| is_dir.then_some(name)).collect())
}

/// Whatever is in `dir` and has the name of a `T`, and whether it is a directory.
fn entries<T: FromStr>(dir: &Path) -> Result<Vec<(T, bool)>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreachable("read", dir, &error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| unreachable("read", dir, &error))?;
        let Some(parsed) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        match entry.file_type() {
            Ok(kind) => found.push((parsed, kind.is_dir())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreachable("look at", &entry.path(), &error)),
        }
    }
    Ok(found)
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

fn unreachable(verb: &str, path: &Path, error: &io::Error) -> VolumeError {
    VolumeError::Unreachable(format!("cannot {verb} {}: {error}", path.display()))
}

fn failed(verb: &str, path: &Path, error: &io::Error) -> VolumeError {
    VolumeError::Failed(format!("cannot {verb} {}: {error}", path.display()))
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;

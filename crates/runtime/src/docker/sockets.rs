//! Where containers listen: `{data}/run/{workspace}-{some number}/ide`, mounted at [`IO`].
//!
//! Only CodeHub's user gets into `run`, so it does not matter that everybody may write to what is in it: the user
//! inside a container is not CodeHub's outside. Each container has a directory of its own, so that nothing which is
//! done for one, however late, takes away the socket of the next.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use codehub_domain::WorkspaceId;
use uuid::Uuid;

/// Where the directory is inside.
pub(super) const IO: &str = "/run/codehub/io";
/// The socket in there.
pub(super) const SOCKET: &str = "/run/codehub/io/ide";

/// The directories of one CodeHub.
#[derive(Debug)]
pub(super) struct Sockets {
    dir: PathBuf,
}

impl Sockets {
    pub(super) fn new(data_dir: &Path) -> Self {
        Self { dir: data_dir.join("run") }
    }

    /// A new directory for a container that is about to be made.
    pub(super) fn prepare(&self, id: WorkspaceId) -> io::Result<PathBuf> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        fs::set_permissions(&self.dir, fs::Permissions::from_mode(0o700))?;
        let place = self.dir.join(format!("{}{:08x}", prefix(id), Uuid::new_v4().as_fields().0));
        fs::DirBuilder::new().mode(0o700).create(&place)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777))?;
        // The engine takes it by its name, wherever CodeHub was started.
        place.canonicalize()
    }

    /// Removes the directories of a workspace. What a workspace hid in one in a way that only root can remove stays
    /// behind, in nobody's way.
    pub(super) fn remove(&self, id: WorkspaceId) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix(id))
                && let Err(error) = fs::remove_dir_all(entry.path())
            {
                tracing::warn!(place = %entry.path().display(), %error, "a directory of sockets is left behind");
            }
        }
    }
}

fn prefix(id: WorkspaceId) -> String {
    format!("{}-", id.as_uuid().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_container_has_a_directory_of_its_own_that_nobody_else_gets_to() {
        let data = tempfile::tempdir().unwrap();
        let sockets = Sockets::new(data.path());
        let [id, other] = [0; 2].map(|_| WorkspaceId::from_uuid(Uuid::now_v7()));
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let (first, theirs) = (sockets.prepare(id).unwrap(), sockets.prepare(other).unwrap());
        assert_eq!((mode(&first), mode(first.parent().unwrap())), (0o777, 0o700));
        fs::write(first.join("ide"), "left by the last one").unwrap();
        let second = sockets.prepare(id).unwrap();
        assert!(second != first && first.exists(), "somebody else may be starting it, too");
        sockets.remove(id);
        sockets.remove(id);
        assert!(!first.exists() && !second.exists() && theirs.exists());
    }
}

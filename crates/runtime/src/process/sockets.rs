//! Where the programs of workspaces listen: `{data}/run/{workspace}/ide`, and beside it the program inside, at `line`.
//!
//! Whoever can reach an IDE can use it. A port of the loopback address is open to everybody on the
//! machine; these directories are CodeHub's user's alone. A sandbox shows a workspace its own one and no
//! other.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use codehub_domain::WorkspaceId;

use super::super::Address;

/// How long the path of a socket may be, by the size of the kernel's `sun_path`.
const LONGEST_PATH: usize = 107;
/// The name of the program inside's socket.
pub(super) const LINE: &str = "line";

#[derive(Debug)]
pub(super) struct Sockets {
    dir: PathBuf,
}

impl Sockets {
    pub(super) fn open(data_dir: &Path) -> io::Result<Self> {
        let dir = data_dir.join("run");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
        Ok(Self { dir })
    }

    /// The directory of a workspace's socket.
    pub(super) fn place(&self, id: WorkspaceId) -> PathBuf {
        // Every byte counts: see [`LONGEST_PATH`].
        self.dir.join(id.as_uuid().simple().to_string())
    }

    pub(super) fn path(&self, id: WorkspaceId) -> String {
        // The runtime has made sure that the data directory's name is UTF-8.
        self.place(id).join("ide").to_string_lossy().into_owned()
    }

    /// By how much the paths are too long for programs to listen at.
    pub(super) fn excess(&self) -> usize {
        self.path(WorkspaceId::from_uuid(uuid::Uuid::nil())).len().saturating_sub(LONGEST_PATH)
    }

    /// Where the program inside listens, as it is called from outside.
    pub(super) fn line(&self, id: WorkspaceId) -> PathBuf {
        self.place(id).join(LINE)
    }

    /// The same where there is no sandbox to call it something shorter: `None` where that is too long.
    pub(super) fn short_line(&self, id: WorkspaceId) -> Option<PathBuf> {
        Some(self.line(id)).filter(|path| path.as_os_str().len() <= LONGEST_PATH)
    }

    pub(super) fn line_address(&self, id: WorkspaceId) -> Address {
        Address::Socket(self.line(id).to_string_lossy().into())
    }

    pub(super) fn address(&self, id: WorkspaceId) -> Address {
        Address::Socket(self.path(id).into())
    }

    /// Makes room for a program that is about to start: no program likes to find a socket in its place.
    pub(super) fn prepare(&self, id: WorkspaceId) -> io::Result<()> {
        self.remove(id)?;
        fs::DirBuilder::new().mode(0o700).create(self.place(id))
    }

    pub(super) fn remove(&self, id: WorkspaceId) -> io::Result<()> {
        match fs::remove_dir_all(self.place(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_we_may_enter_and_long_names_are_noticed() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("run")).unwrap();
        fs::set_permissions(dir.path().join("run"), fs::Permissions::from_mode(0o755)).unwrap();
        let sockets = Sockets::open(dir.path()).unwrap();
        let id = WorkspaceId::from_uuid(uuid::Uuid::now_v7());
        for _ in 0..2 {
            sockets.prepare(id).unwrap();
            fs::write(sockets.path(id), "left by the last one").unwrap();
        }
        for path in [dir.path().join("run"), sockets.place(id)] {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
        assert_eq!(sockets.excess(), 0);
        sockets.remove(id).unwrap();
        sockets.remove(id).unwrap();
        assert!(!sockets.place(id).exists());

        let room = LONGEST_PATH - sockets.path(id).len();
        for (more, excess) in [(room, 0), (room + 1, 1)] {
            // A name and the slash before it.
            let sockets = Sockets::open(&dir.path().join("x".repeat(more - 1))).unwrap();
            assert_eq!(sockets.excess(), excess);
            sockets.prepare(id).unwrap();
            let bound = std::os::unix::net::UnixListener::bind(sockets.path(id));
            assert_eq!(bound.is_ok(), excess == 0, "{bound:?}");
        }
    }
}

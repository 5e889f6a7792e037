//! A home that becomes another user's.

use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, Stat, Uid, chownat, fchmod, fchown, fstat, statat, syncfs};
use tokio_util::sync::CancellationToken;

use super::{
    error::{ArchiveError, Result},
    walk::{WalkStep, walk},
};

/// Gives a home to this user and group, with everything in it that is not root's: what an administrator put there stays
/// theirs. Returns how many files and directories that were. A home whose owner may not enter it (`chmod 000 ~`) is opened
/// to them: nothing runs in one that is shut, so nobody could.
///
/// The home itself is root's meanwhile, and theirs when everything in it is so on the disk: one that is theirs is so
/// altogether, and one where this was interrupted is nobody's, whoever is to have it next. Nobody else may be at work in it.
///
/// # Errors
/// Something cannot be read or given away: the home is root's until a call succeeds.
pub fn give_home(root: &Path, to: (u32, u32), cancel: &CancellationToken) -> Result<u64> {
    let home =
        std::fs::File::open(root).map_err(|e| ArchiveError::local("cannot open the home directory", e))?;
    let whole = |e| ArchiveError::local("cannot change the owner of the home directory", e);
    let stat = fstat(&home).map_err(|e| ArchiveError::reading(b"", e))?;
    if (stat.st_uid, stat.st_gid) == to {
        return if open_to_owner(&home, &stat).map_err(whole)? {
            home.sync_all().map_err(synced)?;
            Ok(1)
        } else {
            Ok(0)
        };
    }
    fchown(&home, Some(Uid::ROOT), Some(Gid::ROOT)).map_err(whole)?;
    home.sync_all().map_err(synced)?;
    let mut given = 1;
    walk(root, cancel, &mut |step| {
        let (path, outcome) = match step {
            WalkStep::Enter { path, dir, stat } if !path.is_empty() => {
                let (uid, gid) = new_owner(&stat, to);
                (path, changed(&stat, (uid, gid)).then(|| fchown(&dir, Some(uid), Some(gid))))
            }
            WalkStep::Item { path, dir, name, .. } => {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                let stat = statat(&dir, &name, flags).map_err(|e| ArchiveError::reading(&path, e))?;
                let (uid, gid) = new_owner(&stat, to);
                let give = || chownat(&dir, &name, Some(uid), Some(gid), flags);
                (path, changed(&stat, (uid, gid)).then(give))
            }
            WalkStep::Enter { .. } | WalkStep::Leave(_) => return Ok(()),
        };
        if let Some(outcome) = outcome {
            outcome.map_err(|e| {
                ArchiveError::local(
                    format!("cannot change the owner of {}", String::from_utf8_lossy(&path)),
                    e,
                )
            })?;
            given += 1;
        }
        Ok(())
    })?;
    open_to_owner(&home, &stat).map_err(whole)?;
    syncfs(&home).map_err(whole)?;
    fchown(&home, Some(Uid::from_raw(to.0)), Some(Gid::from_raw(to.1))).map_err(whole)?;
    home.sync_all().map_err(synced)?;
    Ok(given)
}

/// Whether it had to be.
fn open_to_owner(home: &std::fs::File, stat: &Stat) -> rustix::io::Result<bool> {
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.contains(Mode::RWXU) {
        return Ok(false);
    }
    fchmod(home, mode | Mode::RWXU).map(|()| true)
}

fn synced(error: std::io::Error) -> ArchiveError {
    ArchiveError::local("cannot write the owner of the home directory to disk", error)
}

/// Root's stays root's, user and group each.
fn new_owner(stat: &Stat, (uid, gid): (u32, u32)) -> (Uid, Gid) {
    let other = |now: u32, to: u32| if now == 0 { 0 } else { to };
    (Uid::from_raw(other(stat.st_uid, uid)), Gid::from_raw(other(stat.st_gid, gid)))
}

fn changed(stat: &Stat, (uid, gid): (Uid, Gid)) -> bool {
    (stat.st_uid, stat.st_gid) != (uid.as_raw(), gid.as_raw())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt, lchown, symlink};

    use super::*;

    const OLD: (u32, u32) = (1000, 1000);
    const NEW: (u32, u32) = (0x7000_1234, 1000);

    fn owner(path: &Path) -> (u32, u32) {
        let meta = path.symlink_metadata().unwrap();
        (meta.uid(), meta.gid())
    }

    /// A home of the old owner's with one of everything, and with something of others and of root in it.
    fn home() -> Option<tempfile::TempDir> {
        if !rustix::process::geteuid().is_root() {
            codehub_testing::skip("only root gives files away");
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        std::fs::create_dir_all(at("shut/deep")).unwrap();
        for path in ["note", "shut/deep/file", "others", "elsewhere", "roots"] {
            std::fs::write(at(path), path).unwrap();
        }
        std::fs::hard_link(at("note"), at("same")).unwrap();
        symlink("elsewhere", at("link")).unwrap();
        symlink("/nowhere", at("dangling")).unwrap();
        for path in ["note", "shut/deep/file", "shut/deep", "shut", "link", "dangling"] {
            lchown(at(path), Some(OLD.0), Some(OLD.1)).unwrap();
        }
        lchown(at("others"), Some(5), Some(1000)).unwrap();
        lchown(at("elsewhere"), Some(5), Some(5)).unwrap();
        std::fs::set_permissions(at("shut"), PermissionsExt::from_mode(0o000)).unwrap();
        std::os::unix::fs::chown(home.path(), Some(OLD.0), Some(OLD.1)).unwrap();
        Some(home)
    }

    fn is_given(home: &Path) {
        let at = |path: &str| home.join(path);
        for path in ["", "note", "same", "shut", "shut/deep", "shut/deep/file", "link", "dangling"] {
            assert_eq!(owner(&at(path)), NEW, "{path}");
        }
        let (others, elsewhere) = (owner(&at("others")), owner(&at("elsewhere")));
        assert_eq!((others, elsewhere), (NEW, NEW), "whose else it was does not matter");
        assert_eq!(owner(&at("roots")), (0, 0), "except root");
        assert_eq!(std::fs::read_to_string(at("shut/deep/file")).unwrap(), "shut/deep/file");
        assert_eq!(
            at("shut").metadata().unwrap().permissions().mode() & 0o777,
            0,
            "and modes stay as they are"
        );
    }

    #[test]
    fn a_home_is_given_whole_and_only_once() {
        let Some(home) = home() else { return };
        let cancel = CancellationToken::new();
        // A file with two names is one.
        assert_eq!(give_home(home.path(), NEW, &cancel).unwrap(), 9);
        is_given(home.path());
        assert_eq!(give_home(home.path(), NEW, &cancel).unwrap(), 0);
    }

    #[test]
    fn a_home_that_is_shut_is_opened_to_its_owner() {
        let Some(home) = home() else { return };
        let (cancel, shut) = (CancellationToken::new(), |mode| {
            std::fs::set_permissions(home.path(), PermissionsExt::from_mode(mode)).unwrap();
        });
        let mode = || home.path().metadata().unwrap().permissions().mode() & 0o7777;
        shut(0o000);
        assert_eq!(give_home(home.path(), NEW, &cancel).unwrap(), 9);
        assert_eq!(mode(), 0o700);
        is_given(home.path());
        shut(0o055);
        assert_eq!(give_home(home.path(), NEW, &cancel).unwrap(), 1);
        assert_eq!(mode(), 0o755);
    }

    #[test]
    fn one_that_was_interrupted_is_nobodys_and_the_next_try_ends_it() {
        let Some(home) = home() else { return };
        // As where it was killed after some of it.
        for path in ["note", "shut/deep"] {
            lchown(home.path().join(path), Some(NEW.0), Some(NEW.1)).unwrap();
        }
        let stopped = CancellationToken::new();
        stopped.cancel();
        assert!(matches!(give_home(home.path(), NEW, &stopped), Err(ArchiveError::Cancelled)));
        assert_eq!(owner(home.path()), (0, 0));
        assert_eq!(give_home(home.path(), NEW, &CancellationToken::new()).unwrap(), 7);
        is_given(home.path());
    }
}

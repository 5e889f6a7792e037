//! What is ours on the disk is nobody else's to read: the data directory and everything in it, however it was made.
//! Homes are people's own: the modes of what is in them stay.

use std::{
    fs::{self, Metadata, Permissions},
    io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::{fs::Mode, process::umask};

use crate::config::Config;

/// Bits that let the group and others in.
const OPEN: u32 = 0o077;

/// Why files are not used as they are.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenFiles {
    #[error(
        "{path} belongs to the user {owner}, but this server runs as {us}, and whoever owns it can change everything in it: run the server as that user, give it to this one (chown -R {us} {path}), or choose another data directory with --data-dir or CODEHUB_DATA_DIR"
    )]
    Foreign { path: String, owner: u32, us: u32 },
    #[error("{path} holds secrets, and others can {what} it (mode {mode:04o}): chmod 600 {path}")]
    Key { path: String, what: &'static str, mode: u32 },
    #[error("{path} cannot be made private: {why}")]
    Failed { path: String, why: io::Error },
}

/// From here on nothing that this process makes is anybody else's to read. Workspaces have a mask of their own.
pub(super) fn mask() {
    umask(Mode::from_raw_mode(OPEN));
}

/// Refuses a configuration file that holds secrets and that others may read or write. The group may read it: it may
/// be root's, for the group that the server runs in.
///
/// # Errors
/// It is open.
pub(super) fn check_key_file(config: &Config) -> Result<(), OpenFiles> {
    let Some(path) = config.file.as_deref().filter(|_| config.secrets_in_file) else { return Ok(()) };
    // One that cannot be looked at was read a moment ago.
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    let mode = found.mode() & 0o7777;
    let what = match mode {
        open if open & 0o022 != 0 => "change",
        open if open & 0o004 != 0 => "read",
        _ => return Ok(()),
    };
    Err(OpenFiles::Key { path: path.display().to_string(), what, mode })
}

/// Refuses a data directory that is there and is somebody else's, before anything is written to it.
///
/// # Errors
/// It is.
pub(super) fn refuse_foreign(data_dir: &Path) -> Result<(), OpenFiles> {
    let us = Us::now();
    match fs::metadata(data_dir) {
        Ok(found) if !us.may_have(&found) => Err(us.foreign(data_dir, &found)),
        // What cannot be looked at cannot be used either, and whoever tries says so.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Makes the data directory ours alone: it 0700, and what of it is ours without any right for others, also where it was
/// there before. Changes nothing in homes.
///
/// # Errors
/// It, or something of ours in it, belongs to somebody else, or cannot be changed.
pub(super) fn close(data_dir: &Path) -> Result<(), OpenFiles> {
    close_for(data_dir, &Us::now())
}

/// Who this server is on the machine.
struct Us {
    user: u32,
    groups: Vec<u32>,
}

impl Us {
    fn now() -> Self {
        let mut groups: Vec<u32> =
            rustix::process::getgroups().unwrap_or_default().iter().map(|group| group.as_raw()).collect();
        groups.push(rustix::process::getegid().as_raw());
        Self { user: rustix::process::geteuid().as_raw(), groups }
    }

    /// Whether it is a data directory for us: our own, or one of root's that was given to a group of ours and that
    /// nobody else can change, as Kubernetes prepares a volume (`fsGroup`). Root can read everything anyway.
    fn may_have(&self, found: &Metadata) -> bool {
        found.uid() == self.user || self.was_given(found)
    }

    fn was_given(&self, found: &Metadata) -> bool {
        found.uid() == 0
            && self.user != 0
            && self.groups.contains(&found.gid())
            && found.mode() & 0o070 == 0o070
            && found.mode() & 0o002 == 0
    }

    fn foreign(&self, path: &Path, found: &Metadata) -> OpenFiles {
        OpenFiles::Foreign { path: path.display().to_string(), owner: found.uid(), us: self.user }
    }
}

fn close_for(data_dir: &Path, us: &Us) -> Result<(), OpenFiles> {
    let failed = |why| OpenFiles::Failed { path: data_dir.display().to_string(), why };
    // It may be a link to where it really is.
    let root = fs::canonicalize(data_dir).map_err(failed)?;
    let given = look(&root)?.is_some_and(|found| us.was_given(&found));
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        let Some(found) = look(&directory)? else { continue };
        if given && found.uid() == 0 {
            // Its mode is root's to choose, and so is what else root has in it (`lost+found`).
            if directory != root {
                continue;
            }
        } else {
            shut(&directory, &found, us)?;
        }
        if !is_ours_within(&root, &directory) {
            continue;
        }
        for path in listed(&directory)? {
            match look(&path)? {
                Some(found) if found.is_dir() => directories.push(path),
                Some(found) if found.is_file() => shut(&path, &found, us)?,
                // Links have no mode, and sockets are made with theirs.
                Some(_) | None => {}
            }
        }
    }
    Ok(())
}

/// Whether what is in this directory is ours. `homes/users/{user}/workspaces/{workspace}` holds homes, and what is
/// thrown away lies beside `users`; `run` is kept by whoever makes the sockets in it.
fn is_ours_within(root: &Path, directory: &Path) -> bool {
    let below: Vec<_> =
        directory.strip_prefix(root).map_or_else(|_| Vec::new(), |below| below.iter().collect());
    match below.first().and_then(|first| first.to_str()) {
        Some("homes") => below.len() < 5 && below.get(1).is_none_or(|part| *part == "users"),
        Some("run") => false,
        Some(_) | None => true,
    }
}

fn shut(path: &Path, found: &Metadata, us: &Us) -> Result<(), OpenFiles> {
    let shown = || path.display().to_string();
    if found.uid() != us.user {
        return Err(us.foreign(path, found));
    }
    let mode = found.mode() & 0o7777;
    if mode & OPEN == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(mode & !OPEN & 0o777)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(OpenFiles::Failed { path: shown(), why: error })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// `None`: gone meanwhile.
fn look(path: &Path) -> Result<Option<Metadata>, OpenFiles> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(OpenFiles::Failed { path: path.display().to_string(), why }),
    }
}

fn listed(directory: &Path) -> Result<Vec<PathBuf>, OpenFiles> {
    let failed = |why| OpenFiles::Failed { path: directory.display().to_string(), why };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(root: &Path, path: &str, mode: u32) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }

    fn open_up(path: &Path) {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open_up(&path);
            }
        }
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_data_directory_that_was_open_is_closed_and_homes_stay_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("data");
        let ours = [
            "codehub.db",
            "codehub.db-wal",
            "codehub.lock",
            "archives/archives/w/o/home.tar.zst",
            "archives/archives/w/o/home.tar.zst.meta",
            "logs/w.log",
            "instances/w.json",
        ];
        for path in ours {
            make(&root, path, 0o644);
        }
        let home = "homes/users/u/workspaces/w/home-1";
        make(&root, &format!("{home}/shared/script"), 0o755);
        make(&root, "homes/.bin/x/file", 0o644);
        open_up(&root);
        std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
        close(&root).unwrap();
        for path in ours {
            assert_eq!(mode(&root.join(path)), 0o600, "{path}");
        }
        for path in [
            "",
            "archives",
            "archives/archives/w/o",
            "logs",
            "homes",
            "homes/users/u/workspaces/w",
            "homes/.bin",
        ] {
            assert_eq!(mode(&root.join(path)), 0o700, "{path:?}");
        }
        assert_eq!(mode(&root.join(home)), 0o755, "a home is its owner's");
        assert_eq!(mode(&root.join(home).join("shared/script")), 0o755);
        assert_ne!(mode(Path::new("/etc/passwd")), 0o600, "no link is followed");
        close(&root).unwrap();
    }

    #[test]
    fn the_data_directory_of_another_user_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "codehub.db", 0o600);
        let owner = rustix::process::geteuid().as_raw();
        let us = Us { user: owner + 1, groups: vec![owner + 1] };
        let message = close_for(dir.path(), &us).unwrap_err().to_string();
        for part in [
            dir.path().to_str().unwrap(),
            &format!("user {owner}"),
            &format!("runs as {}", owner + 1),
            "chown",
            "--data-dir",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    /// As Kubernetes prepares a volume: root's, with a group and its rights.
    #[test]
    fn a_volume_that_root_has_given_to_our_group_is_taken_and_what_is_open_to_all_is_not() {
        if !rustix::process::geteuid().is_root() {
            codehub_testing::skip("only root can give directories away");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("volume");
        fs::create_dir_all(volume.join("lost+found")).unwrap();
        make(&volume, "codehub.db", 0o644);
        let (user, group) = (4711, 4712);
        std::os::unix::fs::chown(volume.join("codehub.db"), Some(user), Some(group)).unwrap();
        std::os::unix::fs::chown(&volume, Some(0), Some(group)).unwrap();
        let us = Us { user, groups: vec![4711, group] };
        for (mode, taken) in
            [(0o2775, true), (0o2770, true), (0o2777, false), (0o2755, false), (0o700, false)]
        {
            fs::set_permissions(&volume, Permissions::from_mode(mode)).unwrap();
            let outcome = close_for(&volume, &us);
            assert_eq!(outcome.is_ok(), taken, "{mode:o}: {outcome:?}");
            assert_eq!(us.may_have(&fs::metadata(&volume).unwrap()), taken, "{mode:o}");
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&volume.join("codehub.db")), 0o600, "what is ours in it is closed");
        let strangers = Us { user, groups: vec![4713] };
        fs::set_permissions(&volume, Permissions::from_mode(0o2775)).unwrap();
        assert!(close_for(&volume, &strangers).is_err(), "another group's");
    }

    #[test]
    fn an_open_key_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("codehub.toml");
        let mut config = Config::with(&[("data_dir", "/data")]).unwrap();
        config.file = Some(path.clone());
        for (secrets, mode, word) in [
            (true, 0o600, None),
            (true, 0o640, None),
            (true, 0o644, Some("read")),
            (true, 0o604, Some("read")),
            (true, 0o660, Some("change")),
            (true, 0o602, Some("change")),
            (false, 0o666, None),
        ] {
            make(dir.path(), "codehub.toml", mode);
            config.secrets_in_file = secrets;
            match (check_key_file(&config), word) {
                (Ok(()), None) => {}
                (Err(error), Some(word)) => {
                    let message = error.to_string();
                    assert!(message.contains(word) && message.contains("chmod 600"), "{message}");
                }
                (outcome, _) => panic!("{mode:o}: {outcome:?}"),
            }
        }
    }
}

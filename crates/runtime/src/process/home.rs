//! A home under its names, and what a new one starts with.
//!
//! | name | where |
//! |---|---|
//! | `home-{generation}` | the volume |
//! | `home`, beside it | what running workspaces were told before the names below; old scripts begin with it |
//! | `RUNTIME_HOME` (`/home/coder`) | what a sandboxed workspace is told: the same in each, so that a fork's scripts work |
//! | `{data}/h/{end of the id}` | what others are told: short, because sockets in a home are by name |

use std::{
    ffi::OsStr,
    fs, io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use codehub_domain::{VolumeKey, WorkspaceId};
use rustix::fs::{Mode, OFlags, mkdirat, open, openat};

use super::super::ide::DefaultFile;
use crate::volumes::directory::{home_dir, home_link, workspace_dir};

/// Where a machine keeps what new homes start with.
pub(super) const SKEL: &str = "/etc/skel";
/// A template is a few small files; whatever is bigger is none.
const SKEL_FILE_MAX: u64 = 1 << 20;
const SKEL_DEPTH_MAX: usize = 8;

/// A home under its names.
pub(super) struct Home {
    pub(super) volume: PathBuf,
    /// What the program is told.
    pub(super) told: PathBuf,
    /// Names from before, at which it has to be found as well.
    pub(super) former: Vec<PathBuf>,
}

impl Home {
    /// Points the lasting names at the volume, and opens it to its owner, who may have shut it (`chmod 000 ~`). `inside`: what a sandbox calls it. Where something else has a name,
    /// the next best one will do.
    pub(super) fn link(data_dir: &Path, key: &VolumeKey, inside: Option<&Path>) -> io::Result<Self> {
        let volume = home_dir(data_dir, key);
        open_to_owner(&volume)?;
        let long = home_link(data_dir, key);
        let short = short_link(data_dir, key.workspace);
        let target = volume.file_name().unwrap_or_default().to_owned();
        let long_ok = point(&long, Path::new(&target), |_| true)?;
        if let Some(inside) = inside {
            return Ok(Self { volume, told: inside.to_owned(), former: vec![long, short] });
        }
        let below = Path::new("..").join(volume.strip_prefix(data_dir).unwrap_or(&volume));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(data_dir.join("h"))?;
        let told = if point(&short, &below, |old| is_of(old, key.workspace))? {
            short
        } else if long_ok {
            long
        } else {
            volume.clone()
        };
        Ok(Self { volume, told, former: Vec::new() })
    }

    /// Takes away the short name of a workspace that does not run.
    pub(super) fn unlink(data_dir: &Path, workspace: WorkspaceId) -> io::Result<()> {
        let short = short_link(data_dir, workspace);
        match fs::read_link(&short) {
            Ok(target) if is_of(&target, workspace) => fs::remove_file(&short),
            _ => Ok(()),
        }
    }
}

/// Nothing could run in a home that is shut, so nobody could open it again. A missing one is found out later.
fn open_to_owner(volume: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(volume) else { return Ok(()) };
    let mut permissions = found.permissions();
    let mode = permissions.mode();
    if !found.is_dir() || mode & 0o700 == 0o700 {
        return Ok(());
    }
    permissions.set_mode(mode | 0o700);
    fs::set_permissions(volume, permissions)
}

/// The beginning of an id is the time; its end is random.
fn short_link(data_dir: &Path, workspace: WorkspaceId) -> PathBuf {
    let id = workspace.as_uuid().simple().to_string();
    data_dir.join("h").join(&id[id.len() - 12..])
}

/// Whether a link's target is a volume of that workspace.
fn is_of(target: &Path, workspace: WorkspaceId) -> bool {
    let id = workspace.to_string();
    target.parent().and_then(Path::file_name) == Some(OsStr::new(&id))
}

/// Makes `link` point at `target`, in one step. `false`: something that is not ours has the name.
fn point(link: &Path, target: &Path, ours: impl Fn(&Path) -> bool) -> io::Result<bool> {
    match fs::symlink_metadata(link) {
        Ok(found) if !found.is_symlink() => return Ok(false),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if let Ok(old) = fs::read_link(link) {
        if old == target {
            return Ok(true);
        }
        if !ours(&old) {
            return Ok(false);
        }
    }
    let fresh = link.with_file_name(format!(".home-{}", uuid::Uuid::new_v4().simple()));
    symlink(target, &fresh)?;
    fs::rename(&fresh, link)?;
    Ok(true)
}

/// Writes what a new home starts with: the machine's template, if it has nothing else yet, and the IDE's settings
/// where there are none. The home belongs to whoever filled it, so no link in it is followed and nothing in it
/// is replaced.
pub(super) fn seed(home: &Path, skel: &Path, files: &[DefaultFile]) -> io::Result<()> {
    if is_new(home, skel)? {
        copy_skel(home, skel, Path::new(""), 0)?;
    }
    for file in files {
        write_new(home, Path::new(file.path), file.text.as_bytes(), 0o644)?;
    }
    Ok(())
}

/// A home in which there is nothing but what the template would put there. So a copy that was cut off is gone on with.
fn is_new(home: &Path, skel: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(home)? {
        if skel.join(entry?.file_name()).symlink_metadata().is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn copy_skel(home: &Path, skel: &Path, below: &Path, depth: usize) -> io::Result<()> {
    let entries = match fs::read_dir(skel.join(below)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let path = below.join(entry.file_name());
        let found = entry.metadata()?;
        if found.is_dir() && depth < SKEL_DEPTH_MAX {
            copy_skel(home, skel, &path, depth + 1)?;
        } else if found.is_file() && found.len() <= SKEL_FILE_MAX {
            let bytes = fs::read(entry.path())?;
            write_new(home, &path, &bytes, found.permissions().mode() & 0o777)?;
        }
    }
    Ok(())
}

/// Writes a file below the home if it has none of that name.
fn write_new(home: &Path, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir: OwnedFd = open(home, directory, Mode::empty())?;
    for part in path.parent().into_iter().flatten() {
        match mkdirat(&dir, part, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        dir = openat(&dir, part, directory, Mode::empty())?;
    }
    let name = path.file_name().unwrap_or_default();
    let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&dir, name, create, Mode::from_raw_mode(mode)) {
        Ok(made) => io::Write::write_all(&mut fs::File::from(made), bytes),
        Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether a home of somebody whose account is older lies here. Ids of users begin with the time they were made.
pub(super) fn older_neighbour(data_dir: &Path, key: &VolumeKey) -> io::Result<bool> {
    let own = workspace_dir(data_dir, key.owner, key.workspace);
    let Some(users) = own.ancestors().nth(3) else { return Ok(false) };
    let own = key.owner.to_string();
    for entry in fs::read_dir(users)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        if name < own && name.parse::<codehub_domain::UserId>().is_ok() {
            let workspaces = fs::read_dir(entry.path().join("workspaces"));
            if workspaces.is_ok_and(|mut any| any.next().is_some()) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use codehub_domain::{Generation, UserId};

    use super::*;

    fn key(owner: u128, workspace: u128, generation: u32) -> VolumeKey {
        VolumeKey {
            owner: UserId::from_uuid(uuid::Uuid::from_u128(owner)),
            workspace: WorkspaceId::from_uuid(uuid::Uuid::from_u128(workspace)),
            generation: Generation(generation),
        }
    }

    #[test]
    fn the_short_name_follows_the_generation_and_is_nobody_elses() {
        let data = tempfile::tempdir().unwrap();
        let (one, two, other) = (key(1, 7, 1), key(1, 7, 2), key(1, (1 << 100) | 7, 1));
        for key in [&one, &two, &other] {
            fs::create_dir_all(home_dir(data.path(), key)).unwrap();
        }
        for key in [&one, &two] {
            let home = Home::link(data.path(), key, None).unwrap();
            assert_eq!(home.told, data.path().join("h/000000000007"));
            let volume = home.volume.canonicalize().unwrap();
            assert_eq!(home.told.canonicalize().unwrap(), volume);
            assert_eq!(home_link(data.path(), key).canonicalize().unwrap(), volume, "scripts from before");
        }
        let theirs = Home::link(data.path(), &other, None).unwrap();
        assert_eq!(theirs.told, home_link(data.path(), &other), "the short name is taken");
        Home::unlink(data.path(), other.workspace).unwrap();
        assert!(data.path().join("h/000000000007").exists(), "and stays whose it is");
        Home::unlink(data.path(), one.workspace).unwrap();
        assert!(!data.path().join("h/000000000007").exists());
        let inside = Home::link(data.path(), &one, Some(Path::new("/home/coder"))).unwrap();
        assert_eq!(inside.told, Path::new("/home/coder"));
    }

    #[test]
    fn a_home_that_its_owner_has_shut_is_opened_to_them() {
        let data = tempfile::tempdir().unwrap();
        let key = key(1, 7, 1);
        let volume = home_dir(data.path(), &key);
        fs::create_dir_all(&volume).unwrap();
        for (shut, opened) in [(0o000, 0o700), (0o455, 0o755), (0o750, 0o750)] {
            fs::set_permissions(&volume, fs::Permissions::from_mode(shut)).unwrap();
            Home::link(data.path(), &key, None).unwrap();
            assert_eq!(volume.metadata().unwrap().permissions().mode() & 0o777, opened);
        }
    }

    #[test]
    fn default_settings_are_written_once_and_never_through_a_link() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let nothing = Path::new("/nowhere");
        let files = [DefaultFile { path: ".config/ide/settings.json", text: "{}" }];
        seed(dir.path(), nothing, &files).unwrap();
        let settings = dir.path().join(".config/ide/settings.json");
        assert_eq!(fs::read_to_string(&settings).unwrap(), "{}");
        fs::write(&settings, "mine").unwrap();
        seed(dir.path(), nothing, &files).unwrap();
        assert_eq!(fs::read_to_string(&settings).unwrap(), "mine");
        fs::remove_dir_all(dir.path().join(".config")).unwrap();
        symlink(outside.path(), dir.path().join(".config")).unwrap();
        assert!(seed(dir.path(), nothing, &files).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_new_home_gets_the_template_and_an_old_one_does_not() {
        let (skel, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(skel.path().join(".bashrc"), "alias ll='ls -l'").unwrap();
        fs::create_dir_all(skel.path().join(".config/app")).unwrap();
        fs::write(skel.path().join(".config/app/run"), "#!/bin/sh").unwrap();
        fs::set_permissions(skel.path().join(".config/app/run"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("/etc/shadow", skel.path().join("link")).unwrap();
        fs::write(home.path().join(".bashrc"), "cut off, or mine").unwrap();
        seed(home.path(), skel.path(), &[]).unwrap();
        assert_eq!(fs::read_to_string(home.path().join(".bashrc")).unwrap(), "cut off, or mine");
        let run = home.path().join(".config/app/run").metadata().unwrap();
        assert_ne!(run.permissions().mode() & 0o100, 0);
        assert!(!home.path().join("link").is_symlink());
        fs::remove_dir_all(home.path().join(".config")).unwrap();
        fs::write(home.path().join("work"), "").unwrap();
        seed(home.path(), skel.path(), &[]).unwrap();
        assert!(!home.path().join(".config").exists(), "what was removed stays removed");
    }

    #[test]
    fn only_older_accounts_with_homes_are_neighbours() {
        let data = tempfile::tempdir().unwrap();
        let (old, new) = (key(1, 1, 1), key(2, 2, 1));
        fs::create_dir_all(home_dir(data.path(), &new)).unwrap();
        assert!(!older_neighbour(data.path(), &new).unwrap());
        fs::create_dir_all(home_dir(data.path(), &old)).unwrap();
        assert!(older_neighbour(data.path(), &new).unwrap());
        assert!(!older_neighbour(data.path(), &old).unwrap(), "the first one stays");
        fs::remove_dir_all(workspace_dir(data.path(), old.owner, old.workspace)).unwrap();
        assert!(!older_neighbour(data.path(), &new).unwrap());
    }
}

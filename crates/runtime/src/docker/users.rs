//! Whom a workspace's program runs as. The kernel counts inotify instances, pipe buffers and the like by user, whatever
//! container it is in, so each workspace is a user of its own. Its number follows from the workspace's id: there is nothing
//! to remember, and a home is the same user's on every engine.
//!
//! Whose a home is, is said by its owner alone: one of another user's (of an earlier version, or of another
//! `RUNTIME_UID`), or one that its owner has shut for themselves, is given to the right one by a storage job before
//! anything runs in it.

use std::io::Read as _;

use bollard::{
    body_full,
    query_parameters::{DownloadFromContainerOptionsBuilder, UploadToContainerOptionsBuilder},
};
use codehub_archive::hex;
use codehub_domain::{VolumeKey, WorkspaceId};
use futures::StreamExt as _;
use sha2::{Digest as _, Sha256};

use super::engine::{Engine, is_missing};
use crate::{Result, RuntimeError};

/// Where a container's list of users is.
pub(super) const ETC: &str = "/etc";
const PASSWD: &str = "passwd";

/// The most that is read of such a list.
const LONGEST: usize = 1 << 20;

/// What a directory is listed with: its own header, and what a header may need before it.
const FIRST: usize = 8 << 10;

/// The user whom images have for people, under whatever name.
pub const IMAGE_UID: u32 = 1000;

/// Users no system gives to anybody: 0x7000_0000 to 0x7fff_ffff, the last that engines take.
const FIRST_UID: u32 = 0x7000_0000;
const UIDS: u32 = 1 << 28;

/// Where the engine maps users, it has some 65,536, and they are nobody else's.
const FIRST_MAPPED: u32 = 1 << 14;
const MAPPED: u32 = 1 << 15;

/// User and group.
pub(super) type Owner = (u32, u32);

/// Whom workspaces run as, and whose their homes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Users {
    /// One for everybody; `None`: each workspace its own.
    pub uid: Option<u32>,
    /// Everybody's group.
    pub gid: u32,
}

impl Users {
    /// The user of this workspace on this engine.
    pub(super) async fn of(self, engine: &Engine, id: WorkspaceId) -> Result<Owner> {
        let uid = match self.uid {
            Some(uid) => uid,
            None => own_uid(id, engine.maps_users().await?),
        };
        Ok((uid, self.gid))
    }
}

/// Two workspaces with the same one share what the kernel counts by user, as all did before, and nothing else.
pub(super) fn own_uid(id: WorkspaceId, mapped: bool) -> u32 {
    // The last part of an id is random.
    let [.., a, b, c, d] = *id.as_uuid().as_bytes();
    let number = u32::from_be_bytes([a, b, c, d]);
    if mapped { FIRST_MAPPED + number % MAPPED } else { FIRST_UID + number % UIDS }
}

/// What the volume with the list of users is called: one for each image that a home has been used with.
pub(super) fn etc_volume(home: &VolumeKey, image: &str) -> String {
    let VolumeKey { workspace, generation, .. } = home;
    let digest = Sha256::digest(image.as_bytes());
    format!("codehub-ws-{workspace}-etc-{generation}-{}", hex(&digest[..6]))
}

/// Whose a home is, seen through a container that it is mounted in; nobody's where its owner may not enter it.
pub(super) async fn owner_of(engine: &Engine, container: &str, home: &str) -> Result<Option<Owner>> {
    // The rest is the whole home, and not asked for.
    let begun = read(engine, container, home, FIRST).await?;
    let owner = || {
        let mut archive = tar::Archive::new(begun.as_deref()?);
        let entry = archive.entries().ok()?.next()?.ok()?;
        let header = entry.header();
        let (uid, gid, mode) = (header.uid().ok()?, header.gid().ok()?, header.mode().ok()?);
        let owner = (u32::try_from(uid).ok()?, u32::try_from(gid).ok()?);
        Some((mode & 0o700 == 0o700).then_some(owner))
    };
    owner().ok_or_else(|| RuntimeError::Failed("the engine does not tell whose the home is".to_owned()))
}

/// Gives the user a name in a container that does not run yet: without one `ssh` and others refuse to work.
pub(super) async fn name(engine: &Engine, container: &str, owner: Owner, home: &str) -> Result<()> {
    let there = read(engine, container, &format!("{ETC}/{PASSWD}"), LONGEST).await?;
    let failed = |error: std::io::Error| RuntimeError::Failed(format!("the list of users: {error}"));
    let users = match &there {
        None => String::new(),
        Some(tar) => match list_of(tar).map_err(failed)? {
            Some(users) => users,
            // Somebody has made other arrangements.
            None => return Ok(()),
        },
    };
    let Some(users) = with_user(&users, owner, home) else { return Ok(()) };
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(users.len() as u64);
    tar.append_data(&mut header, PASSWD, users.as_bytes()).map_err(failed)?;
    let tar = tar.into_inner().map_err(failed)?;
    let options = UploadToContainerOptionsBuilder::new().path(ETC).build();
    let put = engine.client().await?.upload_to_container(container, Some(options), body_full(tar.into()));
    put.await.map_err(engine.failed("name a user"))
}

/// The text of the only file in there; `None` where it is something else than a file of text.
fn list_of(tar: &[u8]) -> std::io::Result<Option<String>> {
    let mut archive = tar::Archive::new(tar);
    let Some(entry) = archive.entries()?.next() else { return Ok(None) };
    let mut entry = entry?;
    let mut text = Vec::new();
    if entry.header().entry_type().is_file() {
        entry.read_to_end(&mut text)?;
        return Ok(String::from_utf8(text).ok());
    }
    Ok(None)
}

/// The list with this user in it, or `None` if it is. The image's own user for people becomes this one and keeps the name.
fn with_user(users: &str, (uid, gid): Owner, home: &str) -> Option<String> {
    let mut lines: Vec<String> = users.lines().map(str::to_owned).collect();
    let uid_of = |line: &String| line.split(':').nth(2).and_then(|uid| uid.parse::<u32>().ok());
    if lines.iter().any(|line| uid_of(line) == Some(uid)) {
        return None;
    }
    let whose = lines.iter().position(|line| uid_of(line) == Some(IMAGE_UID));
    let whose = whose.or_else(|| lines.iter().position(|line| line.starts_with("coder:")));
    let line = |name: &str, shell: &str| format!("{name}:x:{uid}:{gid}::{home}:{shell}");
    match whose {
        Some(at) => {
            let mut fields = lines[at].split(':');
            let name = fields.next().unwrap_or("coder");
            lines[at] = line(name, fields.nth(5).filter(|shell| !shell.is_empty()).unwrap_or("/bin/sh"));
        }
        None => lines.push(line("coder", "/bin/sh")),
    }
    Some(lines.join("\n") + "\n")
}

/// The beginning of what the engine packs of a path in a container; `None` where nothing is there.
async fn read(engine: &Engine, container: &str, path: &str, most: usize) -> Result<Option<Vec<u8>>> {
    let options = DownloadFromContainerOptionsBuilder::new().path(path).build();
    let mut pieces = Box::pin(engine.client().await?.download_from_container(container, Some(options)));
    let mut bytes = Vec::new();
    while bytes.len() < most
        && let Some(piece) = pieces.next().await
    {
        match piece {
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(engine.failed("look into a container")(error)),
        }
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_workspace_is_always_the_same_user_and_never_one_of_the_machine() {
        for (id, wanted) in [
            ("0190a000-0000-7000-8000-0123456789ab", 0x7567_89ab),
            ("0190a000-0000-7000-8000-0000ffffffff", 0x7fff_ffff),
        ] {
            assert_eq!(own_uid(id.parse().unwrap(), false), wanted);
        }
        for _ in 0..1000 {
            let id = WorkspaceId::from_uuid(Uuid::now_v7());
            assert!((0x7000_0000..=0x7fff_ffff).contains(&own_uid(id, false)));
            assert!((0x4000..0xc000).contains(&own_uid(id, true)), "where there are no more");
        }
    }

    #[test]
    fn the_images_own_user_becomes_the_workspaces_and_others_stay() {
        const US: Owner = (0x7000_0001, 1000);
        let now = |users: &str| with_user(users, US, "/home/coder");
        let ours = |name: &str, shell: &str| format!("{name}:x:1879048193:1000::/home/coder:{shell}\n");
        let root = "root:x:0:0:root:/root:/bin/bash\n";
        assert_eq!(now(""), Some(ours("coder", "/bin/sh")));
        assert_eq!(now(root), Some(format!("{root}{}", ours("coder", "/bin/sh"))));
        let jovyan = format!("{root}jovyan:x:1000:100:,,,:/home/jovyan:/bin/bash\ncoder:x:7:7::/:/bin/sh");
        assert_eq!(
            now(&jovyan),
            Some(format!("{root}{}coder:x:7:7::/:/bin/sh\n", ours("jovyan", "/bin/bash")))
        );
        assert_eq!(now("coder:x:7:7::/home/coder:\n"), Some(ours("coder", "/bin/sh")));
        let again = now(root).unwrap();
        assert_eq!(now(&again), None, "and is there once");
    }
}

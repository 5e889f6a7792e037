//! The archives kept of a workspace, and a look into them: for the API and the dashboard alike.

use codehub_archive::{ArchiveError, ArchiveMeta, ArchivedFile, FilePage, FileStream};
use codehub_domain::{
    ArchiveKey, ArchiveRecord, OpId, Workspace, WorkspaceId,
    audit::{Act, AuditAction, AuditEntry, AuditObject, OPENED_SECONDS},
    user::User,
};
use codehub_runtime::archives::{ListedArchive, record::head_recorded};

use super::{Access, Denied, find};
use crate::app::App;

const CORRUPTED: &str =
    "this archive is not the one that was stored: it was changed or damaged in its storage";

/// Why there is nothing to be seen in an archive.
#[derive(Debug, thiserror::Error)]
pub enum Unseen {
    #[error("there is no such {0}")]
    Missing(&'static str),
    #[error("is a directory or a symbolic link")]
    NoFile,
    #[error("this archive was made before archives had a list of their files: restore it to see them")]
    NotListed,
    #[error("{CORRUPTED}")]
    Corrupted,
    #[error(transparent)]
    Denied(#[from] Denied),
}

/// The finished archives of a workspace, newest first, after [`find`].
///
/// # Errors
/// Their storage does not answer.
pub async fn kept(app: &App, id: WorkspaceId) -> Result<Vec<ListedArchive>, Denied> {
    let mut listed = app.backends.archives.list_of(id).await.map_err(|error| {
        tracing::warn!(workspace = %id, %error, "archives cannot be listed");
        Denied::Unreachable("the archives cannot be reached: try again".into())
    })?;
    listed.retain(|archive| archive.complete);
    // Operation ids grow with time, so this is newest first whatever the clocks of the storage say.
    listed.sort_unstable_by_key(|archive| std::cmp::Reverse(archive.key.op));
    Ok(listed)
}

/// An archive to look into, and its workspace. Whether it is there is seen when it is looked into.
///
/// # Errors
/// The workspace is unknown, or somebody else's.
pub async fn own(
    app: &App,
    user: &User,
    id: WorkspaceId,
    op: OpId,
) -> Result<(Workspace, ArchiveKey), Denied> {
    let workspace = find(app, user, id, Access::Own).await?;
    Ok((workspace, ArchiveKey::of(id, op)))
}

/// What is in the directory `dir`, names after `after`, after [`own`].
///
/// # Errors
/// There is no such archive or directory, or it cannot be read.
pub async fn files(
    app: &App,
    by: &Act,
    key: ArchiveKey,
    dir: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> Result<FilePage, Unseen> {
    let archive = recorded(app, key).await?;
    let found = app.backends.archives.files(&archive, dir, after, limit).await;
    let page = found.map_err(|error| unseen(key, &error))?;
    let page = page.ok_or(Unseen::Missing("directory in this archive"))?;
    let entry = AuditEntry::ok(AuditAction::ArchiveBrowsed, AuditObject::archive(key));
    let entry = AuditEntry { folded: Some(OPENED_SECONDS), ..entry };
    app.store().audit_write(by, &entry).await.map_err(Denied::from)?;
    Ok(page)
}

/// One file and its bytes, after [`own`].
///
/// # Errors
/// There is no such archive or file, or it cannot be read.
pub async fn file(
    app: &App,
    by: &Act,
    key: ArchiveKey,
    path: &[u8],
) -> Result<(ArchivedFile, FileStream), Unseen> {
    let archive = recorded(app, key).await?;
    let found = app.backends.archives.file(&archive, path).await.map_err(|error| unseen(key, &error))?;
    let (file, stream) = found.ok_or(Unseen::Missing("file in this archive"))?;
    let stream = stream.ok_or(Unseen::NoFile)?;
    let entry = AuditEntry::ok(AuditAction::ArchiveDownloaded, AuditObject::archive(key));
    // Before the first byte: what cannot be written down is not given out.
    let shown = String::from_utf8_lossy(path);
    app.store().audit_write(by, &entry.with_code(&shown)).await.map_err(Denied::from)?;
    Ok((file, stream))
}

/// What the archive must be. One without a record is taken for none.
async fn recorded(app: &App, key: ArchiveKey) -> Result<ArchiveRecord, Unseen> {
    let found = app.store().archive_record(key).await.map_err(Denied::from)?;
    found.ok_or(Unseen::Missing("archive"))
}

fn unseen(key: ArchiveKey, error: &ArchiveError) -> Unseen {
    match error {
        ArchiveError::NotFound { .. } => Unseen::Missing("archive"),
        ArchiveError::NotListed => Unseen::NotListed,
        error if error.is_corrupted() => {
            tracing::error!(archive = %key, %error, "an archive is not what was stored");
            Unseen::Corrupted
        }
        error => {
            tracing::warn!(archive = %key, %error, "an archive cannot be looked into");
            Denied::Unreachable("the archive cannot be read now: try again".into()).into()
        }
    }
}

/// The archive a new workspace begins with, and whose home it is: it must be there, and be one's own.
///
/// # Errors
/// It is not to be had.
pub async fn source(app: &App, user: &User, key: ArchiveKey) -> Result<(Workspace, ArchiveMeta), Denied> {
    const FIELD: &str = "from_archive";
    match find(app, user, key.workspace, Access::Own).await {
        // Whose it is, is nobody else's business.
        Err(Denied::NotFound | Denied::Forbidden(_)) => Err(gone(FIELD)),
        Err(other) => Err(other),
        Ok(workspace) => Ok((workspace, existing(app, FIELD, key).await?)),
    }
}

pub(super) fn gone(field: &'static str) -> Denied {
    Denied::Invalid { field, why: "there is no such archive".into() }
}

/// The archive, if it is there and is the one that was recorded.
pub(super) async fn existing(app: &App, field: &'static str, key: ArchiveKey) -> Result<ArchiveMeta, Denied> {
    let Some(archive) = app.store().archive_record(key).await? else { return Err(gone(field)) };
    match head_recorded(&*app.backends.archives, &archive).await {
        Ok(Some(meta)) => Ok(meta),
        Ok(None) => Err(gone(field)),
        Err(error) if error.is_corrupted() => {
            tracing::error!(archive = %key, %error, "an archive is not what was stored");
            Err(Denied::Invalid { field, why: CORRUPTED.into() })
        }
        Err(error) => {
            tracing::warn!(archive = %key, %error, "an archive to go back to could not be looked at");
            Err(Denied::Unreachable("the archive cannot be looked at now: try again".into()))
        }
    }
}

//! Archives held against what is known of them: whoever can write to the store of archives can then destroy a home,
//! but not put another in its place.

use codehub_archive::{ArchiveError, ArchiveMeta, Expected};
use codehub_domain::{ArchiveKey, ArchiveRecord, VolumeKey};

use super::{Archives, Result};
use crate::homes::Transfer;

/// What to write down about an archive that has just been made.
///
/// # Errors
/// As [`of_expected`].
pub fn record(key: ArchiveKey, meta: &ArchiveMeta) -> Result<ArchiveRecord> {
    of_expected(key, meta.expected())
}

/// The same, about one from before there were records.
///
/// # Errors
/// It has parts in something that cannot be an archive of ours: [`ArchiveError::Corrupted`].
pub fn of_expected(key: ArchiveKey, expected: Expected) -> Result<ArchiveRecord> {
    let Expected { format, sha256, size, uncompressed, entries, index_sha256, parts } = expected;
    let parse = |op: &String| {
        let message = format!("{key}: has parts in {op:?}, which is no operation");
        op.parse().map_err(|_| ArchiveError::Corrupted { message })
    };
    let parts = parts.iter().map(parse).collect::<Result<_>>()?;
    Ok(ArchiveRecord { key, format, sha256, size, uncompressed, entries, index_sha256, parts })
}

/// What the archive engine, which knows no workspaces, is told.
pub fn expected(record: &ArchiveRecord) -> Expected {
    let ArchiveRecord { key: _, format, sha256, size, uncompressed, entries, index_sha256, parts } =
        record.clone();
    let parts = parts.iter().map(ToString::to_string).collect();
    Expected { format, sha256, size, uncompressed, entries, index_sha256, parts }
}

/// Whether the archive is there, and is the one that was recorded, as far as its meta object tells. `None`: data or
/// meta is definitely not there.
///
/// # Errors
/// It is another one ([`ArchiveError::Corrupted`], naming both), or could not be looked at.
pub async fn head_recorded(archives: &dyn Archives, record: &ArchiveRecord) -> Result<Option<ArchiveMeta>> {
    let Some(meta) = archives.head(&record.key).await? else { return Ok(None) };
    held(record, meta).map(Some)
}

/// [`Archives::fetch`], where what is there is the archive that was recorded. Meta and stream are both held against the
/// record: fetching compares every stored byte with the meta object, and that is compared here, before anything is
/// unpacked and again with the one that was used. After an error the volume is no home.
///
/// # Errors
/// As [`Archives::fetch`]; another archive is [`ArchiveError::Corrupted`], naming both.
pub async fn fetch_recorded(
    archives: &dyn Archives,
    record: &ArchiveRecord,
    volume: &VolumeKey,
    transfer: &Transfer,
) -> Result<ArchiveMeta> {
    if head_recorded(archives, record).await?.is_none() {
        return Err(ArchiveError::NotFound { key: record.key.to_string() });
    }
    held(record, archives.fetch(&record.key, volume, transfer).await?)
}

fn held(record: &ArchiveRecord, meta: ArchiveMeta) -> Result<ArchiveMeta> {
    meta.hold_against(&record.key.to_string(), &expected(record))?;
    Ok(meta)
}

//! The meta object: what a finished archive says about itself.
//!
//! It is written last and is the commit mark, so its presence means "all of
//! the data is there", and its numbers are what a restore is held against.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::error::{ArchiveError, Result};
use super::manifest::CHUNKED_FORMAT;
use super::pack::PackSummary;

const OLDEST_FORMAT: u32 = 1;

/// No meta object we write comes near this; a larger one is not ours.
pub(super) const MAX_META_BYTES: u64 = 64 * 1024;

/// The commit mark of an archive, stored as JSON after its data: without it there is no archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveMeta {
    /// The version of the format. A later one than this program knows is refused.
    pub format: u32,
    /// Of the stored bytes, lower-case hexadecimal.
    pub sha256: String,
    /// Stored bytes.
    pub size: u64,
    /// Bytes of the tar stream.
    pub uncompressed: u64,
    /// Files, directories and links, the home directory itself included.
    pub entries: u64,
    /// Sockets, devices and FIFOs left out.
    #[serde(default)]
    pub skipped: u64,
    /// Of the index at the end of the stored bytes, lower-case hexadecimal; missing in what was archived
    /// before it was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_sha256: Option<String>,
    /// Operations whose archives' objects hold parts of this one, in order; from format 3 on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// The host's clock; for people, never for decisions.
    pub created_at: Timestamp,
}

/// What an archive must be, noted where whoever can write to the store of archives cannot: everything that the
/// meta object says of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub format: u32,
    pub sha256: String,
    pub size: u64,
    pub uncompressed: u64,
    pub entries: u64,
    /// `None`: the archive has no index.
    pub index_sha256: Option<String>,
    /// Operations whose archives' objects hold parts of this one.
    pub parts: Vec<String>,
}

impl ArchiveMeta {
    /// Whether what is stored is not one stream but chunks, some of them in other archives' objects.
    #[must_use]
    pub fn is_chunked(&self) -> bool {
        self.format == CHUNKED_FORMAT
    }

    /// What an archive with this meta object is.
    #[must_use]
    pub fn expected(&self) -> Expected {
        Expected {
            format: self.format,
            sha256: self.sha256.clone(),
            size: self.size,
            uncompressed: self.uncompressed,
            entries: self.entries,
            index_sha256: self.index_sha256.clone(),
            parts: self.parts.clone(),
        }
    }

    /// Whether this is the meta object of the archive that was expected under `key`. That the data is the meta
    /// object's is seen when it is read.
    ///
    /// # Errors
    /// It is another one's: [`ArchiveError::Corrupted`], which names both.
    pub fn hold_against(&self, key: &str, expected: &Expected) -> Result<()> {
        let mut found = self.expected();
        if found.index_sha256.is_none() {
            found.index_sha256.clone_from(&expected.index_sha256);
        }
        if found == *expected {
            return Ok(());
        }
        let message =
            format!("{key} is not the archive that was made there: expected {expected:?}, found {found:?}");
        Err(ArchiveError::Corrupted { message })
    }

    pub(super) fn new(summary: &PackSummary) -> Self {
        Self {
            format: summary.format,
            sha256: summary.sha256.clone(),
            size: summary.size,
            uncompressed: summary.uncompressed,
            entries: summary.entries,
            skipped: summary.skipped,
            index_sha256: Some(summary.index_sha256.clone()),
            parts: summary.parts.clone(),
            created_at: Timestamp::now(),
        }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec_pretty(self)
            .map_err(|error| ArchiveError::local("cannot write archive meta", error))
    }

    /// Reads a meta object. The format is looked at first: a later one may
    /// have other fields, and that is not corruption.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        let unreadable = |error| ArchiveError::corrupted(format!("meta object is unreadable: {error}"));
        let Versioned { format } = serde_json::from_slice(bytes).map_err(unreadable)?;
        if !(OLDEST_FORMAT..=CHUNKED_FORMAT).contains(&format) {
            return Err(ArchiveError::Unsupported { format });
        }
        serde_json::from_slice(bytes).map_err(unreadable)
    }
}

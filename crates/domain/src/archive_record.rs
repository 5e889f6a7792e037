//! What an archive of ours is: written down with the key that makes it a home, and held against whatever the
//! store of archives gives back. Whoever can write to that store can then destroy a home, but not exchange it.

use crate::{ArchiveKey, OpId};

/// The one archive that may stand under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveRecord {
    /// The workspace and operation that it belongs to.
    pub key: ArchiveKey,
    /// The version of its format.
    pub format: u32,
    /// Of the bytes stored under its key, lower-case hexadecimal.
    pub sha256: String,
    /// How many bytes those are.
    pub size: u64,
    /// Bytes of the home before compression.
    pub uncompressed: u64,
    /// Files, directories and links.
    pub entries: u64,
    /// Of the index by which single files are found; `None` for archives without one.
    pub index_sha256: Option<String>,
    /// Operations of the same workspace whose archives' objects hold parts of this one: from format 3 on, an archive
    /// stores only what is new. While this record exists none of those objects is deleted.
    pub parts: Vec<OpId>,
}

impl ArchiveRecord {
    /// The keys of the objects that hold parts of it.
    pub fn needs(&self) -> impl Iterator<Item = ArchiveKey> {
        self.parts.iter().map(|op| ArchiveKey::of(self.key.workspace, *op))
    }
}

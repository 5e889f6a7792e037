//! Homes at rest: packing a directory into one object of an object store, and getting it back. Knows
//! bytes, names and stores; nothing of workspaces, databases or people.
//!
//! A home is archived as a pax tar stream in zstd frames with a list of its
//! files (format 2; format 1 was one frame and no list, and is still read),
//! and a small meta object beside it is written last and makes it count. Nothing
//! outside this crate knows that: callers see [`ObjectArchives`] with its
//! [`ArchiveMeta`], [`Progress`] and [`ArchiveError`].
//!
//! ```text
//! walk → gather → pack ─→ zstd, sha256 ─→ parts ─→ store      (pack.rs, objects/)
//! store ─→ ranges ─→ sha256, zstd ─→ entries → beneath        (source.rs, unpack.rs)
//! ```
//!
//! The middle is plain blocking code on its own threads; the store is async;
//! bounded channels join them, so memory stays flat whatever a home holds.

mod attrs;
mod chunked_manifest;
mod chunked_pack;
mod chunked_tar;
mod confined_target;
mod error;
#[cfg(any(test, feature = "testing"))]
pub mod flaky_link;
mod frames;
mod gather;
mod hash;
mod header;
mod manifest;
mod meta;
mod objects;
mod owner;
mod pack;
mod pax;
mod progress;
mod reader;
mod restore_workers;
mod said;
mod source;
mod sparse;
mod unpack;
mod walk;

pub use chunked_pack::pack_chunked;
pub use error::ArchiveError;
pub use frames::PackOptions;
pub use hash::hex;
pub use manifest::{ArchivedFile, FileKind};
pub use meta::{ArchiveMeta, Expected};
pub use objects::{
    DATA_NAME, FilePage, FileStream, ListedObject, MARKER as ARCHIVES_MARKER, ObjectArchives, Packed,
    S3Config, Verify,
};
pub use owner::give_home;
pub use pack::estimate_home;
pub use pack::{PackSummary, pack};
pub use progress::Progress;
#[doc(hidden)]
pub use unpack::fuzz_reader;
pub use unpack::{Limits, UnpackSummary, unpack, unpack_tar};

#[cfg(test)]
mod tests;

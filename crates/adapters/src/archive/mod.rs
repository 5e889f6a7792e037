//! Homes at rest: packing a home into one object, and getting it back.
//!
//! A home is archived as a pax tar stream in one zstd frame, with a small
//! meta object beside it that is written last and makes it count. Nothing
//! outside this module knows that: callers see the port [`Archives`] with its
//! [`ArchiveMeta`], [`Progress`] and [`ArchiveError`].
//!
//! ```text
//! walk → header → pack ─→ zstd, sha256 ─→ parts ─→ store      (pack.rs, object.rs)
//! store ─→ ranges ─→ sha256, zstd ─→ entries → beneath        (source.rs, unpack.rs)
//! ```
//!
//! The middle is plain blocking code on its own threads; the store is async;
//! bounded channels join them, so memory stays flat whatever a home holds.

mod attrs;
mod beneath;
mod crew;
mod error;
mod hash;
mod header;
mod local;
mod meta;
mod object;
mod pack;
mod pair;
mod pax;
mod port;
mod progress;
mod reader;
mod source;
mod sparse;
mod transfer;
mod unpack;
mod volume;
mod walk;

pub use error::ArchiveError;
pub use meta::ArchiveMeta;
pub use object::{ListedObject, ObjectArchives, Verify};
pub use pack::{PackOptions, PackSummary, pack};
pub use port::{Archives, ListedArchive};
pub use progress::Progress;
pub use unpack::{Limits, UnpackSummary, unpack};
pub use volume::VolumeArchives;

#[cfg(test)]
mod tests;

//! Homes packed away in object storage.

mod port;

pub use port::{ArchiveInfo, Archives, ArchivesError, ListedArchive, Meter, Result};

//! Where the home is: the rule that keeps data.
//!
//! Conditions alone cannot tell "archived on purpose" from "the volume vanished". The context kept
//! here says which copy of a home is the true one, and which volume generation it is on.

use serde::{Deserialize, Serialize};

use crate::{ArchiveKey, Generation, Timestamp, named::named_enum};

named_enum! {
    /// Which copy of the home is the true one.
    Truth, "home truth" {
        /// No home was ever made.
        None => "none",
        /// The volume of the current generation.
        Volume => "volume",
        /// The archive at `archive_key`. Any volume is debris.
        Archive => "archive",
    }
}

/// Stored as JSON in `home_ctx`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeCtx {
    /// Which copy of the home is the true one.
    pub truth: Truth,
    /// The generation last given out, saved before its volume is made. While truth is `volume` this is
    /// the home.
    pub generation: Generation,
    /// The newest generation ever given out, where the home went back to an older one since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Generation>,
    /// The archive this generation was restored from, saved together with `truth = volume`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_marker: Option<ArchiveKey>,
    /// The generation that was the home before the current archive became it (it was packed from there, or
    /// a person went back in time), while its volume may still exist: should the archive vanish or prove
    /// broken, this is where a home still is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed_from: Option<Generation>,
    /// When the instance died without being asked to, most recent last; only the last few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deaths: Vec<Timestamp>,
    /// A person asked for recovery while something runs that should not: end it first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub evict_instance: bool,
}

impl Default for HomeCtx {
    fn default() -> Self {
        Self {
            truth: Truth::None,
            generation: Generation(0),
            spent: None,
            restore_marker: None,
            packed_from: None,
            deaths: Vec::new(),
            evict_instance: false,
        }
    }
}

impl HomeCtx {
    /// No generation after this one was ever given out: names are never used twice.
    pub fn newest(&self) -> Generation {
        self.spent.map_or(self.generation, |spent| spent.max(self.generation))
    }
}

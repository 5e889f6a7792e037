//! What the garbage collector must know, and what it has seen.

use std::collections::BTreeMap;

use codehub_domain::{
    Epoch, Timestamp,
    gc::{GcRow, Item},
};

use super::theme;
use crate::Result;

/// What became of the wish to delete something that nothing refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GcClaim {
    /// Nothing refers to it, and from now on nothing can.
    Claimed,
    /// Of an archive: nobody can go back to it any more, but another has parts in its object. Only its commit mark may
    /// be deleted.
    HoldsParts,
    /// A workspace needs it.
    InUse,
    /// The collector does not lead any more: stop everything.
    Fenced,
}

theme! {
    /// What the garbage collector must know, and what it has seen.
    Garbage, garbage {
        /// Every row the collector must know, deleted ones included.
        async fn gc_rows(&self) -> Result<Vec<GcRow>>;
        /// Since when which orphans have been seen.
        async fn gc_sightings(&self) -> Result<BTreeMap<Item, Timestamp>>;
        /// Replaces all sightings. `false` when fenced.
        async fn gc_sightings_replace(
            &self,
            epoch: Epoch,
            sightings: &BTreeMap<Item, Timestamp>,
        ) -> Result<bool>;
        /// Claims something for deletion, in one transaction with the question whether a row refers to it
        /// ([`codehub_domain::gc::refers`]). What is claimed stays claimed: creating or recovering a
        /// workspace from it is refused, and an archive's record is gone. Claiming again is fine. An object in which
        /// another archive that has a record has parts is never given up ([`GcClaim::HoldsParts`]).
        async fn gc_claim(&self, epoch: Epoch, item: Item) -> Result<GcClaim>;
    }
}

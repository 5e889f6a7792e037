//! The ways out of ERROR. Recovery clears the error and lets the controller judge reality anew; it
//! gives up a copy of a home only when a person asked for exactly that.

use crate::{
    ArchiveKey, ErrorReason, HomeCtx, Operation, Phase, Status, Truth, Workspace, WorkspaceId, gc::Item,
};

/// What the person asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Go back to this archive.
    pub restore_from: Option<ArchiveKey>,
    /// Give up what is lost (or, with `restore_from`, what is newer).
    pub accept_data_loss: bool,
    /// Whoever passes the wish on has just seen the true copy of the home: it is not lost (any more),
    /// whatever was seen before.
    pub home_found: bool,
}

/// Why a recovery may not be asked for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryRefusal {
    /// Nothing to recover from.
    NotInError,
    /// The home is gone: the person must choose an archive or accept the loss.
    HomeIsLost,
    /// The home is still on its volume; going back to an archive would drop it.
    WouldDropHome,
    /// What would become the home is being deleted by the garbage collector.
    BeingDeleted,
}

/// The status after recovery, before the controller looks at reality again.
///
/// # Errors
/// Says why not; nothing changes then.
pub fn recover(status: &Status, recovery: Recovery) -> Result<Status, RecoveryRefusal> {
    if status.phase != Phase::Error || status.operation != Operation::None {
        return Err(RecoveryRefusal::NotInError);
    }
    let was_lost = home_is_lost(status);
    let lost = was_lost && !recovery.home_found;
    let mut next = status.clone();
    next.forget_failure();
    next.home.deaths.clear();
    // Whatever still runs was part of the trouble, or is older than the home that comes back.
    next.home.evict_instance = true;

    if let Some(key) = recovery.restore_from {
        let on_its_volume = status.home.truth == Truth::Volume && !lost;
        let home_is_there = on_its_volume || (lost && status.home.packed_from.is_some());
        if home_is_there && !recovery.accept_data_loss {
            return Err(RecoveryRefusal::WouldDropHome);
        }
        next.archive_key = Some(key);
        next.home.truth = Truth::Archive;
        next.home.restore_marker = None;
        // Until the older home is whole, the newer one is not given up: the archive may be broken.
        next.home.packed_from =
            if on_its_volume { Some(status.home.generation) } else { status.home.packed_from };
        // Unknown again: the key may be another one than was last looked at.
        next.conditions.archive_ready = None;
        next.conditions.volume_ready = None;
    } else if recovery.accept_data_loss && (lost || home_is_unreadable(status)) {
        next.archive_key = None;
        next.home = HomeCtx {
            truth: Truth::None,
            generation: status.home.newest(),
            evict_instance: true,
            ..HomeCtx::default()
        };
        next.conditions.archive_ready = None;
        next.conditions.volume_ready = None;
    } else if let Some(generation) = status.home.packed_from
        && (lost || home_is_unreadable(status))
    {
        // The volume from before is the home again. Whether it is really there, the controller sees.
        next.home.truth = Truth::Volume;
        next.home.generation = generation;
        next.home.spent = Some(status.home.newest()).filter(|newest| *newest > generation);
        next.home.packed_from = None;
        next.conditions.volume_ready = None;
    } else if lost {
        return Err(RecoveryRefusal::HomeIsLost);
    } else if was_lost {
        // It is back. The controller sees for itself, and says so if it is not.
        match status.home.truth {
            Truth::None => {}
            Truth::Volume => next.conditions.volume_ready = None,
            Truth::Archive => next.conditions.archive_ready = None,
        }
    }
    Ok(next)
}

/// Whether this workspace may go back to an archive: one of its own, or the one it was made from.
pub fn belongs_to(key: ArchiveKey, workspace: &Workspace) -> bool {
    key.workspace == workspace.id || workspace.status.archive_key == Some(key)
}

/// What a status that recovery has made takes for the home: it must not be on its way out.
pub fn relies_on(id: WorkspaceId, status: &Status) -> Option<Item> {
    match status.home.truth {
        Truth::None => None,
        Truth::Archive => status.archive_key.map(Item::Archive),
        Truth::Volume => Some(Item::Volume { workspace: id, generation: status.home.generation }),
    }
}

fn is(status: &Status, reason: ErrorReason) -> bool {
    status.error.as_ref().is_some_and(|failure| failure.reason == reason)
}

/// The archive that is the home cannot be unpacked. (One that is not the home may be as broken as it
/// likes: the home is still on its volume.)
fn home_is_unreadable(status: &Status) -> bool {
    is(status, ErrorReason::ArchiveCorrupted) && status.home.truth == Truth::Archive
}

/// The true copy was last seen to be gone. Conditions are kept up to date in ERROR too, so a volume
/// that was mounted again counts as found.
pub fn home_is_lost(status: &Status) -> bool {
    if !is(status, ErrorReason::DataLost) {
        return false;
    }
    match status.home.truth {
        Truth::None => false,
        Truth::Volume => !status.conditions.volume_ready(),
        Truth::Archive => !status.conditions.archive_ready(),
    }
}

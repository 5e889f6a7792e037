//! What an observation means: conditions, then the phase. Pure, and the only place where "gone"
//! becomes "lost".

use crate::{
    ErrorReason, Failure, Operation, Phase, Timestamp, Truth, Workspace,
    condition::{Condition, Conditions, set},
    observed::{EndedBy, Instance, InstanceState, Observed, Seen},
};

/// The conditions after an observation. What could not be seen keeps its last condition.
pub fn conditions(workspace: &Workspace, seen: &Observed, now: Timestamp) -> Conditions {
    let mut next = workspace.status.conditions.clone();
    volume_ready(&mut next.volume_ready, workspace, seen, now);
    archive_ready(&mut next.archive_ready, workspace, seen, now);
    container_ready(&mut next.container_ready, workspace, seen, now);
    match verdict(workspace, &next, seen) {
        None => set(&mut next.healthy, true, "Healthy", "", now),
        Some(failure) => {
            set(&mut next.healthy, false, failure.reason.as_str(), failure.message, now);
        }
    }
    next
}

/// The phase, in this order: deletion, health, reality (most specific first).
///
/// `remains` says, for a deleted workspace, whether anything of it is (or may be) still there.
pub fn phase(conditions: &Conditions, deleted: bool, remains: bool) -> Phase {
    if deleted {
        return if remains { Phase::Deleting } else { Phase::Deleted };
    }
    if !conditions.healthy() {
        Phase::Error
    } else if conditions.container_ready() && conditions.volume_ready() {
        Phase::Running
    } else if conditions.volume_ready() {
        Phase::Standby
    } else if conditions.archive_ready() {
        Phase::Archived
    } else {
        Phase::Pending
    }
}

/// Whether a container or volume is, or may be, still there.
pub fn remains(seen: &Observed) -> bool {
    !(seen.instance.is_gone() && seen.generations().is_some_and(|set| set.is_empty()))
}

/// What is wrong, if anything: a terminal error nobody has cleared yet, then the invariants. Nothing
/// is wrong with a deleted workspace: it has no home to lose.
pub fn verdict(workspace: &Workspace, conditions: &Conditions, seen: &Observed) -> Option<Failure> {
    if workspace.deleted_at.is_some() {
        return None;
    }
    if let Some(failure) = &workspace.status.error
        && failure.reason.is_terminal()
    {
        return Some(failure.clone());
    }
    lost(workspace, seen).or_else(|| container_without_volume(workspace, conditions))
}

/// The true copy of the home is definitely gone.
fn lost(workspace: &Workspace, seen: &Observed) -> Option<Failure> {
    let home = &workspace.status.home;
    let message = match home.truth {
        Truth::None => return None,
        Truth::Volume => {
            if !seen.volume(home.generation).is_gone() {
                return None;
            }
            format!("the home's volume {} does not exist any more", workspace.volume(home.generation))
        }
        Truth::Archive => {
            if !seen.archive.is_gone() {
                return None;
            }
            let key = workspace.status.archive_key.map(|key| key.to_string()).unwrap_or_default();
            format!("the home's archive {key} does not exist any more, or only half of it")
        }
    };
    Some(Failure::new(ErrorReason::DataLost, message))
}

fn container_without_volume(workspace: &Workspace, conditions: &Conditions) -> Option<Failure> {
    let evicting = workspace.status.home.evict_instance || workspace.status.operation == Operation::Deleting;
    if evicting || !conditions.container_ready() || conditions.volume_ready() {
        return None;
    }
    Some(Failure::new(
        ErrorReason::ContainerWithoutVolume,
        "the workspace's instance runs, but its home is not on a volume that could be used",
    ))
}

fn volume_ready(slot: &mut Option<Condition>, workspace: &Workspace, seen: &Observed, now: Timestamp) {
    let status = &workspace.status;
    let home = &status.home;
    let generation = home.generation;
    let (ready, reason, message) = match (seen.volume(generation), home.truth) {
        // Nobody could look. A volume still does not count where it is not, or will not be, the home.
        (Seen::Unknown, Truth::Archive) => (false, "ArchiveIsTheHome", String::new()),
        (Seen::Unknown, Truth::None) if status.operation != Operation::Provisioning => {
            if slot.is_none() {
                return;
            }
            (false, "NoHome", String::new())
        }
        (Seen::Unknown, Truth::None | Truth::Volume) => return,
        (Seen::NotThere, _) => (false, "NotFound", String::new()),
        // It is the home, and it is there; what it cannot be used for says the planner.
        (Seen::There(()), Truth::Volume) if seen.trouble.contains_key(&generation) => {
            (true, "FoundWithTrouble", seen.trouble.get(&generation).cloned().unwrap_or_default())
        }
        (Seen::There(()), Truth::Volume) => (true, "Found", format!("generation {generation}")),
        (Seen::There(()), Truth::Archive) => {
            (false, "NotWhole", format!("generation {generation} is not a finished home; the archive is"))
        }
        // A new, empty volume is whole as soon as it exists.
        (Seen::There(()), Truth::None) if status.operation == Operation::Provisioning => {
            (true, "Found", format!("generation {generation}"))
        }
        (Seen::There(()), Truth::None) => {
            (false, "NotWhole", format!("generation {generation} belongs to no home"))
        }
    };
    set(slot, ready, reason, message, now);
}

fn archive_ready(slot: &mut Option<Condition>, workspace: &Workspace, seen: &Observed, now: Timestamp) {
    match (&workspace.status.archive_key, &seen.archive) {
        (None, _) => set(slot, false, "NoArchive", "", now),
        (Some(_), Seen::Unknown) => {}
        (Some(key), Seen::There(())) => set(slot, true, "Found", key.to_string(), now),
        (Some(key), Seen::NotThere) => set(slot, false, "NotFound", key.to_string(), now),
    }
}

fn container_ready(slot: &mut Option<Condition>, workspace: &Workspace, seen: &Observed, now: Timestamp) {
    let home = workspace.status.home.generation;
    match &seen.instance {
        Seen::Unknown => {}
        Seen::NotThere => set(slot, false, "NotFound", "", now),
        // Traffic sent to it would be work done on a home that nobody keeps.
        Seen::There(Instance { generation, .. }) if *generation != home => {
            let message = format!("it runs on generation {generation}, the home is generation {home}");
            set(slot, false, "WrongHome", message, now);
        }
        Seen::There(Instance { state, .. }) => match state {
            InstanceState::Ready => set(slot, true, "Ready", "", now),
            InstanceState::Alive => set(slot, false, "NotReady", "it does not answer its health check", now),
            InstanceState::Waiting(waiting) => {
                set(slot, false, &waiting.reason(), waiting.words.clone(), now);
            }
            InstanceState::Ended { by, how } => {
                let reason = match by {
                    EndedBy::Program => "Ended",
                    EndedBy::Platform => "EndedFromOutside",
                    EndedBy::Image => ErrorReason::ImagePullFailed.as_str(),
                };
                set(slot, false, reason, how.clone(), now);
            }
        },
    }
}

//! What to do next. Chooses an operation from phase and wish, and within an operation the one
//! action that brings it forward. No I/O, and always a reason when there is nothing to do.

use std::{borrow::Cow, collections::BTreeSet};

use crate::{
    ArchiveKey, Desired, Generation, HomeCtx, Operation, Phase, Truth, Workspace,
    named::named_enum,
    observed::{Instance, InstanceState, Observed, Seen},
};

/// One attempt at one idempotent thing. The executor does it; the next observation judges it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make an empty volume.
    CreateVolume {
        /// The generation to make.
        generation: Generation,
    },
    /// Store the archive of an empty home.
    PutEmptyArchive {
        /// Where.
        key: ArchiveKey,
    },
    /// Wipe the debris of earlier tries, then fetch the archive into a new volume.
    Restore {
        /// The archive to fetch.
        from: ArchiveKey,
        /// The generation to make.
        into: Generation,
        /// The generations to remove first.
        wipe: BTreeSet<Generation>,
    },
    /// Launch the instance, or adopt what already runs on that volume.
    StartInstance {
        /// The volume to start it on.
        generation: Generation,
    },
    /// End it and make sure that it is gone.
    StopInstance,
    /// Pack a volume, upload it, verify it, and commit it.
    PutArchive {
        /// Where.
        key: ArchiveKey,
        /// The generation to pack.
        from: Generation,
    },
    /// Only after a check, immediately before, that the caller still leads and nothing uses them.
    DeleteVolumes {
        /// The generations to delete.
        generations: BTreeSet<Generation>,
    },
}

/// The next step of an operation under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Everything the operation wanted is observed.
    Complete,
    /// This has to be done next.
    Act(Action),
    /// A dependency has to be seen first and could not be; says which.
    Blind(&'static str),
    /// What was done so far must not be used: end the operation, and let another begin.
    Abandon(Abandoned),
    /// Nothing can be done now, and looking again will not help; says why.
    Stuck(Cow<'static, str>),
}

named_enum! {
    /// Why an operation ends early although nothing is wrong with the workspace.
    Abandoned, "reason to abandon an operation" {
        /// The true copy of the home is not the one that the operation works on.
        HomeElsewhere => "home_elsewhere",
        /// The home was archived by another operation meanwhile.
        HomeInAnotherArchive => "home_in_another_archive",
        /// An instance ran while the home was being packed: the archive may be older than the home.
        HomeWasInUse => "home_was_in_use",
        /// The operation failed for good, on a workspace that is being deleted.
        NotNeeded => "not_needed",
    }
}

impl Abandoned {
    /// As a sentence for logs and the history.
    pub const fn text(self) -> &'static str {
        match self {
            Self::HomeElsewhere => "the home is not where this operation starts from",
            Self::HomeInAnotherArchive => "the home is in another archive",
            Self::HomeWasInUse => "something ran on the home while it was being archived",
            Self::NotNeeded => "failed, and is not needed any more",
        }
    }
}

/// The operation that leads from `phase` towards `desired`; the table of the specification.
///
/// The home's truth guards the two rows that would make a home out of nothing: whatever the
/// conditions say, an existing home is never provisioned over.
pub fn choose(phase: Phase, desired: Desired, truth: Truth) -> Operation {
    match (phase, desired) {
        (Phase::Deleted, _) => Operation::None,
        (_, Desired::Deleted) => Operation::Deleting,
        (Phase::Error | Phase::Deleting, _) => Operation::None,
        (Phase::Pending, Desired::Archived) if truth == Truth::None => Operation::CreateEmptyArchive,
        (Phase::Pending, Desired::Standby | Desired::Running) if truth == Truth::None => {
            Operation::Provisioning
        }
        // The home exists but could not be seen yet: wait for eyes.
        (Phase::Pending, Desired::Archived | Desired::Standby | Desired::Running) => Operation::None,
        (Phase::Archived, Desired::Standby | Desired::Running) if truth == Truth::Archive => {
            Operation::Restoring
        }
        (Phase::Archived, Desired::Standby | Desired::Running | Desired::Archived) => Operation::None,
        (Phase::Standby, Desired::Running) => Operation::Starting,
        (Phase::Standby, Desired::Archived) => Operation::Archiving,
        (Phase::Standby, Desired::Standby) => Operation::None,
        (Phase::Running, Desired::Standby | Desired::Archived) => Operation::Stopping,
        (Phase::Running, Desired::Running) => Operation::None,
    }
}

/// Whether an instance is there that should not be: nothing wants it, or it runs on the wrong home.
pub fn stray_instance(workspace: &Workspace, phase: Phase, seen: &Observed) -> bool {
    let status = &workspace.status;
    let Seen::There(instance) = &seen.instance else {
        return false;
    };
    if status.home.evict_instance {
        return true;
    }
    match phase {
        Phase::Running => instance.generation != status.home.generation,
        Phase::Standby => {
            workspace.desired != Desired::Running || instance.generation != status.home.generation
        }
        Phase::Pending | Phase::Archived => true,
        Phase::Error | Phase::Deleting | Phase::Deleted => false,
    }
}

/// The next step of `workspace.status.operation`.
pub fn next_step(workspace: &Workspace, seen: &Observed) -> Step {
    let status = &workspace.status;
    let home = &status.home;
    if !fits(workspace) {
        return Step::Abandon(Abandoned::HomeElsewhere);
    }
    match status.operation {
        Operation::None => Step::Stuck("no operation is under way".into()),
        Operation::Provisioning => match seen.volume(home.generation) {
            Seen::There(()) => Step::Complete,
            Seen::NotThere | Seen::Unknown => Step::Act(Action::CreateVolume { generation: home.generation }),
        },
        Operation::CreateEmptyArchive => match committed(workspace) {
            None => Step::Stuck("the operation has no id".into()),
            Some((_, false)) if home.truth == Truth::Archive => {
                Step::Abandon(Abandoned::HomeInAnotherArchive)
            }
            Some((key, false)) => Step::Act(Action::PutEmptyArchive { key }),
            Some((_, true)) if seen.archive.is_there() => Step::Complete,
            Some((_, true)) => Step::Blind("the archive cannot be seen yet"),
        },
        Operation::Restoring => restoring(workspace, seen),
        Operation::Starting => match &seen.instance {
            Seen::There(Instance { generation, state: InstanceState::Ready })
                if *generation == home.generation =>
            {
                Step::Complete
            }
            Seen::There(Instance { generation, .. }) if *generation != home.generation => {
                Step::Act(Action::StopInstance)
            }
            Seen::There(_) | Seen::NotThere | Seen::Unknown
                if !seen.instance_alive() && seen.trouble.contains_key(&home.generation) =>
            {
                troubled(home, seen)
            }
            // Starting is idempotent: it adopts what runs and waits for it to answer.
            Seen::There(_) | Seen::NotThere | Seen::Unknown => {
                Step::Act(Action::StartInstance { generation: home.generation })
            }
        },
        Operation::Stopping => match &seen.instance {
            Seen::NotThere => Step::Complete,
            Seen::There(_) | Seen::Unknown => Step::Act(Action::StopInstance),
        },
        Operation::Archiving => archiving(workspace, seen),
        Operation::Deleting => match (&seen.instance, seen.generations()) {
            (Seen::There(_) | Seen::Unknown, _) => Step::Act(Action::StopInstance),
            (Seen::NotThere, None) => Step::Blind("the volumes cannot be seen"),
            (Seen::NotThere, Some(generations)) if generations.is_empty() => Step::Complete,
            (Seen::NotThere, Some(generations)) => Step::Act(Action::DeleteVolumes { generations }),
        },
    }
}

/// The home is there, and cannot be used.
fn troubled(home: &HomeCtx, seen: &Observed) -> Step {
    let words = seen.trouble.get(&home.generation).map_or("", String::as_str);
    Step::Stuck(format!("the home cannot be used: {words}").into())
}

/// Whether an operation has any business with a home that is there. Operations begin and end so that
/// it always does; should that ever fail, nothing is made, started or packed in the wrong place.
fn fits(workspace: &Workspace) -> bool {
    let truth = workspace.status.home.truth;
    match workspace.status.operation {
        Operation::None | Operation::Stopping => true,
        Operation::Deleting => workspace.deleted_at.is_some() || workspace.desired == Desired::Deleted,
        Operation::Provisioning => truth == Truth::None,
        Operation::CreateEmptyArchive => truth != Truth::Volume,
        Operation::Restoring | Operation::Archiving => truth != Truth::None,
        Operation::Starting => truth == Truth::Volume,
    }
}

/// The archive this operation writes, and whether it has been committed as the home.
fn committed(workspace: &Workspace) -> Option<(ArchiveKey, bool)> {
    let key = workspace.op_archive_key()?;
    let status = &workspace.status;
    Some((key, status.archive_key == Some(key) && status.home.truth == Truth::Archive))
}

fn restoring(workspace: &Workspace, seen: &Observed) -> Step {
    let status = &workspace.status;
    let home = &status.home;
    if home.truth == Truth::Volume {
        return match seen.volume(home.generation) {
            Seen::There(()) if home.restore_marker == status.archive_key => Step::Complete,
            Seen::There(()) => Step::Stuck("the volume was restored from another archive".into()),
            Seen::NotThere | Seen::Unknown => Step::Blind("the restored volume cannot be seen"),
        };
    }
    let Some(from) = status.archive_key else {
        return Step::Stuck("there is no archive to restore from".into());
    };
    match (&seen.instance, seen.generations()) {
        (Seen::There(_) | Seen::Unknown, _) => Step::Act(Action::StopInstance),
        (Seen::NotThere, None) => Step::Blind("the volumes cannot be seen"),
        (Seen::NotThere, Some(generations)) => Step::Act(Action::Restore {
            from,
            into: seen.unused_after(home.newest()),
            wipe: debris(generations, home),
        }),
    }
}

/// What earlier tries left. Not the home from before: that goes when the restored one is whole.
fn debris(generations: BTreeSet<Generation>, home: &HomeCtx) -> BTreeSet<Generation> {
    let mut debris = given_out(generations, home.newest());
    if let Some(before) = home.packed_from {
        debris.remove(&before);
    }
    debris
}

fn archiving(workspace: &Workspace, seen: &Observed) -> Step {
    let Some((key, committed)) = committed(workspace) else {
        return Step::Stuck("the operation has no id".into());
    };
    let home = &workspace.status.home;
    if !committed && home.truth == Truth::Archive {
        return Step::Abandon(Abandoned::HomeInAnotherArchive);
    }
    match &seen.instance {
        // An earlier try of this operation may have finished its archive before this began to run,
        // and would be taken for the home as it is now.
        Seen::There(_) if !committed && seen.runs_on(home.generation) => {
            return Step::Abandon(Abandoned::HomeWasInUse);
        }
        Seen::There(_) | Seen::Unknown => return Step::Act(Action::StopInstance),
        Seen::NotThere => {}
    }
    if !committed {
        let from = home.generation;
        return match seen.volume(from) {
            Seen::There(()) if seen.trouble.contains_key(&from) => troubled(home, seen),
            Seen::There(()) => Step::Act(Action::PutArchive { key, from }),
            Seen::NotThere | Seen::Unknown => Step::Blind("the volume cannot be seen"),
        };
    }
    // The archive is the home now. Its volume goes only while the archive answers.
    match (&seen.archive, seen.generations().map(|generations| given_out(generations, home.newest()))) {
        (Seen::There(()), Some(generations)) if generations.is_empty() => Step::Complete,
        (Seen::There(()), Some(generations)) => Step::Act(Action::DeleteVolumes { generations }),
        (Seen::There(()), None) => Step::Blind("the volumes cannot be seen"),
        (Seen::NotThere | Seen::Unknown, _) => Step::Blind("the archive cannot be seen"),
    }
}

/// Only what this workspace is known to have made. A newer volume than that means that the database
/// is older than the world, and what is on it may be the home.
fn given_out(mut generations: BTreeSet<Generation>, newest: Generation) -> BTreeSet<Generation> {
    generations.retain(|generation| *generation <= newest);
    generations
}

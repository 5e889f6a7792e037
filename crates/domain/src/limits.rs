//! How many workspaces may run at once.

use crate::{Desired, Phase, Workspace, WorkspaceId};

/// 0 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many of one owner. 0 is no limit.
    pub running_per_user: u32,
    /// How many of all owners. 0 is no limit.
    pub running_global: u32,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self { running_per_user: 0, running_global: 0 };

    /// Whether one more may run beside those that already take a place.
    ///
    /// # Errors
    /// The limit that is reached; a person's own comes first, because that one they can act on.
    pub fn admit(self, running_of_user: u32, running_in_all: u32) -> Result<(), LimitScope> {
        let reached = |limit: u32, count: u32| limit != 0 && count >= limit;
        if reached(self.running_per_user, running_of_user) {
            Err(LimitScope::User { limit: self.running_per_user })
        } else if reached(self.running_global, running_in_all) {
            Err(LimitScope::Global { limit: self.running_global })
        } else {
            Ok(())
        }
    }
}

/// Which limit was hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitScope {
    /// The owner's.
    User { limit: u32 },
    /// The deployment's.
    Global { limit: u32 },
}

/// A refused wish to run, with the caller's own running workspaces (never somebody else's).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitHit {
    /// Which limit.
    pub scope: LimitScope,
    /// What the owner could stop to make room.
    pub running: Vec<RunningWorkspace>,
}

/// One of the owner's workspaces that counts against the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningWorkspace {
    /// Which one.
    pub id: WorkspaceId,
    /// Its name, to be shown.
    pub name: String,
}

/// Whether a workspace takes one of the places: it runs, or it is meant to. One in ERROR is not started
/// before somebody recovers it, and takes a place only while something of it really runs. A deleted one is
/// on its way out and takes none once nothing of it runs.
pub fn takes_a_place(workspace: &Workspace) -> bool {
    let status = &workspace.status;
    let given_up = status.phase == Phase::Error && status.error.is_some();
    status.phase == Phase::Running
        || (workspace.desired == Desired::Running && (!given_up || status.conditions.instance_exists()))
}

/// Whether this change gives a workspace a place that it did not have: then the limits are asked.
pub fn needs_a_place(before: &Workspace, after: &Workspace) -> bool {
    takes_a_place(after) && !takes_a_place(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_limit_and_the_users_own_limit_comes_first() {
        let limits = |running_per_user, running_global| Limits { running_per_user, running_global };
        assert_eq!(limits(0, 0).admit(1000, 1000), Ok(()));
        assert_eq!(limits(2, 100).admit(1, 99), Ok(()));
        assert_eq!(limits(2, 100).admit(2, 100), Err(LimitScope::User { limit: 2 }));
        assert_eq!(limits(2, 100).admit(1, 100), Err(LimitScope::Global { limit: 100 }));
        assert_eq!(limits(0, 1).admit(0, 1), Err(LimitScope::Global { limit: 1 }));
    }
}

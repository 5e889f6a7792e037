//! What the store announces after a commit, for whoever keeps something that it may have made old.

use crate::{UserId, WorkspaceId};

/// Something happened that somebody may be waiting for. Carries ids only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// What people see of it changed.
    Updated {
        /// Which one.
        workspace: WorkspaceId,
        /// Whose event streams hear of it.
        owner: UserId,
    },
    /// It was deleted: nobody sees it any more.
    Deleted {
        /// Which one.
        workspace: WorkspaceId,
        /// Whose event streams hear of it.
        owner: UserId,
    },
    /// What somebody wants changed: the controller should look.
    Wake,
    /// A session or token ended, or a user was disabled: forget what was cached of this user.
    Access {
        /// Whose credentials are no longer what they were.
        user: UserId,
    },
    /// Any of these may have been missed (the connection to the database was lost): read again.
    Resync,
}

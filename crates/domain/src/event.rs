//! The append-only history of a workspace, and who caused each entry.

mod reason;

use std::fmt;

pub use reason::Reason;

use crate::{Operation, Phase, Timestamp, UserId};

/// Who did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// Somebody, through the API or the dashboard.
    User(UserId),
    /// Somebody opened a sleeping workspace in the browser.
    Wake(UserId),
    /// The leader, following what it observed.
    Controller,
    /// The leader, because a TTL ran out.
    Ttl,
    /// The command line on the server's own machine.
    Operator,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(id) => write!(f, "user:{id}"),
            Self::Wake(id) => write!(f, "wake:{id}"),
            Self::Controller => f.write_str("controller"),
            Self::Ttl => f.write_str("ttl"),
            Self::Operator => f.write_str("operator"),
        }
    }
}

/// One line of history, before the store adds id and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The phase before.
    pub from: Phase,
    /// The phase after; the same where only the target state or the operation changed.
    pub to: Phase,
    /// What was being done.
    pub operation: Operation,
    /// Why.
    pub reason: Reason,
    /// Who caused it.
    pub actor: Actor,
}

/// One line of history as stored. The actor is text: what is written is never parsed again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Grows with every line; the cursor of a page.
    pub id: i64,
    /// When the store wrote it.
    pub at: Timestamp,
    /// The phase before.
    pub from: Phase,
    /// The phase after; the same where only the target state or the operation changed.
    pub to: Phase,
    /// What was being done.
    pub operation: Operation,
    /// Why.
    pub reason: Reason,
    /// Who caused it, as [`Actor`] writes itself.
    pub actor: String,
}

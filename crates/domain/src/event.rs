//! The append-only history of a workspace, and who caused each entry.

mod reason;

use std::fmt;

pub use reason::Reason;

use crate::{Operation, Phase, Timestamp, UserId};

/// Who did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    User(UserId),
    /// Somebody opened a sleeping workspace in the browser.
    Wake(UserId),
    Controller,
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
    pub from: Phase,
    pub to: Phase,
    pub operation: Operation,
    pub reason: Reason,
    pub actor: Actor,
}

/// One line of history as stored. The actor is text: what is written is never parsed again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    pub id: i64,
    pub at: Timestamp,
    pub from: Phase,
    pub to: Phase,
    pub operation: Operation,
    pub reason: Reason,
    pub actor: String,
}

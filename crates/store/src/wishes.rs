//! What people ask for, and what became of it.

use codehub_domain::{
    Desired, Workspace,
    desired::Refusal,
    event::{Actor, Reason},
    limits::{LimitHit, Limits},
    recovery::RecoveryRefusal,
};

use super::Edit;

/// A wish for a desired state, and an edit with it: both, or nothing.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    pub wish: Desired,
    pub edit: Edit,
    pub limits: Limits,
    pub actor: Actor,
    /// For the history.
    pub reason: &'a Reason,
}

/// What became of a wish for another desired state.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    Changed(Box<Workspace>),
    /// It was already wanted. A wish to run still counts as activity.
    Already(Box<Workspace>),
    NotFound,
    Refused(Refusal),
    LimitReached(LimitHit),
}

impl Asked {
    /// The workspace as it is now, where the wish was granted.
    pub(crate) fn granted(&self) -> Option<&Workspace> {
        match self {
            Self::Changed(workspace) | Self::Already(workspace) => Some(workspace),
            Self::NotFound | Self::Refused(_) | Self::LimitReached(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Recovered {
    Recovered(Box<Workspace>),
    NotFound,
    Refused(RecoveryRefusal),
    /// It was to run from now on, and there is no place.
    LimitReached(LimitHit),
}

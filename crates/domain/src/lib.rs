//! What CodeHub knows, without any of what it touches.
//!
//! Everything here is a value or a pure function: no clock, no randomness, no I/O. Time comes in as
//! an argument, ids are made by the caller, and every rule that protects somebody's home is written
//! (and tested) here once, so that the controller, the stores and the simulation cannot disagree.
//!
//! The map follows one reconcile: [`observed`] (what was seen) → [`judge`] (what it means) →
//! [`plan`] (what to do next) → [`decide`] (the whole step, with failures and deadlines).

pub mod activity;
pub mod archive_record;
pub mod audit;
pub mod change;
pub mod condition;
pub mod decide;
pub mod desired;
pub mod error;
pub mod event;
pub mod fields;
pub mod gc;
pub mod home;
pub mod id;
pub mod intent;
pub mod judge;
pub mod labels;
pub mod limits;
mod named;
pub mod observed;
pub mod origins;
pub mod plan;
pub mod ports;
pub mod recovery;
pub mod retry;
pub mod slug;
pub mod ttl;
pub mod user;
pub mod waiting;
pub mod workspace;

pub use archive_record::ArchiveRecord;
pub use error::{ErrorReason, Failure};
pub use home::{HomeCtx, Truth};
pub use id::{
    ArchiveKey, Epoch, Generation, HoldId, OpId, SessionId, TokenId, UserId, VolumeKey, WorkspaceId,
};
pub use workspace::{Desired, Operation, Phase, Progress, Status, Workspace};

/// A moment, as the database's clock tells it.
pub use jiff::Timestamp;

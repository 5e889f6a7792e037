//! The rules of the domain, row by row and combination by combination. The tree mirrors the crate.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod condition;
mod decide;
mod desired;
mod error;
mod exhaustive;
mod gc;
mod id;
mod judge;
mod limits;
mod plan;
mod reason;
mod recovery;
mod retry;
mod support;
mod ttl;
mod watch;
mod world;

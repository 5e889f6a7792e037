//! The built-in IDE from outside: over HTTP and its WebSocket, as the page uses it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly too")]

mod files;
mod git;
mod harness;
mod page;
mod searching;
mod terminals;
mod transfer;
mod watching;

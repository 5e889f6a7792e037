//! How far an archive or restore has come, for anybody who cares to look.
//!
//! Counted in bytes of the tar stream, so the same home has the same total
//! in both directions. Relaxed atomics: a reader wants a recent number, not
//! a consistent one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Shared counters; cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    done: AtomicU64,
    total: AtomicU64,
    moved: AtomicU64,
}

impl Progress {
    /// Nothing has moved, and nothing is expected.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes dealt with so far.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.0.done.load(Relaxed)
    }

    /// Bytes expected altogether: exact for a restore, an estimate for an
    /// archive, and never less than [`Progress::done`].
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.total.load(Relaxed).max(self.done())
    }

    /// Grows whenever anything moves, checking what was stored included, and
    /// is never set back: an operation is stuck when this stands still.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.0.moved.load(Relaxed)
    }

    /// Begins to count from 0 towards `total`; what moved before stays counted in [`Progress::moved`].
    pub fn start(&self, total: u64) {
        self.0.done.store(0, Relaxed);
        self.0.total.store(total, Relaxed);
    }

    /// So many bytes more are done.
    pub fn advance(&self, bytes: u64) {
        self.0.done.fetch_add(bytes, Relaxed);
        self.touch(bytes);
    }

    /// Bytes that moved without bringing the end nearer.
    pub(super) fn touch(&self, bytes: u64) {
        self.0.moved.fetch_add(bytes, Relaxed);
    }

    pub(super) fn finish(&self) {
        self.0.total.store(self.done(), Relaxed);
    }
}

//! A clock that stands still until somebody moves it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use codehub_domain::Timestamp;

/// Shared by everything in one simulated world; clones tell the same time.
#[derive(Debug, Clone)]
pub struct FakeClock {
    micros: Arc<AtomicI64>,
}

impl FakeClock {
    /// 2026-01-01T00:00:00Z
    const START_MICROS: i64 = 1_767_225_600_000_000;

    /// A clock that stands at a moment of its own.
    pub fn new() -> Self {
        Self { micros: Arc::new(AtomicI64::new(Self::START_MICROS)) }
    }

    /// The moment it stands at.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.micros()).unwrap_or(Timestamp::MAX)
    }

    /// The moment in microseconds since 1970.
    pub fn micros(&self) -> i64 {
        self.micros.load(Ordering::SeqCst)
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        let end = Timestamp::MAX.as_microsecond();
        // Never fails: the closure always returns a value.
        let _ = self
            .micros
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| Some(now.saturating_add(by).min(end)));
    }

    /// Jumps, backwards too: clocks do.
    pub fn set(&self, to: Timestamp) {
        self.micros.store(to.as_microsecond(), Ordering::SeqCst);
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::new()
    }
}

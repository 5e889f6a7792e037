//! A process of the simulation: it can be frozen, woken and killed between any two calls.
//!
//! Every fake asks its process's gate before and after the effect of a call. A frozen process stops
//! there until it is woken; a killed one never comes back. What the process computes in between
//! touches nothing, so this is a crash between any two awaits that matter.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Running,
    Frozen,
    Killed,
}

/// One simulated process.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    /// Wakes in the order of waiting, so that a run repeats exactly.
    changed: Notify,
}

impl Gate {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn freeze(&self) {
        self.set(State::Frozen);
    }

    pub fn wake(&self) {
        self.set(State::Running);
    }

    pub fn kill(&self) {
        self.set(State::Killed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, to: State) {
        let mut state = self.state();
        // Dead is dead.
        if *state != State::Killed {
            *state = to;
        }
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Comes back while the process runs.
    pub async fn pass(&self) {
        loop {
            let changed = self.0.changed.notified();
            if *self.state() == State::Running {
                return;
            }
            changed.await;
        }
    }
}

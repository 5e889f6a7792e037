//! A process of the simulation: it can be frozen, woken and killed between any two calls.
//!
//! Every fake asks its process's gate before and after the effect of a call. A frozen process stops
//! there until it is woken; a killed one never comes back. What the process computes in between
//! touches nothing, so this is a crash between any two awaits that matter.

use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Frozen,
    Killed,
}

/// One simulated process.
#[derive(Debug, Clone)]
pub struct Gate(watch::Sender<State>);

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new(State::Running))
    }
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

    pub fn killed(&self) -> bool {
        *self.0.borrow() == State::Killed
    }

    /// Dead is dead.
    fn set(&self, state: State) {
        self.0.send_if_modified(|now| {
            let changes = *now != State::Killed && *now != state;
            if changes {
                *now = state;
            }
            changes
        });
    }

    /// Comes back while the process runs.
    pub async fn pass(&self) {
        let mut state = self.0.subscribe();
        // The sender lives as long as `self`: this only fails after the process is gone.
        if state.wait_for(|state| *state == State::Running).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

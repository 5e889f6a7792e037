//! The store again, in memory and with a clock of its own, for the simulation and for tests that inject
//! faults. It is held to the same contract suite as the real ones.

use std::sync::LazyLock;

use codehub_domain::audit::Act;

mod clock;
mod store;

pub use clock::FakeClock;
pub use store::{FakeStore, Moment};

/// Whoever acts in a test that does not care who.
pub fn by() -> &'static Act {
    static BY: LazyLock<Act> = LazyLock::new(|| Act::operator("test"));
    &BY
}

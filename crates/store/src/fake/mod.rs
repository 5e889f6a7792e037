//! The store again, in memory and with a clock of its own, for the simulation and for tests that inject
//! faults. It is held to the same contract suite as the real ones.

mod clock;
mod store;

pub use clock::FakeClock;
pub use store::{FakeStore, Moment};

//! Adapters without a world: for tests and for the simulation.
//!
//! They keep the promises of their ports (the contract suites run against them too), but time is a
//! number that a test moves, and faults come when a test says so.

pub mod clock;
pub mod store;

pub use clock::FakeClock;
pub use store::{FakeStore, Moment};

//! Fakes for the simulation and for tests that inject faults: a world that can lie, be slow and
//! break, processes that can be frozen and killed, a store and a clock in memory. They are ordinary
//! implementations of the ports, held to the same contract suites where one exists.

mod backends;
mod clock;
mod flaky_link;
mod gate;
mod store;
mod world;

pub use backends::FakeBackends;
pub use clock::FakeClock;
pub use flaky_link::{FlakyLink, Trouble};
pub use gate::Gate;
pub use store::{FakeStore, Moment};
pub use world::{Faults, Mutation, World, short};

//! Fakes for the simulation and for tests that inject faults: a world that can lie, be slow and
//! break, processes that can be frozen and killed. They are ordinary implementations of the ports,
//! held to the same contract suites where one exists.

mod backends;
mod gate;
mod world;

pub use backends::FakeBackends;
pub use gate::Gate;
pub use world::{Faults, Mutation, World, short};

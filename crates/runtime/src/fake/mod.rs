//! The runtime's ports over a simulated world that can lie, be slow and break, with processes that can be
//! frozen and killed. For the simulation and for tests that inject faults.

mod backends;
#[cfg(test)]
mod contract_tests;
mod gate;
mod world;

pub use backends::{FakeBackends, recorded};
pub use gate::Gate;
pub use world::{Faults, LineServer, Mutation, World, short};

//! The world.

pub mod archive;

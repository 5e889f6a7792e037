//! The shapes.

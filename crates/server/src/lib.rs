//! The running thing: configuration, sign-in, API, dashboard, command line, and the one place where ports
//! meet their implementations. Knows every other crate; none knows it.
//!
//! A request: `api` or the proxy parses → `domain` decides → the store saves the intent → the bus
//! pokes. A handler never starts a container. A reconcile: observe → judge → plan → execute → save,
//! in the coordinator.

pub mod api;
pub mod app;
mod archived_http;
pub mod auth;
pub mod backends;
mod bodies;
pub mod certificate;
pub mod cli;
pub mod config;
pub mod lines;
pub mod looks;
pub mod passwords;
pub mod proxy_gate;
pub mod serve;
pub mod service;
pub mod telemetry;
pub mod web;

#[cfg(test)]
mod coordinator_tests;

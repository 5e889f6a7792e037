//! The running thing: configuration, API, proxy, coordinator, dashboard and command line.
//!
//! A request: `api` or `proxy` parses → `domain` decides → the store saves the intent → the bus
//! pokes. A handler never starts a container. A reconcile: observe → judge → plan → execute → save,
//! in `coordinator`.

pub mod activity;
pub mod app;
pub mod auth;
pub mod config;
pub mod proxy;

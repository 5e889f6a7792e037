//! The running thing: configuration, API, proxy, coordinator, dashboard and command line.
//!
//! A request: `api` or `proxy` parses → `domain` decides → the store saves the intent → the bus
//! pokes. A handler never starts a container. A reconcile: observe → judge → plan → execute → save,
//! in `coordinator`.

pub mod activity;
pub mod api;
pub mod app;
mod archived_http;
pub mod auth;
pub mod backends;
pub mod cli;
pub mod config;
pub mod coordinator;
pub mod idle;
mod places;
pub mod proxy;
mod rarely;
pub mod serve;
pub mod service;
pub mod telemetry;
pub mod web;

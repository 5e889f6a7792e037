//! Server

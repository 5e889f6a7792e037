//! Everything that touches the world, behind a few narrow ports.
//!
//! | port | embedded | production |
//! |---|---|---|
//! | [`store::Store`] | SQLite | PostgreSQL |
//! | [`bus::Bus`] | in process | Redis |
//! | [`runtime::Instances`] | local processes | Docker, Kubernetes |
//! | [`volumes::Volumes`] | directories | Docker volumes |
//! | [`archive::Archives`] | files | S3 |
//!
//! Implementations know nothing of each other, and only the store knows of the database. Every call
//! on the runtime ports is idempotent.

pub mod archive;
pub mod bus;
pub mod docker;
pub mod fake;
pub mod runtime;
pub mod store;
pub mod volumes;

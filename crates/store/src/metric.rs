//! The names of the metrics that this crate records, each once. docs/OPERATIONS.md explains them to operators.

/// What was written to the audit trail, by action and outcome.
pub(crate) const AUDIT_EVENTS: &str = "codehub_audit_events_total";
/// Messages that the bus did not take.
pub(crate) const BUS_ERRORS: &str = "codehub_bus_errors_total";
/// Connections to Redis that had to be made again.
pub(crate) const BUS_RECONNECTS: &str = "codehub_bus_reconnects_total";
/// Connections that listen for changes and had to be made again.
pub(crate) const LISTENER_RECONNECTS: &str = "codehub_db_listener_reconnects_total";
/// Sessions of a frozen leader that were ended so that another could lead.
pub(crate) const LEADER_TAKEOVERS: &str = "codehub_leader_takeovers_total";
/// How long store operations take, by operation.
pub(crate) const QUERY_SECONDS: &str = "codehub_db_query_seconds";

//! The names of the metrics that this crate records, each once. docs/OPERATIONS.md explains them to operators.

/// How often in a row a component of the leader has panicked; 0 when it is well.
pub(crate) const COMPONENT_FAILING: &str = "codehub_component_failing";
/// Panics, by component.
pub(crate) const COMPONENT_PANICS: &str = "codehub_component_panics_total";
/// Errors of a component that it tries again after, by component.
pub(crate) const COMPONENT_ERRORS: &str = "codehub_component_errors_total";
/// Messages that the bus did not take. The same name as in the store, which counts the others.
pub(crate) const BUS_ERRORS: &str = "codehub_bus_errors_total";
/// Workspaces put to sleep or archived, by target state.
pub(crate) const TTL_EXPIRED: &str = "codehub_ttl_expired_total";
/// 1 while this process leads.
pub(crate) const LEADER: &str = "codehub_leader";
/// How long actions take, by action.
pub(crate) const ACTION_SECONDS: &str = "codehub_action_seconds";
/// Actions that failed, by action and reason.
pub(crate) const ACTION_FAILURES: &str = "codehub_action_failures_total";
/// How long a survey of all instances and volumes takes.
pub(crate) const SURVEY_SECONDS: &str = "codehub_survey_seconds";
/// Observations that failed, by what was observed.
pub(crate) const LOOK_FAILURES: &str = "codehub_look_failures_total";
/// What the garbage collector deleted.
pub(crate) const GC_DELETED: &str = "codehub_gc_deleted_total";
/// 1 while the garbage collector refuses to delete.
pub(crate) const GC_BRAKED: &str = "codehub_gc_braked";

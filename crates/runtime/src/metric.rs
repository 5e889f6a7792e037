//! The names of the metrics that this crate records, each once. docs/OPERATIONS.md explains them to operators.

/// Storage jobs that were started, by job.
pub(crate) const DOCKER_JOBS: &str = "codehub_docker_jobs_total";
/// How long pulling an image takes.
pub(crate) const DOCKER_PULL_SECONDS: &str = "codehub_docker_pull_seconds";
/// Events of the engine that concern our containers.
pub(crate) const DOCKER_EVENTS: &str = "codehub_docker_events_total";
/// How long the engine takes to start a container.
pub(crate) const DOCKER_START_SECONDS: &str = "codehub_docker_start_seconds";
/// 1 while the packet rules around workspaces are in place.
pub(crate) const DOCKER_SHUT_IN: &str = "codehub_docker_shut_in";

//! The process's metrics, as Prometheus reads them.

use std::{sync::OnceLock, time::Duration};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

const SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];
/// Summaries and histograms are folded this often, so that they do not grow between two visits.
const UPKEEP: Duration = Duration::from_secs(5);

static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Starts counting. Safe to call twice.
pub fn install() {
    handle();
}

/// Everything counted so far.
pub fn render() -> String {
    handle().map(PrometheusHandle::render).unwrap_or_default()
}

/// Keeps memory flat; ends with the server.
pub async fn upkeep(until: tokio_util::sync::CancellationToken) {
    let mut tick = tokio::time::interval(UPKEEP);
    loop {
        tokio::select! {
            () = until.cancelled() => return,
            _ = tick.tick() => if let Some(handle) = handle() { handle.run_upkeep() },
        }
    }
}

fn handle() -> Option<&'static PrometheusHandle> {
    let install = || {
        let builder =
            PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS);
        match builder.and_then(PrometheusBuilder::install_recorder) {
            Ok(handle) => {
                describe();
                Some(handle)
            }
            Err(error) => {
                tracing::warn!(%error, "there will be no metrics");
                None
            }
        }
    };
    HANDLE.get_or_init(install).as_ref()
}

/// Time until the answer's headers, by route, method and status class.
pub(crate) const HTTP_SECONDS: &str = "codehub_http_request_duration_seconds";
/// Open connections.
pub(crate) const HTTP_CONNECTIONS: &str = "codehub_http_connections";
/// Open lines to the programs inside workspaces.
pub(crate) const LINES: &str = "codehub_lines";
pub(crate) const PORT_CONNECTIONS: &str = "codehub_port_connections_open";
/// Programs that run by exec.
pub(crate) const EXECS_OPEN: &str = "codehub_execs_running";
/// Programs that were run by exec, by how they ended.
pub(crate) const EXECS: &str = "codehub_execs_total";
/// 1, with the version as a label.
const BUILD_INFO: &str = "codehub_build_info";

fn describe() {
    metrics::describe_histogram!(
        HTTP_SECONDS,
        metrics::Unit::Seconds,
        "Time until the answer's headers, by route, method and status class"
    );
    metrics::describe_gauge!(HTTP_CONNECTIONS, "Open connections");
    metrics::describe_gauge!(PORT_CONNECTIONS, "Open connections to ports of workspaces");
    metrics::describe_gauge!(LINES, "Open lines to the programs inside workspaces");
    metrics::describe_gauge!(EXECS_OPEN, "Programs that run by exec");
    metrics::describe_counter!(EXECS, "Programs that were run by exec, by how they ended");
    metrics::describe_gauge!(BUILD_INFO, "1, with the version as a label");
    metrics::gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
}

//! What the proxy counts. Handles are made once, so that counting a request is one addition; the
//! recorder must be installed before the proxy is made.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::error::ProxyError;

/// How a request ended, as far as the proxy is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Proxied,
    /// By ourselves, below `.codehub/`.
    Own,
    Upgraded,
    Redirected,
    Refused,
    NotFound,
    Asleep,
    Loading,
    Closed,
    Limit,
    UpstreamFailed,
    OurFault,
}

impl Outcome {
    const ALL: [(Self, &'static str); 12] = [
        (Self::Proxied, "proxied"),
        (Self::Own, "own"),
        (Self::Upgraded, "upgraded"),
        (Self::Redirected, "redirected"),
        (Self::Refused, "refused"),
        (Self::NotFound, "not_found"),
        (Self::Asleep, "asleep"),
        (Self::Loading, "loading"),
        (Self::Closed, "closed"),
        (Self::Limit, "limit"),
        (Self::UpstreamFailed, "upstream_failed"),
        (Self::OurFault, "our_fault"),
    ];
}

pub(super) struct Metrics {
    requests: Vec<Counter>,
    websockets: Gauge,
    wake: Histogram,
}

impl Metrics {
    pub(super) fn new() -> Self {
        Self {
            requests: Outcome::ALL
                .iter()
                .map(|(_, name)| counter!("codehub_proxy_requests_total", "outcome" => *name))
                .collect(),
            websockets: gauge!("codehub_proxy_websockets_open"),
            wake: histogram!("codehub_proxy_wake_seconds"),
        }
    }

    pub(super) fn request(&self, outcome: Outcome) {
        if let Some(counter) = self.requests.get(outcome as usize) {
            counter.increment(1);
        }
    }

    /// From the request of a navigation that had to wait to the moment it could be forwarded.
    pub(super) fn woken(&self, after: Duration) {
        self.wake.record(after.as_secs_f64());
    }

    pub(super) fn upstream_failed(&self, error: &ProxyError) {
        let kind = match error {
            ProxyError::NoUpstream => "no_address",
            ProxyError::Connect(_) => "connect",
            ProxyError::Died(_) => "died",
            _ => "other",
        };
        counter!("codehub_proxy_upstream_errors_total", "kind" => kind).increment(1);
    }

    /// An open relay, while the guard lives.
    pub(super) fn websocket(&self) -> OpenGuard {
        self.websockets.increment(1);
        OpenGuard(self.websockets.clone())
    }
}

pub(super) struct OpenGuard(Gauge);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

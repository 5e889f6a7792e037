//! How what proves somebody's identity is recognised among what a request brings: names and prefixes that
//! the server gives out and the proxy must never let into a workspace.

use std::time::{Duration, Instant};

/// The names of the cookies that prove something. This is the one place where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CookieNames {
    /// Keeps a session.
    pub session: &'static str,
    /// Says that somebody has signed in with this browser before.
    pub device: &'static str,
}

impl CookieNames {
    /// By https nobody but this very host can set a cookie of such a name, and only for all of it.
    pub const HTTPS: Self = Self { session: "__Host-session", device: "__Host-device" };
    /// Browsers take no such names by plain http.
    pub const HTTP: Self = Self { session: "session", device: "codehub_device" };

    /// Those that are read, by how people reach the server.
    pub const fn of(https: bool) -> Self {
        if https { Self::HTTPS } else { Self::HTTP }
    }

    /// Whether a cookie of this name is not the workspace's to see, however people come in now.
    pub(crate) fn any_is(name: &[u8]) -> bool {
        [Self::HTTP, Self::HTTPS]
            .iter()
            .any(|names| name == names.session.as_bytes() || name == names.device.as_bytes())
    }

    /// The same, whatever the case: not the workspace's to set.
    pub(crate) fn any_resembles(name: &[u8]) -> bool {
        [Self::HTTP, Self::HTTPS].iter().any(|names| {
            name.eq_ignore_ascii_case(names.session.as_bytes())
                || name.eq_ignore_ascii_case(names.device.as_bytes())
        })
    }
}

/// What every API token begins with.
pub const TOKEN_PREFIX: &str = "chp_";

/// Resolves when it is time to ask again whether somebody may.
pub async fn runs_out(until: Option<Instant>) {
    /// Clocks differ: whoever asks too early asks again, but not in a frenzy.
    const LEAST: Duration = Duration::from_secs(1);
    match until {
        Some(until) => tokio::time::sleep_until(until.max(Instant::now() + LEAST).into()).await,
        None => std::future::pending().await,
    }
}

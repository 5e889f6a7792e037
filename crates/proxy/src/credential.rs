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
    /// Keeps a session of a workspace's own origin. Where workspaces share one, the id follows.
    pub workspace: &'static str,
    /// Tells the browser that began a hand-over from others. Where workspaces share an origin, the id follows.
    pub nonce: &'static str,
}

impl CookieNames {
    /// By https nobody but this very host can set a cookie of such a name, and only for all of it; newer browsers let no
    /// script set those that go on with `Http-`.
    pub const HTTPS: Self = Self {
        session: "__Host-Http-session",
        device: "__Host-device",
        workspace: "__Host-Http-workspace",
        nonce: "__Host-Http-nonce",
    };
    /// Browsers take no such names by plain http.
    pub const HTTP: Self = Self {
        session: "session",
        device: "codehub_device",
        workspace: "codehub_workspace",
        nonce: "codehub_nonce",
    };
    /// What the session's was called by https before.
    const FORMER: &'static str = "__Host-session";

    /// Those that are read, by how people reach the server.
    pub const fn of(https: bool) -> Self {
        if https { Self::HTTPS } else { Self::HTTP }
    }

    /// Whether a cookie of this name is not the workspace's to see, however people come in now.
    pub(crate) fn any_is(name: &[u8]) -> bool {
        Self::any(|whole| name == whole, |start| name.starts_with(start))
    }

    /// The same, whatever the case: not the workspace's to set.
    pub(crate) fn any_resembles(name: &[u8]) -> bool {
        let starts =
            |start: &[u8]| name.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start));
        Self::any(|whole| name.eq_ignore_ascii_case(whole), starts)
    }

    fn any(is: impl Fn(&[u8]) -> bool, begins: impl Fn(&[u8]) -> bool) -> bool {
        is(Self::FORMER.as_bytes())
            || [Self::HTTP, Self::HTTPS].iter().any(|names| {
                is(names.session.as_bytes())
                    || is(names.device.as_bytes())
                    || begins(names.workspace.as_bytes())
                    || begins(names.nonce.as_bytes())
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

//! How what proves somebody's identity is recognised among what a request brings: names and prefixes that
//! the server gives out and the proxy must never let into a workspace.

use std::time::{Duration, Instant};

/// The cookie a session is kept in.
pub const SESSION_COOKIE: &str = "session";
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

//! What the tests of every crate share: skipping aloud, waiting for a condition, and letting time pass on purpose.
//!
//! A dev-dependency only; it knows nothing of CodeHub.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

/// Where everything has to be tested (`.ci/run`), this is set, and nothing may be skipped.
pub const REQUIRE: &str = "CODEHUB_TEST_REQUIRE";

/// How long [`eventually`] waits. Nothing takes this long when things go well, also on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Says that the calling test cannot be run here (no PostgreSQL, no root); the caller returns after it.
///
/// The line begins with `skipped: `, which is what `scripts/test` counts.
///
/// # Panics
///
/// With `CODEHUB_TEST_REQUIRE=1`: a test that may not be skipped and cannot be run has failed.
#[track_caller]
pub fn skip(why: impl Display) {
    assert!(!required(std::env::var(REQUIRE).ok().as_deref()), "{why}; {REQUIRE} allows no skipped test");
    println!("skipped: {why}");
}

/// The address of a service that the tests use, from the environment; [`skip`]s with `why` where there is none.
#[track_caller]
pub fn service(variable: &str, why: &str) -> Option<String> {
    let found = std::env::var(variable).ok();
    if found.is_none() {
        skip(format_args!("{why} ({variable} is not set; scripts/test sets it)"));
    }
    found
}

fn required(value: Option<&str>) -> bool {
    value.is_some_and(|value| !matches!(value, "" | "0"))
}

/// Waits until `condition` holds.
///
/// # Panics
///
/// When it does not within [`PATIENCE`]; `what` says what was waited for.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < end, "waited {PATIENCE:?} in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Between two looks at a condition, in a loop that has a deadline and a message of its own.
pub async fn poll_every(pause: Duration) {
    tokio::time::sleep(pause).await;
}

/// Lets time pass although there is nothing to wait for: to see that something does *not* happen meanwhile, to be
/// slow on purpose, or because an age is what the test is about.
///
/// Whoever waits for something to happen uses [`eventually`] instead, or [`poll_every`].
pub async fn let_time_pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_on_unless_it_is_empty_or_zero() {
        assert_eq!(
            [None, Some(""), Some("0"), Some("1"), Some("yes")].map(required),
            [false, false, false, true, true]
        );
    }
}

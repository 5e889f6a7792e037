//! `?wait=SECONDS`: answer when the workspace has arrived where it is going, or when time is up.
//!
//! Waits for the owner's events and reads the row again; a slow second look now and then makes up for
//! an event that was lost.

use std::time::Duration;

use codehub_domain::Workspace;
use codehub_store::{StoreError, bus::Event, is_active};
use serde::Deserialize;
use tokio::{
    sync::broadcast::error::RecvError,
    time::{Instant, sleep_until, timeout_at},
};

use super::error::{ApiError, Result};
use crate::app::App;

const LONGEST: u64 = 120;
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The query of everything that can wait.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitQuery {
    /// Answer when the workspace has arrived, at most this many seconds later (0 does not wait).
    #[param(value_type = Option<u32>, minimum = 0, maximum = 120)]
    wait: Option<String>,
}

impl WaitQuery {
    /// # Errors
    /// Not a number, or too long.
    pub(super) fn duration(&self) -> Result<Duration> {
        let Some(text) = &self.wait else {
            return Ok(Duration::ZERO);
        };
        let seconds = text.parse().ok().filter(|seconds| (0..=LONGEST).contains(seconds));
        let wrong =
            || ApiError::invalid("wait", format!("must be a whole number of seconds, at most {LONGEST}"));
        seconds.map(Duration::from_secs).ok_or_else(wrong)
    }
}

/// The workspace when it has arrived (or failed for good), or as it is when time is up.
///
/// # Errors
/// The store does not answer.
pub(super) async fn arrived(
    app: &App,
    workspace: Workspace,
    wait: Duration,
) -> std::result::Result<Workspace, StoreError> {
    if wait.is_zero() || !is_active(&workspace) {
        return Ok(workspace);
    }
    let id = workspace.id;
    let deadline = Instant::now() + wait;
    let mut events = app.bus().subscribe(workspace.owner);
    let mut current = workspace;
    loop {
        // Read after subscribing: what happens in between is told.
        if let Some(read) = app.store().workspace_get(id).await? {
            current = read;
        }
        let now = Instant::now();
        if !is_active(&current) || now >= deadline {
            return Ok(current);
        }
        let look_again = deadline.min(now + LOOK_AGAIN);
        let about_it = async {
            loop {
                match events.recv().await {
                    Ok(Event::Updated { workspace, .. } | Event::Deleted { workspace })
                        if workspace != id => {}
                    Ok(_) | Err(RecvError::Lagged(_)) => return,
                    Err(RecvError::Closed) => sleep_until(look_again).await,
                }
            }
        };
        tokio::select! {
            () = app.shutdown.cancelled() => return Ok(current),
            _ = timeout_at(look_again, about_it) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_bounded() {
        let wait =
            |text: Option<&str>| WaitQuery { wait: text.map(Into::into) }.duration().map(|d| d.as_secs());
        assert_eq!(wait(None), Ok(0));
        assert_eq!(wait(Some("0")), Ok(0));
        assert_eq!(wait(Some("120")), Ok(120));
        for wrong in ["121", "-1", "", "1.5", "soon", "5s"] {
            assert!(wait(Some(wrong)).is_err(), "{wrong:?}");
        }
    }
}

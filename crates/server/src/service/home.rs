//! Whether a home is where the database says, seen now: for a decision that must not rest on what the
//! controller saw a while ago.

use std::time::Duration;

use codehub_domain::{Truth, Workspace, observed::Seen};
use codehub_runtime::volumes::Scope;

use crate::app::App;

/// How long a look may take before it counts as "could not see".
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// Looks for the true copy of this workspace's home. Unknown: what keeps it does not answer, or is not used
/// by this deployment (any more).
pub(super) async fn look_for(app: &App, workspace: &Workspace) -> Seen<()> {
    let (backends, status) = (&app.backends, &workspace.status);
    if backends.elsewhere(workspace).is_some() {
        return Seen::Unknown;
    }
    let look = async {
        let found = match status.home.truth {
            Truth::None => false,
            Truth::Volume => {
                let scope = [(workspace.owner, workspace.id)];
                let volumes = backends.volumes.list(Scope::Of(&scope)).await.map_err(|e| e.to_string())?;
                let home = workspace.volume(status.home.generation);
                volumes.iter().any(|listed| listed.key == home)
            }
            Truth::Archive => match status.archive_key {
                Some(key) => backends.archives.head(&key).await.map_err(|e| e.to_string())?.is_some(),
                None => false,
            },
        };
        Ok::<_, String>(found)
    };
    match tokio::time::timeout(LOOK_TIMEOUT, look).await {
        Ok(Ok(true)) => Seen::There(()),
        Ok(Ok(false)) => Seen::NotThere,
        Ok(Err(error)) => {
            tracing::warn!(workspace = %workspace.id, error, "a home could not be looked for");
            Seen::Unknown
        }
        Err(_) => {
            tracing::warn!(workspace = %workspace.id, "a home could not be looked for in time");
            Seen::Unknown
        }
    }
}

//! What workspaces that somebody watches say of themselves.

use std::{sync::Arc, time::Duration};

use codehub_domain::{Desired, Phase, WorkspaceId};
use codehub_inside::line::{client::LineError, protocol::Usage};
use tokio::sync::watch;

use crate::{
    app::App,
    lines::{NoLine, OpenLine},
    looks::Inside,
};

/// How often a workspace is looked into while somebody watches what it uses.
const USAGE_EVERY: Duration = Duration::from_secs(5);

/// Asks this of a workspace. Looking is no activity.
pub(super) async fn ask<T>(
    app: &App,
    id: WorkspaceId,
    question: impl AsyncFnOnce(OpenLine) -> Result<T, LineError>,
) -> Inside<T> {
    match app.store().workspace_get(id).await {
        Ok(Some(found)) if found.status.phase == Phase::Running && found.desired == Desired::Running => {}
        Ok(_) => return Inside::NotRunning,
        Err(_) => return Inside::Silent,
    }
    match app.lines.to(&*app.backends.instances, id).await {
        Ok(line) => question(line).await.map_or(Inside::Silent, Inside::Says),
        Err(NoLine::NotRunning) => Inside::NotRunning,
        Err(NoLine::Nobody(_)) => Inside::Nobody,
        Err(NoLine::Runtime(_) | NoLine::Line(_)) => Inside::Silent,
    }
}

/// Follows what a workspace uses. It is looked into for as long as somebody does.
pub fn follow_usage(app: &Arc<App>, id: WorkspaceId) -> watch::Receiver<Option<Inside<Usage>>> {
    let of = Arc::clone(app);
    app.usage_seen.follow(id, USAGE_EVERY, app.shutdown.clone(), move || {
        let app = Arc::clone(&of);
        async move { Some(ask(&app, id, async |line| line.usage().await).await) }
    })
}

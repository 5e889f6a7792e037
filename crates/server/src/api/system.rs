//! The deployment, for administrators.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, Router, extract::State, routing::get};
use codehub_domain::Phase;
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use super::{
    error::{ErrorBody, Result},
    extract::Admin,
    health::{self, Dependency},
};
use crate::app::App;

#[derive(OpenApi)]
#[openapi(paths(show))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/system", get(show))
}

#[derive(Serialize, ToSchema)]
#[schema(as = System)]
struct SystemView {
    version: &'static str,
    /// Whoever reconciles; null while nobody is known to.
    leader: Option<Leader>,
    /// The processes of this deployment. With the embedded backends there is one.
    replicas: Vec<Replica>,
    /// By port: store, bus, instances, volumes, archives.
    backends: BTreeMap<&'static str, Dependency>,
    users: u64,
    /// Workspaces by phase, deleted ones not counted.
    #[schema(value_type = BTreeMap<String, u64>)]
    workspaces: BTreeMap<Phase, u64>,
}

#[derive(Serialize, ToSchema)]
struct Leader {
    replica: String,
    /// Grows with every change of leadership.
    epoch: i64,
}

#[derive(Serialize, ToSchema)]
struct Replica {
    name: String,
    version: &'static str,
    leads: bool,
}

/// The system
#[utoipa::path(get, path = "/system", tag = "system", responses(
    (status = 200, description = "Version, leader, backends, counts", body = SystemView),
    (status = 403, description = "FORBIDDEN: administrators only", body = ErrorBody),
))]
async fn show(State(app): State<Arc<App>>, _: Admin) -> Result<Json<SystemView>> {
    let counted = app.store().workspace_counts().await?;
    let workspaces =
        Phase::ALL.iter().map(|phase| (*phase, counted.get(phase).copied().unwrap_or_default())).collect();
    let name = replica_name();
    let epoch = *app.leading.borrow();
    let version = env!("CARGO_PKG_VERSION");
    Ok(Json(SystemView {
        version,
        leader: epoch.map(|epoch| Leader { replica: name.clone(), epoch: epoch.0 }),
        replicas: vec![Replica { name, version, leads: epoch.is_some() }],
        backends: health::check(&app).await,
        users: app.store().user_count().await?,
        workspaces,
    }))
}

/// This process, as people tell it from others.
pub fn replica_name() -> String {
    let system = rustix::system::uname();
    format!("{}:{}", system.nodename().to_string_lossy(), std::process::id())
}

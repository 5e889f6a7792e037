//! The deployment, for administrators.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, Router, extract::State, routing::get};
use codehub_domain::{Phase, Timestamp};
use codehub_runtime::{Safeguard, SafeguardState};
use codehub_store::StoreError;
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use super::{
    error::{ErrorBody, Result},
    extract::Admin,
    health::{self, Dependency},
};
use crate::app::{self, App};

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
    /// By port: store, bus, instances, volumes, archives; and the coordinator of the process that answers.
    backends: BTreeMap<&'static str, Dependency>,
    /// What keeps workspaces apart from each other and everything else, as the process that answers sees it; empty
    /// where nothing can be told.
    safeguards: Vec<SafeguardView>,
    users: u64,
    /// Workspaces by phase, deleted ones not counted.
    #[schema(value_type = BTreeMap<String, u64>)]
    workspaces: BTreeMap<Phase, u64>,
}

/// Something that keeps workspaces apart.
#[derive(Serialize, ToSchema)]
#[schema(as = Safeguard)]
struct SafeguardView {
    /// `engine`, `reach`, `firewall`; `sandbox`, `network`, `limits`.
    name: &'static str,
    /// `good`; `note`: works, but somebody should know; `bad`: to be fixed.
    state: &'static str,
    text: String,
}

impl From<Safeguard> for SafeguardView {
    fn from(Safeguard { name, state, text }: Safeguard) -> Self {
        let state = match state {
            SafeguardState::Good => "good",
            SafeguardState::Note => "note",
            SafeguardState::Bad => "bad",
        };
        Self { name, state, text }
    }
}

#[derive(Serialize, ToSchema)]
struct Leader {
    replica: String,
    /// Grows with every change of leadership.
    epoch: i64,
    /// When it took the lead; null where that is not known.
    since: Option<Timestamp>,
}

/// One process of the deployment.
#[derive(Debug, Serialize, ToSchema)]
pub struct Replica {
    pub name: String,
    pub version: String,
    /// `all`, `api` or `coordinator`.
    pub role: String,
    pub leads: bool,
    /// Null where replicas are not noted.
    pub started_at: Option<Timestamp>,
    /// When it last said that it lives.
    pub seen_at: Option<Timestamp>,
}

/// The system
#[utoipa::path(get, path = "/system", tag = "system", responses(
    (status = 200, description = "Version, leader, replicas, backends, counts", body = SystemView),
    (status = 403, description = "FORBIDDEN: administrators only", body = ErrorBody),
))]
async fn show(State(app): State<Arc<App>>, _: Admin) -> Result<Json<SystemView>> {
    let counted = app.store().workspace_counts().await?;
    let workspaces =
        Phase::ALL.iter().map(|phase| (*phase, counted.get(phase).copied().unwrap_or_default())).collect();
    let replicas = replicas(&app).await?;
    Ok(Json(SystemView {
        version: env!("CARGO_PKG_VERSION"),
        leader: leader(&app, &replicas).await?,
        replicas,
        backends: health::check(&app).await,
        safeguards: app.backends.instances.safeguards().await.into_iter().map(SafeguardView::from).collect(),
        users: app.store().user_count().await?,
        workspaces,
    }))
}

/// Those that were heard of lately, this one always among them.
///
/// # Errors
/// The database does not answer.
pub async fn replicas(app: &App) -> std::result::Result<Vec<Replica>, StoreError> {
    let (now, noted) = app.store().replicas().await?;
    let leader = app.store().leader_seen().await?.map(|leader| leader.holder);
    let (me, leading) = (app::replica_name(), app.leading.borrow().is_some());
    let mut replicas: Vec<Replica> = noted
        .into_iter()
        .filter(|replica| replica.name == me || replica.is_there(now))
        .map(|replica| Replica {
            leads: if replica.name == me { leading } else { leader.as_ref() == Some(&replica.name) },
            name: replica.name,
            version: replica.version,
            role: replica.role,
            started_at: Some(replica.started_at),
            seen_at: Some(replica.seen_at),
        })
        .collect();
    if !replicas.iter().any(|replica| replica.name == me) {
        replicas.push(Replica {
            name: me,
            version: env!("CARGO_PKG_VERSION").into(),
            role: app.config.role.as_str().into(),
            leads: leading,
            started_at: None,
            seen_at: None,
        });
    }
    Ok(replicas)
}

async fn leader(app: &App, replicas: &[Replica]) -> Result<Option<Leader>> {
    let Some(leads) = replicas.iter().find(|replica| replica.leads) else { return Ok(None) };
    let seen = app.store().leader_seen().await?.filter(|seen| seen.holder == leads.name);
    let epoch = match &seen {
        Some(seen) => Some(seen.epoch),
        None => *app.leading.borrow(),
    };
    Ok(epoch.map(|epoch| Leader {
        replica: leads.name.clone(),
        epoch: epoch.0,
        since: seen.map(|seen| seen.since),
    }))
}

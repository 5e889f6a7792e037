//! For machines: is the process alive, can it work, and what is it doing.

use std::{
    collections::BTreeMap,
    fmt::Display,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Extension, Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use http::{StatusCode, header::CACHE_CONTROL, header::CONTENT_TYPE};
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use super::{
    error::{ApiError, Code, ErrorBody, Result},
    insider::Insider,
};
use crate::{app::App, telemetry::metrics};

/// A dependency that needs longer than this to answer does not answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Everybody may ask `/readyz`, so asking often must cost the dependencies nothing.
const FRESH_FOR: Duration = Duration::from_secs(1);

#[derive(OpenApi)]
#[openapi(paths(alive, ready, metrics_text))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics_text))
        .layer(Extension(LastCheck::default()))
}

/// Alive
#[utoipa::path(get, path = "/healthz", tag = "operations", security(()), responses(
    (status = 200, description = "The process is alive", body = String, content_type = "text/plain"),
))]
pub(crate) async fn alive() -> impl IntoResponse {
    ([(CACHE_CONTROL, "no-store")], "ok\n")
}

/// One dependency.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Dependency {
    /// `sqlite`, `process`, …
    kind: &'static str,
    ok: bool,
    /// What to fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

type Dependencies = BTreeMap<&'static str, Dependency>;

#[derive(Serialize, ToSchema)]
struct Readiness {
    ready: bool,
    /// Only for programs on this machine, the networks of `METRICS_ALLOW`, and administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    dependencies: Option<Dependencies>,
}

/// What the dependencies last answered, and when. Held while they are asked: whoever comes meanwhile gets that
/// answer, too.
#[derive(Debug, Default, Clone)]
struct LastCheck(Arc<tokio::sync::Mutex<Option<(Instant, Dependencies)>>>);

impl LastCheck {
    async fn read(&self, app: &Arc<App>) -> Option<Dependencies> {
        let mut last = Arc::clone(&self.0).lock_owned().await;
        if let Some((at, found)) = &*last
            && at.elapsed() < FRESH_FOR
        {
            return Some(found.clone());
        }
        let app = Arc::clone(app);
        // As a task of its own: those who ask and go away at once must not make it begin again each time.
        let check = tokio::spawn(async move {
            let found = ask_all(&app).await;
            *last = Some((Instant::now(), found.clone()));
            found
        });
        check.await.ok()
    }
}

/// Ready
///
/// Every dependency answers. Says which does not, to those who may read the metrics. The bus and the coordinator are shown, but not needed. An answer may
/// be a second old.
#[utoipa::path(get, path = "/readyz", tag = "operations", security(()), responses(
    (status = 200, description = "Ready", body = Readiness),
    (status = 503, description = "Not ready, and why", body = Readiness),
))]
async fn ready(
    State(app): State<Arc<App>>,
    Insider(insider): Insider,
    Extension(last): Extension<LastCheck>,
) -> Response {
    let Some(mut dependencies) = last.read(&app).await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    dependencies.extend(coordinator(&app));
    let stopping = app.shutdown.is_cancelled();
    // Without the bus events are late, and with a component in trouble something else is: reasons to look,
    // not to stop sending people here.
    let needed =
        |(port, dependency): (&&str, &Dependency)| dependency.ok || matches!(*port, "bus" | "coordinator");
    let ready = !stopping && dependencies.iter().all(needed);
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let dependencies = insider.then_some(dependencies);
    (status, [(CACHE_CONTROL, "no-store")], Json(Readiness { ready, dependencies })).into_response()
}

/// The answer of a server whose database has not answered yet.
pub(crate) fn not_ready(problem: Option<String>) -> impl IntoResponse {
    let store = |problem| Dependency { kind: "postgres", ok: false, problem: Some(problem) };
    let dependencies = problem.map(|problem| [("store", store(problem))].into());
    Json(Readiness { ready: false, dependencies })
}

/// Asks every dependency, all at once; and how this process's own coordinator does.
pub(super) async fn check(app: &App) -> Dependencies {
    let mut all = ask_all(app).await;
    all.extend(coordinator(app));
    all
}

async fn ask_all(app: &App) -> Dependencies {
    let backends = &app.backends;
    let (store, bus, instances, volumes, archives) = tokio::join!(
        ask(backends.store.kind(), backends.store.now()),
        ask(backends.bus.kind(), backends.bus.ping()),
        ask(backends.instances.kind(), backends.instances.ping()),
        ask(backends.volumes.kind(), backends.volumes.ping()),
        ask(backends.archives.kind(), backends.archives.ping()),
    );
    BTreeMap::from([
        ("store", store),
        ("bus", bus),
        ("instances", instances),
        ("volumes", volumes),
        ("archives", archives),
    ])
}

/// This process's own, if it has one. Nobody needs to be asked.
fn coordinator(app: &App) -> Option<(&'static str, Dependency)> {
    app.config.role.coordinates().then(|| {
        let kind = if app.leading.borrow().is_some() { "leader" } else { "follower" };
        let problem = app.health.problem();
        ("coordinator", Dependency { kind, ok: problem.is_none(), problem })
    })
}

async fn ask<T, E: Display>(
    kind: &'static str,
    answer: impl Future<Output = std::result::Result<T, E>>,
) -> Dependency {
    let problem = match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("does not answer within {} s", PATIENCE.as_secs())),
    };
    Dependency { kind, ok: problem.is_none(), problem }
}

/// Metrics
///
/// For programs on the server's own machine that come through no proxy, the networks of `METRICS_ALLOW`, and
/// administrators.
#[utoipa::path(get, path = "/metrics", tag = "operations", security(()), responses(
    (status = 200, description = "For Prometheus", body = String, content_type = "text/plain"),
    (status = 403, description = "FORBIDDEN: not for this address, and nobody is signed in who may", body = ErrorBody),
))]
async fn metrics_text(Insider(insider): Insider) -> Result<Response> {
    if !insider {
        return Err(ApiError::new(
            Code::Forbidden,
            "the metrics are for programs on the server's own machine, networks in METRICS_ALLOW, and administrators",
        ));
    }
    let headers = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"), (CACHE_CONTROL, "no-store")];
    Ok((headers, metrics::render()).into_response())
}

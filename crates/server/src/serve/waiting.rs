//! Before the database answers: this server lives and says so, but is not ready. A database that is started
//! later than its servers, or is away while one of them restarts, ends nobody.

use std::{future::IntoFuture as _, net::SocketAddr, time::Duration};

use anyhow::Context as _;
use axum::{
    Router,
    extract::ConnectInfo,
    http::{HeaderMap, StatusCode},
    routing::get,
};
use codehub_store::StoreError;
use tokio::{net::TcpListener, sync::watch};

use super::Listeners;
use crate::{
    api::{self, insider},
    backends::build_backends,
    config::Config,
};
use codehub_coordinator::Backends;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Builds the backends, however long the database takes to answer. Whoever asks meanwhile is told.
///
/// # Errors
/// Something is wrong that waiting does not mend.
pub(super) async fn for_backends(
    listeners: Listeners,
    config: &Config,
) -> anyhow::Result<(Listeners, Backends)> {
    let error = match build_backends(config).await {
        Err(error) if is_away(&error) => error,
        built => return Ok((listeners, built?)),
    };
    let Listeners { people, also, workspaces, checks } = listeners;
    let (people, meanwhile) = lend(people)?;
    let (checks, checks_meanwhile) = checks.map(lend).transpose()?.unzip();
    let (problem, current) = watch::channel(String::new());
    let router = router(current, config);
    let checked = async {
        match checks_meanwhile {
            Some(listener) => answer(listener, router.clone()).await,
            None => std::future::pending().await,
        }
    };
    let backends = tokio::select! {
        ended = answer(meanwhile, router.clone()) => {
            ended?;
            anyhow::bail!("the listener was closed");
        }
        ended = checked => {
            ended?;
            anyhow::bail!("the listener for checks was closed");
        }
        backends = keep_trying(config, error, &problem) => backends?,
    };
    let checks = checks.map(TcpListener::from_std).transpose()?;
    Ok((Listeners { people: TcpListener::from_std(people)?, also, workspaces, checks }, backends))
}

/// The same listener twice: to keep, and to use until then.
fn lend(listener: TcpListener) -> anyhow::Result<(std::net::TcpListener, TcpListener)> {
    let listener = listener.into_std().context("the listener")?;
    let lent = TcpListener::from_std(listener.try_clone().context("the listener")?)?;
    Ok((listener, lent))
}

async fn answer(listener: TcpListener, router: Router) -> std::io::Result<()> {
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).into_future().await
}

async fn keep_trying(
    config: &Config,
    mut error: anyhow::Error,
    problem: &watch::Sender<String>,
) -> anyhow::Result<Backends> {
    let mut pause = FIRST_PAUSE;
    loop {
        tracing::warn!(error = format!("{error:#}"), "the database does not answer; trying again");
        problem.send_replace(format!("{error:#}"));
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        error = match build_backends(config).await {
            Err(error) if is_away(&error) => error,
            built => return built,
        };
    }
}

fn is_away(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::Unreachable(_)))
}

/// Answers end their connection: the next request is for the server itself.
const CLOSE: [(&str, &str); 2] = [("connection", "close"), ("retry-after", "5")];

fn router(problem: watch::Receiver<String>, config: &Config) -> Router {
    let (trusted, allowed) = (config.trusted_proxies.clone(), config.metrics.allow.clone());
    let not_ready = move |ConnectInfo(peer): ConnectInfo<SocketAddr>, headers: HeaderMap| async move {
        let insider = insider::is_inside(peer.ip(), &headers, &trusted, &allowed);
        let problem = insider.then(|| problem.borrow().clone());
        (StatusCode::SERVICE_UNAVAILABLE, CLOSE, api::not_ready(problem))
    };
    Router::new().route("/healthz", get(async || (CLOSE, api::alive().await))).fallback(not_ready)
}

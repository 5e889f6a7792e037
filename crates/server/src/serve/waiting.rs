//! Before the database answers: this server lives and says so, but is not ready. A database that is started
//! later than its servers, or is away while one of them restarts, ends nobody.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::{
    Extension, Router,
    extract::ConnectInfo,
    http::{HeaderMap, StatusCode},
    routing::get,
};
use codehub_proxy::tls::Tls;
use codehub_store::StoreError;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::either::Either;

use super::Listeners;
use crate::{
    api::{self, insider},
    backends::build_backends,
    config::Config,
};
use codehub_coordinator::Backends;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long somebody may take to ask, and to hear that it is not ready.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

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
    let Listeners { people, also, workspaces, checks, tls } = listeners;
    let (people, meanwhile) = lend(people)?;
    let (checks, checks_meanwhile) = checks.map(lend).transpose()?.unzip();
    let (problem, current) = watch::channel(String::new());
    let router = router(current, config);
    let checked = async {
        match checks_meanwhile {
            Some(listener) => answer(listener, None, router.clone()).await,
            None => std::future::pending().await,
        }
    };
    let backends = tokio::select! {
        never = answer(meanwhile, tls.clone(), router.clone()) => match never {},
        never = checked => match never {},
        backends = keep_trying(config, error, &problem) => backends?,
    };
    let checks = checks.map(TcpListener::from_std).transpose()?;
    Ok((Listeners { people: TcpListener::from_std(people)?, also, workspaces, checks, tls }, backends))
}

/// The same listener twice: to keep, and to use until then.
fn lend(listener: TcpListener) -> anyhow::Result<(std::net::TcpListener, TcpListener)> {
    let listener = listener.into_std().context("the listener")?;
    let lent = TcpListener::from_std(listener.try_clone().context("the listener")?)?;
    Ok((listener, lent))
}

async fn answer(listener: TcpListener, tls: Option<Arc<Tls>>, router: Router) -> Infallible {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of files, most likely.
            tokio::time::sleep(FIRST_PAUSE).await;
            continue;
        };
        let (tls, service) = (tls.clone(), router.clone().layer(Extension(ConnectInfo(peer))));
        let answered = async move {
            let stream = match tls {
                Some(tls) => tls.accept(stream, ANSWERED_WITHIN).await?,
                None => Either::Left(stream),
            };
            let server = auto::Builder::new(TokioExecutor::new());
            let connection = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
            connection.await.map_err(std::io::Error::other)
        };
        tokio::spawn(tokio::time::timeout(ANSWERED_WITHIN, answered));
    }
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

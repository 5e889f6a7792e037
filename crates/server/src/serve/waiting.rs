//! Before the database answers: this server lives and says so, but is not ready. A database that is started
//! later than its servers, or is away while one of them restarts, ends nobody.

use std::{future::IntoFuture as _, time::Duration};

use anyhow::Context as _;
use axum::{Router, http::StatusCode, routing::get};
use codehub_store::StoreError;
use tokio::{net::TcpListener, sync::watch};

use crate::{api, backends::build_backends, config::Config};
use codehub_coordinator::Backends;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Builds the backends, however long the database takes to answer. Whoever asks meanwhile is told.
///
/// # Errors
/// Something is wrong that waiting does not mend.
pub(super) async fn for_backends(
    listener: TcpListener,
    config: &Config,
) -> anyhow::Result<(TcpListener, Backends)> {
    let error = match build_backends(config).await {
        Err(error) if is_away(&error) => error,
        built => return Ok((listener, built?)),
    };
    let listener = listener.into_std().context("the listener")?;
    let meanwhile = TcpListener::from_std(listener.try_clone().context("the listener")?)?;
    let (problem, current) = watch::channel(String::new());
    let backends = tokio::select! {
        ended = axum::serve(meanwhile, router(current)).into_future() => {
            ended?;
            anyhow::bail!("the listener was closed");
        }
        backends = keep_trying(config, error, &problem) => backends?,
    };
    Ok((TcpListener::from_std(listener)?, backends))
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

fn router(problem: watch::Receiver<String>) -> Router {
    let not_ready = move || async move {
        let problem = problem.borrow().clone();
        (StatusCode::SERVICE_UNAVAILABLE, CLOSE, api::not_ready(problem))
    };
    Router::new().route("/healthz", get(async || (CLOSE, api::alive().await))).fallback(not_ready)
}

//! `codehub hold 2h -- make test`: keeps a workspace awake while a command runs, or for a while.
//!
//! A client of the API and nothing more: it needs `CODEHUB_API_URL`, `CODEHUB_TOKEN` and the workspace. In a
//! workspace's own terminal two of them are there; only a token is needed. The lease is given back when the
//! command ends, and ends by itself where that cannot be said any more.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use codehub_domain::fields;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::{Value, json};

const ANSWER_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// For how long at most: 30m, 2h
    #[arg(value_name = "DURATION")]
    time: String,
    /// The workspace's id; inside a workspace, that one
    #[arg(long, env = "CODEHUB_WORKSPACE_ID")]
    workspace: String,
    /// Where the server is: http://localhost:8080
    #[arg(long, env = "CODEHUB_API_URL", required_unless_present = "workspace_url")]
    url: Option<String>,
    /// Where the workspace is, which an older server told it: that was below the server's own address
    #[arg(long, env = "CODEHUB_URL", hide = true)]
    workspace_url: Option<String>,
    /// Where the server is if that address does not answer; in a workspace with a network of its own it is told
    #[arg(long, env = "CODEHUB_LOCAL_URL", hide = true)]
    local_url: Option<String>,
    /// An API token of the workspace's owner
    #[arg(long, env = "CODEHUB_TOKEN", hide_env_values = true)]
    token: String,
    /// Shown beside the lease; the command unless said
    #[arg(long)]
    reason: Option<String>,
    /// Run this, and give the lease back when it has ended
    #[arg(last = true)]
    command: Vec<String>,
}

pub(super) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let seconds = crate::config::parse_duration(&options.time)
        .with_context(|| format!("{:?} is no duration: write 30m, 2h", options.time))?
        .as_secs();
    let reason = options.reason.clone().unwrap_or_else(|| options.command.join(" "));
    let reason: String = reason.chars().filter(|c| !c.is_control()).take(fields::HOLD_REASON_MAX).collect();
    let leases = format!("/api/v1/workspaces/{}/keepalive", options.workspace);
    let body = json!({ "seconds": seconds, "reason": reason });
    let lease = call(&options, Method::POST, &leases, Some(body)).await?;
    let text = |key: &str| lease.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    eprintln!("codehub: kept awake until {}", text("until"));
    let Some((program, arguments)) = options.command.split_first() else {
        println!("{}", text("id"));
        return Ok(ExitCode::SUCCESS);
    };
    let ended = tokio::process::Command::new(program).args(arguments).status().await;
    let given_back = call(&options, Method::DELETE, &format!("{leases}/{}", text("id")), None).await;
    if let Err(error) = given_back {
        eprintln!("codehub: the lease was not given back and ends by itself: {error:#}");
    }
    let status = ended.with_context(|| format!("{program} cannot be run"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The server's address: a workspace's own is below it.
fn server(url: &str) -> &str {
    url.split_once("/w/").map_or(url, |(server, _)| server).trim_end_matches('/')
}

/// The host and port in an address.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

async fn call(options: &Options, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
    let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let url = options.url.as_deref().or(options.workspace_url.as_deref()).unwrap_or_default();
    // Whichever way leads there, the server answers to its public name.
    let host = host(url).to_owned();
    let made = |url: &str| {
        Request::builder()
            .method(method.clone())
            .uri(format!("{}{path}", server(url)))
            .header(header::HOST, &host)
            .header(header::AUTHORIZATION, format!("Bearer {}", options.token))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(bytes.clone()))
            .with_context(|| format!("{url:?} is no address of a server"))
    };
    let request = made(url)?;
    let connector = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
        .context("the root certificates cannot be read")?
        .https_or_http()
        .enable_http1()
        .build();
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let exchange = async {
        let answer = match (client.request(request).await, &options.local_url) {
            // A network of the workspace's own does not lead to this machine by its outer name.
            (Err(error), Some(local)) if error.is_connect() => client.request(made(local)?).await?,
            (answer, _) => answer?,
        };
        let status = answer.status();
        anyhow::Ok((status, answer.into_body().collect().await?.to_bytes()))
    };
    let (status, bytes) = tokio::time::timeout(ANSWER_WITHIN, exchange)
        .await
        .context("no answer in time")?
        .with_context(|| format!("{url} cannot be reached"))?;
    let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if status == StatusCode::NO_CONTENT || status.is_success() {
        return Ok(answer);
    }
    let message = answer.pointer("/error/message").and_then(Value::as_str).unwrap_or("no reason was given");
    bail!("the server refused ({status}): {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_found_from_what_a_workspace_is_told() {
        for (told, server_is) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("https://code.example.com/", "https://code.example.com"),
            ("https://code.example.com/w/0199-a/", "https://code.example.com"),
        ] {
            assert_eq!(server(told), server_is);
            assert!(server_is.ends_with(host(told)), "{told}");
        }
    }
}

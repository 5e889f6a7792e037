//! `codehub hold 2h -- make test`: keeps a workspace awake while a command runs, or for a while.
//!
//! In a workspace's own terminal it is that workspace's; only a token is needed. The lease is given back when the command
//! ends, and ends by itself where that cannot be said any more.

use std::{process::ExitCode, time::Duration};

use http::Method;
use serde_json::{Value, json};

use crate::{
    api::Api,
    failure::{Failure, Kind, Result},
    output, workspace,
};

/// The longest reason that a server takes.
const REASON_MAX: usize = 200;

/// `codehub hold`.
#[derive(Debug, clap::Args)]
pub struct Hold {
    /// For how long at most: 30m, 2h
    #[arg(value_name = "DURATION", value_parser = output::duration)]
    time: Duration,
    /// The workspace; inside a workspace, that one
    #[arg(long, short, env = "CODEHUB_WORKSPACE_ID", hide_env_values = true)]
    workspace: String,
    /// Shown beside the lease; the command unless said
    #[arg(long)]
    reason: Option<String>,
    /// Run this, and give the lease back when it has ended
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) async fn hold(api: &Api, options: Hold, json: bool) -> Result<ExitCode> {
    let reason = options.reason.clone().unwrap_or_else(|| options.command.join(" "));
    let reason: String = reason.chars().filter(|c| !c.is_control()).take(REASON_MAX).collect();
    let leases = workspace::find(api, &options.workspace).await?.path("/keepalive");
    let body = json!({ "seconds": options.time.as_secs(), "reason": reason });
    let (_, lease) = api.ask(Method::POST, &leases, Some(body), Duration::ZERO).await?;
    let text = |key: &str| lease.get(key).and_then(Value::as_str).unwrap_or_default();
    output::note(format_args!("kept awake until {}", text("until")));
    let Some((program, arguments)) = options.command.split_first() else {
        if json {
            output::json(&lease);
        } else {
            output::line(text("id"));
        }
        return Ok(ExitCode::SUCCESS);
    };
    // Ctrl-C is the command's: it ends as it likes, and then the lease is given back.
    let ignored = tokio::spawn(async { while tokio::signal::ctrl_c().await.is_ok() {} });
    let ended = tokio::process::Command::new(program).args(arguments).status().await;
    ignored.abort();
    let lease = format!("{leases}/{}", text("id"));
    if let Err(failure) = api.ask(Method::DELETE, &lease, None, Duration::ZERO).await {
        output::note(format_args!("the lease was not given back and ends by itself: {failure}"));
    }
    let status =
        ended.map_err(|error| Failure::new(Kind::Failed, format!("{program} cannot be run: {error}")))?;
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    let code = status.code().or(signal.map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

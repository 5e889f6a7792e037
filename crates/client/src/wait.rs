//! Waiting until a workspace is where it is wanted, with a line on standard error that says how far it is.

use std::time::{Duration, Instant};

use http::Method;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::{
    api::Api,
    failure::{Failure, Kind, Result},
    output,
    workspace::Workspace,
};

/// How long the server takes over one question; the line is drawn again after it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How a command waits.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Wait {
    /// Wait until it is done, at most TIME (10m unless said). Ctrl-C only ends the waiting
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "10m",
          value_parser = output::duration)]
    pub(crate) wait: Option<Duration>,
}

/// Who pressed Ctrl-C only stops waiting.
fn interrupted(name: &str) -> ! {
    output::note(format_args!("not waiting any more; what was asked of {name} goes on"));
    std::process::exit(128 + 2)
}

/// Waits for it, as long as was asked for.
///
/// # Errors
/// It failed, or takes longer. `None`: it is gone, as was wanted.
pub(crate) async fn until_arrived(
    api: &Api,
    workspace: Workspace,
    within: Duration,
) -> Result<Option<Workspace>> {
    let name = workspace.slug().to_owned();
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let waiting = looking(api, workspace, within, &bar);
    let arrived = tokio::select! {
        arrived = waiting => arrived,
        _ = tokio::signal::ctrl_c() => {
            bar.finish_and_clear();
            interrupted(&name);
        }
    };
    bar.finish_and_clear();
    arrived
}

async fn looking(
    api: &Api,
    mut workspace: Workspace,
    within: Duration,
    bar: &ProgressBar,
) -> Result<Option<Workspace>> {
    let deadline = Instant::now() + within;
    loop {
        draw(bar, &workspace);
        if workspace.has_failed() {
            return Err(failed(&workspace));
        }
        if workspace.has_arrived() {
            return Ok(Some(workspace));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let message = format!(
                "{} is still {} after {} seconds of waiting, and goes on",
                workspace.slug(),
                doing(&workspace),
                within.as_secs()
            );
            return Err(Failure::new(Kind::TooLong, message)
                .or_next(format!("see how far it is with `codehub show {}`", workspace.slug())));
        }
        let seconds = left.min(LOOK_EVERY).as_secs().max(1);
        let path = workspace.path(&format!("?wait={seconds}"));
        match api.ask(Method::GET, &path, None, LOOK_EVERY).await {
            Ok((_, now)) => workspace = Workspace(now),
            Err(failure)
                if failure.kind == Kind::NotFound && workspace.text("desired_state") == "DELETED" =>
            {
                return Ok(None);
            }
            // A server that is restarted comes back.
            Err(failure) if failure.kind == Kind::Unreachable && left > LOOK_EVERY => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// What is being done, in a word.
pub(crate) fn doing(workspace: &Workspace) -> String {
    match workspace.text("operation") {
        "NONE" | "" => workspace.phase().to_ascii_lowercase(),
        operation => operation.to_ascii_lowercase().replace('_', " "),
    }
}

fn failed(workspace: &Workspace) -> Failure {
    let why = workspace.0.pointer("/error/message").and_then(Value::as_str).unwrap_or("it is in ERROR");
    let failure = Failure::new(Kind::Failed, format!("{} failed: {}", workspace.slug(), output::clean(why)));
    failure.or_next(format!(
        "choose how to continue on its page: `codehub open {} --dashboard`",
        workspace.slug()
    ))
}

fn draw(bar: &ProgressBar, workspace: &Workspace) {
    let style = |template: &str| {
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
    };
    let progress = &workspace.0["progress"];
    let number = |key: &str| progress[key].as_u64().unwrap_or_default();
    let mut said = format!("{}: {}", workspace.slug(), doing(workspace));
    if let Some(text) = workspace.0.pointer("/waiting/message").and_then(Value::as_str) {
        said = format!("{said} ({})", output::clean(text));
    }
    if number("total") > 0 {
        bar.set_style(style("{msg} [{bar:24}] {bytes}/{total_bytes} {prefix}"));
        bar.set_length(number("total"));
        bar.set_position(number("done").min(number("total")));
        let rest = progress["remaining_seconds"].as_u64().map(|left| format!(", {left}s left"));
        bar.set_prefix(format!("{}/s{}", output::size(number("rate")), rest.unwrap_or_default()));
    } else {
        bar.set_style(style("{spinner} {msg}"));
    }
    bar.set_message(said);
    bar.tick();
}

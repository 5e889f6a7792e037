//! Workspaces and their lives: listing, creating, starting, putting away.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, IsTerminal as _},
    time::Duration,
};

use http::Method;
use serde_json::{Value, json};

use crate::{
    api::Api,
    browser,
    failure::{Failure, Kind, Result},
    output::{self, clean, relative},
    wait::{self, Wait},
    workspace::{self, Workspace},
};

/// `codehub ls`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// Only those in this phase: RUNNING, STANDBY, ARCHIVED, PENDING, ERROR
    #[arg(long, value_name = "PHASE")]
    phase: Option<String>,
    /// Only those with this label (KEY), or where it has this value (KEY:VALUE)
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
    /// Only those with this in their name or description
    #[arg(long, short, value_name = "TEXT")]
    search: Option<String>,
    /// Everybody's; for administrators
    #[arg(long)]
    all: bool,
    /// Print ids only, one a line
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
}

pub(crate) async fn list(api: &Api, options: List, json: bool) -> Result<()> {
    let mut query = Vec::new();
    query.extend(options.phase.map(|phase| ("phase", phase.to_ascii_uppercase())));
    query.extend(options.label.map(|label| ("label", label)));
    query.extend(options.search.map(|text| ("q", text)));
    query.extend(options.all.then(|| ("all", "true".to_owned())));
    let found = api.list("/workspaces", &query).await?;
    if json {
        output::json(&found);
        return Ok(());
    }
    let all: Vec<Workspace> =
        found["items"].as_array().into_iter().flatten().map(|one| Workspace(one.clone())).collect();
    if options.quiet {
        for one in &all {
            output::line(one.id());
        }
        return Ok(());
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|one| {
            let mut row = vec![
                one.slug().to_owned(),
                state(one),
                relative(&one.0["last_access_at"]),
                clean(one.text("name")),
            ];
            if options.all {
                row.insert(
                    1,
                    clean(one.0.pointer("/owner/username").and_then(Value::as_str).unwrap_or_default()),
                );
            }
            row
        })
        .collect();
    if rows.is_empty() {
        output::note("there are none; `codehub create NAME` makes one");
        return Ok(());
    }
    let head: &[&str] = if options.all {
        &["WORKSPACE", "OWNER", "STATE", "LAST USED", "NAME"]
    } else {
        &["WORKSPACE", "STATE", "LAST USED", "NAME"]
    };
    output::table(head, &rows);
    Ok(())
}

/// Its phase, and what is being done.
fn state(workspace: &Workspace) -> String {
    let phase = output::phase(workspace.phase());
    match workspace.text("operation") {
        "NONE" | "" => phase,
        _ => format!("{phase} ({})", wait::doing(workspace)),
    }
}

/// `codehub show`.
#[derive(Debug, clap::Args)]
pub struct Show {
    /// The workspace: its slug, its id, or the last 8 or more characters of it
    #[arg(value_name = "WORKSPACE")]
    workspace: String,
    /// List its archives, with the keys that `create --from-archive` and `restore --archive` take
    #[arg(long)]
    archives: bool,
}

pub(crate) async fn show(api: &Api, options: Show, json: bool) -> Result<()> {
    let found = workspace::find(api, &options.workspace).await?;
    if options.archives {
        let archives = api.get(&found.path("/archives")).await?;
        if json {
            output::json(&archives);
            return Ok(());
        }
        let rows = archives["items"].as_array().into_iter().flatten().map(|one| {
            let bytes = one["size"].as_u64().map(output::size);
            vec![
                one["key"].as_str().unwrap_or_default().to_owned(),
                relative(&one["created_at"]),
                bytes.unwrap_or_else(|| "-".into()),
            ]
        });
        output::table(&["KEY", "CREATED", "SIZE"], &rows.collect::<Vec<_>>());
        return Ok(());
    }
    if json {
        output::json(&found.0);
        return Ok(());
    }
    let text = |pointer: &str| clean(found.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default());
    let fact = |name: &str, value: &str| {
        if !value.is_empty() && value != "-" {
            output::line(format_args!("{:<14}{value}", format!("{name}:")));
        }
    };
    fact("workspace", found.slug());
    fact("name", &text("/name"));
    fact("id", found.id());
    fact("owner", &text("/owner/username"));
    fact("state", &state(&found));
    if !found.has_arrived() {
        fact("target state", found.text("desired_state"));
    }
    fact("waiting", &text("/waiting/message"));
    fact("error", &text("/error/message"));
    fact("address", found.text("url"));
    fact("image", &text("/image_ref"));
    fact("description", &text("/description"));
    let labels = found.0["labels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}={}", clean(value.as_str().unwrap_or_default())));
    fact("labels", &labels.collect::<Vec<_>>().join(", "));
    fact("active", &text("/activity/active_because/text"));
    fact("sleeps", &relative(&found.0["stops_at"]));
    fact("is archived", &relative(&found.0["archives_at"]));
    fact("kept awake", &relative(&found.0["held_until"]));
    fact("last used", &relative(&found.0["last_access_at"]));
    fact("created", &relative(&found.0["created_at"]));
    Ok(())
}

/// `codehub create`.
#[derive(Debug, clap::Args)]
pub struct Create {
    /// What to call it; its slug is made from this
    #[arg(value_name = "NAME")]
    name: String,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The image, where the server offers several
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// A label, KEY=VALUE or KEY; may be repeated
    #[arg(long = "label", value_name = "LABEL", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Begin with the home directory in this archive (`codehub show WORKSPACE --archives`)
    #[arg(long, value_name = "KEY")]
    from_archive: Option<String>,
    /// Goes to sleep after this long without activity; 0 is never
    #[arg(long, value_name = "TIME", value_parser = output::duration)]
    standby_after: Option<Duration>,
    /// Is archived after this long asleep; 0 is never
    #[arg(long, value_name = "TIME", value_parser = output::duration)]
    archive_after: Option<Duration>,
    /// Do not start it
    #[arg(long)]
    asleep: bool,
    #[command(flatten)]
    wait: Wait,
}

fn label(text: &str) -> std::result::Result<(String, String), String> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    if key.is_empty() { Err("a label needs a key: KEY=VALUE".into()) } else { Ok((key.into(), value.into())) }
}

pub(crate) async fn create(api: &Api, options: Create, json: bool) -> Result<()> {
    let mut body = json!({ "name": options.name });
    let seconds = |time: Duration| json!(time.as_secs());
    let labels: BTreeMap<String, String> = options.labels.into_iter().collect();
    for (key, value) in [
        ("description", options.description.map(Value::from)),
        ("image_ref", options.image.map(Value::from)),
        ("from_archive", options.from_archive.map(Value::from)),
        ("standby_ttl_seconds", options.standby_after.map(seconds)),
        ("archive_ttl_seconds", options.archive_after.map(seconds)),
        ("desired_state", options.asleep.then(|| json!("STANDBY"))),
        ("labels", (!labels.is_empty()).then(|| json!(labels))),
    ] {
        if let Some(value) = value {
            body[key] = value;
        }
    }
    // Whoever hears nothing may ask again: it is made once.
    let key = [("idempotency-key", uuid::Uuid::new_v4().to_string())];
    let ask = || api.ask_with(Method::POST, "/workspaces", Some(body.clone()), Duration::ZERO, &key);
    let made = match ask().await {
        Err(failure) if failure.kind == Kind::Unreachable && failure.code.is_none() => ask().await,
        answer => answer,
    };
    let made = Workspace(made?.1);
    let made = match options.wait.wait {
        None => made,
        Some(within) => {
            let name = made.slug().to_owned();
            let arrived = wait::until_arrived(api, made, within).await?;
            arrived.ok_or_else(|| Failure::new(Kind::Failed, format!("{name} was deleted meanwhile")))?
        }
    };
    if json {
        output::json(&made.0);
    } else {
        output::line(made.slug());
    }
    Ok(())
}

/// What can be asked of workspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Start,
    Stop,
    Archive,
    Delete,
}

impl Verb {
    fn request(self) -> (Method, &'static str) {
        match self {
            Self::Start => (Method::POST, "/start"),
            Self::Stop => (Method::POST, "/stop"),
            Self::Archive => (Method::POST, "/archive"),
            Self::Delete => (Method::DELETE, ""),
        }
    }
}

/// `codehub start`, `stop`, `archive`.
#[derive(Debug, clap::Args)]
pub struct Ask {
    /// The workspaces: slugs, ids, or the last 8 or more characters of ids
    #[arg(value_name = "WORKSPACE", required = true)]
    workspaces: Vec<String>,
    #[command(flatten)]
    wait: Wait,
}

/// `codehub rm`.
#[derive(Debug, clap::Args)]
pub struct Remove {
    /// Do not ask; needed where nobody can be asked
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    ask: Ask,
}

pub(crate) async fn remove(api: &Api, options: Remove, json: bool) -> Result<()> {
    if !options.yes {
        if !std::io::stdin().is_terminal() {
            return Err(Failure::new(Kind::Usage, "nobody is there to be asked whether to delete it")
                .or_next("say so with --yes"));
        }
        let names = options.ask.workspaces.join(", ");
        eprint!("Delete {names} and the home directory in it? This cannot be undone. [y/N] ");
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        read.map_err(|error| Failure::local("standard input", error))?;
        if !matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            return Err(Failure::new(Kind::Failed, "nothing was deleted"));
        }
    }
    ask(api, Verb::Delete, options.ask, json).await
}

/// Asks all of them, then waits for all. The first failure is the command's; the others are told.
pub(crate) async fn ask(api: &Api, verb: Verb, options: Ask, json: bool) -> Result<()> {
    let mut asked = Vec::new();
    let mut failures = Vec::new();
    for name in &options.workspaces {
        match ask_one(api, verb, name).await {
            Ok(workspace) => asked.push(workspace),
            Err(failure) => failures.push(failure),
        }
    }
    for workspace in asked {
        let (name, deleted) = (workspace.slug().to_owned(), json!({ "id": workspace.id() }));
        let now = match options.wait.wait {
            Some(within) => wait::until_arrived(api, workspace, within).await,
            None => Ok(Some(workspace)),
        };
        match now {
            Ok(now) if json => {
                let now = now.filter(|_| verb != Verb::Delete).map_or(deleted, |now| now.0);
                output::json(&now);
            }
            Ok(None) => output::note(format_args!("{name} is deleted")),
            Ok(Some(_)) if verb == Verb::Delete => output::note(format_args!("{name} is being deleted")),
            Ok(Some(now)) => {
                let now_is = if now.has_arrived() { now.phase().to_owned() } else { wait::doing(&now) };
                output::note(format_args!("{name}: {}", now_is.to_ascii_lowercase()));
            }
            Err(failure) => failures.push(failure),
        }
    }
    let mut failures = failures.into_iter();
    let first = failures.next();
    for failure in failures {
        output::note(failure);
    }
    first.map_or(Ok(()), Err)
}

async fn ask_one(api: &Api, verb: Verb, name: &str) -> Result<Workspace> {
    let workspace = workspace::find(api, name).await?;
    let (method, rest) = verb.request();
    let answer = api.ask(method, &workspace.path(rest), None, Duration::ZERO).await;
    let answer = answer.map_err(|failure| match failure.kind {
        Kind::State => failure.or_next(format!("`codehub show {name}` says what is going on")),
        _ => failure,
    })?;
    if verb == Verb::Delete {
        let mut gone = workspace;
        gone.0["desired_state"] = json!("DELETED");
        gone.0["operation"] = json!("DELETING");
        return Ok(gone);
    }
    Ok(Workspace(answer.1))
}

/// `codehub restore`.
#[derive(Debug, clap::Args)]
pub struct Restore {
    /// The workspace
    #[arg(value_name = "WORKSPACE")]
    workspace: String,
    /// Go back to this archive (`codehub show WORKSPACE --archives`): for a workspace in ERROR
    #[arg(long, value_name = "KEY")]
    archive: Option<String>,
    /// Give up what is newer than that archive
    #[arg(long, requires = "archive")]
    discard_newer: bool,
    /// Start it, too
    #[arg(long)]
    start: bool,
    #[command(flatten)]
    wait: Wait,
}

pub(crate) async fn restore(api: &Api, options: Restore, json: bool) -> Result<()> {
    let Restore { workspace: name, archive, discard_newer, start, wait } = options;
    let Some(key) = archive else {
        let found = workspace::find(api, &name).await?;
        if !matches!(found.phase(), "ARCHIVED" | "PENDING") {
            let message = format!("{} is not archived: it is {}", found.slug(), found.phase());
            return Err(Failure::new(Kind::State, message)
                .or_next(format!("start it with `codehub start {}`", found.slug())));
        }
        let ask = Ask { workspaces: vec![name], wait };
        return self::ask(api, if start { Verb::Start } else { Verb::Stop }, ask, json).await;
    };
    let found = workspace::find(api, &name).await?;
    let desired = if start { "RUNNING" } else { "STANDBY" };
    let body = json!({ "restore_from": key, "accept_data_loss": discard_newer, "desired_state": desired });
    let answer = api.ask(Method::POST, &found.path("/recover"), Some(body), Duration::ZERO).await;
    let answer = answer.map_err(|failure| match failure.kind {
        Kind::State => failure
            .or_next(format!("for a workspace that is well: `codehub create NAME --from-archive {key}`")),
        _ => failure,
    })?;
    let mut now = Workspace(answer.1);
    if let Some(within) = wait.wait {
        now = wait::until_arrived(api, now, within).await?.unwrap_or(found);
    }
    if json {
        output::json(&now.0);
    } else {
        output::note(format_args!("{}: {}", now.slug(), wait::doing(&now)));
    }
    Ok(())
}

/// `codehub open`.
#[derive(Debug, clap::Args)]
pub struct Open {
    /// The workspace
    #[arg(value_name = "WORKSPACE")]
    workspace: String,
    /// What listens on this port in it, instead of its IDE
    #[arg(long, value_name = "PORT", conflicts_with = "dashboard")]
    port: Option<u16>,
    /// Its page on the dashboard
    #[arg(long)]
    dashboard: bool,
    /// Print the address instead of opening it
    #[arg(long)]
    print: bool,
}

pub(crate) async fn open(api: &Api, options: Open, json: bool) -> Result<()> {
    let found = workspace::find(api, &options.workspace).await?;
    // An address of this server's, which leads on: whatever the API says, nothing else is opened.
    let url = match (options.port, options.dashboard) {
        (_, true) => format!("{}/workspaces/{}", api.url, found.id()),
        (Some(port), _) => format!("{}/open/{}?port={port}", api.url, found.id()),
        (None, _) if found.text("url").starts_with(&format!("{}/", api.url)) => found.text("url").to_owned(),
        (None, _) => format!("{}/open/{}", api.url, found.id()),
    };
    if json {
        output::json(&json!({ "url": url }));
    } else if options.print || !browser::open(&url) {
        output::line(url);
    }
    Ok(())
}

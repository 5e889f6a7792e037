//! What a workspace prints, and what happens to workspaces, as it comes.

use std::{collections::HashMap, time::Duration};

use http_body_util::BodyExt as _;
use serde_json::Value;

use crate::{
    api::Api,
    failure::{Kind, Result},
    output::{self, clean},
    wait,
    workspace::{self, Workspace},
};

/// `codehub logs`.
#[derive(Debug, clap::Args)]
pub struct Logs {
    /// The workspace
    #[arg(value_name = "WORKSPACE")]
    workspace: String,
    /// Go on with what is printed from now on
    #[arg(long, short)]
    follow: bool,
    /// The last so many lines
    #[arg(long, short = 'n', value_name = "LINES", default_value_t = 1000)]
    tail: u32,
}

pub(crate) async fn logs(api: &Api, options: Logs) -> Result<()> {
    let found = workspace::find(api, &options.workspace).await?;
    let path = found.path(&format!("/logs?tail={}&follow={}", options.tail, options.follow));
    let mut body = api.stream(&path).await?.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| api.broke_off(&error))?;
        if let Some(bytes) = frame.data_ref() {
            output::raw(bytes)?;
        }
    }
    Ok(())
}

/// `codehub events`.
#[derive(Debug, clap::Args)]
pub struct Events {
    /// Only of this workspace
    #[arg(value_name = "WORKSPACE")]
    workspace: Option<String>,
}

const RETRY_EVERY: Duration = Duration::from_secs(1);
const RETRIES: u32 = 30;

pub(crate) async fn events(api: &Api, options: Events, json: bool) -> Result<()> {
    let only = match &options.workspace {
        Some(name) => Some(workspace::find(api, name).await?.id().to_owned()),
        None => None,
    };
    let mut told = Told { only, json, known: HashMap::new() };
    let mut failed = 0;
    loop {
        // The server ends it now and then; what happened meanwhile is told when we come again.
        match follow(api, &mut told, &mut failed).await {
            Ok(()) => {}
            Err(failure)
                if failure.kind == Kind::Unreachable && failed < RETRIES && !told.known.is_empty() =>
            {
                failed += 1;
                tokio::time::sleep(RETRY_EVERY).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}

async fn follow(api: &Api, told: &mut Told, failed: &mut u32) -> Result<()> {
    let mut body = api.stream("/events").await?.into_body();
    *failed = 0;
    let mut messages = Messages::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| api.broke_off(&error))?;
        let Some(bytes) = frame.data_ref() else { continue };
        for (event, data) in messages.push(bytes) {
            told.tell(&event, &data);
        }
    }
    Ok(())
}

/// What was told already.
struct Told {
    only: Option<String>,
    json: bool,
    known: HashMap<String, (String, String)>,
}

impl Told {
    fn tell(&mut self, event: &str, data: &str) {
        let Ok(value) = serde_json::from_str::<Value>(data) else { return };
        let workspace = Workspace(value);
        let id = workspace.id().to_owned();
        if id.is_empty() || self.only.as_ref().is_some_and(|only| *only != id) {
            return;
        }
        let deleted = event == "workspace_deleted";
        let slug = match self.known.get(&id) {
            Some((slug, _)) if deleted => slug.clone(),
            _ => workspace.slug().to_owned(),
        };
        let now = (slug.clone(), workspace.text("updated_at").to_owned());
        if self.known.insert(id, now.clone()).as_ref() == Some(&now) {
            return;
        }
        if self.json {
            output::line(data);
        } else {
            let what = if deleted { "deleted".to_owned() } else { summary(&workspace) };
            output::line(format_args!("{}  {slug}  {what}", jiff::Timestamp::now().strftime("%H:%M:%S")));
        }
    }
}

fn summary(workspace: &Workspace) -> String {
    let phase = output::phase(workspace.phase());
    let doing = match workspace.text("operation") {
        "NONE" | "" => String::new(),
        _ => format!(" ({})", wait::doing(workspace)),
    };
    let error = workspace.0.pointer("/error/message").and_then(Value::as_str);
    let error = error.map(|error| format!(": {}", clean(error))).unwrap_or_default();
    format!("{phase}{doing}{error}")
}

/// An event stream in pieces, put together: its messages' names and data.
#[derive(Default)]
struct Messages {
    rest: Vec<u8>,
    event: String,
    data: String,
}

impl Messages {
    fn push(&mut self, bytes: &[u8]) -> Vec<(String, String)> {
        self.rest.extend_from_slice(bytes);
        let mut whole = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                if !self.data.is_empty() {
                    whole.push((std::mem::take(&mut self.event), std::mem::take(&mut self.data)));
                }
                self.event.clear();
            } else if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut self.event);
            } else if let Some(data) = line.strip_prefix("data: ") {
                self.data.push_str(data);
            }
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_put_together_from_any_pieces() {
        let stream =
            b"id: 1\nevent: a\ndata: {\"x\":1}\n\nevent: heartbeat\ndata: {}\n\n: note\n\ndata: 2\r\n\r\n";
        for size in [1, 2, 7, stream.len()] {
            let mut messages = Messages::default();
            let found: Vec<_> = stream.chunks(size).flat_map(|piece| messages.push(piece)).collect();
            let expected = [("a", "{\"x\":1}"), ("heartbeat", "{}"), ("", "2")];
            assert_eq!(found, expected.map(|(event, data)| (event.to_owned(), data.to_owned())));
        }
    }
}

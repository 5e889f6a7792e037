//! What a workspace printed: the last lines on its page, all of it on its own, followed live by the
//! script through the API.

use std::{sync::Arc, time::Duration};

use axum::{Router, extract::State, response::Response, routing::get};
use codehub_domain::WorkspaceId;
use codehub_runtime::LogQuery;
use futures::StreamExt as _;
use maud::{Markup, html};

use super::{
    error::Result,
    icons,
    layout::{NavEntry, Page},
    view::{Me, PageContext, PathId},
};
use crate::{
    app::App,
    service::{self, Access},
};

const SHORT: usize = 100;
const LONG: usize = 2000;
/// A page holds no more than this, however long the lines are.
const MOST_BYTES: usize = 512 * 1024;
/// A runtime that does not answer must not hold up the page.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/workspaces/{id}/logs", get(show))
}

/// The last lines, or that they cannot be had.
pub(super) struct Tail(Option<String>);

pub(super) async fn tail(app: &App, id: WorkspaceId) -> Tail {
    read(app, id, SHORT).await
}

async fn read(app: &App, id: WorkspaceId, tail: usize) -> Tail {
    let collect = async {
        let mut stream = app.backends.instances.logs(id, LogQuery { tail, follow: false }).await.ok()?;
        let mut all = Vec::new();
        while let Some(chunk) = stream.next().await {
            all.extend_from_slice(&chunk.ok()?);
            if all.len() > 2 * MOST_BYTES {
                all.drain(..all.len() - MOST_BYTES);
            }
        }
        all.drain(..all.len().saturating_sub(MOST_BYTES));
        Some(readable(&String::from_utf8_lossy(&all)))
    };
    Tail(tokio::time::timeout(PATIENCE, collect).await.ok().flatten())
}

/// Without the control sequences that colour a terminal; the script does the same to what follows.
fn readable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.peek() == Some(&'[') => {
                chars.next();
                for next in chars.by_ref() {
                    if ('\u{40}'..='\u{7e}').contains(&next) {
                        break;
                    }
                }
            }
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

pub(super) fn panel(view: &PageContext, id: WorkspaceId, tail: &Tail) -> Markup {
    let t = view.t;
    html! {
        section.card.logs-card {
            div.card-head {
                h2 { (t.logs) }
                div.actions {
                    button type="button" #follow hidden aria-pressed="false" data-id=(id) data-testid="follow" { (t.follow) }
                    a.button href={ "/workspaces/" (id) "/logs" } data-testid="all-logs" { (t.more_logs) }
                }
            }
            (text(view, tail))
        }
    }
}

fn text(view: &PageContext, tail: &Tail) -> Markup {
    let t = view.t;
    html! {
        @match &tail.0 {
            None => p.quiet { (t.logs_unreachable) },
            Some(text) => {
                pre #log .log tabindex="0" role="region" aria-label=(t.logs) data-testid="log" { (text) }
                @if text.is_empty() { p.quiet #no-log { (t.no_logs) } }
            },
        }
    }
}

async fn show(State(app): State<Arc<App>>, me: Me, PathId(id): PathId<WorkspaceId>) -> Result<Response> {
    let workspace = service::find(&app, me.user(), id, Access::Manage).await?;
    let tail = read(&app, id, LONG).await;
    let (view, t) = (&me.view, me.view.t);
    let body = html! {
        p.crumb { a href={ "/workspaces/" (id) } { (icons::back()) (workspace.name) } }
        section.card.logs-card.tall {
            div.card-head {
                h1 { (t.logs) }
                div.actions { a.button href={ "/workspaces/" (id) "/logs" } { (t.reload) } }
            }
            (text(view, &tail))
        }
    };
    Ok(Page::new(t.logs, NavEntry::Workspaces, body).respond(view))
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn terminal_colours_are_left_out() {
        assert_eq!(readable("\u{1b}[1;31mred\u{1b}[0m\r\nplain\tx\u{7}"), "red\nplain\tx");
        assert_eq!(readable("\u{1b}[31"), "");
        assert_eq!(readable("한글 <b>"), "한글 <b>");
    }
}

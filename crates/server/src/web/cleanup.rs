//! `/system/cleanup`: what the garbage collector would delete now, and what it waits with. Looks, and deletes nothing.

use std::{collections::HashMap, sync::Arc};

use axum::{Router, extract::State, response::Response, routing::get};
use codehub_coordinator::gc::{self, Outlook};
use codehub_domain::{Timestamp, Workspace, WorkspaceId, gc::Item, retry::saturating_add};
use maud::{Markup, html};

use super::{
    components::{ahead, moment},
    error::{Result, WebError},
    i18n::words,
    icons,
    layout::{NavEntry, Page},
    view::{Admin, PageContext},
};
use crate::app::App;

/// Rows of the table, at most.
const MOST: usize = 500;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/system/cleanup", get(show))
}

async fn show(State(app): State<Arc<App>>, Admin(me): Admin) -> Result<Response> {
    let (view, t, policy) = (&me.view, me.view.t, &app.config.gc.policy);
    let outlook = gc::outlook(&app.backends, policy).await.map_err(|error| {
        tracing::warn!(%error, "what would be cleaned up cannot be told");
        WebError::Unavailable
    })?;
    let ids: Vec<WorkspaceId> = outlook.plan.sightings.keys().map(|item| item.may_be_needed_by().0).collect();
    let found = app.store().workspaces_get(&ids).await?;
    let names: HashMap<WorkspaceId, &Workspace> = found.iter().map(|found| (found.id, found)).collect();
    let bytes: u64 =
        outlook.plan.delete.iter().filter_map(|item| outlook.listed.get(item).copied().flatten()).sum();
    let body = html! {
        p.crumb { a href="/system" { (icons::back()) (t.system) } }
        div.page-head { div { h1 { (t.cleanup_report) } p.sub { (t.cleanup_text) } } }
        section.card data-testid="cleanup" {
            dl.facts {
                dt { (t.cleanup_stored) } dd { (outlook.listed.len()) }
                dt { (t.cleanup_now) } dd data-testid="cleanup-now" {
                    (outlook.plan.delete.len()) @if bytes > 0 { " · " (words::bytes(bytes)) }
                }
                dt { (t.cleanup_later) } dd data-testid="cleanup-later" {
                    (outlook.plan.sightings.len() - outlook.plan.delete.len())
                }
                @if let Some(brake) = outlook.plan.braked {
                    dt { (t.gc_braked) } dd { span.no.bad { (icons::cross()) (brake) } }
                }
            }
        }
        section.card {
            @if outlook.plan.sightings.is_empty() {
                p.quiet data-testid="cleanup-nothing" { (t.cleanup_nothing) }
            } @else {
                (table(view, &outlook, &names, policy.orphan_delay))
            }
        }
    };
    Ok(Page::new(t.cleanup_report, NavEntry::System, body).respond(view))
}

fn table(
    view: &PageContext,
    outlook: &Outlook,
    names: &HashMap<WorkspaceId, &Workspace>,
    delay: std::time::Duration,
) -> Markup {
    let t = view.t;
    let row = |item: &Item, since: Timestamp| {
        let id = item.may_be_needed_by().0;
        html! {
            tr data-testid="cleanup-item" {
                th.break scope="row" {
                    @match names.get(&id) {
                        Some(found) if found.deleted_at.is_none() => a href={ "/workspaces/" (id) } { (found.name) },
                        Some(found) => { (found.name) " " span.quiet { "(" (t.is_deleted) ")" } },
                        None => code { (id) },
                    }
                }
                td data-label=(t.kind) {
                    (match item { Item::Archive(_) => t.an_archive, Item::Volume { .. } => t.a_volume })
                }
                td data-label=(t.size) {
                    @match outlook.listed.get(item).copied().flatten() { Some(size) => (words::bytes(size)), None => "–" }
                }
                td data-label=(t.unused_since) { (moment(view, since)) }
                td data-label=(t.deleted_when) {
                    @if outlook.plan.delete.contains(item) { (t.next_cleanup) }
                    @else { (ahead(view, saturating_add(since, delay))) }
                }
            }
        }
    };
    html! {
        table.stacking {
            thead { tr {
                th scope="col" { (t.workspace) } th scope="col" { (t.kind) } th scope="col" { (t.size) }
                th scope="col" { (t.unused_since) } th scope="col" { (t.deleted_when) }
            } }
            tbody { @for (item, since) in outlook.plan.sightings.iter().take(MOST) { (row(item, *since)) } }
        }
    }
}

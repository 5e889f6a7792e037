//! `/workspaces/{id}`: everything about one workspace. The parts that change by themselves are marked
//! `data-part`; live updates fetch `/workspaces/{id}/live` and swap those that differ.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Router,
    extract::State,
    response::{Html, IntoResponse, Response},
    routing::get,
};
use codehub_domain::{
    Phase, UserId, Workspace, WorkspaceId,
    condition::Condition,
    event::HistoryEntry,
    ttl::{Expiry, TtlPolicy},
    user::User,
    waiting::{Waiting, waiting},
};
use codehub_runtime::archives::ListedArchive;
use codehub_store::is_active;
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    acts, awake,
    components::{ahead, moment},
    error::Result,
    i18n::words,
    icons, inside,
    layout::{NavEntry, Page},
    logs, picture, recover, row,
    view::{Me, PageContext, PathId, Query},
};
use crate::{
    api::activity::{self, ActivityView},
    app::App,
    service::{self, Access},
};

/// Enough for a week of most workspaces.
const HISTORY: u32 = 300;
/// Lines of history on the page; the rest is a page of its own.
const ACTS: usize = 8;
/// Entries of history on a page of its own.
const OLDER: u32 = 200;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/workspaces/{id}", get(show))
        .route("/workspaces/{id}/live", get(live))
        .route("/workspaces/{id}/history", get(older))
}

/// A workspace with what belongs to it.
pub(super) struct Detail {
    pub(super) workspace: Workspace,
    pub(super) owner: String,
    /// Newest first; `None` when they cannot be listed now.
    pub(super) archives: Option<Vec<ListedArchive>>,
    pub(super) history: Vec<HistoryEntry>,
    /// There is history older than that.
    pub(super) more_history: bool,
    pub(super) people: HashMap<UserId, User>,
    pub(super) policy: TtlPolicy,
    pub(super) expiry: Option<Expiry>,
    pub(super) activity: ActivityView,
    /// Whether workspaces run from images here.
    pub(super) from_images: bool,
    pub(super) insight: inside::Insight,
}

impl Detail {
    /// The name behind an id, where it stands in the history.
    pub(super) fn name_of(&self, id: &str) -> Option<String> {
        let id: UserId = id.parse().ok()?;
        self.people.get(&id).map(|user| user.username.clone())
    }
}

async fn load(app: &Arc<App>, me: &Me, id: WorkspaceId) -> Result<Detail> {
    let workspace = service::find(app, me.user(), id, Access::Manage).await?;
    // The page has more to say than what its storage keeps.
    let archives = service::archives::kept(app, id).await.ok();
    let past = app.store().workspace_history(id, None, HISTORY).await?;
    let (history, more_history) = (past.items, past.more);
    let people = people(app, &history, workspace.owner).await?;
    let owner = people.get(&workspace.owner).map(|user| user.username.clone()).unwrap_or_default();
    let activity = activity::of(app, &workspace).await?;
    let (policy, expiry) = (app.config.ttl_policy(), app.expiry(&workspace));
    let from_images = app.backends.instances.kind() != "process";
    let insight = inside::look(app, me, &workspace).await?;
    Ok(Detail {
        workspace,
        owner,
        archives,
        history,
        more_history,
        people,
        policy,
        expiry,
        activity,
        from_images,
        insight,
    })
}

/// Whoever stands in the history, and the owner.
async fn people(app: &App, history: &[HistoryEntry], owner: UserId) -> Result<HashMap<UserId, User>> {
    let mut ids: Vec<UserId> = history.iter().filter_map(|entry| user_of(&entry.actor)).collect();
    ids.push(owner);
    ids.sort_unstable();
    ids.dedup();
    Ok(app.store().users_get(&ids).await?)
}

fn user_of(actor: &str) -> Option<UserId> {
    actor.strip_prefix("user:").or_else(|| actor.strip_prefix("wake:"))?.parse().ok()
}

async fn show(State(app): State<Arc<App>>, me: Me, PathId(id): PathId<WorkspaceId>) -> Result<Response> {
    let detail = load(&app, &me, id).await?;
    let tail = logs::tail(&app, id).await;
    let body = html! {
        (parts(&me, &detail))
        (logs::panel(&me.view, id, &tail))
    };
    let page = Page::new(detail.workspace.name.clone(), NavEntry::Workspaces, body);
    Ok(page.refreshing(is_active(&detail.workspace)).respond(&me.view))
}

/// The parts alone. 404 once it is gone.
async fn live(State(app): State<Arc<App>>, me: Me, PathId(id): PathId<WorkspaceId>) -> Result<Response> {
    let detail = load(&app, &me, id).await?;
    Ok(Html(parts(&me, &detail).into_string()).into_response())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Before {
    /// The id of an entry: only what is older.
    before: String,
}

/// The whole history, a page at a time.
async fn older(
    State(app): State<Arc<App>>,
    me: Me,
    PathId(id): PathId<WorkspaceId>,
    Query(query): Query<Before>,
) -> Result<Response> {
    let workspace = service::find(&app, me.user(), id, Access::Manage).await?;
    let before: Option<i64> = query.before.parse().ok();
    let archives = service::archives::kept(&app, id).await.unwrap_or_default();
    let page = app.store().workspace_history(id, before, OLDER).await?;
    let people = people(&app, &page.items, workspace.owner).await?;
    let name_of = |id: &str| people.get(&id.parse::<UserId>().ok()?).map(|user| user.username.clone());
    let mut acts = acts::acts(&page.items);
    // What began before the page is told whole on the next one.
    if page.more && acts.len() > 1 {
        acts.pop();
    }
    let next = acts.last().map(|act| act.steps[0].id).filter(|_| page.more);
    let (view, t) = (&me.view, me.view.t);
    let own = format!("/workspaces/{id}/history");
    let body = html! {
        p.crumb { a href={ "/workspaces/" (id) } { (icons::back()) (workspace.name) } }
        section.card {
            h1 { (t.history) }
            ol.timeline data-testid="history" {
                @for act in &acts { (acts::line(view, act, &archives, &name_of)) }
            }
            @if acts.is_empty() { p.quiet { (t.no_history) } }
        }
        nav.pager aria-label=(t.pages) {
            @if before.is_some() { a.button href=(own) data-testid="newest" { (t.newest) } }
            @if let Some(next) = next { a.button href={ (own) "?before=" (next) } rel="next" data-testid="older" { (t.older) } }
        }
    };
    Ok(Page::new(t.history, NavEntry::Workspaces, body).respond(view))
}

pub(super) fn parts(me: &Me, detail: &Detail) -> Markup {
    let view = &me.view;
    html! {
        div #detail data-testid="detail" data-id=(detail.workspace.id) data-version=(detail.workspace.updated_at)
            data-phase=(detail.workspace.status.phase) data-operation=(detail.workspace.status.operation)
            data-name=(detail.workspace.name) data-label=(row::label(view, &detail.workspace))
            data-busy[is_active(&detail.workspace)] data-watch[detail.insight.watched] data-poll[detail.workspace.owner != me.user().id] {
            (head(me, detail))
            (awake::banner(me, detail))
            (recover::panel(me, detail))
            div.columns {
                div.main-column {
                    (past(view, detail))
                    (conditions(view, &detail.workspace))
                }
                div.side-column {
                    (inside::ports(view, detail.workspace.id, &detail.insight))
                    (inside::usage(view, &detail.insight))
                    (awake::panel(me, detail))
                    (facts(view, detail))
                    (archives(view, detail))
                }
            }
        }
    }
}

fn head(me: &Me, detail: &Detail) -> Markup {
    let (view, t, ws) = (&me.view, me.view.t, &detail.workspace);
    html! {
        section #part-head data-part .detail-head {
            p.crumb { a href="/" { (icons::back()) (t.workspaces) } }
            h1.break data-testid="workspace-name" { (ws.name) }
            @if !ws.description.is_empty() { p.description { (ws.description) } }
            div.status-card data-testid="status" {
                div {
                    (row::state(view, ws, detail.expiry, false))
                    (waits(view, ws))
                    @if !is_active(ws) { p.meaning { (words::phase_meaning(view.lang, ws.status.phase)) } }
                }
                div.ws-actions {
                    (row::actions(view, me.user(), ws, &format!("/workspaces/{}", ws.id), row::Place::Page))
                }
            }
        }
    }
}

/// Why nothing is being done, though it is not where it is wanted.
fn waits(view: &PageContext, ws: &Workspace) -> Markup {
    let Some(reason) = waiting(ws) else { return html! {} };
    html! {
        p.quiet data-testid="waiting" data-reason=(reason) {
            (view.t.waiting) ": " (words::waits_for(view.lang, reason))
            @if let (Waiting::NextTry, Some(at)) = (reason, ws.status.next_retry_at) {
                " · " (view.t.tries_again) " " (ahead(view, at))
            }
        }
    }
}

fn facts(view: &PageContext, detail: &Detail) -> Markup {
    let (t, ws) = (view.t, &detail.workspace);
    let ttl = |own: Option<u32>, default: u32| match own {
        None => words::default_ttl(view.lang, default),
        Some(0) => t.never.to_owned(),
        Some(seconds) => words::span(view.lang, seconds.into()),
    };
    html! {
        section #part-facts data-part .card {
            h2 { (t.about) }
            dl.facts {
                dt { (t.owner) } dd { (detail.owner) }
                dt { (t.wanted) } dd data-testid="desired" { (words::desired(view.lang, ws.desired)) }
                dt { (t.created) } dd { (moment(view, ws.created_at)) }
                dt { (t.last_used) } dd { (moment(view, ws.last_access_at)) }
                dt { (t.state_since) } dd { (moment(view, ws.status.phase_changed_at)) }
                dt { (t.sleeps_after) } dd { (ttl(ws.standby_ttl_seconds, detail.policy.standby_seconds)) }
                dt { (t.archived_after) } dd { (ttl(ws.archive_ttl_seconds, detail.policy.archive_seconds)) }
                @if !ws.status.instance_backend.is_empty() {
                    dt { (t.runs_in) } dd { code { (ws.status.instance_backend) } }
                }
                @if detail.from_images && !ws.status.instance_backend.is_empty() {
                    dt { (t.image) } dd.break { code { (ws.image_ref) } }
                }
                @if !ws.labels.is_empty() {
                    dt { (t.labels) }
                    dd data-testid="labels" {
                        @for (key, value) in ws.labels.iter() { code { (key) @if !value.is_empty() { ": " (value) } } " " }
                    }
                }
                dt { (t.slug) } dd { code data-testid="slug" { (ws.slug) } }
                dt { (t.id) } dd.break { code data-testid="workspace-id" { (ws.id) } }
            }
            @if !ws.memo.is_empty() {
                h3 { (t.memo) }
                p.memo data-testid="memo" { (ws.memo) }
            }
        }
    }
}

fn conditions(view: &PageContext, ws: &Workspace) -> Markup {
    let (t, all) = (view.t, &ws.status.conditions);
    let table = [
        ("storage.volume_ready", t.volume_ready, &all.volume_ready),
        ("storage.archive_ready", t.archive_ready, &all.archive_ready),
        ("infra.container_ready", t.container_ready, &all.container_ready),
        ("policy.healthy", t.healthy, &all.healthy),
    ];
    let line = |name: &str, text: &str, condition: &Condition| {
        html! {
            tr data-testid="condition" data-condition=(name) data-status=(if condition.status { "True" } else { "False" }) {
                th scope="row" { (text) br; code.quiet { (name) } }
                td data-label=(t.status) {
                    @if condition.status {
                        span.yes { (icons::check()) (t.yes) }
                    } @else {
                        span.no.bad[name == "policy.healthy"] { (icons::cross()) (t.no) }
                    }
                }
                td data-label=(t.reason) {
                    code { (condition.reason) }
                    @if !condition.message.is_empty() { p.quiet.break { (condition.message) } }
                }
                td data-label=(t.since) { (moment(view, condition.last_transition_time)) }
            }
        }
    };
    let failing =
        ws.status.phase == Phase::Error || all.healthy.as_ref().is_some_and(|healthy| !healthy.status);
    html! {
        section #part-conditions data-part .card {
          details open[failing] data-testid="conditions" {
            summary {
                h2 { (t.conditions) }
                @if failing { span.no.bad { (icons::cross()) (t.checks_failing) } }
                @else { span.yes { (icons::check()) (t.checks_ok) } }
            }
            @if table.iter().all(|(_, _, condition)| condition.is_none()) {
                p.quiet { (t.nothing_observed) }
            } @else {
                table.stacking {
                    thead { tr { th scope="col" { (t.condition) } th scope="col" { (t.status) } th scope="col" { (t.reason) } th scope="col" { (t.since) } } }
                    tbody {
                        @for (name, text, condition) in table {
                            @if let Some(condition) = condition { (line(name, text, condition)) }
                        }
                    }
                }
            }
          }
        }
    }
}

fn archives(view: &PageContext, detail: &Detail) -> Markup {
    let t = view.t;
    html! {
        section #part-archives data-part .card {
            h2 { (t.archives) }
            @match &detail.archives {
                None => p.quiet { (t.archives_unreachable) },
                Some(archives) if archives.is_empty() => p.quiet { (t.no_archives) },
                Some(archives) => ul.plain data-testid="archives" {
                    @for archive in archives {
                        li data-testid="archive" data-key=(archive.key) {
                            span { (moment(view, archive.modified_at)) }
                            span.quiet { (words::bytes(archive.size)) }
                            @if detail.workspace.status.archive_key == Some(archive.key) {
                                span.tag { (t.current) }
                            }
                        }
                    }
                },
            }
            @if detail.archives.as_ref().is_some_and(|archives| !archives.is_empty()) {
                p.more { a href={ "/workspaces/" (detail.workspace.id) "/archives" } data-testid="to-archives" { (t.to_archives) } }
            }
        }
    }
}

fn past(view: &PageContext, detail: &Detail) -> Markup {
    let (t, ws) = (view.t, &detail.workspace);
    let acts = acts::acts(&detail.history);
    let archives = detail.archives.as_deref().unwrap_or_default();
    html! {
        section #part-history data-part .card {
            h2 { (t.history) }
            @if acts.is_empty() {
                p.quiet { (t.no_history) }
            } @else {
                (picture::of(view, &detail.history, detail.more_history, ws.status.phase, ws.created_at))
                ol.timeline data-testid="history" {
                    @for act in acts.iter().take(ACTS) { (acts::line(view, act, archives, &|id| detail.name_of(id))) }
                }
                @if acts.len() > ACTS || detail.more_history {
                    p.more { a href={ "/workspaces/" (ws.id) "/history" } data-testid="older" { (t.older) } }
                }
            }
        }
    }
}

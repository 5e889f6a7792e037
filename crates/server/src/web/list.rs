//! `/`: the list of workspaces.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Router,
    extract::State,
    response::{Html, IntoResponse, Response},
    routing::get,
};
use codehub_domain::{Phase, UserId, Workspace, WorkspaceId, labels::LabelFilter, user::User};
use codehub_store::{ListFilter, Page as StorePage, is_active};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    error::Result,
    forms,
    i18n::words,
    icons,
    layout::{NavEntry, Page},
    row::Row,
    view::{Me, PageContext, PathId, Query},
};
use crate::{
    app::App,
    service::{self, Access},
};

const PAGE: u32 = 50;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/", get(list)).route("/workspaces/{id}/row", get(row))
}

/// As the address has it. What makes no sense filters nothing.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Filter {
    q: String,
    phase: String,
    /// `key` or `key:value`, as in the API.
    label: String,
    all: String,
    before: String,
}

impl Filter {
    fn all(&self, user: &User) -> bool {
        self.all == "true" && user.is_admin()
    }

    fn phase(&self) -> Option<Phase> {
        self.phase.parse().ok()
    }

    fn label(&self) -> Option<LabelFilter> {
        self.label.trim().parse().ok()
    }

    fn is_empty(&self) -> bool {
        let narrowed = self.phase().is_some() || self.label().is_some();
        self.q.trim().is_empty() && !narrowed && self.before.is_empty()
    }

    /// The address of this list, filtered as it is, beginning before a workspace.
    fn href(&self, all: bool, before: Option<WorkspaceId>) -> String {
        let mut pairs = Vec::new();
        if !self.q.is_empty() {
            pairs.push(format!("q={}", forms::query_value(&self.q)));
        }
        if let Some(phase) = self.phase() {
            pairs.push(format!("phase={phase}"));
        }
        if let Some(label) = self.label() {
            pairs.push(format!("label={}", forms::query_value(&label.to_string())));
        }
        if all {
            pairs.push("all=true".into());
        }
        if let Some(before) = before {
            pairs.push(format!("before={before}"));
        }
        if pairs.is_empty() { "/".into() } else { format!("/?{}", pairs.join("&")) }
    }
}

async fn list(State(app): State<Arc<App>>, me: Me, Query(filter): Query<Filter>) -> Result<Response> {
    let all = filter.all(me.user());
    let page = app
        .store()
        .workspace_list(&ListFilter {
            owner: (!all).then_some(me.user().id),
            phase: filter.phase(),
            query: Some(filter.q.trim().to_owned()).filter(|q| !q.is_empty()),
            label: filter.label(),
            before: filter.before.parse().ok(),
            limit: PAGE,
        })
        .await?;
    let owners = if all { owners(&app, &page.items).await? } else { HashMap::new() };
    let refresh = page.items.iter().any(is_active);
    let body = body(&app, &me, &filter, &page, &owners);
    Ok(Page::new(me.view.t.workspaces, NavEntry::Workspaces, body).refreshing(refresh).respond(&me.view))
}

async fn owners(app: &App, workspaces: &[Workspace]) -> Result<HashMap<UserId, User>> {
    let mut ids: Vec<_> = workspaces.iter().map(|workspace| workspace.owner).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() { Ok(HashMap::new()) } else { Ok(app.store().users_get(&ids).await?) }
}

/// One row, for live updates. 404 once it is gone.
async fn row(
    State(app): State<Arc<App>>,
    me: Me,
    PathId(id): PathId<WorkspaceId>,
    Query(filter): Query<Filter>,
) -> Result<Response> {
    let workspace = service::find(&app, me.user(), id, Access::Manage).await?;
    let others = workspace.owner != me.user().id || filter.all(me.user());
    let owner = if others { app.store().user_get(workspace.owner).await? } else { None };
    let row = Row {
        workspace: &workspace,
        user: me.user(),
        owner: owner.as_ref().map(|user| user.username.as_str()),
        expiry: app.expiry(&workspace),
        back: if others { "/?all=true" } else { "/" },
    };
    Ok(Html(row.render(&me.view).into_string()).into_response())
}

fn body(
    app: &App,
    me: &Me,
    filter: &Filter,
    page: &StorePage<Workspace>,
    owners: &HashMap<UserId, User>,
) -> Markup {
    let (view, t) = (&me.view, me.view.t);
    let all = filter.all(me.user());
    let nothing_at_all = page.total == Some(0) && filter.is_empty();
    html! {
        div.page-head {
            div {
                h1 { (t.workspaces) }
                @if !nothing_at_all { p.sub data-testid="total" { (words::total(view.lang, page.total)) } }
            }
            a.button.primary href="/workspaces/new" data-dialog data-testid="new-workspace" {
                (icons::plus()) (t.new_workspace)
            }
        }
        @if !nothing_at_all || all || me.identity.is_admin() { (toolbar(me, filter, all, !nothing_at_all)) }
        @if nothing_at_all {
            (empty(view))
        } @else if page.items.is_empty() {
            p.nothing data-testid="no-match" { (t.nothing_matches) " " a href=(Filter::default().href(all, None)) { (t.show_all) } }
        }
        ul #workspaces .rows data-testid="workspaces" data-newest[filter.is_empty() && !all]
            data-query=[all.then_some("?all=true")] {
            @for workspace in &page.items {
                (Row {
                    workspace,
                    user: me.user(),
                    owner: owners.get(&workspace.owner).map(|user| user.username.as_str()),
                    expiry: app.expiry(workspace),
                    back: &view.here,
                }.render(view))
            }
        }
        @if page.more || !filter.before.is_empty() {
            nav.pager aria-label=(t.pages) {
                @if !filter.before.is_empty() {
                    a.button href=(filter.href(all, None)) data-testid="first-page" { (t.first_page) }
                }
                @if let Some(last) = page.items.last().filter(|_| page.more) {
                    a.button href=(filter.href(all, Some(last.id))) rel="next" data-testid="next-page" { (t.next_page) }
                }
            }
        }
    }
}

fn toolbar(me: &Me, filter: &Filter, all: bool, searches: bool) -> Markup {
    let (view, t) = (&me.view, me.view.t);
    html! {
        div.toolbar {
            @if searches {
                form.filters method="get" action="/" role="search" data-auto {
                    @if all { input type="hidden" name="all" value="true"; }
                    div.search {
                        label.sr-only for="q" { (t.search_by_name) }
                        (icons::search())
                        input #q type="search" name="q" value=(filter.q) placeholder=(t.search_by_name) maxlength="255"
                            data-testid="search";
                    }
                    label.sr-only for="phase" { (t.filter_by_phase) }
                    select #phase name="phase" data-testid="phase-filter" {
                        option value="" { (t.all_phases) }
                        @for phase in Phase::ALL.iter().filter(|phase| !matches!(phase, Phase::Deleting | Phase::Deleted)) {
                            option value=(phase) selected[filter.phase() == Some(*phase)] { (words::phase(view.lang, *phase)) }
                        }
                    }
                    label.sr-only for="label" { (t.filter_by_label) }
                    input #label type="search" name="label" value=(filter.label) placeholder=(t.filter_by_label)
                        maxlength="319" data-testid="label-filter";
                    button type="submit" data-testid="search-go" { (t.search) }
                }
            }
            @if me.identity.is_admin() {
                nav.segmented.links aria-label=(t.whose) {
                    a href=(filter.href(false, None)) aria-current=[(!all).then_some("true")] data-testid="mine" { (t.mine) }
                    a href=(filter.href(true, None)) aria-current=[all.then_some("true")] data-testid="everybodys" { (t.everybodys) }
                }
            }
        }
    }
}

fn empty(view: &PageContext) -> Markup {
    let t = view.t;
    html! {
        section.empty #empty data-testid="empty" {
            (icons::logo())
            h2 { (t.empty_title) }
            p { (t.empty_text) }
            a.button.primary.big href="/workspaces/new" data-dialog data-testid="first-workspace" { (t.create_first) }
        }
    }
}

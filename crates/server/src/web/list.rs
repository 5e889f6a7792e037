//! `/`: the list of workspaces.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Router,
    extract::State,
    response::{Html, IntoResponse, Response},
    routing::get,
};
use codehub_domain::{Desired, Phase, UserId, Workspace, WorkspaceId, labels::LabelFilter, user::User};
use codehub_store::{ListFilter, ListOrder, Page as StorePage, is_active};
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
    api::activity,
    app::App,
    service::{self, Access},
};

const PAGE: u32 = 50;
/// Whoever is further down looks for something.
const MOST_PAGES: u32 = 100_000;

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
    sort: String,
    /// From 1 on.
    page: String,
}

/// Orders that can be chosen: the word of the address, and what it means. The first is what a list begins with.
const ORDERS: [(&str, ListOrder); 5] = [
    ("used", ListOrder::Used),
    ("name", ListOrder::Name),
    ("created", ListOrder::Newest),
    ("size", ListOrder::Size),
    ("owner", ListOrder::Owner),
];

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

    fn order(&self) -> (&'static str, ListOrder) {
        ORDERS.into_iter().find(|(word, _)| *word == self.sort).unwrap_or(ORDERS[0])
    }

    fn page(&self) -> u32 {
        self.page.parse().ok().filter(|page| (1..=MOST_PAGES).contains(page)).unwrap_or(1)
    }

    /// Whether some workspaces are left out.
    fn is_empty(&self) -> bool {
        let narrowed = self.phase().is_some() || self.label().is_some();
        self.q.trim().is_empty() && !narrowed && self.page() == 1
    }

    /// The address of this list, filtered and sorted as it is.
    fn href(&self, all: bool, page: u32) -> String {
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
        let (sort, order) = self.order();
        if order != ORDERS[0].1 && (all || order != ListOrder::Owner) {
            pairs.push(format!("sort={sort}"));
        }
        if all {
            pairs.push("all=true".into());
        }
        if page > 1 {
            pairs.push(format!("page={page}"));
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
            order: filter.order().1,
            skip: (filter.page() - 1) * PAGE,
            limit: PAGE,
            before: None,
        })
        .await?;
    let owners = if all { owners(&app, &page.items).await? } else { HashMap::new() };
    let ids: Vec<_> = page.items.iter().map(|workspace| workspace.id).collect();
    let sizes = app.store().home_sizes(&ids).await?;
    let refresh = page.items.iter().any(is_active);
    let rows: Vec<Row<'_>> = page
        .items
        .iter()
        .map(|workspace| Row {
            workspace,
            user: me.user(),
            owner: owners.get(&workspace.owner).map(|user| user.username.as_str()),
            expiry: app.expiry(workspace),
            size: sizes.get(&workspace.id).copied(),
            awake: activity::awake_because(&app, workspace, me.view.now),
            back: &me.view.here,
        })
        .collect();
    let body = body(&me, &filter, &page, &rows);
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
        size: app.store().home_sizes(&[id]).await?.get(&id).copied(),
        awake: activity::awake_because(&app, &workspace, me.view.now),
        back: &filter.href(filter.all(me.user()), filter.page()),
    };
    Ok(Html(row.render(&me.view).into_string()).into_response())
}

fn body(me: &Me, filter: &Filter, page: &StorePage<Workspace>, rows: &[Row<'_>]) -> Markup {
    let (view, t) = (&me.view, me.view.t);
    let all = filter.all(me.user());
    let nothing_at_all = page.total == Some(0) && filter.is_empty();
    // The filter as it is, for rows that are drawn anew.
    let href = filter.href(all, filter.page());
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
            p.nothing data-testid="no-match" { (t.nothing_matches) " " a href=(Filter::default().href(all, 1)) { (t.show_all) } }
        }
        @if !rows.is_empty() {
            label.select-all hidden {
                input #select-all type="checkbox" autocomplete="off" data-testid="select-all"; (t.select_all)
            }
        }
        ul #workspaces .rows data-testid="workspaces" data-newest[filter.is_empty() && !all] data-query=[href.strip_prefix('/')] {
            @for row in rows { (row.render(view)) }
        }
        (bulk(view))
        (pager(view, filter, all, page))
    }
}

/// What can be done with all that are ticked. Shown while one is.
fn bulk(view: &PageContext) -> Markup {
    let t = view.t;
    let ask = |desired: Desired, class: &str, testid: &str, text: &str| {
        html! {
            button class=(class) type="submit" name="desired_state" value=(desired) data-testid=(testid) { (text) }
        }
    };
    html! {
        form #bulk .bulk method="post" action="/workspaces/bulk" aria-label=(t.selected) data-testid="bulk" {
            input type="hidden" name="back" value=(view.here);
            p.bulk-count { (t.selected) span #ticked data-testid="ticked" {} }
            (ask(Desired::Running, "", "bulk-start", t.start))
            (ask(Desired::Standby, "", "bulk-stop", t.stop))
            (ask(Desired::Archived, "", "bulk-archive", t.archive_verb))
            (ask(Desired::Deleted, "danger", "bulk-delete", t.delete))
            button.plain-button type="reset" data-testid="bulk-clear" { (t.clear_selection) }
        }
    }
}

fn pager(view: &PageContext, filter: &Filter, all: bool, page: &StorePage<Workspace>) -> Markup {
    let (t, number) = (view.t, filter.page());
    let pages = page.total.map(|total| total.div_ceil(PAGE.into()).max(1));
    html! {
        @if page.more || number > 1 {
            nav.pager aria-label=(t.pages) {
                @if number > 2 {
                    a.button href=(filter.href(all, 1)) data-testid="first-page" { (t.first_page) }
                }
                @if number > 1 {
                    a.button href=(filter.href(all, number - 1)) rel="prev" data-testid="previous-page" { (t.previous_page) }
                }
                span.quiet data-testid="page-number" { (words::page_of(view.lang, number, pages)) }
                @if page.more && number < MOST_PAGES {
                    a.button href=(filter.href(all, number + 1)) rel="next" data-testid="next-page" { (t.next_page) }
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
                    label.sr-only for="sort" { (t.sort_by) }
                    select #sort name="sort" data-testid="sort" {
                        @for (word, order) in ORDERS.iter().filter(|(_, order)| all || *order != ListOrder::Owner) {
                            option value=(word) selected[filter.order().1 == *order] {
                                (t.sort_by) ": "
                                (match order {
                                    ListOrder::Used => t.sort_used,
                                    ListOrder::Name => t.sort_name,
                                    ListOrder::Newest => t.sort_created,
                                    ListOrder::Size => t.sort_size,
                                    ListOrder::Owner => t.sort_owner,
                                })
                            }
                        }
                    }
                    button type="submit" data-testid="search-go" { (t.search) }
                }
            }
            @if me.identity.is_admin() {
                nav.segmented.links aria-label=(t.whose) {
                    a href=(filter.href(false, 1)) aria-current=[(!all).then_some("true")] data-testid="mine" { (t.mine) }
                    a href=(filter.href(true, 1)) aria-current=[all.then_some("true")] data-testid="everybodys" { (t.everybodys) }
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

//! `/workspaces/{id}/archives`: the archives kept of a workspace, what is in them, and the ways back.
//!
//! Only the owner looks into an archive; what it holds is sent to be saved and never drawn here.

use std::{str::FromStr, sync::Arc};

use axum::{
    Router,
    extract::{FromRequestParts, Path, RawQuery, State},
    http::request::Parts,
    response::Response,
    routing::get,
};
use codehub_archive::{ArchivedFile, FileKind, FilePage};
use codehub_domain::{ArchiveKey, OpId, Workspace, WorkspaceId};
use codehub_runtime::archives::ListedArchive;
use http::StatusCode;
use maud::{Markup, html};

use super::{
    components::moment,
    error::{Result, WebError},
    flash::Plain,
    forms,
    i18n::words,
    icons,
    layout::{NavEntry, Page},
    recover, row,
    view::{Me, PageContext, PathId, see_other_saying},
};
use crate::{
    app::App,
    archived_http::{attachment, encoded, modified_at, name, pairs, text, trimmed},
    service::{
        self, Access,
        archives::{self, Unseen},
    },
};

/// Names on a page. Directories come first on each.
const PAGE: usize = 500;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/workspaces/{id}/archives", get(list))
        .route("/workspaces/{id}/archives/{archive}/files", get(files))
        .route("/workspaces/{id}/archives/{archive}/file", get(file))
        .route("/workspaces/{id}/archives/{archive}/restore", get(confirm_restore))
}

/// The workspace and the archive in the path. What is no id names nothing.
struct InPath(WorkspaceId, OpId);

impl<S: Send + Sync> FromRequestParts<S> for InPath {
    type Rejection = WebError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        fn read<T: FromStr>(text: &str) -> Result<T> {
            text.parse().map_err(|_| WebError::NotFound)
        }
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((id, op)) = path.map_err(|_| WebError::NotFound)?;
        Ok(Self(read(&id)?, read(&op)?))
    }
}

async fn list(State(app): State<Arc<App>>, me: Me, PathId(id): PathId<WorkspaceId>) -> Result<Response> {
    let workspace = service::find(&app, me.user(), id, Access::Manage).await?;
    let kept = archives::kept(&app, id).await?;
    let body = list_body(&me, &workspace, &kept);
    let title = format!("{} · {}", me.view.t.archives, workspace.name);
    Ok(Page::new(title, NavEntry::Workspaces, body).respond(&me.view))
}

fn list_body(me: &Me, ws: &Workspace, kept: &[ListedArchive]) -> Markup {
    let (view, t) = (&me.view, me.view.t);
    let own = service::permit(me.user(), ws, Access::Own).is_ok();
    let may_recover = row::Buttons::of(me.user(), ws).recover;
    let line = |archive: &ListedArchive| {
        let at = format!("/workspaces/{}/archives/{}", ws.id, archive.key.op);
        let exact = words::exact(archive.modified_at);
        let about = html! { span.sr-only { " " (exact) } };
        html! {
            tr data-testid="archive" data-key=(archive.key) {
                th scope="row" {
                    (moment(view, archive.modified_at)) " "
                    @if ws.status.archive_key == Some(archive.key) { span.tag { (t.current) } }
                    br; span.quiet { (exact) }
                }
                td data-label=(t.size) { span { (words::bytes(archive.size)) } }
                td.end {
                    div.actions {
                        @if own {
                            a.button href={ (at) "/files" } data-testid="browse" { (t.look_inside) (about) }
                            a.button href=(new_from(archive.key)) data-dialog data-testid="fork" { (t.new_from_archive) (about) }
                        }
                        @if may_recover && recover::drops_home(&ws.status, archive.key).is_some() {
                            a.button.danger href={ (at) "/restore" } data-dialog data-testid="go-back" { (t.go_back_to_this) (about) }
                        }
                    }
                }
            }
        }
    };
    html! {
        section.detail-head {
            (back_to(&format!("/workspaces/{}", ws.id), &ws.name))
            h1 { (t.archives) }
            @if own { p.description { (t.archives_text) } }
        }
        section.card {
            @if kept.is_empty() {
                p.quiet data-testid="no-archives" { (t.no_archives) }
            } @else {
                table.stacking data-testid="archives" {
                    thead { tr {
                        th scope="col" { (t.archived_at) }
                        th scope="col" { (t.size) }
                        th scope="col" { span.sr-only { (t.actions) } }
                    } }
                    tbody { @for archive in kept { (line(archive)) } }
                }
            }
        }
        @if own && !may_recover && !kept.is_empty() { p.quiet { (t.go_back_when) } }
    }
}

/// The form for a workspace that begins with this archive.
pub(super) fn new_from(key: ArchiveKey) -> String {
    format!("/workspaces/new?from_archive={}", forms::query_value(&key.to_string()))
}

fn back_to(href: &str, text: &str) -> Markup {
    html! {
        p.crumb { a href=(href) { (icons::back()) (text) } }
    }
}

async fn files(
    State(app): State<Arc<App>>,
    me: Me,
    InPath(id, op): InPath,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let (workspace, key) = archives::own(&app, me.user(), id, op).await?;
    let (mut dir, mut after) = (Vec::new(), None);
    for (name, value) in pairs(query.as_deref()) {
        match name {
            "path" => dir = trimmed(value),
            "after" => after = Some(value),
            _ => {}
        }
    }
    let (status, content) = match archives::files(&app, me.act(), key, &dir, after.as_deref(), PAGE).await {
        Ok(page) => (StatusCode::OK, listing(&me.view, key, &dir, page, after.is_some())),
        Err(Unseen::NotListed) => (StatusCode::CONFLICT, not_listed(&me.view)),
        Err(Unseen::Corrupted) => (StatusCode::CONFLICT, corrupted(&me.view)),
        Err(other) => return Err(other.into()),
    };
    // When it was made is good to know, and no reason to show nothing.
    let meta = app.backends.archives.head(&key).await.ok().flatten();
    let t = me.view.t;
    let body = html! {
        section.detail-head {
            (back_to(&format!("/workspaces/{id}/archives"), t.archives))
            div.page-head {
                div {
                    h1.break { (workspace.name) }
                    p.sub {
                        (t.files_of_archive)
                        @if let Some(meta) = meta { " · " (moment(&me.view, meta.created_at)) }
                    }
                }
                a.button href=(new_from(key)) data-dialog data-testid="fork" { (t.new_from_archive) }
            }
            (crumbs(&me.view, key, &dir))
        }
        (content)
    };
    let title = format!("{} · {}", t.files_of_archive, workspace.name);
    Ok(Page::new(title, NavEntry::Workspaces, body).respond_with(&me.view, status))
}

fn address(key: ArchiveKey, what: &str, path: &[u8]) -> String {
    format!("/workspaces/{}/archives/{}/{what}?path={}", key.workspace, key.op, encoded(path))
}

/// From the home down to where one is, each a link but the last.
fn crumbs(view: &PageContext, key: ArchiveKey, dir: &[u8]) -> Markup {
    let slashes = dir.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let above = slashes.filter_map(|end| dir.get(..end));
    html! {
        nav.path aria-label=(view.t.where_you_are) data-testid="path" {
            ol {
                @if dir.is_empty() {
                    li { span aria-current="page" { (view.t.home) } }
                } @else {
                    li { a href=(address(key, "files", b"")) { (view.t.home) } }
                    @for parent in above {
                        li { a href=(address(key, "files", parent)) { bdi { (text(name(parent))) } } }
                    }
                    li { span aria-current="page" { bdi { (text(name(dir))) } } }
                }
            }
        }
    }
}

fn listing(view: &PageContext, key: ArchiveKey, dir: &[u8], page: FilePage, later: bool) -> Markup {
    let t = view.t;
    let next = page.files.last().filter(|_| page.more).map(|last| encoded(name(&last.path)));
    let (directories, others): (Vec<_>, Vec<_>) =
        page.files.into_iter().partition(|file| file.kind == FileKind::Directory);
    let here = address(key, "files", dir);
    html! {
        section.card {
            @if directories.is_empty() && others.is_empty() {
                p.quiet data-testid="nothing-here" { (t.nothing_here) }
            } @else {
                table.stacking.files data-testid="files" {
                    thead { tr {
                        th scope="col" { (t.name) } th scope="col" { (t.size) } th scope="col" { (t.changed) }
                    } }
                    tbody { @for file in directories.iter().chain(&others) { (file_line(view, key, file)) } }
                }
            }
        }
        @if later || next.is_some() {
            nav.pager aria-label=(t.pages) {
                @if later { a.button href=(here) data-testid="first-page" { (t.first_page) } }
                @if let Some(next) = next {
                    a.button href={ (here) "&after=" (next) } rel="next" data-testid="next-page" { (t.next_page) }
                }
            }
        }
    }
}

fn file_line(view: &PageContext, key: ArchiveKey, file: &ArchivedFile) -> Markup {
    let (t, shown) = (view.t, text(name(&file.path)));
    let target = |what: &str| html! { p.quiet.break { (what) " " bdi { (text(&file.target)) } } };
    let (kind, label, size) = match file.kind {
        FileKind::Directory => {
            ("directory", html! { a href=(address(key, "files", &file.path)) { bdi { (shown) } } }, None)
        }
        FileKind::File => ("file", download(key, file, &shown), Some(file.size)),
        FileKind::HardLink => {
            ("hardlink", html! { (download(key, file, &shown)) (target(t.same_file_as)) }, None)
        }
        FileKind::Symlink => ("symlink", html! { bdi { (shown) } (target(t.links_to)) }, None),
    };
    html! {
        tr data-testid="file" data-kind=(kind) data-name=(shown) {
            th scope="row" {
                div.file-name.break {
                    @if file.kind == FileKind::Directory { (icons::folder()) span.sr-only { (t.directory) " " } }
                    @else { (icons::document()) }
                    div { (label) }
                }
            }
            td data-label=[size.is_some().then_some(t.size)] {
                @if let Some(size) = size { span { (words::bytes(size)) } }
            }
            td data-label=(t.changed) {
                @if let Some(at) = modified_at(file) { (moment(view, at)) }
            }
        }
    }
}

fn download(key: ArchiveKey, file: &ArchivedFile, shown: &str) -> Markup {
    html! { a href=(address(key, "file", &file.path)) data-testid="download" { bdi { (shown) } } }
}

fn not_listed(view: &PageContext) -> Markup {
    html! { section.card { p.quiet data-testid="not-listed" { (view.t.archive_not_listed) } } }
}

fn corrupted(view: &PageContext) -> Markup {
    html! { section.card { p.flash.bad role="alert" data-testid="corrupted" { (view.t.archive_corrupted) } } }
}

async fn file(
    State(app): State<Arc<App>>,
    me: Me,
    InPath(id, op): InPath,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let (_, key) = archives::own(&app, me.user(), id, op).await?;
    let path = pairs(query.as_deref()).find(|(name, _)| *name == "path").map(|(_, value)| trimmed(value));
    let (file, stream) = archives::file(&app, me.act(), key, &path.unwrap_or_default()).await?;
    Ok(attachment(&file, stream))
}

async fn confirm_restore(State(app): State<Arc<App>>, me: Me, InPath(id, op): InPath) -> Result<Response> {
    let workspace = service::find(&app, me.user(), id, Access::Manage).await?;
    let kept = archives::kept(&app, id).await?;
    let archive = kept.iter().find(|archive| archive.key.op == op).ok_or(WebError::NotFound)?;
    let (view, t) = (&me.view, me.view.t);
    let Some(drops) = recover::drops_home(&workspace.status, archive.key) else {
        return Ok(see_other_saying(&app, &format!("/workspaces/{id}/archives"), Plain::NotInError));
    };
    let body = html! {
        section.card.narrow.confirm data-dialog-content data-testid="confirm" {
            h1 #dialog-title { (t.go_back_title) }
            div.prose {
                p { strong.break { (workspace.name) } }
                p { (moment(view, archive.modified_at)) " · " (words::bytes(archive.size)) }
            }
            form.stack method="post" action={ "/workspaces/" (id) "/recover" } {
                input type="hidden" name="restore_from" value=(archive.key);
                (recover::confirm_going_back(view, drops))
                div.actions {
                    a.button href={ "/workspaces/" (id) "/archives" } data-close data-testid="confirm-no" { (t.cancel) }
                    button.danger.solid type="submit" data-testid="confirm-yes" { (t.restore_archive) }
                }
            }
        }
    };
    Ok(Page::new(t.go_back_title, NavEntry::Workspaces, body).respond(view))
}

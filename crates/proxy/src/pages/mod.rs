//! The proxy's own pages: loading, restore needed, not started, broken, limit, unreachable.
//!
//! Each is one self-contained document with the right status, readable without JavaScript (a
//! `Refresh` header reloads what waits), and with a policy that allows nothing but its own style and
//! script, by a nonce. Buttons are plain forms to the dashboard.

use codehub_domain::{
    ErrorReason, WorkspaceId,
    limits::{LimitHit, LimitScope},
};
use http::{HeaderValue, Response, StatusCode, header};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{
    appearance::{bytes, logo},
    error::{ProxyError, Side, Silent},
    gate::{ArchiveFacts, Entered, WorkspaceView},
    http1::body::ProxyBody,
    route::{OPEN, after_form, base_path},
    wake::resolve::{Closed, Waiting},
};

pub(crate) mod answers;
pub(crate) mod text;

use text::{Appearance, Words};

/// How soon a page that waits is loaded again without JavaScript. Every load is held for a while, so
/// this is not a poll.
const REFRESH_SECONDS: &str = "3";
/// When a program should try again.
pub(crate) const RETRY_AFTER_SECONDS: &str = "3";

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const PORT_SCRIPT: &str = include_str!("port.js");

/// Where pages lead to, from the origin they are on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    /// The dashboard's origin; empty on itself.
    pub dashboard: String,
    /// Workspaces are on other origins.
    pub apart: bool,
    /// The port that somebody wants to get to.
    pub port: Option<u16>,
}

impl Links {
    /// To where somebody wanted to go in this workspace, asleep or not.
    fn wanted(&self, id: WorkspaceId) -> String {
        let workspace = self.workspace(id);
        self.port.map_or(workspace.clone(), |port| format!("{workspace}?port={port}"))
    }

    /// To a workspace, asleep or not.
    fn workspace(&self, id: WorkspaceId) -> String {
        if self.apart { format!("{}{OPEN}{id}", self.dashboard) } else { base_path(id) }
    }
}

/// A page before it is sent.
struct Page<'a> {
    look: Appearance,
    links: &'a Links,
    status: StatusCode,
    title: &'a str,
    /// Shown above the title: the workspace's name.
    name: Option<&'a str>,
    content: Markup,
    waits: Waits,
}

/// How a page finds out that there is something newer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    No,
    /// It is loaded again after a while.
    Reloads,
    /// It is loaded again after a while, and at once when this workspace's events say so. Not for a workspace that is said to
    /// run but does not answer: the first event would reload the page without end.
    Follows(WorkspaceId),
    /// It asks again by itself, and is loaded again when there is another answer. Not by being loaded: that would be a
    /// visit, which wakes what sleeps.
    Asks,
}

impl Waits {
    fn follows(self) -> Option<WorkspaceId> {
        match self {
            Self::Follows(id) => Some(id),
            Self::No | Self::Reloads | Self::Asks => None,
        }
    }
}

impl Page<'_> {
    fn respond(self) -> Response<ProxyBody> {
        let nonce = format!("{:032x}", rand::random::<u128>());
        let body = self.render(&nonce).into_string();
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        );
        let mut response = Response::new(ProxyBody::Full(body.into()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(header::CONTENT_LANGUAGE, HeaderValue::from_static(self.look.lang.code()));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Language, Cookie"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // Forms must say where they come from, or the dashboard refuses them.
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        if let Ok(policy) = HeaderValue::try_from(policy) {
            headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        }
        if !matches!(self.waits, Waits::No | Waits::Asks) {
            headers.insert(header::REFRESH, HeaderValue::from_static(REFRESH_SECONDS));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
        }
        response
    }

    fn render(&self, nonce: &str) -> Markup {
        html! {
            (DOCTYPE)
            html lang=(self.look.lang.code()) data-theme=[self.look.theme.forced()] {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content=(self.look.theme.schemes());
                    meta name="robots" content="noindex";
                    title { (self.title) " · CodeHub" }
                    style nonce=(nonce) { (PreEscaped(STYLE)) }
                }
                body data-follows=[self.waits.follows()] {
                    main {
                        (logo())
                        @if let Some(name) = self.name { p.name { (name) } }
                        @if self.waits != Waits::No { div.spinner aria-hidden="true" {} }
                        h1 role=[self.waits.follows().map(|_| "status")] { (self.title) }
                        (self.content)
                        nav { a href={ (self.links.dashboard) "/" } { (self.look.lang.dashboard()) } }
                    }
                    @if self.waits.follows().is_some() { script nonce=(nonce) { (PreEscaped(SCRIPT)) } }
                    @if self.waits == Waits::Asks { script nonce=(nonce) { (PreEscaped(PORT_SCRIPT)) } }
                }
            }
        }
    }
}

/// A form button that posts to the dashboard and comes back here.
fn action(id: WorkspaceId, verb: &str, back: &str, label: &str, name: Option<&str>) -> Markup {
    html! {
        form method="post" action={ "/workspaces/" (id) "/" (verb) } {
            input type="hidden" name="back" value=(after_form(back));
            button type="submit" aria-label=[name.map(|name| format!("{label}: {name}"))] { (label) }
        }
    }
}

pub(crate) fn loading(
    look: Appearance,
    links: &Links,
    why: Waiting,
    view: &WorkspaceView,
) -> Response<ProxyBody> {
    let lang = look.lang;
    let Words { title, text } = lang.waiting(why);
    let progress = view.progress.filter(|progress| progress.total > 0);
    let content = html! {
        p { (text) }
        @if let Some(progress) = progress {
            progress max=(progress.total) value=(progress.done.min(progress.total)) aria-label=(title) {}
        }
    };
    let page = Page {
        look,
        links,
        status: StatusCode::SERVICE_UNAVAILABLE,
        title,
        name: Some(&view.name),
        content,
        waits: Waits::Follows(view.id),
    };
    page.respond()
}

pub(crate) fn closed(
    look: Appearance,
    links: &Links,
    why: Closed,
    view: &WorkspaceView,
    archive: Option<ArchiveFacts>,
) -> Response<ProxyBody> {
    let lang = look.lang;
    let Words { title, text } = lang.closed(why);
    let failure = view.error.as_ref().filter(|_| why == Closed::Broken);
    // These two need a choice that only the dashboard offers.
    let needs_choice = failure.is_some_and(|failure| {
        matches!(failure.reason, ErrorReason::DataLost | ErrorReason::ArchiveCorrupted)
    });
    let verb = if why == Closed::Broken { "recover" } else { "start" };
    let content = html! {
        p { (text) }
        @if let Some(failure) = failure {
            dl {
                dt { (lang.reason()) } dd { code { (failure.reason) } " " (lang.meaning(failure.reason)) }
                @if !failure.message.is_empty() { dt { (lang.details()) } dd { (failure.message) } }
            }
        }
        @if let Some(archive) = archive {
            dl {
                dt { (lang.archived_at()) } dd { (moment(archive.created_at)) }
                dt { (lang.size()) } dd { (bytes(archive.size_bytes)) }
            }
        }
        @if needs_choice {
            p { a.button href={ "/workspaces/" (view.id) } { (lang.button(why)) } }
        } @else {
            (action(view.id, verb, &links.wanted(view.id), lang.button(why), None))
        }
    };
    let (status, name) = (StatusCode::BAD_GATEWAY, Some(view.name.as_str()));
    Page { look, links, status, title, name, content, waits: Waits::No }.respond()
}

pub(crate) fn limit(
    look: Appearance,
    links: &Links,
    hit: &LimitHit,
    view: &WorkspaceView,
) -> Response<ProxyBody> {
    let (lang, here) = (look.lang, links.wanted(view.id));
    let Words { title, text } = lang.limit();
    let content = html! {
        @if hit.running.is_empty() {
            p { (lang.limit_elsewhere()) }
        } @else {
            p {
                (text)
                @if let LimitScope::User { limit } = hit.scope { " (" (hit.running.len()) "/" (limit) ")" }
            }
            ul.running {
                @for running in &hit.running {
                    li {
                        a href=(links.workspace(running.id)) { (running.name) }
                        (action(running.id, "stop", &here, lang.stop(), Some(&running.name)))
                    }
                }
            }
        }
        p { a.button href=(here) { (lang.try_again()) } }
    };
    let (status, name) = (StatusCode::BAD_GATEWAY, Some(view.name.as_str()));
    Page { look, links, status, title, name, content, waits: Waits::No }.respond()
}

/// A code that led nowhere: why, and a link to try again. Never a redirect, so that nothing runs in circles.
pub(crate) fn not_entered(
    look: Appearance,
    links: &Links,
    why: &Entered,
    id: WorkspaceId,
) -> Response<ProxyBody> {
    let lang = look.lang;
    let Words { title, text } = lang.not_entered(why);
    let content = html! {
        p { (text) }
        p { a.button href=(links.wanted(id)) { (lang.try_again()) } }
    };
    let status = StatusCode::BAD_REQUEST;
    Page { look, links, status, title, name: None, content, waits: Waits::No }.respond()
}

/// Goes on at once, as a navigation of its own: where a form was sent, its page's policy lets no redirect lead to another
/// origin.
pub(crate) fn goes_on(look: Appearance, links: &Links, to: &str) -> Response<ProxyBody> {
    let lang = look.lang;
    let Words { title, text } = lang.waiting(Waiting::Starting);
    let content = html! { p { (text) } p { a.button href=(to) { (lang.go_on()) } } };
    let page =
        Page { look, links, status: StatusCode::OK, title, name: None, content, waits: Waits::Reloads };
    let mut response = page.respond();
    if let Ok(refresh) = HeaderValue::try_from(format!("0; url={to}")) {
        response.headers_mut().insert(header::REFRESH, refresh);
    }
    response
}

/// A page for everything else that can go wrong. `id` is known unless the path named nothing.
pub(crate) fn failed(
    look: Appearance,
    links: &Links,
    error: &ProxyError,
    id: Option<WorkspaceId>,
) -> Response<ProxyBody> {
    let lang = look.lang;
    if let ProxyError::Silent(silent) = error {
        return nothing_listens(look, links, silent);
    }
    let Words { title, text } = match error {
        ProxyError::NotFound => lang.not_found(),
        ProxyError::NotYours => lang.not_yours(),
        ProxyError::NotShared(before) => lang.not_shared(*before),
        ProxyError::Misdirected => lang.misdirected(),
        ProxyError::NoPorts => lang.no_ports(),
        ProxyError::PortsOff => lang.ports_off(),
        ProxyError::PortDenied(_) => lang.port_denied(),
        ProxyError::PortBusy(_) => lang.port_busy(),
        ProxyError::NobodyInside(_) => lang.nobody_inside(),
        ProxyError::OwnerWakes => lang.owner_wakes(),
        ProxyError::TwoSessions => lang.two_sessions(),
        ProxyError::Busy => lang.busy(),
        _ => match error.side() {
            Side::Client => lang.refused(),
            Side::Upstream => lang.unavailable(),
            Side::Ourselves => lang.our_fault(),
        },
    };
    let content = html! {
        p { (text) }
        @if error.side() != Side::Client && let Some(id) = id {
            p { a.button href=(links.wanted(id)) { (lang.try_again()) } }
        }
    };
    let waits = if error.side() == Side::Client { Waits::No } else { Waits::Reloads };
    Page { look, links, status: error.status(), title, name: None, content, waits }.respond()
}

/// Nothing listens on a port: those that something listens on, and the page looks again by itself.
fn nothing_listens(look: Appearance, links: &Links, silent: &Silent) -> Response<ProxyBody> {
    let lang = look.lang;
    let title = lang.silent(silent.port);
    let content = html! {
        p { (lang.start_it()) }
        @if !silent.others.is_empty() {
            p { (lang.other_ports()) }
            ul.running {
                @for (port, process, url) in &silent.others {
                    li { a href=(url) { (port) } @if !process.is_empty() { " " (process) } }
                }
            }
        }
    };
    let (status, waits) = (StatusCode::BAD_GATEWAY, Waits::Asks);
    Page { look, links, status, title: &title, name: None, content, waits }.respond()
}

fn moment(at: codehub_domain::Timestamp) -> Markup {
    let text = at.strftime("%Y-%m-%d %H:%M UTC").to_string();
    html! { time datetime=(at) { (text) } }
}

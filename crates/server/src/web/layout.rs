//! The frame around every page: head, header, what just happened, main, footer.

use axum::response::{Html, IntoResponse, Response};
use codehub_domain::user::User;
use http::StatusCode;
use maud::{DOCTYPE, Markup, html};

use super::{
    assets,
    flash::Tone,
    i18n::Lang,
    icons,
    view::{PageContext, Theme},
};

/// Which entry of the navigation this page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NavEntry {
    Workspaces,
    Tokens,
    Users,
    System,
    Account,
    Outside,
}

/// A page before it has its frame.
pub struct Page {
    pub title: String,
    pub place: NavEntry,
    /// Without a script, look again after this long: something is under way.
    pub refresh: bool,
    pub body: Markup,
}

impl Page {
    /// A page that stays as it is until somebody reloads it.
    pub fn new(title: impl Into<String>, place: NavEntry, body: Markup) -> Self {
        Self { title: title.into(), place, refresh: false, body }
    }

    /// Says whether it looks again by itself.
    pub fn refreshing(mut self, refresh: bool) -> Self {
        self.refresh = refresh;
        self
    }

    /// The page with its frame, as 200.
    pub fn respond(self, view: &PageContext) -> Response {
        self.respond_with(view, StatusCode::OK)
    }

    /// The page with its frame and a status.
    pub fn respond_with(self, view: &PageContext, status: StatusCode) -> Response {
        let mut response = (status, Html(self.render(view).into_string())).into_response();
        response.extensions_mut().insert(FullPage);
        response
    }

    /// The whole document.
    pub fn render(&self, view: &PageContext) -> Markup {
        let t = view.t;
        html! {
            (DOCTYPE)
            html lang=(view.lang.code()) data-theme=[view.theme.forced()] data-now=(view.now.as_millisecond()) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content=(view.theme.schemes());
                    title { (self.title) " · CodeHub" }
                    link rel="icon" type="image/svg+xml" href=(assets::url("icon.svg"));
                    link rel="stylesheet" href=(assets::url("app.css"));
                    script type="module" src=(assets::url("app.js")) {}
                    @if self.refresh {
                        noscript { meta http-equiv="refresh" content="4"; }
                    }
                }
                body {
                    a.skip href="#main" { (t.skip_to_content) }
                    (header(view, self.place))
                    p #offline .banner.warn role="status" data-testid="offline" hidden { (t.offline) }
                    p #ended .banner.warn role="status" data-testid="session-ended" hidden {
                        (t.session_ended) " " a href="/login" { (t.sign_in) }
                    }
                    main #main tabindex="-1" {
                        (flashes(view))
                        (self.body)
                    }
                    (footer(view))
                    div #announcer .sr-only role="status" aria-live="polite" {}
                    dialog #dialog aria-labelledby="dialog-title" data-testid="dialog" {}
                }
            }
        }
    }
}

/// Marks a response that shows flashes.
#[derive(Debug, Clone, Copy)]
pub(super) struct FullPage;

/// The sentence about what just happened, without a page around it.
pub(super) fn flashes_alone(view: &PageContext) -> Response {
    let mut response = Html(flashes(view).into_string()).into_response();
    response.extensions_mut().insert(FullPage);
    response
}

fn flashes(view: &PageContext) -> Markup {
    html! {
        div #flashes {
            @if let Some(flash) = view.flash {
                @let good = flash.tone() == Tone::Good;
                p.flash.good[good].bad[!good] role=(if good { "status" } else { "alert" }) data-testid="flash" {
                    @if good { (icons::check()) } @else { (icons::cross()) }
                    span { (flash.text(view.lang)) }
                }
            }
        }
    }
}

/// Only for somebody signed in: everything in it needs that.
fn header(view: &PageContext, place: NavEntry) -> Markup {
    let t = view.t;
    let entry = |to: &str, at: NavEntry, text: &str| {
        html! {
            li { a href=(to) aria-current=[(place == at).then_some("page")] { (text) } }
        }
    };
    html! {
        @if let Some(me) = &view.me {
            header.top {
                div.top-inner {
                    a.brand href="/" { (icons::logo()) span { "CodeHub" } }
                    nav.main-nav aria-label=(t.main_navigation) {
                        ul {
                            (entry("/", NavEntry::Workspaces, t.workspaces))
                            (entry("/tokens", NavEntry::Tokens, t.tokens))
                            @if me.is_admin() {
                                (entry("/users", NavEntry::Users, t.users))
                                (entry("/system", NavEntry::System, t.system))
                            }
                        }
                    }
                    (account_menu(view, me, place))
                }
            }
        }
    }
}

fn account_menu(view: &PageContext, me: &User, place: NavEntry) -> Markup {
    let t = view.t;
    html! {
        details.menu data-testid="account-menu" {
            summary { (icons::person()) span.menu-name { (me.username) } }
            div.menu-panel {
                a.menu-item href="/account" aria-current=[(place == NavEntry::Account).then_some("page")] {
                    (t.account)
                }
                (preferences(view))
                form method="post" action="/logout" {
                    button.menu-item type="submit" data-testid="sign-out" { (t.sign_out) }
                }
            }
        }
    }
}

/// Language and theme, each as a row of buttons.
fn preferences(view: &PageContext) -> Markup {
    let t = view.t;
    html! {
        form.prefs method="post" action="/preferences" {
            input type="hidden" name="back" value=(view.here);
            div.segmented role="group" aria-label=(t.language) {
                @for lang in Lang::ALL {
                    button type="submit" name="lang" value=(lang.code()) lang=(lang.code())
                        aria-pressed=(lang == view.lang) data-testid={ "lang-" (lang.code()) } { (lang.name()) }
                }
            }
            div.segmented role="group" aria-label=(t.theme) {
                @for theme in Theme::ALL {
                    button type="submit" name="theme" value=(theme.code())
                        aria-pressed=(theme == view.theme) data-testid={ "theme-" (theme.code()) } {
                        (match theme {
                            Theme::Auto => t.theme_auto,
                            Theme::Light => t.theme_light,
                            Theme::Dark => t.theme_dark,
                        })
                    }
                }
            }
        }
    }
}

fn footer(view: &PageContext) -> Markup {
    html! {
        footer.bottom {
            @if view.me.is_none() { (preferences(view)) }
            nav.links aria-label=(view.t.help_and_reference) {
                a href="/help" data-testid="help" { (view.t.help) }
                a href="/api/docs" data-testid="api-docs" { (view.t.api_reference) }
            }
            p { "CodeHub " (env!("CARGO_PKG_VERSION")) }
        }
    }
}

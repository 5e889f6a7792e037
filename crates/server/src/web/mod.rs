//! The dashboard: pages drawn on the server, kept live by a small script, whole without it.
//!
//! # What to mount
//! - [`router`], merged at the root, next to the API and the proxy (no path of theirs is taken);
//! - [`not_found`] as the fallback of the whole server, for everything outside `/api` and `/w`;
//! - `ConnectInfo<SocketAddr>` must be there (`into_make_service_with_connect_info`), so that wrong
//!   passwords are counted per address.
//!
//! The script needs `GET /api/v1/events` and `GET /api/v1/workspaces/{id}/logs`.
//!
//! # How a page comes to be
//! [`view`] says for whom (language, theme, person; every form's origin is checked there), a page's
//! file loads and draws, [`layout`] puts the frame around it. What changes goes through
//! [`crate::service`] and is answered with 303 and a word of [`flash`]. Texts live in [`i18n`]; errors
//! are drawn by the layer in this file, because only it knows the visitor.
//!
//! Live updates have one source of markup: an event makes the script fetch `/workspaces/{id}/row` or
//! `/workspaces/{id}/live` (what a workspace says of itself: `…/inside`) and swap what differs.

mod account;
mod actions;
mod acts;
mod archives;
mod assets;
mod awake;
mod bulk;
mod charts;
mod choices;
mod cleanup;
mod components;
mod cookies;
mod detail;
mod device;
pub mod error;
pub mod flash;
pub mod forms;
mod help;
pub mod i18n;
pub(crate) mod icons;
mod inside;
pub mod layout;
mod list;
mod login;
mod logs;
mod new;
mod picture;
mod recover;
mod row;
mod setup;
mod system;
#[cfg(test)]
mod tests;
mod tokens;
mod user_tokens;
mod users;
pub mod view;

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Uri,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, SET_COOKIE, VARY, X_CONTENT_TYPE_OPTIONS,
    },
};
use maud::html;

use crate::app::App;
use error::WebError;
use layout::{FullPage, NavEntry, Page};
use view::PageContext;

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                   connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Every page.
pub fn router() -> Router<Arc<App>> {
    Router::new()
        .merge(list::router())
        .merge(new::router())
        .merge(detail::router())
        .merge(actions::router())
        .merge(archives::router())
        .merge(awake::router())
        .merge(bulk::router())
        .merge(cleanup::router())
        .merge(inside::router())
        .merge(logs::router())
        .merge(help::router())
        .merge(login::router())
        .merge(setup::router())
        .merge(account::router())
        .merge(tokens::router())
        .merge(device::router())
        .merge(users::router())
        .merge(system::router())
        .merge(assets::router())
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn(finish))
}

async fn wrong_method() -> WebError {
    WebError::WrongMethod
}

/// The page for an address where there is nothing.
pub async fn not_found(request: Request) -> Response {
    let (headers, uri) = (request.headers().clone(), request.uri().clone());
    finished(&headers, &uri, WebError::NotFound.into_response())
}

async fn finish(request: Request, next: Next) -> Response {
    let (headers, uri) = (request.headers().clone(), request.uri().clone());
    let response = next.run(request).await;
    finished(&headers, &uri, response)
}

/// Draws errors, ends a flash that was shown, and adds the headers every page has.
fn finished(headers: &HeaderMap, uri: &Uri, mut response: Response) -> Response {
    if let Some(error) = response.extensions_mut().remove::<WebError>() {
        response = drawn(&PageContext::new(headers, uri), error, &response);
    }
    if response.extensions().get::<FullPage>().is_some() && cookies::get(headers, flash::COOKIE).is_some() {
        response.headers_mut().append(SET_COOKIE, cookies::set(flash::COOKIE, "", 0, false));
    }
    let to = response.headers_mut();
    let set = |name: HeaderName, value: &'static str| (name, HeaderValue::from_static(value));
    for (name, value) in [
        set(CONTENT_SECURITY_POLICY, CSP),
        set(X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Not `no-referrer`: browsers would then send forms with `Origin: null`.
        set(REFERRER_POLICY, "same-origin"),
        set(HeaderName::from_static("origin-agent-cluster"), "?1"),
        set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        to.insert(name, value);
    }
    if !to.contains_key(CACHE_CONTROL) {
        to.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        to.append(VARY, HeaderValue::from_static("Cookie, Accept-Language"));
    }
    response
}

/// The error as a page, with the status and headers it had. Without the navigation: who is asking may
/// be exactly what could not be found out.
fn drawn(view: &PageContext, error: WebError, plain: &Response) -> Response {
    let (title, text) = i18n::trouble::error(view.lang, error);
    let body = html! {
        section.card.narrow.door data-testid="error-page" data-status=(error.status().as_u16()) {
            (icons::logo())
            p.error-code { (error.status().as_u16()) }
            h1 { (title) }
            p { (text) }
            div.actions.center { a.button.primary href="/" { (view.t.to_workspaces) } }
        }
    };
    let mut page = Page::new(title, NavEntry::Outside, body).respond_with(view, error.status());
    for (name, value) in plain.headers() {
        if *name != http::header::CONTENT_LENGTH && *name != http::header::CONTENT_TYPE {
            page.headers_mut().append(name.clone(), value.clone());
        }
    }
    page
}

//! Answers of our own: pages for people, JSON for programs, and the way to the sign-in page.

use codehub_domain::WorkspaceId;
use http::{HeaderValue, Response, StatusCode, Uri, header};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{Links, text::Appearance};
use crate::{ProxyBody, error::ProxyError, pages, wake::resolve::Visit};

/// A person gets a page, a program gets JSON.
pub(crate) fn render(
    error: &ProxyError,
    visit: Visit,
    look: Appearance,
    links: &Links,
    id: Option<WorkspaceId>,
) -> Response<ProxyBody> {
    let mut response = match visit {
        Visit::Navigation => pages::failed(look, links, error, id),
        Visit::Other => json(error.status(), error.code(), &error.public_message()),
    };
    if let ProxyError::Silent(_) = error {
        // By which the page that waits for it knows this answer from one of a program.
        response.headers_mut().insert("x-codehub-port", HeaderValue::from_static("silent"));
    }
    if let ProxyError::Method(_) = error {
        let allowed = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

pub(crate) fn asleep() -> Response<ProxyBody> {
    // JupyterLab shows this when saving fails.
    let message = "The workspace is asleep. Wake it by opening it in another tab, then try again.";
    json(StatusCode::SERVICE_UNAVAILABLE, "WORKSPACE_STANDBY", message)
}

pub(crate) fn json(status: StatusCode, code: &str, message: &str) -> Response<ProxyBody> {
    // The message a second time, outside: where JupyterLab looks for what it shows when saving fails.
    let body =
        serde_json::json!({ "error": { "code": code, "message": message }, "message": message }).to_string();
    let mut response = Response::new(ProxyBody::Full(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(pages::RETRY_AFTER_SECONDS));
    }
    response
}

pub(crate) fn redirect(status: StatusCode, to: HeaderValue) -> Response<ProxyBody> {
    let mut response = Response::new(ProxyBody::Empty);
    *response.status_mut() = status;
    response.headers_mut().insert(header::LOCATION, to);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Everything that would end the query value or change its meaning.
pub(crate) const QUERY_VALUE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'&')
    .add(b'+')
    .add(b'%')
    .add(b'=')
    .add(b'?');

/// The very address that was asked for.
pub(crate) fn here(uri: &Uri) -> HeaderValue {
    let here = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    HeaderValue::from_str(here).unwrap_or_else(|_| HeaderValue::from_static("/"))
}

pub(crate) fn sign_in_address(uri: &Uri) -> HeaderValue {
    let next = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    HeaderValue::try_from(format!("/login?next={}", utf8_percent_encode(next, QUERY_VALUE)))
        .unwrap_or_else(|_| HeaderValue::from_static("/login"))
}

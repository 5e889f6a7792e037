//! The stylesheet, the script and the icon, built into the binary. Their address has a hash of what
//! they are, so a browser keeps them for ever and never shows an old one with a new page.

use std::sync::{Arc, OnceLock};

use axum::{
    Router,
    extract::Path,
    response::{IntoResponse, Response},
    routing::get,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH},
};
use sha2::{Digest as _, Sha256};

use super::{error::WebError, icons};
use crate::app::App;

const CSS: &str = concat!(
    include_str!("assets/base.css"),
    include_str!("assets/parts.css"),
    include_str!("assets/pages.css")
);
const JS: &str = include_str!("assets/app.js");

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/assets/{version}/{name}", get(asset)).route("/favicon.ico", get(favicon))
}

/// One for all of them: they change together.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let digest = Sha256::new().chain_update(CSS).chain_update(JS).chain_update(icons::FAVICON).finalize();
        URL_SAFE_NO_PAD.encode(&digest[..9])
    })
}

pub(super) fn url(name: &str) -> String {
    format!("/assets/{}/{name}", version())
}

async fn asset(Path((asked, name)): Path<(String, String)>, headers: HeaderMap) -> Response {
    match name.as_str() {
        "app.css" => serve(&headers, asked == version(), "text/css; charset=utf-8", CSS),
        "app.js" => serve(&headers, asked == version(), "text/javascript; charset=utf-8", JS),
        "icon.svg" => serve(&headers, asked == version(), "image/svg+xml", icons::FAVICON),
        _ => WebError::NotFound.into_response(),
    }
}

/// For whatever asks without reading a page first.
async fn favicon(headers: HeaderMap) -> Response {
    serve(&headers, false, "image/svg+xml", icons::FAVICON)
}

fn serve(headers: &HeaderMap, current: bool, content_type: &'static str, body: &'static str) -> Response {
    let etag = format!("\"{}\"", version());
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let unchanged = known.flat_map(|value| value.split(',')).any(|tag| {
        let tag = tag.trim();
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag
    });
    let mut response =
        if unchanged { StatusCode::NOT_MODIFIED.into_response() } else { body.into_response() };
    let caching = if current { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(ETAG, etag);
    }
    response
}

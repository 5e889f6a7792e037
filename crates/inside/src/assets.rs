//! The page itself: hand-written files, compiled into the binary.
//!
//! Every URL in them is relative, so the page works under any base path. Each
//! is served with an ETag and revalidated, so a new version shows at once and
//! an unchanged one costs a 304. Each is compressed once, when it is first asked for.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

/// No inline code, nothing from elsewhere.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data: blob:; font-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none'; \
     frame-ancestors 'self'";

/// Sent with every answer.
const ALWAYS: [(HeaderName, &str); 3] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// What an answer is sent with: also the policy of what it may load, except where it is a part of the page and has none.
pub(crate) fn secure(headers: &mut HeaderMap) {
    let part = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == JS || kind == CSS);
    let policy = (!part).then_some((header::CONTENT_SECURITY_POLICY, CSP));
    for (name, value) in policy.into_iter().chain(ALWAYS) {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

macro_rules! assets {
    ($($name:literal => $kind:expr),* $(,)?) => {
        fn find(name: &str) -> Option<(&'static str, &'static [u8])> {
            match name {
                $($name => Some(($kind, include_bytes!(concat!("web/", $name)))),)*
                _ => None,
            }
        }
    };
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

assets! {
    "index.html" => HTML,
    "icon.svg" => SVG,
    "theme.css" => CSS,
    "layout.css" => CSS,
    "editor.css" => CSS,
    "terminal.css" => CSS,
    "app.js" => JS,
    "hands.js" => JS,
    "workspace.js" => JS,
    "banner.js" => JS,
    "drafts.js" => JS,
    "diff.js" => JS,
    "diff-view.js" => JS,
    "git.js" => JS,
    "git-panel.js" => JS,
    "palette.js" => JS,
    "ports.js" => JS,
    "search-panel.js" => JS,
    "markdown.js" => JS,
    "bytes-view.js" => JS,
    "boot.js" => JS,
    "brackets.js" => JS,
    "wrapping.js" => JS,
    "text-whole.js" => JS,
    "text-window.js" => JS,
    "compare.js" => JS,
    "api.js" => JS,
    "dom.js" => JS,
    "icons.js" => JS,
    "i18n.js" => JS,
    "dialog.js" => JS,
    "layout.js" => JS,
    "socket.js" => JS,
    "tree.js" => JS,
    "tree-actions.js" => JS,
    "upload.js" => JS,
    "editor.js" => JS,
    "document.js" => JS,
    "surface.js" => JS,
    "find.js" => JS,
    "highlight.js" => JS,
    "languages.js" => JS,
    "terminals.js" => JS,
    "terminal.js" => JS,
    "term-draw.js" => JS,
    "term-keys.js" => JS,
    "term-mouse.js" => JS,
    "term-find.js" => JS,
    "term-links.js" => JS,
}

pub(crate) async fn index(headers: HeaderMap) -> Response {
    answer("index.html", &headers)
}

pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    answer(&name, &headers)
}

/// Compressed forms by name, made when first asked for.
static COMPRESSED: Mutex<BTreeMap<String, Bytes>> = Mutex::new(BTreeMap::new());

fn compressed(name: &str, content: &[u8]) -> Option<Bytes> {
    let mut known = COMPRESSED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = known.get(name) {
        return Some(bytes.clone());
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).ok()?;
    let bytes = Bytes::from(encoder.finish().ok()?);
    known.insert(name.to_owned(), bytes.clone());
    Some(bytes)
}

fn has(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let text = headers.get(name).and_then(|value| value.to_str().ok());
    text.is_some_and(|list| list.split(',').any(|item| item.trim() == token))
}

fn answer(name: &str, headers: &HeaderMap) -> Response {
    let Some((kind, content)) = find(name) else {
        return (StatusCode::NOT_FOUND, "there is no such file\n").into_response();
    };
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    let small = has(headers, header::ACCEPT_ENCODING, "gzip").then(|| compressed(name, content)).flatten();
    let form = if small.is_some() { "-gz" } else { "" };
    let etag = format!("\"{:016x}{form}\"", hasher.finish());
    let caching = [
        (header::ETAG, etag.clone()),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
        (header::VARY, "accept-encoding".to_owned()),
    ];
    if has(headers, header::IF_NONE_MATCH, &etag) {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    let kind = [(header::CONTENT_TYPE, kind)];
    match small {
        Some(small) => (caching, kind, [(header::CONTENT_ENCODING, "gzip")], small).into_response(),
        None => (caching, kind, content).into_response(),
    }
}

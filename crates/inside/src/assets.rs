//! The page itself: hand-written files, compiled into the binary.
//!
//! Every URL in them is relative, so the page works under any base path. Each
//! is served with an ETag and revalidated, so a new version shows at once and
//! an unchanged one costs a 304.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, StatusCode, header};

/// No inline code, nothing from elsewhere.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data: blob:; font-src 'self'; form-action 'none'; base-uri 'none'; \
     frame-ancestors 'self'";

/// Sent with every answer.
pub(crate) const SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, CSP),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

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
}

pub(crate) async fn index(headers: HeaderMap) -> Response {
    answer("index.html", &headers)
}

pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    answer(&name, &headers)
}

fn answer(name: &str, headers: &HeaderMap) -> Response {
    let Some((kind, content)) = find(name) else {
        return (StatusCode::NOT_FOUND, "there is no such file\n").into_response();
    };
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    let etag = format!("\"{:016x}\"", hasher.finish());
    let caching = [(header::ETAG, etag.clone()), (header::CACHE_CONTROL, "no-cache".to_owned())];
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == etag));
    if known {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    (caching, [(header::CONTENT_TYPE, kind)], content).into_response()
}

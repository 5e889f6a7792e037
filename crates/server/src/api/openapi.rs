//! The API's own description: an OpenAPI document made from the code, and a page that shows it without
//! fetching anything from anywhere else.

use std::sync::{Arc, OnceLock};

use axum::{
    Router,
    response::{IntoResponse, Response},
    routing::get,
};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use utoipa::{
    Modify, OpenApi,
    openapi::{
        OpenApi as Document,
        security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use super::{
    actions, activity, archives, auth, events, health, history, logs, setup, system, tokens, users,
    workspaces,
};
use crate::app::App;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "CodeHub",
        description = "Workspaces in the browser, on a machine of your own.\n\nErrors are always `{\"error\": {\"code\", \"message\", \"details\"?}}`. Times are RFC 3339 in UTC. Lists are `{items, next_cursor, total}`.\n\nAnother person's workspace is 403 FORBIDDEN, an unknown or deleted one is 404 NOT_FOUND. Administrators may look at, stop, archive, recover and delete anybody's workspace; only its owner may start, edit or open it.\n\nBrowsers use the cookie `session`; changes made with it must come from this server's own pages. Programs use `Authorization: Bearer chp_…`."
    ),
    tags(
        (name = "workspaces", description = "Create them, start them, put them away"),
        (name = "events", description = "Hear of every change"),
        (name = "sessions", description = "Signing in and out"),
        (name = "tokens", description = "For programs"),
        (name = "users", description = "For administrators"),
        (name = "set-up", description = "The first administrator"),
        (name = "system", description = "The deployment"),
        (name = "operations", description = "For machines that watch"),
    ),
    security(("session" = []), ("token" = [])),
    modifiers(&Schemes),
)]
struct Base;

struct Schemes;

impl Modify for Schemes {
    fn modify(&self, document: &mut Document) {
        let components = document.components.get_or_insert_default();
        components.add_security_scheme(
            "session",
            SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new(crate::auth::SESSION_COOKIE))),
        );
        components.add_security_scheme(
            "token",
            SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
        );
    }
}

/// The whole document.
pub fn document() -> Document {
    let v1 = [
        workspaces::Docs::openapi(),
        actions::Docs::openapi(),
        activity::Docs::openapi(),
        history::Docs::openapi(),
        archives::Docs::openapi(),
        logs::Docs::openapi(),
        events::Docs::openapi(),
        auth::Docs::openapi(),
        tokens::Docs::openapi(),
        users::Docs::openapi(),
        setup::Docs::openapi(),
        system::Docs::openapi(),
    ];
    let mut document = Base::openapi();
    for part in v1 {
        document = document.nest("/api/v1", part);
    }
    document.merge(health::Docs::openapi());
    document.info.version = env!("CARGO_PKG_VERSION").into();
    document
}

pub(super) fn document_router() -> Router<Arc<App>> {
    Router::new().route("/openapi.json", get(json))
}

pub(super) fn docs_router() -> Router<Arc<App>> {
    Router::new()
        .route("/api/docs", get(page))
        .route("/api/docs/docs.js", get(script))
        .route("/api/docs/docs.css", get(style))
}

async fn json() -> Response {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| document().to_json().unwrap_or_default());
    ([(CONTENT_TYPE, "application/json")], text.as_str()).into_response()
}

async fn page() -> Response {
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                  base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let headers = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, policy)];
    (headers, include_str!("docs/docs.html")).into_response()
}

async fn script() -> Response {
    asset("text/javascript; charset=utf-8", include_str!("docs/docs.js"))
}

async fn style() -> Response {
    asset("text/css; charset=utf-8", include_str!("docs/docs.css"))
}

fn asset(content_type: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-cache")], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_openapi_3_1_and_covers_the_api() {
        let json = serde_json::to_value(document()).unwrap();
        assert!(json["openapi"].as_str().unwrap().starts_with("3.1"), "{}", json["openapi"]);
        for (path, methods) in [
            ("/api/v1/auth/login", "post"),
            ("/api/v1/auth/logout", "post"),
            ("/api/v1/auth/session", "get"),
            ("/api/v1/auth/tokens", "get post"),
            ("/api/v1/auth/tokens/{id}", "delete"),
            ("/api/v1/users", "get post"),
            ("/api/v1/users/{id}", "get patch delete"),
            ("/api/v1/setup", "post"),
            ("/api/v1/workspaces", "get post"),
            ("/api/v1/workspaces/{id}", "get patch delete"),
            ("/api/v1/workspaces/{id}/start", "post"),
            ("/api/v1/workspaces/{id}/stop", "post"),
            ("/api/v1/workspaces/{id}/archive", "post"),
            ("/api/v1/workspaces/{id}/recover", "post"),
            ("/api/v1/workspaces/{id}/history", "get"),
            ("/api/v1/workspaces/{id}/archives", "get"),
            ("/api/v1/workspaces/{id}/logs", "get"),
            ("/api/v1/events", "get"),
            ("/api/v1/system", "get"),
            ("/healthz", "get"),
            ("/readyz", "get"),
            ("/metrics", "get"),
        ] {
            for method in methods.split(' ') {
                assert!(json["paths"][path][method].is_object(), "{method} {path}");
            }
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let json = serde_json::to_value(document()).unwrap();
        let text = json.to_string();
        for part in text.split("\"$ref\":\"#").skip(1) {
            let pointer = part.split('"').next().unwrap();
            assert!(json.pointer(pointer).is_some(), "{pointer}");
        }
    }
}

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
        Content, HttpMethod, OpenApi as Document, Ref, RefOr, ResponseBuilder,
        path::{Operation, Parameter, ParameterIn},
        security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use super::{
    actions, activity, archives, audit, auth, device, events, exec, files, health, history, logs, ports,
    setup, system, tcp, tokens, users, workspaces,
};
use crate::app::App;
use codehub_proxy::credential::CookieNames;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "CodeHub",
        description = "Workspaces in the browser, on a machine of your own.\n\nErrors are always `{\"error\": {\"code\", \"message\", \"details\"?}}`. Times are RFC 3339 in UTC. Lists are `{items, next_cursor, total}`.\n\nAnother person's workspace is 403 FORBIDDEN, an unknown or deleted one is 404 NOT_FOUND. Administrators may look at, stop, archive, recover and delete anybody's workspace; only its owner may start, edit or open it.\n\nBrowsers use the cookie `session`; changes made with it must come from this server's own pages. Programs use `Authorization: Bearer chp_…`; tokens are created with a session, never with another token, and end with the password.\n\nAsking for what is already so changes nothing and succeeds, so every start, stop and archive may be sent again; a second delete is 404. Creating is such a request where it carries an `Idempotency-Key`; without one, two of them make two workspaces.\n\nBesides what is listed, any request may return 500 INTERNAL. Unknown paths return 404 NOT_FOUND, and unsupported methods return 405 METHOD_NOT_ALLOWED."
    ),
    tags(
        (name = "workspaces", description = "Create them, start them, put them away"),
        (name = "exec", description = "Work in them without a browser"),
        (name = "events", description = "Hear of every change"),
        (name = "sessions", description = "Signing in and out"),
        (name = "tokens", description = "For programs"),
        (name = "users", description = "For administrators"),
        (name = "audit", description = "What was done, for administrators"),
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
            SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new(CookieNames::HTTP.session))),
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
        ("workspaces", workspaces::Docs::openapi()),
        ("workspaces", actions::Docs::openapi()),
        ("activity", activity::Docs::openapi()),
        ("history", history::Docs::openapi()),
        ("archives", archives::Docs::openapi()),
        ("logs", logs::Docs::openapi()),
        ("exec", exec::Docs::openapi()),
        ("tcp", tcp::Docs::openapi()),
        ("ports", ports::Docs::openapi()),
        ("files", files::Docs::openapi()),
        ("events", events::Docs::openapi()),
        ("sessions", auth::Docs::openapi()),
        ("tokens", tokens::Docs::openapi()),
        ("device", device::Docs::openapi()),
        ("users", users::Docs::openapi()),
        ("setup", setup::Docs::openapi()),
        ("audit", audit::Docs::openapi()),
        ("system", system::Docs::openapi()),
    ];
    let mut document = Base::openapi();
    for (resource, mut part) in v1 {
        operations(&mut part, |method, operation| {
            name(operation, resource);
            usual_answers(method, operation);
        });
        document = document.nest("/api/v1", part);
    }
    let mut health = health::Docs::openapi();
    operations(&mut health, |_, operation| name(operation, "operations"));
    document.merge(health);
    document.info.version = env!("CARGO_PKG_VERSION").into();
    document
}

fn operations(part: &mut Document, mut each: impl FnMut(&HttpMethod, &mut Operation)) {
    for item in part.paths.paths.values_mut() {
        for (method, operation) in [
            (HttpMethod::Get, &mut item.get),
            (HttpMethod::Post, &mut item.post),
            (HttpMethod::Put, &mut item.put),
            (HttpMethod::Patch, &mut item.patch),
            (HttpMethod::Delete, &mut item.delete),
        ] {
            if let Some(operation) = operation {
                each(&method, operation);
            }
        }
    }
}

/// Ids must differ from each other: programs make their functions' names from them.
fn name(operation: &mut Operation, resource: &str) {
    operation.operation_id = operation.operation_id.take().map(|id| format!("{resource}_{id}"));
}

/// What the extractors answer, and the store, wherever they are asked. A handler's own words stand.
fn usual_answers(method: &HttpMethod, operation: &mut Operation) {
    let in_query = |parameter: &RefOr<Parameter>| match parameter {
        RefOr::T(parameter) => parameter.parameter_in == ParameterIn::Query,
        RefOr::Ref(_) => false,
    };
    let query = operation.parameters.iter().flatten().any(in_query);
    let (body, open) = (operation.request_body.is_some(), operation.security.is_some());
    let usual = [
        (body || query, "400", "INVALID_REQUEST: `details.field` names what is wrong"),
        (
            !open,
            "401",
            "UNAUTHORIZED: nobody is signed in, or the token does not work; SEVERAL_SESSIONS: one of several session cookies was planted",
        ),
        (*method != HttpMethod::Get, "403", "FORBIDDEN: sent with the cookie by another site's page"),
        (body, "408", "REQUEST_TIMEOUT: the body did not come in time"),
        (body, "413", "TOO_LARGE: at most 512 KiB (16 KiB where nobody is signed in)"),
        (true, "503", "UPSTREAM_UNAVAILABLE: the database does not answer; try again"),
    ];
    for (_, status, description) in usual.into_iter().filter(|(may_be, ..)| *may_be) {
        let answer = ResponseBuilder::new()
            .description(description)
            .content("application/json", Content::new(Some(Ref::from_schema_name("ErrorBody"))));
        operation.responses.responses.entry(status.into()).or_insert_with(|| answer.build().into());
    }
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
            ("/api/v1/auth/device", "post"),
            ("/api/v1/auth/device/token", "post"),
            ("/api/v1/auth/tokens/{id}", "delete"),
            ("/api/v1/users", "get post"),
            ("/api/v1/users/{id}", "get patch delete"),
            ("/api/v1/users/{id}/tokens", "get"),
            ("/api/v1/users/{id}/tokens/{token_id}", "delete"),
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
    fn programs_can_be_made_from_it() {
        let json = serde_json::to_value(document()).unwrap();
        let mut ids = std::collections::HashSet::new();
        for (path, methods) in json["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id), "{method} {path}: {id} is there twice");
                for parameter in operation["parameters"].as_array().into_iter().flatten() {
                    let kind = &parameter["schema"]["type"];
                    if ["limit", "wait", "tail"].contains(&parameter["name"].as_str().unwrap()) {
                        assert_eq!(kind, "integer", "{method} {path}: {parameter}");
                    }
                }
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

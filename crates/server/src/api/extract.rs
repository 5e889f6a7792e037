//! Extractors that answer in the API's own words when a request is not what it should be.

use std::{net::IpAddr, str::FromStr, sync::Arc};

use axum::{
    extract::{FromRequest, FromRequestParts, Request, rejection::JsonRejection},
    http::request::Parts,
};
use codehub_domain::{
    SessionId,
    audit::{Act, AuditAction},
};
use http::{Method, header::CONTENT_TYPE};
use serde::de::DeserializeOwned;

use super::error::{ApiError, Code, Result};
use crate::{
    app::App,
    auth::{self, Identity, Via, act, origin},
    bodies::{self, BodyError},
};

/// A JSON body. Unknown fields, wrong types and broken JSON are named.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self> {
        let (parts, body) = bodies::read(request).await?;
        match axum::Json::<T>::from_request(Request::from_parts(parts, body.into()), state).await {
            Ok(axum::Json(value)) => Ok(Self(value)),
            Err(rejection) => Err(json_rejected(rejection)),
        }
    }
}

/// A JSON body that may be left out.
pub struct OptionalJson<T>(pub T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let has_type = request.headers().contains_key(CONTENT_TYPE);
        let (_, bytes) = bodies::read(request).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        if !has_type {
            return Err(wrong_type());
        }
        match axum::Json::<T>::from_bytes(&bytes) {
            Ok(axum::Json(value)) => Ok(Self(value)),
            Err(rejection) => Err(json_rejected(rejection)),
        }
    }
}

fn wrong_type() -> ApiError {
    ApiError::new(Code::InvalidRequest, "the body must be JSON, with `Content-Type: application/json`")
}

fn json_rejected(rejection: JsonRejection) -> ApiError {
    match rejection {
        JsonRejection::JsonDataError(error) => described(&deepest(&error)),
        JsonRejection::JsonSyntaxError(error) => {
            ApiError::new(Code::InvalidRequest, format!("the body is not valid JSON: {}", deepest(&error)))
        }
        JsonRejection::MissingJsonContentType(_) => wrong_type(),
        other => ApiError::new(Code::InvalidRequest, other.body_text()),
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        let code = match error {
            BodyError::TooSlow => Code::RequestTimeout,
            BodyError::TooLarge(_) => Code::TooLarge,
            BodyError::BrokeOff => Code::InvalidRequest,
        };
        Self::new(code, error.to_string())
    }
}

/// What serde said, without what was wrapped around it.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    // The path, where there is one, is one level further out.
    error.source().map_or_else(|| innermost.to_string(), ToString::to_string)
}

/// Names the field, where serde's sentence does.
fn described(text: &str) -> ApiError {
    let text = text.split(" at line ").next().unwrap_or(text);
    let quoted = |prefix: &str| text.split_once(prefix).and_then(|(_, rest)| rest.split('`').next());
    if let Some(field) = quoted("unknown field `") {
        return ApiError::invalid(field, format!("unknown field{}", instead(text)));
    }
    for (prefix, why) in
        [("missing field `", "this field is missing"), ("duplicate field `", "this field is there twice")]
    {
        if let Some(field) = quoted(prefix) {
            return ApiError::invalid(field, why);
        }
    }
    match text.split_once(": ") {
        Some((field, why)) if !field.contains(' ') && field != "." => {
            ApiError::invalid(field, why.replace("expected u32", "expected a whole number, 0 or more"))
        }
        _ => ApiError::new(Code::InvalidRequest, text.trim_start_matches(".: ")),
    }
}

/// The names that serde would have known: every other piece between its quotes.
fn instead(text: &str) -> String {
    let Some((_, expected)) = text.split_once(", expected ") else { return String::new() };
    let known: Vec<_> = expected.split('`').skip(1).step_by(2).collect();
    if known.is_empty() { String::new() } else { format!("; expected: {}", known.join(", ")) }
}

/// The query string. Unknown parameters are refused too: a filter with a typing error would show
/// everything.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        match axum::extract::Query::<T>::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(described(&deepest(&rejection))),
        }
    }
}

/// The one id in the path. An id that is no id names nothing: 404.
pub struct PathId<T>(pub T);

impl<T: FromStr, S: Send + Sync> FromRequestParts<S> for PathId<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        let id = path.ok().and_then(|axum::extract::Path(text)| text.parse().ok());
        id.map(Self).ok_or_else(|| ApiError::not_found("thing: the id in the path is not valid"))
    }
}

/// Two ids in the path, in their order.
pub struct PathIds<A, B>(pub A, pub B);

impl<A: FromStr, B: FromStr, S: Send + Sync> FromRequestParts<S> for PathIds<A, B> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = axum::extract::Path::<(String, String)>::from_request_parts(parts, state).await;
        let ids =
            path.ok().and_then(|axum::extract::Path((a, b))| Some(Self(a.parse().ok()?, b.parse().ok()?)));
        ids.ok_or_else(|| ApiError::not_found("thing: an id in the path is not valid"))
    }
}

/// Whoever is asking, with what a cookie-authenticated write needs checked.
pub struct CurrentUser(pub Identity);

impl FromRequestParts<Arc<App>> for CurrentUser {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        let identity = auth::identify_sender(app, parts).await?;
        if let Via::Session(_) = identity.via {
            writes_come_from_us(app, parts)?;
        }
        parts.extensions.insert(bodies::Sender);
        Ok(Self(identity))
    }
}

/// A session, not a token: for what a token must not be able to do by itself.
pub struct InSession(pub SessionId, pub Identity);

impl FromRequestParts<Arc<App>> for InSession {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        let CurrentUser(identity) = CurrentUser::from_request_parts(parts, app).await?;
        match identity.via {
            Via::Session(session) => Ok(Self(session, identity)),
            Via::Token(_) => {
                act::note_denied(app, &identity.act, AuditAction::TokenMinted, None).await;
                Err(ApiError::new(
                    Code::Forbidden,
                    "a token cannot create tokens: sign in with a password (POST /api/v1/auth/login, or the Tokens page) and create it with that session",
                ))
            }
        }
    }
}

/// Browsers send cookies whoever made them send; a write must come from one of our own pages.
fn writes_come_from_us(app: &App, parts: &Parts) -> Result<()> {
    if matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    match origin::source(&app.config, parts) {
        origin::Source::Ours => Ok(()),
        origin::Source::Foreign | origin::Source::Unsaid => Err(ApiError::new(
            Code::Forbidden,
            "a change made with the session cookie must come from this server's own pages (Origin or Sec-Fetch-Site); programs use a token",
        )),
    }
}

/// For requests that need no session: refused when a browser says that another site made it.
pub struct NotForeign;

impl FromRequestParts<Arc<App>> for NotForeign {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        match origin::source(&app.config, parts) {
            origin::Source::Ours | origin::Source::Unsaid => Ok(Self),
            origin::Source::Foreign => {
                Err(ApiError::new(Code::Forbidden, "this must come from this server's own pages"))
            }
        }
    }
}

/// An administrator.
pub struct Admin(pub Identity);

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        let CurrentUser(identity) = CurrentUser::from_request_parts(parts, app).await?;
        if identity.is_admin() {
            Ok(Self(identity))
        } else {
            if let Some(action) = act::of_administrators(&parts.method, parts.uri.path()) {
                act::note_denied(app, &identity.act, action, None).await;
            }
            Err(ApiError::new(Code::Forbidden, "only administrators may do this"))
        }
    }
}

/// From where the request comes, through trusted proxies only.
pub struct ClientAddress(pub IpAddr);

impl FromRequestParts<Arc<App>> for ClientAddress {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        app: &Arc<App>,
    ) -> std::result::Result<Self, Self::Rejection> {
        Ok(Self(act::client_address(app, parts)))
    }
}

/// A request of whoever has not said yet who they are, as the audit trail names it.
pub struct Acting(pub Act);

impl FromRequestParts<Arc<App>> for Acting {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        app: &Arc<App>,
    ) -> std::result::Result<Self, Self::Rejection> {
        Ok(Self(act::of_request(&parts.headers, Some(act::client_address(app, parts)))))
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[expect(dead_code, reason = "only its parsing is looked at")]
        name: String,
        #[expect(dead_code, reason = "only its parsing is looked at")]
        #[serde(default)]
        count: Option<u32>,
    }

    async fn post(content_type: Option<&str>, body: &str) -> Option<ApiError> {
        let mut request = Request::post("/");
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        Json::<Sample>::from_request(request.body(Body::from(body.to_owned())).unwrap(), &()).await.err()
    }

    #[tokio::test]
    async fn wrong_bodies_are_named() {
        let json_type = Some("application/json");
        assert!(post(json_type, r#"{"name":"x","count":3}"#).await.is_none());
        let table = [
            (
                json_type,
                r#"{"name":"x","nmae":1}"#,
                "nmae: unknown field; expected: name, count",
                Some("nmae"),
            ),
            (json_type, "{}", "name: this field is missing", Some("name")),
            (json_type, r#"{"name":5}"#, "name: invalid type: integer `5`, expected a string", Some("name")),
            (json_type, r#"{"name":"a","name":"b"}"#, "name: this field is there twice", Some("name")),
            (
                json_type,
                r#"{"name":"x","count":-1}"#,
                "`-1`, expected a whole number, 0 or more",
                Some("count"),
            ),
            (json_type, "{", "the body is not valid JSON", None),
            (json_type, "", "the body is not valid JSON", None),
            (json_type, "[]", "invalid", None),
            (None, r#"{"name":"x"}"#, "application/json", None),
            (Some("text/plain"), r#"{"name":"x"}"#, "application/json", None),
        ];
        for (content_type, body, text, field) in table {
            let error = post(content_type, body).await.unwrap();
            assert_eq!(error.code, Code::InvalidRequest, "{body}");
            assert!(error.message.contains(text), "{body}: {}", error.message);
            assert_eq!(
                error.details,
                field.map(|field| json!({ "field": field })),
                "{body}: {}",
                error.message
            );
        }
    }

    #[tokio::test]
    async fn an_optional_body_may_be_missing_but_not_wrong() {
        let take = async |body: &'static str| {
            let request = Request::post("/").header(CONTENT_TYPE, "application/json").body(Body::from(body));
            OptionalJson::<Sample>::from_request(request.unwrap(), &())
                .await
                .map(|_| ())
                .map_err(|e| e.message)
        };
        assert!(take("").await.is_ok());
        assert!(take("{}").await.is_err(), "there, so it must be whole");
        assert!(take(r#"{"x":1}"#).await.unwrap_err().contains("x: unknown field"));
    }

    #[tokio::test]
    async fn unknown_query_parameters_are_named() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Sample {
            #[expect(dead_code, reason = "only its parsing is looked at")]
            limit: Option<String>,
        }
        let take = async |uri: &'static str| {
            let (mut parts, ()) = Request::get(uri).body(()).unwrap().into_parts();
            Params::<Sample>::from_request_parts(&mut parts, &()).await.map(|_| ()).map_err(|e| e.message)
        };
        assert!(take("/?limit=5").await.is_ok());
        assert_eq!(take("/?limt=5").await.unwrap_err(), "limt: unknown field; expected: limit");
        assert_eq!(take("/?limit=5&limit=6").await.unwrap_err(), "limit: this field is there twice");
    }
}

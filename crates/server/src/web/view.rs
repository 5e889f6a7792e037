//! For whom a page is drawn: language, theme, what just happened, and who is signed in.
//!
//! The extractors here are also where every form is checked: a page's POST must come from one of our
//! own pages, whoever sends it.

use std::{net::IpAddr, str::FromStr, sync::Arc};

use axum::{
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::request::Parts,
    response::{IntoResponse, Response},
};
use codehub_domain::{Timestamp, audit::Act, user::User};
use http::{HeaderMap, Method, Uri, header::SET_COOKIE};
use serde::de::DeserializeOwned;

use super::{
    error::WebError,
    flash::Flash,
    forms,
    i18n::{Lang, Texts},
};
use crate::{
    app::App,
    auth::{self, AuthError, Identity, Via, act, origin},
    bodies,
};
pub use codehub_proxy::appearance::Theme;
use codehub_proxy::planted;

/// What every page needs to know to be drawn.
#[derive(Debug, Clone)]
pub struct PageContext {
    pub lang: Lang,
    pub t: &'static Texts,
    pub theme: Theme,
    pub flash: Option<Flash>,
    pub me: Option<User>,
    /// Path and query of this page, to come back to.
    pub here: String,
    pub now: Timestamp,
}

impl PageContext {
    /// For somebody who is not signed in.
    pub fn new(headers: &HeaderMap, uri: &Uri) -> Self {
        let lang = Lang::of(headers);
        let theme = Theme::chosen(headers);
        let here = uri.path_and_query().map_or("/", |path| path.as_str());
        Self {
            lang,
            t: Texts::of(lang),
            theme,
            flash: Flash::read(headers),
            me: None,
            here: forms::local_path(here).unwrap_or("/").to_owned(),
            now: Timestamp::now(),
        }
    }
}

/// Anybody. A form they send must not come from another site.
pub struct Visitor(pub PageContext);

impl FromRequestParts<Arc<App>> for Visitor {
    type Rejection = WebError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, WebError> {
        if is_write(&parts.method) && origin::source(&app.config, parts) == origin::Source::Foreign {
            return Err(WebError::Foreign);
        }
        Ok(Self(PageContext::new(&parts.headers, &parts.uri)))
    }
}

fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Somebody signed in; everybody else is sent to sign in first.
pub struct Me {
    pub view: PageContext,
    pub identity: Identity,
}

impl Me {
    /// Who is signed in.
    pub fn user(&self) -> &User {
        &self.identity.user
    }

    pub fn act(&self) -> &Act {
        &self.identity.act
    }
}

/// Not signed in, or something worse.
pub enum SignIn {
    First(String),
    /// Several session cookies were sent: they are removed, and the same page is asked for once more.
    Heal(Response),
    Error(WebError),
}

impl IntoResponse for SignIn {
    fn into_response(self) -> Response {
        match self {
            Self::First(to) => see_other(&to),
            Self::Heal(response) => response,
            Self::Error(error) => error.into_response(),
        }
    }
}

impl FromRequestParts<Arc<App>> for Me {
    type Rejection = SignIn;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, SignIn> {
        let mut view = PageContext::new(&parts.headers, &parts.uri);
        let identity = match auth::identify_sender(app, parts).await {
            Ok(identity) => identity,
            Err(AuthError::SeveralSessions)
                if planted::can_heal(&parts.method, &parts.uri, &parts.headers) =>
            {
                return Err(SignIn::Heal(healed(app, &parts.headers, &parts.uri)));
            }
            Err(AuthError::Unauthorized(_) | AuthError::SeveralSessions) => {
                // Where a form was sent to is no place to come back to.
                let next = if is_write(&parts.method) { "/" } else { &view.here };
                return Err(SignIn::First(forms::with_next("/login", next)));
            }
            Err(AuthError::Store(error)) => return Err(SignIn::Error(error.into())),
        };
        if is_write(&parts.method)
            && matches!(identity.via, Via::Session(_))
            && origin::source(&app.config, parts) != origin::Source::Ours
        {
            return Err(SignIn::Error(WebError::Foreign));
        }
        parts.extensions.insert(bodies::Sender);
        // What was chosen with any browser holds in every browser.
        view.lang = Lang::of_account(identity.user.language).unwrap_or(view.lang);
        view.t = Texts::of(view.lang);
        view.theme = Theme::of_account(identity.user.theme).unwrap_or(view.theme);
        view.me = Some(identity.user.clone());
        Ok(Self { view, identity })
    }
}

/// An administrator; others are told that it is not for them.
pub struct Admin(pub Me);

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = SignIn;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, SignIn> {
        let me = Me::from_request_parts(parts, app).await?;
        if me.identity.is_admin() {
            return Ok(Self(me));
        }
        if let Some(action) = act::of_administrators(&parts.method, parts.uri.path()) {
            act::note_denied(app, &me.identity.act, action, None).await;
        }
        Err(SignIn::Error(WebError::Forbidden))
    }
}

/// The one id in the path. An id that is no id names nothing.
pub struct PathId<T>(pub T);

impl<T: FromStr, S: Send + Sync> FromRequestParts<S> for PathId<T> {
    type Rejection = WebError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, WebError> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        path.ok().and_then(|Path(text)| text.parse().ok()).map(Self).ok_or(WebError::NotFound)
    }
}

/// What a form sent.
pub struct Form<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Form<T> {
    type Rejection = WebError;

    async fn from_request(request: Request, state: &S) -> Result<Self, WebError> {
        // Only `POST` has a body; whoever sends something else in it is not one of our pages.
        let (parts, body) = bodies::read(request).await?;
        let request = Request::from_parts(parts, body.into());
        let form = axum::extract::Form::<T>::from_request(request, state).await;
        form.map(|axum::extract::Form(value)| Self(value)).map_err(|_| WebError::BadRequest)
    }
}

/// The query string; what cannot be read counts as not said.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let query = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        Ok(Self(query.map(|axum::extract::Query(value)| value).unwrap_or_default()))
    }
}

/// From where the request comes, through trusted proxies only.
pub struct ClientAddress(pub IpAddr);

impl FromRequestParts<Arc<App>> for ClientAddress {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Self::Rejection> {
        Ok(Self(act::client_address(app, parts)))
    }
}

/// 303 to the same page, which removes all session cookies on the way.
pub fn healed(app: &App, headers: &HeaderMap, uri: &Uri) -> Response {
    let here = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut response = see_other(forms::local_path(here).unwrap_or("/"));
    planted::heal(response.headers_mut(), headers, uri, app.config.is_https());
    response
}

/// 303: look there next.
pub fn see_other(to: &str) -> Response {
    axum::response::Redirect::to(to).into_response()
}

/// 303, with something to say on the page that comes next.
pub fn see_other_saying(app: &App, to: &str, flash: impl Into<Flash>) -> Response {
    let mut response = see_other(to);
    response.headers_mut().append(SET_COOKIE, flash.into().cookie(app.config.is_https()));
    response
}

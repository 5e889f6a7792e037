//! `/login`, `/logout` and `/preferences`: what works without being signed in.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use codehub_proxy::{
    after_form,
    appearance::{LANG_COOKIE, THEME_COOKIE},
    planted as heals,
};
use codehub_store::{SessionEnd, UserEdit};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode, Uri,
    header::{RETRY_AFTER, SET_COOKIE},
};
use maud::html;
use serde::Deserialize;

use super::{
    components::Field,
    cookies,
    error::{Result, WebError},
    flash::Plain,
    forms,
    i18n::{Lang, words},
    icons,
    layout::{NavEntry, Page},
    view::{
        ClientAddress, Form, Me, PageContext, Query, SignIn, Theme, Visitor, healed, see_other,
        see_other_saying,
    },
};
use crate::{
    api::extract::Acting,
    app::App,
    auth::{
        self, AuthError, cookie, first_run,
        login::{self, Ended, LoginError, SignedIn},
        planted,
    },
};

const YEAR_SECONDS: u32 = 365 * 86_400;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/login", get(show).post(sign_in))
        .route("/logout", post(sign_out))
        .route("/preferences", post(preferences))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Next {
    next: String,
}

async fn show(
    State(app): State<Arc<App>>,
    Visitor(view): Visitor,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    Query(query): Query<Next>,
) -> Result<Response> {
    match auth::identify(&app, &headers).await {
        Ok(_) => return Ok(see_other(forms::local_path(&query.next).unwrap_or("/"))),
        Err(AuthError::SeveralSessions) if heals::can_heal(&method, &uri, &headers) => {
            return Ok(healed(&app, &headers, &uri));
        }
        Err(AuthError::Unauthorized(_) | AuthError::SeveralSessions) => {}
        Err(AuthError::Store(error)) => return Err(error.into()),
    }
    if first_run::is_needed(&app).await? {
        return Ok(not_set_up(&view));
    }
    let why = heals::was_healed(&headers).then(|| view.t.cookies_removed.to_owned());
    Ok(page(&view, &query.next, "", why).respond(&view))
}

/// Nobody exists yet: the way in is the link in the server's log.
fn not_set_up(view: &PageContext) -> Response {
    let t = view.t;
    let body = html! {
        section.card.narrow.door data-testid="not-set-up" {
            (icons::logo())
            h1 { (t.not_set_up_title) }
            p { (t.not_set_up_text) }
        }
    };
    Page::new(t.not_set_up_title, NavEntry::Outside, body).respond(view)
}

#[derive(Deserialize)]
struct Credentials {
    username: String,
    password: String,
    #[serde(default)]
    next: String,
    /// "1" where the page's script found something that pages keep in this browser, and no worker in the way.
    #[serde(default)]
    kept: String,
}

async fn sign_in(
    State(app): State<Arc<App>>,
    Visitor(view): Visitor,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    Form(form): Form<Credentials>,
) -> Result<Response> {
    match login::login(&app, form.username.trim(), &form.password, address, &headers).await {
        Ok(session) => {
            let mut response = with_session(
                &app,
                see_other(&after_form(forms::local_path(&form.next).unwrap_or("/"))),
                &session,
            );
            planted::evict_once(&app, &headers, form.kept == "1", response.headers_mut()).await?;
            Ok(response)
        }
        Err(LoginError::Wrong) => {
            let page = page(&view, &form.next, &form.username, Some(view.t.wrong_password.to_owned()));
            Ok(page.respond_with(&view, StatusCode::UNAUTHORIZED))
        }
        Err(LoginError::TooMany { counted, retry_after }) => {
            let said = words::retry_in(view.lang, counted, retry_after);
            let page = page(&view, &form.next, &form.username, Some(said));
            let mut response = page.respond_with(&view, StatusCode::TOO_MANY_REQUESTS);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_after));
            Ok(response)
        }
        Err(LoginError::Store(error)) => Err(error.into()),
        Err(LoginError::Hash(error)) => Err(error.into()),
    }
}

pub(super) fn with_session(app: &App, mut response: Response, session: &SignedIn) -> Response {
    let https = app.config.is_https();
    response.headers_mut().append(SET_COOKIE, cookie::set(&session.secret, https));
    if let Some(device) = &session.device {
        response.headers_mut().append(SET_COOKIE, cookie::set_device(device, https));
    }
    response
}

fn page(view: &PageContext, next: &str, username: &str, problem: Option<String>) -> Page {
    let t = view.t;
    let body = html! {
        section.card.narrow.door {
            (icons::logo())
            h1 { (t.sign_in_title) }
            @if let Some(problem) = problem {
                p.flash.bad role="alert" data-testid="login-error" { (icons::cross()) span { (problem) } }
            }
            form.stack method="post" action="/login" data-testid="login-form" {
                input type="hidden" name="kept" value="";
                @if let Some(next) = forms::local_path(next) { input type="hidden" name="next" value=(next); }
                (Field {
                    required: true,
                    autofocus: username.is_empty(),
                    autocomplete: "username",
                    max: Some(64),
                    ..Field::text("username", t.username, username)
                }.render(view, &[]))
                (Field { autofocus: !username.is_empty(), ..Field::password("password", t.password, "current-password") }.render(view, &[]))
                button.primary.wide type="submit" data-testid="sign-in" { (t.sign_in) }
            }
        }
    };
    Page::new(t.sign_in_title, NavEntry::Outside, body)
}

async fn sign_out(
    State(app): State<Arc<App>>,
    Visitor(_): Visitor,
    Acting(by): Acting,
    headers: HeaderMap,
) -> Result<Response> {
    let said = match login::end_sessions(&app, &by, &headers, SessionEnd::Logout).await? {
        Ended::Sessions | Ended::Nothing => Plain::SignedOut,
        Ended::Unknown => Plain::NoSessionEnded,
    };
    let mut response = see_other_saying(&app, "/login", said);
    cookie::clear(response.headers_mut(), &headers, "/logout", app.config.is_https());
    Ok(response)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Preferences {
    lang: String,
    theme: String,
    back: String,
}

/// Kept in this browser, and with the account of whoever is signed in.
async fn preferences(
    State(app): State<Arc<App>>,
    me: std::result::Result<Me, SignIn>,
    Visitor(_): Visitor,
    Form(form): Form<Preferences>,
) -> Result<Response> {
    let mut response = see_other(forms::local_path(&form.back).unwrap_or("/"));
    let (cookie, edit) = match (Lang::from_code(&form.lang), Theme::from_code(&form.theme)) {
        (Some(lang), _) => (
            (LANG_COOKIE, lang.code()),
            UserEdit { language: Some(Some(lang.language())), ..UserEdit::default() },
        ),
        (None, Some(theme)) => {
            ((THEME_COOKIE, theme.code()), UserEdit { theme: Some(theme.kept()), ..UserEdit::default() })
        }
        (None, None) => return Ok(WebError::BadRequest.into_response()),
    };
    if let Ok(me) = me {
        app.store().user_edit(me.act(), me.user().id, edit).await?;
    }
    let cookie = cookies::set(cookie.0, cookie.1, YEAR_SECONDS, app.config.is_https());
    response.headers_mut().append(SET_COOKIE, cookie);
    Ok(response)
}

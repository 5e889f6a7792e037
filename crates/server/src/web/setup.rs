//! `/setup?token=…`: the first run. Creates the administrator, says what process mode means, and goes
//! on to the first workspace.

use std::sync::Arc;

use axum::{Router, extract::State, response::Response, routing::get};
use http::{HeaderMap, StatusCode};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    components::Field,
    error::Result,
    flash::Plain,
    forms::{Problem, Wrong},
    icons,
    layout::{NavEntry, Page},
    login::with_session,
    view::{Form, PageContext, Query, Visitor, see_other, see_other_saying},
};
use crate::{
    api::extract::Acting,
    app::App,
    auth::{
        first_run::{self, SetupError},
        login, planted,
    },
};
use codehub_domain::fields as rules;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/setup", get(show).post(complete))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Token {
    token: String,
}

async fn show(
    State(app): State<Arc<App>>,
    Visitor(view): Visitor,
    Query(query): Query<Token>,
) -> Result<Response> {
    if !first_run::is_needed(&app).await? {
        return Ok(see_other("/login"));
    }
    Ok(page(&app, &view, &query.token, "", &[], false).respond(&view))
}

#[derive(Deserialize)]
struct SetupForm {
    #[serde(default)]
    token: String,
    username: String,
    password: String,
    password_again: String,
}

async fn complete(
    State(app): State<Arc<App>>,
    Visitor(view): Visitor,
    Acting(by): Acting,
    headers: HeaderMap,
    Form(form): Form<SetupForm>,
) -> Result<Response> {
    let username = form.username.trim();
    let wrong = check(username, &form.password, &form.password_again);
    if !wrong.is_empty() {
        let page = page(&app, &view, &form.token, username, &wrong, false);
        return Ok(page.respond_with(&view, StatusCode::BAD_REQUEST));
    }
    match first_run::complete(&app, &by, form.token.trim(), username, &form.password).await {
        Ok(user) => {
            let session = login::open_session(&app, &by, user).await?;
            let welcome = see_other_saying(&app, "/workspaces/new", Plain::Welcome);
            let mut response = with_session(&app, welcome, &session);
            planted::evict_once(&app, &headers, false, response.headers_mut()).await?;
            Ok(response)
        }
        Err(SetupError::Done) => Ok(see_other("/login")),
        Err(SetupError::WrongToken) => {
            Ok(page(&app, &view, "", username, &[], true).respond_with(&view, StatusCode::FORBIDDEN))
        }
        Err(SetupError::Invalid(field, _)) => {
            let problem = if field == "username" { Problem::UsernameRule } else { Problem::PasswordRule };
            let page = page(&app, &view, &form.token, username, &[problem.of(field)], false);
            Ok(page.respond_with(&view, StatusCode::BAD_REQUEST))
        }
        Err(SetupError::Store(error)) => Err(error.into()),
        Err(SetupError::Hash(error)) => Err(error.into()),
    }
}

/// A new name and a password typed twice.
pub(super) fn check(username: &str, password: &str, again: &str) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if rules::username(username).is_err() {
        wrong.push(Problem::UsernameRule.of("username"));
    }
    if rules::password(password).is_err() {
        wrong.push(Problem::PasswordRule.of("password"));
    } else if password != again {
        wrong.push(Problem::PasswordsDiffer.of("password_again"));
    }
    wrong
}

fn page(app: &App, view: &PageContext, token: &str, username: &str, wrong: &[Wrong], refused: bool) -> Page {
    let t = view.t;
    let body = html! {
        section.card.narrow.door.setup {
            (icons::logo())
            h1 { (t.setup_title) }
            p.lead { (t.setup_text) }
            @if refused {
                p.flash.bad role="alert" data-testid="setup-error" { (icons::cross()) span { (t.wrong_token) } }
            }
            form.stack method="post" action="/setup" data-testid="setup-form" {
                @if token.is_empty() {
                    (Field { required: true, hint: Some(t.token_hint), max: Some(200), ..Field::text("token", t.setup_token, "") }.render(view, wrong))
                } @else {
                    input type="hidden" name="token" value=(token);
                }
                (Field {
                    required: true,
                    autofocus: true,
                    autocomplete: "username",
                    max: Some(64),
                    ..Field::text("username", t.username, username)
                }.render(view, wrong))
                (Field { hint: Some(t.password_hint), ..Field::password("password", t.password, "new-password") }.render(view, wrong))
                (Field::password("password_again", t.password_again, "new-password").render(view, wrong))
                @if app.backends.instances.kind() == "process" { (process_mode(app, view)) }
                button.primary.wide type="submit" data-testid="setup-go" { (t.create_admin) }
            }
        }
    };
    Page::new(t.setup_title, NavEntry::Outside, body)
}

/// What anybody should know before the first workspace runs.
fn process_mode(app: &App, view: &PageContext) -> Markup {
    let t = view.t;
    html! {
        aside.note data-testid="process-mode" {
            h2 { (icons::shield()) (t.process_mode_title) }
            @if app.backends.instances.isolates_users() { p { (t.sandbox_mode_text) } }
            @else { p { (t.process_mode_text) } }
        }
    }
}

//! `/account`: one's own password.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    response::Response,
    routing::{get, post},
};
use codehub_store::{UserChange, UserEdit};
use http::{HeaderMap, StatusCode};
use maud::html;
use serde::Deserialize;

use super::{
    components::Field,
    error::{Result, WebError},
    flash::Plain,
    forms::{Problem, Wrong},
    i18n::words,
    layout::{NavEntry, Page},
    login::with_session,
    view::{ClientAddress, Form, Me, PageContext, see_other_saying},
};
use crate::{
    app::App,
    auth::login::{self, LoginError},
};
use codehub_domain::fields as rules;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/account", get(show)).route("/account/password", post(change))
}

async fn show(me: Me) -> Response {
    page(&me, &[], None).respond(&me.view)
}

fn page(me: &Me, wrong: &[Wrong], said: Option<String>) -> Page {
    let (view, t): (&PageContext, _) = (&me.view, me.view.t);
    let body = html! {
        div.page-head { h1 { (t.account) } }
        section.card.narrow {
            dl.facts {
                dt { (t.username) } dd data-testid="my-name" { (me.user().username) }
                dt { (t.role) } dd { (words::role(view.lang, me.user().role)) }
            }
        }
        section.card.narrow {
            h2 { (t.change_password) }
            @if let Some(said) = said { p.flash.bad role="alert" { (said) } }
            form.stack method="post" action="/account/password" data-testid="password-form" {
                // For password managers: whose password this is.
                input type="text" name="username" value=(me.user().username) autocomplete="username" hidden readonly;
                (Field::password("current", t.current_password, "current-password").render(view, wrong))
                (Field { hint: Some(t.password_hint), ..Field::password("password", t.new_password, "new-password") }.render(view, wrong))
                (Field::password("password_again", t.password_again, "new-password").render(view, wrong))
                label.check {
                    input type="checkbox" name="keep_tokens" value="true" data-testid="keep-tokens";
                    span { (t.keep_tokens) }
                }
                p.hint { (t.keep_tokens_hint) }
                div.actions { button.primary type="submit" data-testid="change-password" { (t.change_password) } }
            }
        }
    };
    Page::new(t.account, NavEntry::Account, body)
}

#[derive(Deserialize)]
struct Change {
    current: String,
    password: String,
    password_again: String,
    #[serde(default)]
    keep_tokens: bool,
}

async fn change(
    State(app): State<Arc<App>>,
    me: Me,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    Form(form): Form<Change>,
) -> Result<Response> {
    let mut wrong = Vec::new();
    if rules::password(&form.password).is_err() {
        wrong.push(Problem::PasswordRule.of("password"));
    } else if form.password != form.password_again {
        wrong.push(Problem::PasswordsDiffer.of("password_again"));
    }
    if !wrong.is_empty() {
        return Ok(page(&me, &wrong, None).respond_with(&me.view, StatusCode::BAD_REQUEST));
    }
    // Counted like a sign-in.
    match login::verify(&app, me.act(), &me.user().username, &form.current, address, &headers).await {
        Ok(_) => {}
        Err(LoginError::Wrong) => {
            let wrong = [Problem::PasswordWrong.of("current")];
            return Ok(page(&me, &wrong, None).respond_with(&me.view, StatusCode::BAD_REQUEST));
        }
        Err(LoginError::TooMany { counted, retry_after }) => {
            let said = words::retry_in(me.view.lang, counted, retry_after);
            return Ok(page(&me, &[], Some(said)).respond_with(&me.view, StatusCode::TOO_MANY_REQUESTS));
        }
        Err(LoginError::Store(error)) => return Err(error.into()),
        Err(LoginError::Hash(error)) => return Err(error.into()),
    }
    let password_hash = Some(app.passwords.hash(&form.password).await?);
    let keep_device = login::known_device(&app, me.user().id, &headers).await?;
    let edit = UserEdit { password_hash, keep_tokens: form.keep_tokens, keep_device, ..UserEdit::default() };
    match app.store().user_edit(me.act(), me.user().id, edit).await? {
        UserChange::Done(user) => {
            let session = login::open_session(&app, me.act(), user).await?;
            let said =
                if form.keep_tokens { Plain::PasswordChanged } else { Plain::PasswordAndTokensChanged };
            Ok(with_session(&app, see_other_saying(&app, "/account", said), &session))
        }
        UserChange::NotFound
        | UserChange::NameTaken
        | UserChange::LastAdmin
        | UserChange::OwnsWorkspaces(_) => Err(WebError::NotFound),
    }
}

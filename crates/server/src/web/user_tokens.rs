//! `/users/{id}/tokens/…`: what programs use to act as somebody else, for administrators to see and revoke.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, State},
    response::Response,
    routing::get,
};
use codehub_domain::{TokenId, UserId, user::ApiToken};
use maud::{Markup, html};

use super::{
    components::Confirm,
    error::{Result, WebError},
    flash::Plain,
    layout::{NavEntry, Page},
    tokens,
    view::{Admin, PageContext, see_other_saying},
};
use crate::app::App;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/users/{id}/tokens/{token}/delete", get(confirm).post(revoke))
}

/// The part of a user's page that lists their tokens.
pub(super) fn section(view: &PageContext, user: UserId, tokens: &[ApiToken]) -> Markup {
    let t = view.t;
    html! {
        section.card data-testid="user-tokens" {
            h2 { (t.their_tokens) }
            @if tokens.is_empty() {
                p.quiet { (t.they_have_no_tokens) }
            } @else {
                p.quiet { (t.their_tokens_text) }
                (tokens::table(view, tokens, &format!("/users/{user}/tokens"), t.revoke))
            }
        }
    }
}

/// The ids in the path. One that is no id names nothing.
fn ids((user, token): (String, String)) -> Result<(UserId, TokenId)> {
    user.parse().ok().zip(token.parse().ok()).ok_or(WebError::NotFound)
}

async fn confirm(
    State(app): State<Arc<App>>,
    Admin(me): Admin,
    Path(path): Path<(String, String)>,
) -> Result<Response> {
    let (user, id) = ids(path)?;
    let tokens = app.store().token_list(user).await?;
    let token = tokens.into_iter().find(|token| token.id == id).ok_or(WebError::NotFound)?;
    let (view, t) = (&me.view, me.view.t);
    let confirm = Confirm {
        title: t.revoke_token_title.to_owned(),
        text: html! { p { strong.break { (token.name) } } p { (t.delete_token_text) } },
        action: format!("/users/{user}/tokens/{id}/delete"),
        yes: t.revoke,
        no_href: format!("/users/{user}"),
        hidden: &[],
    };
    Ok(Page::new(t.revoke_token_title, NavEntry::Users, confirm.render(view)).respond(view))
}

async fn revoke(
    State(app): State<Arc<App>>,
    Admin(me): Admin,
    Path(path): Path<(String, String)>,
) -> Result<Response> {
    let (user, id) = ids(path)?;
    if !app.store().token_delete(me.act(), user, id).await? {
        return Err(WebError::NotFound);
    }
    tracing::info!(%user, token = %id, by = %me.user().id, "an administrator revoked a token");
    Ok(see_other_saying(&app, &format!("/users/{user}"), Plain::TokenRevoked))
}

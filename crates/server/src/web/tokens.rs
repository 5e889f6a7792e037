//! `/tokens`: one's API tokens. A new one is shown on the answer to its form and never again.

use std::sync::Arc;

use axum::{Router, extract::State, response::Response, routing::get};
use codehub_domain::{TokenId, user::ApiToken};
use http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use super::{
    components::{Confirm, Field, moment},
    error::{Result, WebError},
    flash::Plain,
    forms::{Problem, Wrong},
    icons,
    layout::{NavEntry, Page},
    view::{Form, Me, PageContext, PathId, see_other, see_other_saying},
};
use crate::{
    app::App,
    auth::{Via, secret},
};
use codehub_domain::fields as rules;

/// What the form offers, in days; 0 is for ever.
const LIFETIMES: [u32; 5] = [7, 30, 90, 365, 0];
const DEFAULT_DAYS: u32 = 90;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/tokens", get(list).post(create))
        .route("/tokens/{id}/delete", get(confirm).post(delete))
}

async fn list(State(app): State<Arc<App>>, me: Me) -> Result<Response> {
    let tokens = app.store().token_list(me.user().id).await?;
    Ok(page(&me.view, &tokens, "", &[], None).respond(&me.view))
}

#[derive(Debug, Deserialize)]
struct NewToken {
    name: String,
    #[serde(default)]
    days: String,
}

async fn create(State(app): State<Arc<App>>, me: Me, Form(form): Form<NewToken>) -> Result<Response> {
    // A token makes no tokens, by this way neither.
    let Via::Session(session) = me.identity.via else { return Err(WebError::Forbidden) };
    let name = form.name.trim();
    if rules::token_name(name).is_err() {
        let tokens = app.store().token_list(me.user().id).await?;
        let page = page(&me.view, &tokens, name, &[Problem::TokenNameRule.of("name")], None);
        return Ok(page.respond_with(&me.view, StatusCode::BAD_REQUEST));
    }
    let days = form.days.parse().ok().filter(|days| LIFETIMES.contains(days)).ok_or(WebError::BadRequest)?;
    let token = secret::new_token();
    let expires = (days > 0).then_some(days * 86_400);
    let id = TokenId::from_uuid(Uuid::now_v7());
    let created =
        app.store().token_create(me.act(), id, session, name, &secret::hash(&token), expires).await?;
    if created.is_none() {
        // The session ended meanwhile.
        return Ok(see_other("/login?next=/tokens"));
    }
    let tokens = app.store().token_list(me.user().id).await?;
    Ok(page(&me.view, &tokens, "", &[], Some(&token)).respond_with(&me.view, StatusCode::CREATED))
}

fn page(view: &PageContext, tokens: &[ApiToken], name: &str, wrong: &[Wrong], created: Option<&str>) -> Page {
    let t = view.t;
    let body = html! {
        div.page-head { div { h1 { (t.tokens) } p.sub { (t.tokens_text) } } }
        @if let Some(token) = created {
            section.card.note.good role="status" data-testid="new-token-card" {
                h2 { (icons::check()) (t.token_created) }
                p { (t.token_once) }
                div.copy {
                    input type="text" readonly value=(token) aria-label=(t.token) data-testid="new-token" #new-token;
                    button type="button" data-copy="new-token" data-done=(t.copied) hidden data-testid="copy" { (t.copy) }
                }
            }
        }
        section.card {
            h2 { (t.new_token) }
            form.inline-form method="post" action="/tokens" data-testid="token-form" {
                (Field { required: true, max: Some(100), hint: Some(t.token_name_hint), ..Field::text("name", t.name, name) }.render(view, wrong))
                div.field {
                    label for="days" { (t.valid_for) }
                    select #days name="days" {
                        @for days in LIFETIMES {
                            option value=(days) selected[days == DEFAULT_DAYS] {
                                @if days == 0 { (t.forever) } @else { (days) " " (t.days) }
                            }
                        }
                    }
                }
                button.primary type="submit" data-testid="create-token" { (t.create_token) }
            }
        }
        section.card {
            h2 { (t.your_tokens) }
            @if tokens.is_empty() { p.quiet { (t.no_tokens) } } @else { (table(view, tokens, "/tokens", t.delete)) }
        }
    };
    Page::new(t.tokens, NavEntry::Tokens, body)
}

/// Tokens, each with a way to end it: a page below `base` asks first.
pub(super) fn table(view: &PageContext, tokens: &[ApiToken], base: &str, end: &str) -> Markup {
    let t = view.t;
    html! {
        table.stacking {
            thead { tr {
                th scope="col" { (t.name) } th scope="col" { (t.created) } th scope="col" { (t.last_used) }
                th scope="col" { (t.expires) } th scope="col" { span.sr-only { (t.actions) } }
            } }
            tbody {
                @for token in tokens {
                    tr data-testid="token" data-id=(token.id) {
                        th.break scope="row" { (token.name) }
                        td data-label=(t.created) { (moment(view, token.created_at)) }
                        td data-label=(t.last_used) {
                            @match token.last_used_at { Some(at) => (moment(view, at)), None => (t.never_used) }
                        }
                        td data-label=(t.expires) {
                            @match token.expires_at { Some(at) => (moment(view, at)), None => (t.never) }
                        }
                        td.end {
                            a.button.danger href={ (base) "/" (token.id) "/delete" } data-dialog data-testid="delete-token" {
                                (end) span.sr-only { " " (token.name) }
                            }
                        }
                    }
                }
            }
        }
    }
}

async fn confirm(State(app): State<Arc<App>>, me: Me, PathId(id): PathId<TokenId>) -> Result<Response> {
    let tokens = app.store().token_list(me.user().id).await?;
    let token = tokens.into_iter().find(|token| token.id == id).ok_or(WebError::NotFound)?;
    let (view, t) = (&me.view, me.view.t);
    let confirm = Confirm {
        title: t.delete_token_title.to_owned(),
        text: html! { p { strong.break { (token.name) } } p { (t.delete_token_text) } },
        action: format!("/tokens/{id}/delete"),
        yes: t.delete,
        no_href: "/tokens".into(),
        hidden: &[],
    };
    Ok(Page::new(t.delete_token_title, NavEntry::Tokens, confirm.render(view)).respond(view))
}

async fn delete(State(app): State<Arc<App>>, me: Me, PathId(id): PathId<TokenId>) -> Result<Response> {
    if app.store().token_delete(me.act(), me.user().id, id).await? {
        Ok(see_other_saying(&app, "/tokens", Plain::TokenDeleted))
    } else {
        Err(WebError::NotFound)
    }
}

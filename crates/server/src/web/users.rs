//! `/users`: people, for administrators.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    response::Response,
    routing::{get, post},
};
use codehub_domain::{
    UserId,
    user::{Role, User},
};
use codehub_store::{Page as StorePage, UserChange, UserEdit};
use http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use super::{
    components::{Confirm, Field, moment},
    error::{Result, WebError},
    flash::{Flash, Plain},
    forms::{Problem, Wrong},
    i18n::words,
    icons,
    layout::{NavEntry, Page},
    setup, user_tokens,
    view::{Admin, Form, Me, PageContext, PathId, Query, see_other_saying},
};
use crate::app::App;
use codehub_domain::fields as rules;

const PAGE: u32 = 100;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/users", get(list).post(create))
        .route("/users/{id}", get(show))
        .route("/users/{id}/role", post(role))
        .route("/users/{id}/disabled", post(disable))
        .route("/users/{id}/password", post(password))
        .route("/users/{id}/delete", get(confirm).post(delete))
        .merge(user_tokens::router())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct After {
    after: String,
}

async fn list(State(app): State<Arc<App>>, Admin(me): Admin, Query(query): Query<After>) -> Result<Response> {
    let users = app.store().user_list(query.after.parse().ok(), PAGE).await?;
    Ok(list_page(&me, &users, "", &[]).respond(&me.view))
}

fn list_page(me: &Me, users: &StorePage<User>, username: &str, wrong: &[Wrong]) -> Page {
    let (view, t) = (&me.view, me.view.t);
    let body = html! {
        div.page-head { h1 { (t.users) } }
        section.card {
            table.stacking {
                thead { tr {
                    th scope="col" { (t.username) } th scope="col" { (t.role) } th scope="col" { (t.status) }
                    th scope="col" { (t.created) } th scope="col" { span.sr-only { (t.actions) } }
                } }
                tbody {
                    @for user in &users.items {
                        tr data-testid="user" data-name=(user.username) {
                            th.break scope="row" {
                                (user.username)
                                @if user.id == me.user().id { " " span.tag { (t.you) } }
                            }
                            td data-label=(t.role) { (words::role(view.lang, user.role)) }
                            td data-label=(t.status) { (active(view, user)) }
                            td data-label=(t.created) { (moment(view, user.created_at)) }
                            td.end {
                                a.button href={ "/users/" (user.id) } data-testid="manage-user" {
                                    (t.manage) span.sr-only { " " (user.username) }
                                }
                            }
                        }
                    }
                }
            }
            @if let Some(last) = users.items.last().filter(|_| users.more) {
                nav.pager aria-label=(t.pages) { a.button href={ "/users?after=" (last.id) } rel="next" { (t.next_page) } }
            }
        }
        section.card {
            h2 { (t.add_user) }
            form.stack.two method="post" action="/users" data-testid="user-form" {
                (Field { required: true, max: Some(64), ..Field::text("username", t.username, username) }.render(view, wrong))
                (role_select(view, Role::User))
                (Field { hint: Some(t.password_hint), ..Field::password("password", t.password, "new-password") }.render(view, wrong))
                (Field::password("password_again", t.password_again, "new-password").render(view, wrong))
                div.actions { button.primary type="submit" data-testid="add-user" { (t.add_user) } }
            }
        }
    };
    Page::new(t.users, NavEntry::Users, body)
}

fn active(view: &PageContext, user: &User) -> Markup {
    html! {
        @if user.disabled {
            span.no.bad { (icons::cross()) (view.t.disabled) }
        } @else {
            span.yes { (icons::check()) (view.t.active) }
        }
    }
}

fn role_select(view: &PageContext, chosen: Role) -> Markup {
    html! {
        div.field {
            label for="role" { (view.t.role) }
            select #role name="role" data-testid="field-role" {
                @for role in Role::ALL {
                    option value=(role) selected[*role == chosen] { (words::role(view.lang, *role)) }
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct NewUser {
    username: String,
    password: String,
    password_again: String,
    role: Role,
}

async fn create(
    State(app): State<Arc<App>>,
    Admin(me): Admin,
    Form(form): Form<NewUser>,
) -> Result<Response> {
    let username = form.username.trim();
    let mut wrong = setup::check(username, &form.password, &form.password_again);
    if app.is_for_one_user() {
        wrong.push(Problem::NoSandbox.of("username"));
    }
    if wrong.is_empty() {
        let hash = app.passwords.hash(&form.password).await?;
        let id = UserId::from_uuid(Uuid::now_v7());
        match app.store().user_create(me.act(), id, username, &hash, form.role).await? {
            UserChange::Done(_) => return Ok(see_other_saying(&app, "/users", Plain::UserCreated)),
            UserChange::NameTaken => wrong.push(Problem::UsernameTaken.of("username")),
            UserChange::NotFound | UserChange::LastAdmin | UserChange::OwnsWorkspaces(_) => {
                return Err(WebError::Internal);
            }
        }
    }
    let users = app.store().user_list(None, PAGE).await?;
    Ok(list_page(&me, &users, username, &wrong).respond_with(&me.view, StatusCode::BAD_REQUEST))
}

async fn show(State(app): State<Arc<App>>, Admin(me): Admin, PathId(id): PathId<UserId>) -> Result<Response> {
    let user = app.store().user_get(id).await?.ok_or(WebError::NotFound)?;
    let tokens = app.store().token_list(id).await?;
    let (view, t) = (&me.view, me.view.t);
    let myself = user.id == me.user().id;
    let body = html! {
        p.crumb { a href="/users" { (icons::back()) (t.users) } }
        div.page-head { h1.break { (user.username) } (active(view, &user)) }
        @if myself { p.note { (t.this_is_you) " " a href="/account" { (t.account) } } } @else {
            section.card.narrow {
                h2 { (t.role) }
                form.inline-form method="post" action={ "/users/" (id) "/role" } data-testid="role-form" {
                    (role_select(view, user.role))
                    button type="submit" data-testid="save-role" { (t.save) }
                }
            }
            section.card.narrow {
                h2 { (t.reset_password) }
                p.quiet { (t.reset_password_text) }
                form.stack method="post" action={ "/users/" (id) "/password" } data-testid="reset-form" {
                    (Field { hint: Some(t.password_hint), ..Field::password("password", t.new_password, "new-password") }.render(view, &[]))
                    div.actions { button type="submit" data-testid="reset-password" { (t.reset_password) } }
                }
            }
            (user_tokens::section(view, id, &tokens))
            section.card.narrow {
                h2 { (t.access) }
                p.quiet { (t.disable_text) }
                form.actions method="post" action={ "/users/" (id) "/disabled" } {
                    input type="hidden" name="disabled" value=(!user.disabled);
                    button type="submit" data-testid="toggle-disabled" {
                        (if user.disabled { t.enable } else { t.disable })
                    }
                    a.button.danger href={ "/users/" (id) "/delete" } data-dialog data-testid="delete-user" { (t.delete_user) }
                }
            }
        }
    };
    Ok(Page::new(user.username.clone(), NavEntry::Users, body).respond(view))
}

#[derive(Deserialize)]
struct RoleForm {
    role: Role,
}

async fn role(
    State(app): State<Arc<App>>,
    Admin(me): Admin,
    PathId(id): PathId<UserId>,
    Form(form): Form<RoleForm>,
) -> Result<Response> {
    change(&app, &me, id, UserEdit { role: Some(form.role), ..UserEdit::default() }).await
}

#[derive(Deserialize)]
struct DisabledForm {
    disabled: bool,
}

async fn disable(
    State(app): State<Arc<App>>,
    Admin(me): Admin,
    PathId(id): PathId<UserId>,
    Form(form): Form<DisabledForm>,
) -> Result<Response> {
    change(&app, &me, id, UserEdit { disabled: Some(form.disabled), ..UserEdit::default() }).await
}

#[derive(Deserialize)]
struct PasswordForm {
    password: String,
}

async fn password(
    State(app): State<Arc<App>>,
    Admin(me): Admin,
    PathId(id): PathId<UserId>,
    Form(form): Form<PasswordForm>,
) -> Result<Response> {
    if rules::password(&form.password).is_err() {
        return Ok(see_other_saying(&app, &format!("/users/{id}"), Plain::PasswordRule));
    }
    let password_hash = Some(app.passwords.hash(&form.password).await?);
    change(&app, &me, id, UserEdit { password_hash, ..UserEdit::default() }).await
}

/// One's own account is changed elsewhere, with the old password.
async fn change(app: &App, me: &Me, id: UserId, edit: UserEdit) -> Result<Response> {
    if id == me.user().id {
        return Ok(see_other_saying(app, &format!("/users/{id}"), Plain::NotYourself));
    }
    let flash = said(&app.store().user_edit(me.act(), id, edit).await?, Plain::UserSaved)?;
    Ok(see_other_saying(app, &format!("/users/{id}"), flash))
}

fn said(change: &UserChange, done: Plain) -> Result<Flash> {
    match change {
        UserChange::Done(_) => Ok(done.into()),
        UserChange::LastAdmin => Ok(Plain::LastAdmin.into()),
        UserChange::OwnsWorkspaces(_) => Ok(Plain::OwnsWorkspaces.into()),
        UserChange::NotFound => Err(WebError::NotFound),
        UserChange::NameTaken => Err(WebError::Internal),
    }
}

async fn confirm(
    State(app): State<Arc<App>>,
    Admin(me): Admin,
    PathId(id): PathId<UserId>,
) -> Result<Response> {
    let user = app.store().user_get(id).await?.ok_or(WebError::NotFound)?;
    let (view, t) = (&me.view, me.view.t);
    let confirm = Confirm {
        title: t.delete_user_title.to_owned(),
        text: html! { p { strong.break { (user.username) } } p { (t.delete_user_text) } },
        action: format!("/users/{id}/delete"),
        yes: t.delete_user,
        no_href: format!("/users/{id}"),
        hidden: &[],
    };
    Ok(Page::new(t.delete_user_title, NavEntry::Users, confirm.render(view)).respond(view))
}

async fn delete(
    State(app): State<Arc<App>>,
    Admin(me): Admin,
    PathId(id): PathId<UserId>,
) -> Result<Response> {
    if id == me.user().id {
        return Ok(see_other_saying(&app, &format!("/users/{id}"), Plain::NotYourself));
    }
    let change = app.store().user_delete(me.act(), id).await?;
    let deleted = matches!(change, UserChange::Done(_));
    let flash = said(&change, Plain::UserDeleted)?;
    let to = if deleted { "/users".to_owned() } else { format!("/users/{id}") };
    Ok(see_other_saying(&app, &to, flash))
}

//! `/device`: whoever is signed in lets a program act for them. The code is typed, or compared with what the program shows;
//! then a form confirms it.

use std::sync::Arc;

use axum::{Router, extract::State, response::Response, routing::get};
use codehub_store::DeviceLogin;
use http::{HeaderMap, HeaderValue, StatusCode, header::RETRY_AFTER};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    components::Field,
    error::{Result, WebError},
    icons,
    layout::{NavEntry, Page},
    view::{Form, Me, PageContext, Query},
};
use crate::{
    app::App,
    auth::{
        Via,
        device::{self, DeviceError},
    },
};

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/device", get(show).post(decide))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    code: String,
    /// `allow` or `deny`.
    decision: String,
}

async fn show(
    State(app): State<Arc<App>>,
    me: Me,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response> {
    let view = &me.view;
    // A page elsewhere must not use up the tries of whoever is led here by it.
    let led_here = headers.get("sec-fetch-site").is_some_and(|site| site != "none" && site != "same-origin");
    if asked.code.is_empty() || led_here {
        return Ok(page(view, &typing(view, &asked.code, None)).respond(view));
    }
    match device::find(&app, me.user().id, &asked.code).await {
        Ok(Some(login)) => Ok(page(view, &comparing(view, &asked.code, &login)).respond(view)),
        Ok(None) => Ok(unknown(view, &asked.code)),
        Err(error) => refused(view, &asked.code, error),
    }
}

async fn decide(State(app): State<Arc<App>>, me: Me, Form(asked): Form<Asked>) -> Result<Response> {
    // A token makes no tokens, by this way neither.
    let Via::Session(session) = me.identity.via else { return Err(WebError::Forbidden) };
    let (view, t) = (&me.view, me.view.t);
    let allow = match asked.decision.as_str() {
        "allow" => true,
        "deny" => false,
        _ => return Err(WebError::BadRequest),
    };
    let decided = device::decide(&app, me.act(), (session, me.user().id), &asked.code, allow).await;
    let (title, text, icon) = match decided {
        Ok(true) if allow => (t.device_allowed, t.device_allowed_text, icons::check()),
        Ok(true) => (t.device_denied, t.device_denied_text, icons::cross()),
        Ok(false) => return Ok(unknown(view, &asked.code)),
        Err(error) => return refused(view, &asked.code, error),
    };
    let body = html! {
        section.card.narrow.door role="status" data-testid="device-decided" data-allowed=(allow) {
            h1 { (icon) (title) }
            p { (text) }
            div.actions.center { a.button.primary href="/" { (t.to_workspaces) } }
        }
    };
    Ok(page(view, &body).respond(view))
}

fn unknown(view: &PageContext, code: &str) -> Response {
    page(view, &typing(view, code, Some(view.t.device_unknown))).respond_with(view, StatusCode::BAD_REQUEST)
}

fn refused(view: &PageContext, code: &str, error: DeviceError) -> Result<Response> {
    match error {
        DeviceError::Store(error) => Err(error.into()),
        DeviceError::Machine => Err(WebError::BadRequest),
        DeviceError::Wait(seconds) => {
            let page = page(view, &typing(view, code, Some(view.t.device_wait)));
            let mut response = page.respond_with(view, StatusCode::TOO_MANY_REQUESTS);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
            Ok(response)
        }
    }
}

fn page(view: &PageContext, body: &Markup) -> Page {
    Page::new(view.t.device_title, NavEntry::Tokens, body.clone())
}

fn typing(view: &PageContext, code: &str, problem: Option<&str>) -> Markup {
    let t = view.t;
    html! {
        section.card.narrow.door {
            h1 { (t.device_title) }
            p { (t.device_text) }
            @if let Some(problem) = problem {
                p.flash.bad role="alert" data-testid="device-error" { (icons::cross()) span { (problem) } }
            }
            form.stack method="get" action="/device" data-testid="device-form" {
                (Field {
                    required: true,
                    autofocus: true,
                    max: Some(20),
                    hint: Some(t.device_code_hint),
                    ..Field::text("code", t.device_code, code)
                }.render(view, &[]))
                button.primary.wide type="submit" data-testid="device-continue" { (t.device_continue) }
            }
        }
    }
}

fn comparing(view: &PageContext, code: &str, login: &DeviceLogin) -> Markup {
    let t = view.t;
    let code = device::parse(code).map(|code| device::shown(&code)).unwrap_or_default();
    html! {
        section.card.narrow data-testid="device-confirm" {
            h1 { (t.device_title) }
            p { (t.device_compare) }
            p.device-code data-testid="device-code" { (code) }
            dl.facts {
                dt { (t.device_machine) } dd.break data-testid="device-machine" { (login.machine) }
                dt { (t.device_address) } dd data-testid="device-address" { (login.address) }
            }
            p { (t.device_warning) }
            form.actions method="post" action="/device" {
                input type="hidden" name="code" value=(code);
                button type="submit" name="decision" value="deny" data-testid="device-deny" { (t.device_deny) }
                button.primary type="submit" name="decision" value="allow" data-testid="device-allow" { (t.device_allow) }
            }
        }
    }
}

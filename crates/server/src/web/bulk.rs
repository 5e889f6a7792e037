//! `POST /workspaces/bulk`: one act for all workspaces that are ticked in the list.

use std::sync::Arc;

use axum::{Router, extract::State, response::Response, routing::post};
use codehub_domain::{
    Desired, Workspace, WorkspaceId,
    limits::{LimitHit, LimitScope},
};
use maud::html;

use super::{
    actions,
    components::Confirm,
    error::{Result, WebError},
    flash::{Flash, Plain},
    forms,
    i18n::words,
    layout::{NavEntry, Page},
    view::{Form, Me, see_other_saying},
};
use crate::{
    app::App,
    service::{self, Access, Denied},
};

/// More than a page of the list has.
const MOST: usize = 200;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/workspaces/bulk", post(bulk))
}

/// What the form sent: `id` as often as boxes are ticked.
struct Ticked {
    ids: Vec<WorkspaceId>,
    desired: Desired,
    sure: bool,
    back: String,
}

impl Ticked {
    fn read(fields: Vec<(String, String)>) -> Result<Self> {
        let mut ticked = Self { ids: Vec::new(), desired: Desired::Standby, sure: false, back: "/".into() };
        let mut asked = None;
        for (name, value) in fields {
            match name.as_str() {
                "id" => ticked.ids.push(value.parse().map_err(|_| WebError::BadRequest)?),
                "desired_state" => asked = value.parse().ok(),
                "sure" => ticked.sure = value == "yes",
                "back" => ticked.back = forms::local_path(&value).unwrap_or("/").to_owned(),
                _ => {}
            }
        }
        ticked.ids.sort_unstable();
        ticked.ids.dedup();
        ticked.desired = asked.filter(|_| ticked.ids.len() <= MOST).ok_or(WebError::BadRequest)?;
        Ok(ticked)
    }
}

async fn bulk(
    State(app): State<Arc<App>>,
    me: Me,
    Form(fields): Form<Vec<(String, String)>>,
) -> Result<Response> {
    let ticked = Ticked::read(fields)?;
    if ticked.ids.is_empty() {
        return Ok(see_other_saying(&app, &ticked.back, Plain::NothingTicked));
    }
    if ticked.desired == Desired::Deleted && !ticked.sure {
        return confirm(&app, &me, &ticked).await;
    }
    let (mut done, mut skipped, mut limits) = (0, 0_u32, Vec::new());
    let found = app.store().workspaces_get(&ticked.ids).await?;
    let already = |id: &WorkspaceId| found.iter().any(|it| it.id == *id && it.desired == ticked.desired);
    for id in ticked.ids.iter().filter(|id| !already(id)) {
        match actions::ask(&app, &me, *id, ticked.desired).await {
            Ok(_) => done += 1,
            Err(Denied::Store(error)) => return Err(error.into()),
            Err(denied) => {
                skipped += 1;
                if let Denied::Limit(LimitHit { scope: LimitScope::User { limit }, .. }) = denied {
                    limits.push(limit);
                }
            }
        }
    }
    let limit = limits.first().copied().filter(|_| limits.len() == skipped as usize);
    Ok(see_other_saying(&app, &ticked.back, Flash::Bulk { desired: ticked.desired, done, skipped, limit }))
}

/// Names what would be deleted. Whatever this person may not delete is not named, and would be skipped.
async fn confirm(app: &App, me: &Me, ticked: &Ticked) -> Result<Response> {
    let (view, t) = (&me.view, me.view.t);
    let found = app.store().workspaces_get(&ticked.ids).await?;
    let named: Vec<&Workspace> =
        found.iter().filter(|found| service::permit(me.user(), found, Access::Manage).is_ok()).collect();
    if named.is_empty() {
        return Ok(see_other_saying(app, &ticked.back, Plain::NothingTicked));
    }
    let mut hidden: Vec<_> = named.iter().map(|found| ("id", found.id.to_string())).collect();
    hidden.extend([
        ("desired_state", Desired::Deleted.to_string()),
        ("sure", "yes".to_owned()),
        ("back", ticked.back.clone()),
    ]);
    let confirm = Confirm {
        title: words::delete_many(view.lang, named.len()),
        text: html! {
            ul.names data-testid="ticked-names" { @for found in &named { li.break { (found.name) } } }
            p { (t.delete_text) }
        },
        action: "/workspaces/bulk".into(),
        yes: t.delete_for_good,
        no_href: ticked.back.clone(),
        hidden: &hidden,
    };
    Ok(Page::new(t.delete_title, NavEntry::Workspaces, confirm.render(view)).respond(view))
}

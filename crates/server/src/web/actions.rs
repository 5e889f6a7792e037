//! The buttons: start, stop, archive, recover, delete. Each is a form that is answered with "look
//! there", and a refusal is a sentence on the page one comes back to.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    response::Response,
    routing::{get, post},
};
use codehub_domain::{ArchiveKey, Desired, Workspace, WorkspaceId, audit::AuditAction, recovery::Recovery};
use maud::html;
use serde::Deserialize;

use super::{
    components::Confirm,
    error::Result,
    flash::{Flash, Plain},
    forms,
    layout::{self, NavEntry, Page},
    view::{Form, Me, PathId, Query, see_other, see_other_saying},
};
use crate::{
    app::App,
    service::{self, Access, Denied},
};

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/workspaces/{id}/start", post(start))
        .route("/workspaces/{id}/stop", post(stop))
        .route("/workspaces/{id}/archive", post(archive))
        .route("/workspaces/{id}/recover", post(recover))
        .route("/workspaces/{id}/delete", get(confirm_delete).post(delete))
        .route("/flash", get(flash))
}

/// Where to come back to, if it is one of our pages.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Back {
    back: String,
}

impl Back {
    fn path(&self) -> &str {
        forms::local_path(&self.back).unwrap_or("/")
    }

    /// Whether that is a way into a workspace. It shows no messages, and whoever goes on sees what came of it.
    fn is_way_in(&self) -> bool {
        ["/open/", "/w/"].iter().any(|way| self.path().starts_with(way))
    }
}

type Posted = (State<Arc<App>>, Me, PathId<WorkspaceId>, Form<Back>);

async fn start(posted: Posted) -> Result<Response> {
    answer(posted, Desired::Running, Plain::Starting).await
}

async fn stop(posted: Posted) -> Result<Response> {
    answer(posted, Desired::Standby, Plain::Stopping).await
}

async fn archive(posted: Posted) -> Result<Response> {
    answer(posted, Desired::Archived, Plain::Archiving).await
}

/// What was just done, and nothing else: for the script, which keeps the page it is on.
async fn flash(me: Me) -> Response {
    layout::flashes_alone(&me.view)
}

async fn answer(
    (State(app), me, PathId(id), Form(back)): Posted,
    desired: Desired,
    done: Plain,
) -> Result<Response> {
    match ask(&app, &me, id, desired).await {
        Ok(_) if back.is_way_in() => Ok(see_other(back.path())),
        Ok(_) => Ok(see_other_saying(&app, back.path(), done)),
        // Its own page has the choice that is missing; the page one came from may not.
        Err(denied @ Denied::Recovery(_)) => {
            Ok(see_other_saying(&app, &format!("/workspaces/{id}#recover"), Flash::of_refusal(denied)?))
        }
        Err(denied) if back.is_way_in() => {
            Ok(see_other_saying(&app, &format!("/workspaces/{id}"), Flash::of_refusal(denied)?))
        }
        Err(denied) => Ok(see_other_saying(&app, back.path(), Flash::of_refusal(denied)?)),
    }
}

/// Asks for a target state, after looking whether this person may.
pub(super) async fn ask(
    app: &App,
    me: &Me,
    id: WorkspaceId,
    desired: Desired,
) -> std::result::Result<Workspace, Denied> {
    let action = AuditAction::of_desired(desired);
    service::find_to(app, &me.identity, id, service::access_for(desired), action).await?;
    service::ask(app, &me.identity, id, desired, &service::requested(desired)).await
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RecoverForm {
    /// Where to come back to, if not to the workspace's own page.
    back: String,
    restore_from: String,
    /// A ticked box sends `yes`.
    accept_data_loss: String,
    /// What it is to be from now on; empty leaves it.
    desired_state: String,
}

async fn recover(
    State(app): State<Arc<App>>,
    me: Me,
    PathId(id): PathId<WorkspaceId>,
    Form(form): Form<RecoverForm>,
) -> Result<Response> {
    // Only our own buttons send one, and none of them deletes.
    let desired = form.desired_state.parse().ok().filter(|desired| *desired != Desired::Deleted);
    let (access, action) = (service::access_for_recovery(desired), AuditAction::WorkspaceRecovered);
    service::find_to(&app, &me.identity, id, access, action).await?;
    let own = format!("/workspaces/{id}");
    let there = forms::local_path(&form.back).unwrap_or(&own);
    let restore_from = match form.restore_from.as_str() {
        "" => None,
        key => match key.parse::<ArchiveKey>() {
            Ok(key) => Some(key),
            Err(_) => return Ok(see_other_saying(&app, there, Plain::NoSuchArchive)),
        },
    };
    let recovery =
        Recovery { restore_from, accept_data_loss: form.accept_data_loss == "yes", ..Recovery::default() };
    let flash = match service::recover(&app, &me.identity, id, recovery, desired).await {
        Ok(_) => Plain::Recovering.into(),
        Err(denied) => Flash::of_refusal(denied)?,
    };
    Ok(see_other_saying(&app, there, flash))
}

async fn confirm_delete(
    State(app): State<Arc<App>>,
    me: Me,
    PathId(id): PathId<WorkspaceId>,
    Query(back): Query<Back>,
) -> Result<Response> {
    let workspace = service::find(&app, me.user(), id, Access::Manage).await?;
    let (view, t) = (&me.view, me.view.t);
    let confirm = Confirm {
        title: t.delete_title.to_owned(),
        text: html! {
            p { strong.break { (workspace.name) } }
            p { (t.delete_text) }
        },
        action: format!("/workspaces/{id}/delete"),
        yes: t.delete_for_good,
        no_href: forms::local_path(&back.back).map_or_else(|| format!("/workspaces/{id}"), str::to_owned),
        hidden: &[("back", back.path().to_owned())],
    };
    Ok(Page::new(t.delete_title, NavEntry::Workspaces, confirm.render(view)).respond(view))
}

async fn delete((State(app), me, PathId(id), Form(back)): Posted) -> Result<Response> {
    let own = format!("/workspaces/{id}");
    // Its own page ends with it.
    let back = Some(back.path()).filter(|path| !path.starts_with(&own)).unwrap_or("/");
    match ask(&app, &me, id, Desired::Deleted).await {
        Ok(_) => Ok(see_other_saying(&app, back, Plain::Deleted)),
        Err(denied) => {
            let flash = Flash::of_refusal(denied)?;
            Ok(see_other_saying(&app, &own, flash))
        }
    }
}

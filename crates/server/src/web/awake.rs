//! Why a workspace is awake, when it will sleep, what keeps it awake, or why it stopped: a part of its
//! page, with the forms "not yet" and "give back".

use std::sync::Arc;

use axum::{Router, extract::State, response::Response, routing::post};
use codehub_domain::{Desired, HoldId, Phase, WorkspaceId};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    components::{ahead, moment, post_button},
    detail::Detail,
    error::Result,
    flash::{Flash, Plain},
    i18n::{history, words},
    icons,
    view::{Form, Me, PathId, see_other_saying},
};
use crate::{
    app::App,
    service::{self, Access},
};

/// Sleep is worth a word at the top of the page in the last fifth of the time, within these bounds: a page that
/// warns all the time is not read, one that warns too late is no help.
const SOON_AT_LEAST: u32 = 2 * 60;
const SOON_AT_MOST: u32 = 10 * 60;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/workspaces/{id}/snooze", post(snooze))
        .route("/workspaces/{id}/release", post(release))
}

async fn snooze(State(app): State<Arc<App>>, me: Me, PathId(id): PathId<WorkspaceId>) -> Result<Response> {
    let flash = match service::snooze(&app, me.user(), id).await {
        Ok(_) => Plain::Snoozed.into(),
        Err(denied) => Flash::of_refusal(denied)?,
    };
    Ok(see_other_saying(&app, &format!("/workspaces/{id}"), flash))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Release {
    hold: String,
}

async fn release(
    State(app): State<Arc<App>>,
    me: Me,
    PathId(id): PathId<WorkspaceId>,
    Form(form): Form<Release>,
) -> Result<Response> {
    service::find(&app, me.user(), id, Access::Manage).await?;
    let flash = match form.hold.parse::<HoldId>() {
        Ok(hold) => {
            // One that has ended by itself is what was asked for, too.
            app.store().workspace_release(id, Some(hold)).await?;
            Plain::Released
        }
        Err(_) => Plain::NoSuchLease,
    };
    Ok(see_other_saying(&app, &format!("/workspaces/{id}"), flash))
}

/// Whether it sleeps soon.
fn soon(me: &Me, detail: &Detail) -> bool {
    let ttl = detail.workspace.standby_ttl_seconds.unwrap_or(detail.policy.standby_seconds);
    let soon = i64::from((ttl / 5).clamp(SOON_AT_LEAST, SOON_AT_MOST));
    detail.activity.sleeps_at.is_some_and(|at| at.duration_since(me.view.now).as_secs() < soon)
}

/// What is said at the top before a workspace goes to sleep.
pub(super) fn banner(me: &Me, detail: &Detail) -> Markup {
    let (t, ws) = (me.view.t, &detail.workspace);
    if !soon(me, detail) || ws.status.phase != Phase::Running {
        return html! { div #part-sleep data-part {} };
    }
    html! {
        div #part-sleep data-part {
            section.card.note role="status" data-testid="sleep-soon" {
                h2 { (icons::phase(Phase::Standby)) (t.going_to_sleep) }
                p { (t.sleeps_soon_text) }
                @if ws.owner == me.user().id { (not_yet(me, detail, "primary", "snooze-banner")) }
            }
        }
    }
}

fn not_yet(me: &Me, detail: &Detail, class: &str, testid: &str) -> Markup {
    let ws = &detail.workspace;
    post_button(
        &format!("/workspaces/{}/snooze", ws.id),
        &format!("/workspaces/{}", ws.id),
        class,
        testid,
        me.view.t.snooze,
        &ws.name,
    )
}

pub(super) fn panel(me: &Me, detail: &Detail) -> Markup {
    let (view, t, ws, activity) = (&me.view, me.view.t, &detail.workspace, &detail.activity);
    let runs = ws.status.phase == Phase::Running;
    let may_snooze =
        ws.desired == Desired::Running && ws.status.phase != Phase::Error && ws.owner == me.user().id;
    // One that has never run, and is not about to, has nothing to tell.
    if !runs && !may_snooze && activity.stopped_because.is_none() && activity.holds.is_empty() {
        return html! { section #part-activity data-part hidden {} };
    }
    html! {
        section #part-activity data-part .card data-testid="activity" {
            h2 { (t.activity) }
            dl.facts {
                @if let Some(because) = activity.active_because.as_ref().filter(|_| runs) {
                    dt { (t.active_because) }
                    dd data-testid="active-because" data-kind=(because.kind) {
                        (words::activity(view.lang, because.kind)) " "
                        @if because.kind == "hold" { (t.until) " " (ahead(view, because.at)) }
                        @else if because.kind != "open_connection" { (moment(view, because.at)) }
                    }
                }
                @if runs { dt { (t.open_connections) } dd { (activity.open_connections) } }
                @if let Some(stopped) = &activity.stopped_because {
                    dt { (t.stopped_because) }
                    dd data-testid="stopped-because" {
                        (history::reason(view.lang, &stopped.reason)) " · "
                        (history::actor(view.lang, &stopped.actor, |id| detail.name_of(id))) " · "
                        (moment(view, stopped.at))
                    }
                }
            }
            @if !activity.holds.is_empty() {
                h3 { (t.leases) }
                ul.plain {
                    @for hold in &activity.holds {
                        li data-testid="lease" {
                            span.break { (history::hold(view.lang, &hold.reason)) }
                            span.quiet { (t.until) " " (ahead(view, hold.until)) }
                            form method="post" action={ "/workspaces/" (ws.id) "/release" } data-inline {
                                input type="hidden" name="hold" value=(hold.id);
                                button.small type="submit" data-testid="release" { (t.give_back) }
                            }
                        }
                    }
                }
            }
            @if may_snooze {
                (not_yet(me, detail, "", "snooze"))
            }
        }
    }
}

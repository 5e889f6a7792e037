//! What a workspace says of itself while it runs: its ports, with the way to each and who may open it, and what it uses.
//! Parts of its page, for its owner; live updates fetch `/workspaces/{id}/inside` and swap those that differ.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use codehub_domain::{
    Phase, Workspace, WorkspaceId,
    audit::AuditAction,
    ports::{PortSettings, Visibility},
};
use codehub_inside::line::protocol::Usage;
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    error::{Result, WebError},
    flash::{Flash, Plain},
    i18n::words,
    icons,
    view::{Form, Me, PageContext, see_other_saying},
};
use crate::{
    app::App,
    looks::{self, Inside},
    service::{self, Access, ports::Port},
};

/// A page is not held up for longer by a workspace that does not answer.
const PATIENCE: Duration = Duration::from_millis(400);

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/workspaces/{id}/inside", get(live))
        .route("/workspaces/{id}/ports/{port}", post(share))
}

/// What is known of the inside of a workspace.
#[derive(Default)]
pub(super) struct Insight {
    /// The script may follow it.
    pub(super) watched: bool,
    /// `None`: there is nothing to show of it.
    ports: Option<Ports>,
    usage: Option<Meters>,
}

struct Ports {
    /// `None`: nobody has answered yet.
    listening: Option<Inside<()>>,
    all: Vec<Port>,
    /// Ports can be opened in the browser.
    opened: bool,
    /// Others can be let in.
    shareable: bool,
}

struct Meters {
    usage: Option<Inside<Usage>>,
    /// Bytes of memory it may use; 0 is without a limit.
    memory: u64,
}

/// Looks into a workspace of one's own that runs.
pub(super) async fn look(app: &Arc<App>, me: &Me, ws: &Workspace) -> Result<Insight> {
    let (config, id) = (&app.config, ws.id);
    let watched = ws.owner == me.user().id && (config.ports.on || config.exec);
    if ws.status.phase != Phase::Running || !watched {
        return Ok(Insight { watched, ..Insight::default() });
    }
    let ports = async {
        let seen = looks::first(service::ports::follow(app, id), PATIENCE).await;
        let listening = seen.map(|(listening, _)| listening);
        // What was said may be newer than that.
        let said = app.store().workspace_ports(id).await?;
        let found = listening.as_ref().and_then(Inside::said).cloned().unwrap_or_default();
        Ok::<_, WebError>(Ports {
            listening: listening.map(|listening| listening.map(drop)),
            all: service::ports::merged(app, id, found, &said),
            opened: config.ports.on && config.origins().are_own(),
            shareable: config.ports.share_max == Visibility::SignedIn,
        })
    };
    let usage = async {
        let usage = looks::first(service::inside::follow_usage(app, id), PATIENCE).await;
        let limited = app.backends.instances.kind() != "process";
        config
            .exec
            .then_some(Meters { usage, memory: if limited { config.runtime.docker.memory } else { 0 } })
    };
    let (ports, usage) = tokio::join!(ports, usage);
    Ok(Insight { watched, ports: Some(ports?), usage })
}

/// The parts alone.
async fn live(
    State(app): State<Arc<App>>,
    me: Me,
    super::view::PathId(id): super::view::PathId<WorkspaceId>,
) -> Result<Response> {
    let workspace = service::find(&app, me.user(), id, Access::Own).await?;
    let insight = look(&app, &me, &workspace).await?;
    let parts = html! { (ports(&me.view, id, &insight)) (usage(&me.view, &insight)) };
    Ok(Html(parts.into_string()).into_response())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Share {
    visibility: String,
}

/// Lets others open a port, or no others any more. Whatever else was said about it stays.
async fn share(
    State(app): State<Arc<App>>,
    me: Me,
    axum::extract::Path((id, port)): axum::extract::Path<(String, String)>,
    Form(form): Form<Share>,
) -> Result<Response> {
    let id: WorkspaceId = id.parse().map_err(|_| WebError::NotFound)?;
    let port: std::num::NonZeroU16 = port.parse().map_err(|_| WebError::NotFound)?;
    service::find_to(&app, &me.identity, id, Access::Own, AuditAction::PortEdited).await?;
    let visibility: Visibility = form.visibility.parse().map_err(|_| WebError::BadRequest)?;
    let said = PortSettings::among(&app.store().workspace_ports(id).await?, port.get());
    let flash = match service::ports::put(&app, &me.identity, id, PortSettings { visibility, ..said }).await {
        Ok(_) if visibility == Visibility::Owner => Plain::PortClosed.into(),
        Ok(_) => Plain::PortShared.into(),
        Err(service::Denied::Invalid { .. }) => Plain::TooManyPorts.into(),
        Err(denied) => Flash::of_refusal(denied)?,
    };
    Ok(see_other_saying(&app, &format!("/workspaces/{id}"), flash))
}

/// Why nothing can be said, where that is so.
fn silence<T>(view: &PageContext, inside: Option<&Inside<T>>) -> Option<&'static str> {
    match inside {
        None => Some(view.t.looking),
        Some(Inside::Nobody) => Some(view.t.nobody_inside),
        Some(Inside::Silent) => Some(view.t.silent_inside),
        Some(Inside::NotRunning | Inside::Says(_)) => None,
    }
}

pub(super) fn ports(view: &PageContext, id: WorkspaceId, insight: &Insight) -> Markup {
    let t = view.t;
    let Some(ports) = &insight.ports else { return html! { section #part-ports data-part hidden {} } };
    html! {
        section #part-ports data-part .card data-testid="ports" {
            h2 { (t.ports) }
            @if let Some(why) = silence(view, ports.listening.as_ref()) {
                p.quiet { (why) }
            } @else if ports.all.is_empty() {
                p.quiet { (t.no_ports) }
            }
            @if !ports.all.is_empty() {
                ul.ports {
                    @for port in &ports.all { (line(view, id, ports, port)) }
                }
            }
            @if !ports.opened { p.quiet { (t.ports_not_opened) } }
        }
    }
}

fn line(view: &PageContext, id: WorkspaceId, ports: &Ports, port: &Port) -> Markup {
    let (t, settings) = (view.t, &port.settings);
    let number = settings.port;
    let shared = settings.visibility == Visibility::SignedIn;
    html! {
        li data-testid="port" data-port=(number) data-listening[port.listening] data-visibility=(settings.visibility) {
            div.port-head {
                strong { (number) }
                @if !settings.label.is_empty() { span.break { (settings.label) } }
                @if port.listening {
                    @if !port.process.is_empty() { code.break { (port.process) } }
                } @else {
                    span.quiet { (t.port_not_used) }
                }
                span.tag.shared[shared] data-testid="port-visibility" { (words::visibility(view.lang, settings.visibility)) }
            }
            @if let Some(url) = &port.url {
                div.port-address {
                    input #{ "port-url-" (number) } type="text" readonly value=(url) aria-label={ (t.port_address) " " (number) };
                    button.small type="button" data-copy={ "port-url-" (number) } data-done=(t.copied) hidden data-testid={ "copy-" (number) } {
                        (t.copy) span.sr-only { " " (number) }
                    }
                }
                div.port-actions {
                    @if port.listening {
                        a.button.small href={ "/open/" (id) "?port=" (number) } target="_blank" rel="noopener" data-testid={ "open-" (number) } {
                            (icons::open()) (t.open) span.sr-only { " " (number) }
                        }
                    }
                    @if shared {
                        (switch(id, number, Visibility::Owner, t.stop_sharing))
                    } @else if ports.shareable {
                        (switch(id, number, Visibility::SignedIn, t.share_port))
                    }
                }
            }
        }
    }
}

fn switch(id: WorkspaceId, port: u16, to: Visibility, text: &str) -> Markup {
    html! {
        form method="post" action={ "/workspaces/" (id) "/ports/" (port) } data-inline {
            input type="hidden" name="visibility" value=(to);
            button.small type="submit" data-testid={ "share-" (port) } { (text) span.sr-only { " " (port) } }
        }
    }
}

pub(super) fn usage(view: &PageContext, insight: &Insight) -> Markup {
    let t = view.t;
    let Some(Meters { usage, memory }) = &insight.usage else {
        return html! { section #part-usage data-part hidden {} };
    };
    html! {
        section #part-usage data-part .card data-testid="meters" {
            h2 { (t.usage) }
            @if let Some(Inside::Says(usage)) = usage {
                dl.facts {
                    dt { (t.memory) }
                    dd data-testid="memory" {
                        @if *memory > 0 {
                            meter max=(memory) value=(usage.memory_bytes.min(*memory)) high=(memory / 10 * 9) aria-label=(t.memory) {}
                            " " (words::of(view.lang, usage.memory_bytes, *memory))
                        } @else {
                            (words::bytes(usage.memory_bytes))
                        }
                    }
                    dt { (t.processes) } dd data-testid="processes" { (usage.processes) }
                    dt { (t.home_directory) }
                    dd data-testid="home-size" {
                        @if usage.home_complete { (words::bytes(usage.home_bytes)) }
                        @else { (words::at_least(view.lang, usage.home_bytes)) }
                    }
                }
            } @else {
                p.quiet { (silence(view, usage.as_ref()).unwrap_or(t.looking)) }
            }
        }
    }
}

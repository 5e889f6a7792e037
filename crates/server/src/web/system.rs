//! `/system`: how the deployment is doing, for administrators.

use std::sync::Arc;

use axum::{Router, extract::State, response::Response, routing::get};
use codehub_domain::{Phase, Timestamp, origins::Mode};
use codehub_runtime::{Safeguard, SafeguardState};
use maud::{Markup, html};

use super::{
    charts::{self, Day},
    components::{badge, moment},
    error::Result,
    i18n::words,
    icons,
    layout::{NavEntry, Page},
    view::{Admin, PageContext},
};
use crate::{
    api::{self, Replica},
    app::{self, App},
};
use codehub_coordinator::gc;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/system", get(show))
}

async fn show(State(app): State<Arc<App>>, Admin(me): Admin) -> Result<Response> {
    let (view, t) = (&me.view, me.view.t);
    let counts = app.store().workspace_counts().await?;
    let brake = app.store().setting_get(gc::BRAKE_SETTING).await?;
    let backends = &app.backends;
    let (instances, safeguards, volumes, archives, bus) = tokio::join!(
        backends.instances.ping(),
        backends.instances.safeguards(),
        backends.volumes.ping(),
        backends.archives.ping(),
        backends.bus.ping()
    );
    let leading = *app.leading.borrow();
    let replicas = api::replicas(&app).await?;
    let since = app.store().leader_seen().await?.map(|leader| leader.since);
    let total: u64 = counts.values().sum();
    let day = Day::of(&app.store().history_latest(charts::ENTRIES).await?, view.now);
    let body = html! {
        div.page-head { h1 { (t.system) } }
        @if let Some(brake) = &brake {
            section.card.error-card data-testid="gc-brake" {
                h2 { (icons::phase(Phase::Error)) (t.gc_braked) }
                p { (t.gc_braked_text) " " code { (brake) } }
                p { code { "codehub admin gc approve" } }
            }
        }
        section.card {
            h2 { (words::total(view.lang, Some(total))) }
            ul.counts data-testid="counts" {
                @for phase in Phase::ALL.iter().filter(|phase| **phase != Phase::Deleted) {
                    li data-phase=(phase) {
                        span.count { (counts.get(phase).copied().unwrap_or_default()) }
                        (badge(view.lang, *phase))
                    }
                }
            }
        }
        section.card {
            h2 { (t.last_day) }
            (day.render(view))
        }
        section.card {
            h2 { (t.replicas) }
            (table(view, &replicas, since))
        }
        div.columns.even {
            section.card {
                h2 { (t.backends) }
                dl.facts {
                    (backend(view, t.database, app.store().kind(), true))
                    (backend(view, t.runtime, backends.instances.kind(), instances.is_ok()))
                    @for each in &safeguards { (safeguard(view, each)) }
                    (backend(view, t.homes, backends.volumes.kind(), volumes.is_ok()))
                    (backend(view, t.archives, backends.archives.kind(), archives.is_ok()))
                    (backend(view, t.bus, backends.bus.kind(), bus.is_ok()))
                }
            }
            section.card {
                h2 { (t.this_server) }
                dl.facts {
                    dt { (t.version) } dd data-testid="version" { (env!("CARGO_PKG_VERSION")) }
                    dt { (t.address) } dd.break { (app.config.public_base_url) }
                    dt { (t.origins) }
                    dd data-testid="origins" {
                        @match app.config.proxy.origins {
                            Mode::Domain { .. } => span.yes { (icons::check()) (t.origins_domain) },
                            Mode::Port { .. } => span { (t.origins_port) },
                            Mode::Path => span.no.bad { (icons::cross()) (t.origins_path) },
                        }
                    }
                    dt { (t.coordinator) }
                    dd data-testid="leader" {
                        @match leading {
                            Some(epoch) => span.yes { (icons::check()) (t.leads) " (" (t.epoch) " " (epoch) ")" },
                            None => span { (t.does_not_lead) },
                        }
                        @let failing = app.health.failing();
                        @if !failing.is_empty() {
                            p.no.bad data-testid="failing" {
                                (icons::cross()) (t.components_fail)
                                @for (component, times) in failing { " " code { (component.as_str()) " ×" (times) } }
                            }
                        }
                    }
                    dt { (t.gc) }
                    dd {
                        @if brake.is_some() { span.no.bad { (icons::cross()) (t.gc_braked) } }
                        @else { span.yes { (icons::check()) (t.gc_normal) } }
                        " · " a href="/system/cleanup" data-testid="to-cleanup" { (t.cleanup_report) }
                    }
                }
            }
        }
    };
    Ok(Page::new(t.system, NavEntry::System, body).respond(view))
}

/// The processes of the deployment: who leads, since when, and what they are.
fn table(view: &PageContext, replicas: &[Replica], since: Option<Timestamp>) -> Markup {
    let t = view.t;
    let at = |moment_of: Option<Timestamp>| html! { @if let Some(at) = moment_of { (moment(view, at)) } };
    html! {
        table.stacking data-testid="replicas" {
            thead { tr {
                th scope="col" { (t.name) } th scope="col" { (t.role) } th scope="col" { (t.version) }
                th scope="col" { (t.started) } th scope="col" { (t.last_seen) } th scope="col" { (t.leads_since) }
            } }
            tbody {
                @for replica in replicas {
                    tr data-testid="replica" data-name=(replica.name) {
                        th.break scope="row" {
                            (replica.name)
                            @if replica.name == app::replica_name() { span.quiet { " (" (t.this_one) ")" } }
                        }
                        td data-label=(t.role) { code { (replica.role) } }
                        td data-label=(t.version) { (replica.version) }
                        td data-label=(t.started) { (at(replica.started_at)) }
                        td data-label=(t.last_seen) { (at(replica.seen_at)) }
                        td data-label=(t.leads_since) {
                            @if replica.leads { span.yes { (icons::check()) (at(since)) } } @else { "–" }
                        }
                    }
                }
            }
        }
    }
}

/// What keeps workspaces apart; the words are the runtime's own.
fn safeguard(view: &PageContext, Safeguard { name, state, text }: &Safeguard) -> Markup {
    let label = match *name {
        "engine" => view.t.container_engine,
        "firewall" => view.t.firewall,
        "reach" => view.t.way_in,
        "sandbox" => view.t.sandbox,
        "network" => view.t.workspace_network,
        "limits" => view.t.workspace_limits,
        other => other,
    };
    html! {
        dt { (label) }
        dd data-testid=(format!("safeguard-{name}")) {
            @match state {
                SafeguardState::Good => span.yes { (icons::check()) (text) },
                SafeguardState::Note => span { (text) },
                SafeguardState::Bad => span.no.bad { (icons::cross()) (text) },
            }
        }
    }
}

fn backend(view: &PageContext, name: &str, kind: &str, answers: bool) -> Markup {
    html! {
        dt { (name) }
        dd {
            code { (kind) } " "
            @if answers { span.yes { (icons::check()) (view.t.answers) } }
            @else { span.no.bad { (icons::cross()) (view.t.answers_not) } }
        }
    }
}

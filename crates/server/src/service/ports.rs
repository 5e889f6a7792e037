//! Ports of workspaces: what listens, as the program inside says, together with what owners said about them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use codehub_domain::{
    WorkspaceId,
    audit::AuditAction,
    ports::{LONGEST_LABEL, MOST_PORTS, PortSettings, Visibility},
};
use codehub_inside::line::{client::LineError, protocol::ListeningPort};
use codehub_store::PortSaved;
use tokio::sync::watch;

use super::{Access, Denied, find_to, inside};
use crate::{
    app::App,
    auth::Identity,
    lines::{NoLine, OpenLine},
    looks::Inside,
};

/// How often a workspace is looked into while somebody watches its ports.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(2);

/// A port that something listens on, or that its owner said something about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// What holds: where the deployment allows less than the owner wants, that.
    pub settings: PortSettings,
    pub listening: bool,
    /// What the program calls itself; empty where nothing listens or it cannot be told.
    pub process: String,
    /// It listens on loopback addresses only.
    pub loopback_only: bool,
    /// Where it is opened in the browser; `None` where it is not.
    pub url: Option<String>,
}

/// What listens in a workspace that runs, without the IDE.
///
/// # Errors
/// There is nobody inside to ask, or nobody answers.
pub async fn listening(app: &App, id: WorkspaceId) -> Result<Vec<ListeningPort>, NoLine> {
    let line = app.lines.to(&*app.backends.instances, id).await?;
    Ok(asked(app, id, line).await?)
}

async fn asked(app: &App, id: WorkspaceId, line: OpenLine) -> Result<Vec<ListeningPort>, LineError> {
    let mut found = line.ports().await?;
    let ide = ide_port(app, id).await;
    found.retain(|found| Some(found.port) != ide);
    Ok(found)
}

/// What listens and what was said about it; `None` until somebody has looked.
pub type Followed = watch::Receiver<Option<(Inside<Vec<ListeningPort>>, Vec<PortSettings>)>>;

/// Follows the ports of a workspace. It is looked into for as long as somebody does.
pub fn follow(app: &Arc<App>, id: WorkspaceId) -> Followed {
    let of = Arc::clone(app);
    app.ports_seen.follow(id, LOOKED_AT_EVERY, app.shutdown.clone(), move || {
        let app = Arc::clone(&of);
        async move {
            let listening = inside::ask(&app, id, async |line| asked(&app, id, line).await).await;
            Some((listening, app.store().workspace_ports(id).await.ok()?))
        }
    })
}

/// The port of the IDE, where it has one.
pub async fn ide_port(app: &App, id: WorkspaceId) -> Option<u16> {
    let upstream = app.backends.instances.upstream(id).await.ok().flatten()?;
    Some(upstream.address.port()?.port())
}

/// What listens, together with what was said, by port.
pub fn merged(app: &App, id: WorkspaceId, listening: Vec<ListeningPort>, said: &[PortSettings]) -> Vec<Port> {
    let mut ports: BTreeMap<u16, Port> =
        said.iter().map(|settings| (settings.port, known(app, id, settings.clone()))).collect();
    for found in listening {
        let port = ports.entry(found.port).or_insert_with(|| known(app, id, PortSettings::of(found.port)));
        *port = Port {
            listening: true,
            process: found.process,
            loopback_only: found.loopback_only,
            settings: port.settings.clone(),
            url: port.url.take(),
        };
    }
    ports.into_values().collect()
}

fn known(app: &App, id: WorkspaceId, settings: PortSettings) -> Port {
    let policy = &app.config.ports;
    let opened = policy.refuses(settings.port).is_none();
    let url = opened.then(|| app.config.origins().port_url(id, settings.port)).flatten();
    let visibility = policy.visible_to(settings.visibility);
    let settings = PortSettings { visibility, ..settings };
    Port { settings, listening: false, process: String::new(), loopback_only: false, url }
}

/// Says something about a port, for its owner.
///
/// # Errors
/// Somebody else's; a port that is not opened, or shared with more people than the deployment allows; a label that is too
/// long; or too many ports.
pub async fn put(app: &App, by: &Identity, id: WorkspaceId, settings: PortSettings) -> Result<Port, Denied> {
    find_to(app, by, id, Access::Own, AuditAction::PortEdited).await?;
    let policy = &app.config.ports;
    if policy.refuses(settings.port).is_some() {
        return Err(Denied::Forbidden(
            "this port is not opened in the browser on this server (PORTS, PORTS_DENIED)",
        ));
    }
    if policy.visible_to(settings.visibility) != settings.visibility {
        return Err(Denied::Forbidden("this server lets owners open ports only (PORTS_SHARE_MAX)"));
    }
    if settings.visibility != Visibility::Owner && ide_port(app, id).await == Some(settings.port) {
        return Err(Denied::Forbidden("this is the port of the workspace's IDE, which is never shared"));
    }
    let label = settings.label.trim();
    if label.chars().count() > LONGEST_LABEL || label.chars().any(char::is_control) {
        let why = format!("must be at most {LONGEST_LABEL} characters, without control characters");
        return Err(Denied::Invalid { field: "label", why });
    }
    let settings = PortSettings { label: label.to_owned(), ..settings };
    match app.store().workspace_port_put(&by.act, id, settings.clone()).await? {
        PortSaved::Saved => {
            // Whether it listens is a courtesy.
            let mut found = listening(app, id).await.unwrap_or_default();
            found.retain(|found| found.port == settings.port);
            let port = merged(app, id, found, std::slice::from_ref(&settings)).pop();
            Ok(port.unwrap_or_else(|| known(app, id, settings)))
        }
        PortSaved::NotFound => Err(Denied::NotFound),
        PortSaved::TooMany => {
            let why = format!("{MOST_PORTS} ports of this workspace have settings already");
            Err(Denied::Invalid { field: "port", why })
        }
    }
}

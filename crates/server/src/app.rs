//! What every part of the server shares.

use std::sync::Arc;

use codehub_domain::{Epoch, UserId, Workspace, ports::PortSettings, ttl::Expiry};
use codehub_inside::line::protocol::{ListeningPort, Usage};
use codehub_store::{Store, bus::Bus};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    config::Config,
    lines::Lines,
    looks::{Inside, Looks},
    passwords::Passwords,
};
use codehub_coordinator::{Backends, health::Health};
use codehub_proxy::{activity::Activity, idle::Rules};

/// One running server. Handlers get it as `State<Arc<App>>`.
pub struct App {
    pub config: Config,
    pub backends: Backends,
    pub activity: Activity,
    /// To the programs inside workspaces.
    pub lines: Lines,
    /// The ports of workspaces that somebody watches: what listens, and what their owners said.
    pub ports_seen: Looks<(Inside<Vec<ListeningPort>>, Vec<PortSettings>)>,
    /// What workspaces use whose page somebody looks at.
    pub usage_seen: Looks<Inside<Usage>>,
    /// What the IDE's tabs do by themselves; an operator's additions are read by `serve`.
    pub idle: Arc<Rules>,
    pub passwords: Passwords,
    /// The epoch while this process leads; written by the coordinator, shown by `/api/v1/system`.
    pub leading: watch::Sender<Option<Epoch>>,
    /// How the coordinator's components do while it leads.
    pub health: Health,
    /// Users whose sessions, tokens or account changed: whoever holds something open for one of them
    /// asks again whether they may (`None`: everybody's may have). Fed by [`crate::serve::watch_changes`].
    pub access_changed: broadcast::Sender<Option<UserId>>,
    /// Cancelled when the server begins to shut down: long-lived streams end on it.
    pub shutdown: CancellationToken,
}

impl App {
    /// The application over what the composition root chose.
    pub fn new(config: Config, backends: Backends) -> Self {
        Self {
            activity: Activity::new(config.activity.mode),
            lines: Lines::default(),
            ports_seen: Looks::default(),
            usage_seen: Looks::default(),
            // Ours are tested to be readable.
            idle: Arc::new(Rules::load(backends.instances.ide(), None).unwrap_or_default()),
            config,
            backends,
            passwords: Passwords::default(),
            leading: watch::Sender::new(None),
            health: Health::default(),
            access_changed: broadcast::Sender::new(64),
            shutdown: CancellationToken::new(),
        }
    }

    /// What a TTL will do to this workspace, and when: the one countdown that is shown everywhere.
    pub fn expiry(&self, workspace: &Workspace) -> Option<Expiry> {
        self.activity.expiry(workspace, &self.config.ttl_policy())
    }

    /// Whether a second user would have to be trusted with everything, and the operator has not said that they are.
    pub fn is_for_one_user(&self) -> bool {
        !self.backends.instances.isolates_users() && !self.config.runtime.unsandboxed_users
    }

    /// The truth.
    pub fn store(&self) -> &dyn Store {
        &*self.backends.store
    }

    /// News between replicas.
    pub fn bus(&self) -> &dyn Bus {
        &*self.backends.bus
    }
}

/// This process, as people tell it from others.
pub fn replica_name() -> String {
    let system = rustix::system::uname();
    format!("{}:{}", system.nodename().to_string_lossy(), std::process::id())
}

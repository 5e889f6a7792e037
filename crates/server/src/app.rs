//! What every part of the server shares.

use std::sync::Arc;

use codehub_adapters::{archive::Archives, bus::Bus, runtime::Instances, store::Store, volumes::Volumes};
use codehub_domain::{Epoch, UserId, Workspace, ttl::Expiry};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    activity::Activity,
    api::{Feeds, LastCheck},
    auth::password::Passwords,
    config::Config,
    coordinator::health::Health,
    idle::Rules,
};

/// The ports, as configured.
#[derive(Clone)]
pub struct Backends {
    pub store: Arc<dyn Store>,
    pub bus: Arc<dyn Bus>,
    pub instances: Arc<dyn Instances>,
    pub volumes: Arc<dyn Volumes>,
    pub archives: Arc<dyn Archives>,
}

/// One running server. Handlers get it as `State<Arc<App>>`.
pub struct App {
    pub config: Config,
    pub backends: Backends,
    pub activity: Activity,
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
    /// What the event streams of a user share.
    pub feeds: Feeds,
    /// What `/readyz` last found out.
    pub last_check: LastCheck,
    /// Cancelled when the server begins to shut down: long-lived streams end on it.
    pub shutdown: CancellationToken,
}

impl App {
    pub fn new(config: Config, backends: Backends) -> Self {
        Self {
            activity: Activity::new(config.activity.mode),
            // Ours are tested to be readable.
            idle: Arc::new(Rules::load(backends.instances.ide(), None).unwrap_or_default()),
            config,
            backends,
            passwords: Passwords::default(),
            leading: watch::Sender::new(None),
            health: Health::default(),
            access_changed: broadcast::Sender::new(64),
            feeds: Feeds::default(),
            last_check: LastCheck::default(),
            shutdown: CancellationToken::new(),
        }
    }

    /// What a TTL will do to this workspace, and when: the one countdown that is shown everywhere.
    pub fn expiry(&self, workspace: &Workspace) -> Option<Expiry> {
        self.activity.expiry(workspace, &self.config.ttl_policy())
    }

    pub fn store(&self) -> &dyn Store {
        &*self.backends.store
    }

    pub fn bus(&self) -> &dyn Bus {
        &*self.backends.bus
    }
}

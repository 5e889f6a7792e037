//! What every part of the server shares.

use std::sync::Arc;

use codehub_adapters::{archive::Archives, bus::Bus, runtime::Instances, store::Store, volumes::Volumes};
use tokio_util::sync::CancellationToken;

use crate::{activity::Activity, config::Config};

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
    /// Cancelled when the server begins to shut down: long-lived streams end on it.
    pub shutdown: CancellationToken,
}

impl App {
    pub fn store(&self) -> &dyn Store {
        &*self.backends.store
    }

    pub fn bus(&self) -> &dyn Bus {
        &*self.backends.bus
    }
}

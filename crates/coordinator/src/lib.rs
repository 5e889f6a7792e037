//! The coordinator: one leader among any number of identical processes keeps what exists in line
//! with what people want. Knows the ports and the rules; no HTTP, no pages, no configuration file.
//!
//! | component | cadence | job |
//! |---|---|---|
//! | [`events`] | real time | changes in the database → bus |
//! | [`controller`] | 15 s idle, 1 s active, at once on wake | observe → judge → plan → execute → save |
//! | [`ttl`] | 60 s, or when the next TTL runs out | activity → database, expiry → desired state |
//! | [`gc`] | 4 h | archives and volumes nothing refers to |
//!
//! The components live inside the term of one leader: losing the lease ends them, with everything
//! they had under way. Each has its own loop and its own error boundary ([`health`]), so none stops
//! another: not by an error, and not by a panic.

pub mod adopt;
pub mod chance;
pub mod controller;
pub mod events;
pub mod gc;
pub mod health;
pub mod leader;
mod metric;
pub mod ttl;

use std::{
    sync::{Arc, atomic::AtomicI64},
    time::Duration,
};

use codehub_domain::{
    Epoch, Truth, Workspace,
    decide::{self, Decision, Inputs},
    gc::GcPolicy,
    retry::Policy,
    ttl::TtlPolicy,
};
use codehub_runtime::{Fence, Fenced, Instances, archives::Archives, volumes::Volumes};
use codehub_store::{Store, bus::Bus};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use chance::Chance;
use health::{Component, Health, keep_going};
use leader::Leadership;

/// What the coordinator must know of the configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How often everything is observed while nobody asks for anything.
    pub idle_interval: Duration,
    /// How often, shortly after somebody asked.
    pub active_interval: Duration,
    /// How long "shortly after" is.
    pub active_duration: Duration,
    /// The longest pause between two looks for TTLs that ran out.
    pub ttl_interval: Duration,
    /// How often orphans are looked for.
    pub gc_interval: Duration,
    /// Starts and stops at once.
    pub instance_concurrency: usize,
    /// Archives and restores at once.
    pub storage_concurrency: usize,
    /// How long one look at a dependency may take before it counts as "could not see".
    pub look_timeout: Duration,
    /// Deadlines and retries.
    pub retry: Policy,
    /// The deployment's TTLs.
    pub ttl: TtlPolicy,
    /// What is an orphan, and when to brake.
    pub gc: GcPolicy,
    /// How long the audit trail goes back; zero: to the beginning.
    pub audit_retention: Duration,
    /// Where people reach workspaces, without a trailing slash.
    pub origins: codehub_domain::origins::Origins,
    /// Whether ports are opened in browsers.
    pub ports: bool,
}

/// The ports, as configured.
#[derive(Clone)]
pub struct Backends {
    /// The one truth.
    pub store: Arc<dyn Store>,
    /// Events, wakes and activity; may lose them.
    pub bus: Arc<dyn Bus>,
    /// Where workspaces run.
    pub instances: Arc<dyn Instances>,
    /// Where homes are while they are used.
    pub volumes: Arc<dyn Volumes>,
    /// Where homes are packed away.
    pub archives: Arc<dyn Archives>,
    /// What rows call the backend that has their instance and their home; `None`: like its kind.
    pub name: Option<String>,
}

impl Backends {
    /// What rows call the backend of instances.
    pub fn instances_name(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.instances.kind())
    }

    /// What rows call the backend of volumes.
    pub fn volumes_name(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.volumes.kind())
    }
}

/// Everything a component works with.
#[derive(Clone)]
pub struct Context {
    /// The ports.
    pub backends: Backends,
    /// The configuration.
    pub settings: Arc<Settings>,
    /// Where ids and jitter come from; the simulation has its own.
    pub chance: Arc<dyn Chance>,
    /// The epoch this process leads with, while it does.
    pub leading: watch::Sender<Option<Epoch>>,
    /// How the components do meanwhile.
    pub health: Health,
    /// This process, as the audit trail names it.
    pub replica: String,
    /// The epoch in which this process has adopted what had no record ([`adopt`]).
    pub adopted: Arc<AtomicI64>,
    /// The rules: [`decide::decide`], except where the simulation shows that it notices wrong ones.
    pub decide: fn(&Inputs<'_>) -> Decision,
}

impl Context {
    /// A context of a process that does not lead yet.
    pub fn new(backends: Backends, settings: Settings) -> Self {
        Self {
            backends,
            settings: Arc::new(settings),
            chance: Arc::new(chance::Random),
            leading: watch::Sender::new(None),
            health: Health::default(),
            replica: String::new(),
            adopted: Arc::default(),
            decide: decide::decide,
        }
    }
}

impl Backends {
    /// Where the home of this workspace is, if that is a backend this deployment does not use (any
    /// more). Such a home is left alone: not seeing it here proves nothing.
    pub fn elsewhere<'a>(&self, workspace: &'a Workspace) -> Option<&'a str> {
        let at = workspace.status.storage_backend.as_str();
        let foreign = !at.is_empty() && at != self.volumes_name();
        (foreign && workspace.status.home.truth == Truth::Volume).then_some(at)
    }
}

impl Context {
    /// As [`Backends::elsewhere`].
    pub fn elsewhere<'a>(&self, workspace: &'a Workspace) -> Option<&'a str> {
        self.backends.elsewhere(workspace)
    }

    /// Closed as soon as another process leads; asked by backends before they change anything.
    pub fn fence(&self, epoch: Epoch) -> Fence {
        let store = self.backends.store.clone();
        Fence::new(move || {
            let store = store.clone();
            Box::pin(async move {
                match store.epoch_is_current(epoch).await {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(Fenced("this process does not lead any more".into())),
                    Err(error) => {
                        Err(Fenced(format!("whether this process still leads is unknown: {error}")))
                    }
                }
            })
        })
    }

    fn lead(&self, epoch: Option<Epoch>) {
        self.health.forget();
        self.leading.send_replace(epoch);
        metrics::gauge!(metric::LEADER).set(if epoch.is_some() { 1.0 } else { 0.0 });
    }
}

/// Leads whenever it can, until `shutdown`. A leader brings the activity that was told by then into the
/// database before it lets go: on the bus of a single process it would end with the process.
pub async fn run(context: Context, leadership: Leadership, shutdown: CancellationToken) {
    while let Some(term) = shutdown.run_until_cancelled(leadership.acquire(&context)).await {
        tracing::info!(epoch = %term.epoch, "this process leads");
        context.lead(Some(term.epoch));
        let epoch = term.epoch;
        let why = serve_term(&context, term, &shutdown).await;
        context.lead(None);
        match why {
            Some(why) => tracing::warn!(%epoch, why, "leadership is over"),
            None => return,
        }
    }
    context.lead(None);
}

/// Runs the components until leadership is lost (why), or until `shutdown` (`None`). Dropping the set ends
/// them all, and with them the lease.
async fn serve_term(
    context: &Context,
    term: leader::Term,
    shutdown: &CancellationToken,
) -> Option<&'static str> {
    let epoch = term.epoch;
    let mut components = JoinSet::new();
    components.spawn(kept(Component::Events, context.clone(), events::run));
    components
        .spawn(kept(Component::Controller, context.clone(), move |context| controller::run(context, epoch)));
    components.spawn(kept(Component::Ttl, context.clone(), move |context| ttl::run(context, epoch)));
    components.spawn(kept(Component::Gc, context.clone(), move |context| gc::run(context, epoch)));
    // The lease is in its hands: should it panic, nobody holds it, and the term is over.
    components.spawn(leader::hold(context.clone(), term));
    let Some(ended) = shutdown.run_until_cancelled(components.join_next()).await else {
        ttl::last_sync(context, epoch).await;
        return None;
    };
    Some(match ended {
        Some(Ok(Ended::Fenced)) => "another process leads",
        Some(Ok(Ended::Lost)) => "the session that held the lead was lost",
        Some(Ok(Ended::StoreClosed)) => "the store was closed",
        Some(Err(_)) | None => "nobody holds it",
    })
}

/// A component of the term.
fn kept<F: Future<Output = Ended>>(
    component: Component,
    context: Context,
    run: impl Fn(Context) -> F,
) -> impl Future<Output = Ended> {
    keep_going(component, context.health.clone(), move || run(context.clone()))
}

/// Why a component ended. None of them ends without a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// A newer epoch exists: whatever this process was doing is somebody else's now.
    Fenced,
    /// Nobody can tell whether this process still leads: then it does not.
    Lost,
    /// The store was closed: the process is ending.
    StoreClosed,
}

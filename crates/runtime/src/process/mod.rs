//! Workspaces as processes of this machine.
//!
//! Each workspace is one session of processes with its own home, a clean environment and a socket only
//! CodeHub's user can reach (or, for programs that know no sockets, a port on the loopback address). It
//! outlives CodeHub: a CodeHub that is started again finds it, with the same process id and socket. A
//! sandbox shuts it in (`sandbox`, `network`); without one every workspace may do what CodeHub may, which is for one trusted
//! person on one machine.
//!
//! Guarantees:
//! - **Never two.** The record says "starting" before anything is started; the process inherits the
//!   launch lock and carries marks in its environment. Whoever starts a workspace holds that lock and
//!   looks for the marks first, so a CodeHub that was killed anywhere in between leaves a process that
//!   is adopted, or none.
//! - **Never a stranger.** Signals go to a process id with its kernel start time, boot and namespace.
//! - **Never half ended.** [`stop`](Instances::stop) returns when nothing of the workspace is left, also
//!   no terminal with a session of its own. (What cleans its environment *and* leaves its parent and
//!   session escapes; only a sandbox or a container holds that.)
//! - **Not answering is not gone.** A living process that does not answer is an error to ask about.
//!
//! A walk: [`ProcessRuntime`] → `lifecycle` (start, stop, find) → `spawn` → [`shim`] → the program.

mod children;
pub(crate) mod health;
mod home;
mod lifecycle;
mod logs;
mod network;
mod peer;
mod proc_scan;
mod record;
mod safeguards;
mod sandbox;
pub mod shim;
mod show;
mod sockets;
mod spawn;
mod stop;

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    fmt::Display,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use codehub_domain::{
    WorkspaceId,
    observed::{Instance, InstanceState},
};

use self::{
    children::Children,
    health::Health,
    lifecycle::{Found, Turns},
    logs::Logs,
    proc_scan::Identity,
    record::{Record, Records, State},
    sandbox::{Probed, Sandbox},
    sockets::Sockets,
    spawn::HostEnv,
};
pub use self::{logs::LogLimits, network::NetworkChoice, shim::Limits};
use super::{
    Address, Among, Fence, InstanceSpec, InstanceTag, Instances, LineTo, Listed, LogQuery, LogStream, Result,
    RuntimeError, Safeguard, SandboxChoice, Upstream, ide::ResolvedIde,
};

/// How long a program that no longer listens may take to be gone, and how often it is looked at meanwhile.
const DYING: Duration = Duration::from_millis(500);
const DYING_STEP: Duration = Duration::from_millis(20);
/// How often the process table is searched for workspaces that have no record.
const SEARCH_EVERY: Duration = Duration::from_secs(30);
/// Why nobody answers in a workspace that runs.
const OLDER: &str = "the program that does this does not run in the workspace: restart the workspace";
const PRUNE_EVERY: Duration = Duration::from_secs(24 * 3600);

/// The program that becomes the workspace's program (see [`shim`]), and its words before ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShimCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, before the shim's own.
    pub args: Vec<String>,
}

impl ShimCommand {
    /// The hidden subcommand that ends in [`shim::main`].
    pub const SUBCOMMAND: &str = "exec-workspace";

    /// `{exe} exec-workspace`
    pub fn of(exe: impl Into<PathBuf>) -> Self {
        Self { program: exe.into(), args: vec![Self::SUBCOMMAND.to_owned()] }
    }

    /// The shim with these words of its own, up to where a program's follow.
    fn words<const N: usize>(&self, own: [OsString; N]) -> Vec<OsString> {
        let program = std::iter::once(self.program.clone().into());
        let args = self.args.iter().map(OsString::from);
        program.chain(args).chain(own).chain([OsString::from("--")]).collect()
    }
}

/// What the runtime of local processes must know.
#[derive(Debug, Clone)]
pub struct ProcessConfig {
    pub data_dir: PathBuf,
    /// Names this deployment: only processes marked with it are ours.
    pub deployment: String,
    pub ide: ResolvedIde,
    pub shim: ShimCommand,
    pub sandbox: SandboxChoice,
    pub network: NetworkChoice,
    /// What else of the machine a sandbox shows, read-only: directories by their full paths.
    pub show: Vec<PathBuf>,
    /// Files and directories that a sandbox hides where they lie in what it shows, besides the data directory.
    pub hidden: Vec<PathBuf>,
    /// What the home is called in a sandbox.
    pub home: PathBuf,
    /// Where CodeHub itself listens: workspaces with a network of their own reach it there.
    pub listen: Option<SocketAddr>,
    /// Whether several users may have workspaces here even without a sandbox.
    pub unsandboxed_users: bool,
    /// Between being asked to end and being made to.
    pub stop_grace: Duration,
    pub health_timeout: Duration,
    pub limits: Limits,
    pub logs: LogLimits,
    /// Given to every workspace, besides what each one gets.
    pub env: Vec<(String, String)>,
}

impl ProcessConfig {
    /// With the defaults for everything that has one.
    pub fn new(
        data_dir: impl Into<PathBuf>,
        deployment: impl Into<String>,
        ide: ResolvedIde,
        shim: ShimCommand,
    ) -> Self {
        Self {
            data_dir: data_dir.into(),
            deployment: deployment.into(),
            ide,
            shim,
            sandbox: SandboxChoice::Auto,
            network: NetworkChoice::Auto,
            show: Vec::new(),
            hidden: Vec::new(),
            home: "/home/coder".into(),
            listen: None,
            unsandboxed_users: false,
            stop_grace: Duration::from_secs(10),
            health_timeout: Duration::from_secs(2),
            limits: Limits::default(),
            logs: LogLimits::default(),
            env: Vec::new(),
        }
    }
}

/// Instances as local processes, each led by a shim that outlives the server.
#[derive(Debug, Clone)]
pub struct ProcessRuntime {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: ProcessConfig,
    boot: String,
    records: Records,
    logs: Logs,
    sockets: Sockets,
    /// Held by whoever looks where a connection comes from.
    peers: tokio::sync::Mutex<()>,
    /// Whether new workspaces listen there, and not on a port.
    on_socket: bool,
    probed: Probed,
    host: HostEnv,
    turns: Turns,
    children: Arc<Children>,
    /// One workspace at a time is given a port.
    ports: tokio::sync::Mutex<()>,
    searched: Mutex<Option<Instant>>,
    /// Which process of a workspace has answered.
    answered: Mutex<HashMap<WorkspaceId, Identity>>,
}

impl ProcessRuntime {
    /// Finds what an earlier CodeHub left running. The text of an error is for the operator.
    pub async fn open(mut config: ProcessConfig) -> std::result::Result<Self, String> {
        if config.deployment.is_empty() || config.deployment.contains(['\0', '=']) {
            return Err(format!("{:?} cannot name a deployment", config.deployment));
        }
        let boot = proc_scan::boot()
            .map_err(|error| format!("RUNTIME=process needs Linux's /proc, which cannot be read: {error}"))?;
        let at = config.data_dir.display().to_string();
        let unusable = |error: io::Error| format!("the data directory {at} cannot be used: {error}");
        let records = Records::open(&config.data_dir).map_err(unusable)?;
        let logs = Logs::open(&config.data_dir, config.logs).map_err(unusable)?;
        // Only the real name of a directory can be hidden from a sandbox.
        config.data_dir = config.data_dir.canonicalize().map_err(unusable)?;
        if config.data_dir.to_str().is_none() {
            return Err(format!("the data directory {at} cannot be used: its name is not UTF-8"));
        }
        let sockets = Sockets::open(&config.data_dir).map_err(unusable)?;
        let probed = sandbox::probe(&config).await?;
        let on_socket = uses_socket(&config, &sockets, probed.sandbox.is_some())?;
        safeguards::log(&probed, &config);
        let inner = Arc::new(Inner {
            boot,
            records,
            logs,
            sockets,
            peers: tokio::sync::Mutex::default(),
            on_socket,
            probed,
            host: HostEnv::read(),
            turns: Turns::default(),
            children: Arc::default(),
            ports: tokio::sync::Mutex::default(),
            searched: Mutex::default(),
            answered: Mutex::default(),
            config,
        });
        inner.search().await.map_err(|error| format!("the running workspaces cannot be found: {error}"))?;
        tokio::spawn(keep_logs_short(Arc::downgrade(&inner)));
        Ok(Self { inner })
    }

    /// Whether workspaces are shut in.
    pub fn sandboxed(&self) -> bool {
        self.inner.sandbox().is_some()
    }

    /// Whether they have networks of their own.
    pub fn own_network(&self) -> bool {
        self.inner.sandbox().is_some_and(|sandbox| sandbox.network().is_some())
    }

    /// What new workspaces run.
    pub fn ide(&self) -> &ResolvedIde {
        &self.inner.config.ide
    }
}

#[async_trait]
impl Instances for ProcessRuntime {
    fn kind(&self) -> &'static str {
        "process"
    }

    async fn ping(&self) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        blocking(move || inner.records.all()).await.map(|_| ()).map_err(|error| self.inner.no_records(&error))
    }

    async fn start(&self, spec: &InstanceSpec, fence: &Fence) -> Result<()> {
        // As a task of its own: a caller that gives up does not leave it half done.
        let (inner, spec, fence) = (Arc::clone(&self.inner), spec.clone(), fence.clone());
        tokio::spawn(async move { inner.start(&spec, &fence).await }).await.map_err(failed("the start"))?
    }

    async fn stop(&self, id: WorkspaceId) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        tokio::spawn(async move { inner.stop(id).await }).await.map_err(failed("the stop"))?
    }

    async fn status(&self, id: WorkspaceId) -> Result<Option<Instance>> {
        let Some(mut instance) = self.inner.look_at(id).await? else { return Ok(None) };
        if let Some(record) = instance.1.take() {
            instance.0.state = self.inner.health_of(&record).await?;
        }
        Ok(Some(instance.0))
    }

    async fn list(&self, among: Among<'_>) -> Result<Vec<Listed>> {
        let inner = &self.inner;
        if inner.search_is_due() {
            inner.search().await.map_err(|error| RuntimeError::Unreachable(error.to_string()))?;
        }
        let reader = Arc::clone(inner);
        let ids = blocking(move || reader.records.all()).await.map_err(|error| inner.no_records(&error))?;
        let mut found = Vec::with_capacity(ids.len());
        for workspace in ids.into_iter().filter(|id| among.contains(*id)) {
            let instance = inner.look_at(workspace).await?;
            found.extend(instance.map(|(instance, _)| Listed { workspace, instance }));
        }
        Ok(found)
    }

    fn ide(&self) -> &str {
        &Self::ide(self).name
    }

    fn isolates_users(&self) -> bool {
        self.sandboxed()
    }

    async fn comes_from_instance(&self, peer: SocketAddr) -> bool {
        // One at a time: whoever asks often is not to keep the machine busy with it.
        let _one = self.inner.peers.lock().await;
        let inner = Arc::clone(&self.inner);
        let told = blocking(move || peer::is_workspace(peer, &inner.config.deployment)).await;
        told.unwrap_or(true)
    }

    async fn safeguards(&self) -> Vec<Safeguard> {
        safeguards::look(&self.inner.probed, &self.inner.config)
    }

    async fn upstream(&self, id: WorkspaceId) -> Result<Option<Upstream>> {
        let inner = Arc::clone(&self.inner);
        let found = blocking(move || inner.running(id)).await;
        let found = found.map_err(|error| RuntimeError::Unreachable(format!("no look at {id}: {error}")))?;
        Ok(found.map(|record| Upstream {
            address: self.inner.address_of(&record),
            instance: InstanceTag::of(&record.process()),
            ide: record.ide.into(),
            keeps_prefix: !self.inner.config.ide.strip_prefix,
            secret: None,
        }))
    }

    async fn line(&self, id: WorkspaceId) -> Result<LineTo> {
        let inner = Arc::clone(&self.inner);
        let unknown = |error: io::Error| RuntimeError::Unreachable(format!("no line to {id}: {error}"));
        if blocking(move || inner.running(id)).await.map_err(unknown)?.is_none() {
            return Ok(LineTo::NotRunning);
        }
        let address = self.inner.sockets.line_address(id);
        match tokio::time::timeout(self.inner.config.health_timeout, address.connect()).await {
            Ok(Ok(stream)) => Ok(LineTo::Open(Box::new(stream))),
            Ok(Err(error)) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(LineTo::Nobody(OLDER)),
                _ => Err(unknown(error)),
            },
            Err(_) => Err(unknown(io::ErrorKind::TimedOut.into())),
        }
    }

    async fn logs(&self, id: WorkspaceId, query: LogQuery) -> Result<LogStream> {
        let stream = self.inner.logs.read(id, query).await;
        stream.map_err(|error| RuntimeError::Unreachable(format!("the log cannot be read: {error}")))
    }
}

impl Inner {
    /// What workspaces are shut in with.
    fn sandbox(&self) -> Option<&Sandbox> {
        self.probed.sandbox.as_ref()
    }

    /// The record, if it says running and that is true.
    fn running(&self, id: WorkspaceId) -> io::Result<Option<Record>> {
        let Some(record) = self.records.load(id)? else { return Ok(None) };
        let State::Running { process } = &record.state else { return Ok(None) };
        Ok(process.alive(&self.boot)?.then_some(record))
    }

    /// What there is of a workspace, without its health; with the record of what is alive.
    async fn look_at(self: &Arc<Self>, id: WorkspaceId) -> Result<Option<(Instance, Option<Record>)>> {
        let inner = Arc::clone(self);
        let unknown = |error: io::Error| RuntimeError::Unreachable(format!("no look at {id}: {error}"));
        let record = blocking(move || {
            Ok(match inner.records.load(id)? {
                Some(record) => match &record.state {
                    State::Running { process } => Some((process.alive(&inner.boot)?, record)),
                    State::Starting | State::Ended { .. } => Some((false, record)),
                },
                None => None,
            })
        });
        let instance =
            |record: &Record, state: InstanceState| Instance { generation: record.generation, state };
        match record.await.map_err(unknown)? {
            Some((true, record)) => {
                return Ok(Some((instance(&record, InstanceState::Alive), Some(record))));
            }
            Some((false, record)) => {
                if let State::Ended { how, by, .. } = &record.state {
                    let state = InstanceState::Ended { by: *by, how: how.clone() };
                    return Ok(Some((instance(&record, state), None)));
                }
            }
            None => {}
        }
        Ok(match self.settle(id).await.map_err(unknown)? {
            Found::Nothing => None,
            Found::Running(record) => Some((instance(&record, InstanceState::Alive), Some(record))),
            Found::Ended(record, by, how) => {
                Some((instance(&record, InstanceState::Ended { by, how }), None))
            }
            // Being started or ended right now: not nothing.
            Found::Busy(record) => record.map(|record| (instance(&record, InstanceState::Alive), None)),
        })
    }

    async fn health_of(self: &Arc<Self>, record: &Record) -> Result<InstanceState> {
        let address = self.address_of(record);
        let health = health::ask(&address, None, &record.health_path, self.config.health_timeout).await;
        if health == Health::Well {
            if let Some(process) = record.process() {
                self.answered().insert(record.workspace, process.clone());
            }
            return Ok(InstanceState::Ready);
        }
        // It may have died while it was asked. One that answered before and does not listen any more is probably
        // about to: its sockets close before it is gone, and a sandbox goes after its program.
        let answered = self.answered().get(&record.workspace) == record.process();
        let until =
            Instant::now() + if answered && health == Health::NotYet { DYING } else { Duration::ZERO };
        loop {
            if let Some((Instance { state: state @ InstanceState::Ended { .. }, .. }, _)) =
                self.look_at(record.workspace).await?
            {
                return Ok(state);
            }
            if Instant::now() >= until {
                break;
            }
            tokio::time::sleep(DYING_STEP).await;
        }
        match health {
            Health::Silent => Err(RuntimeError::Unreachable(format!(
                "{} is running, but does not answer its health check ({}) within {:?}",
                record.ide, record.health_path, self.config.health_timeout
            ))),
            Health::Well | Health::NotYet => Ok(InstanceState::Alive),
        }
    }

    fn address_of(&self, record: &Record) -> Address {
        if record.socket {
            self.sockets.address(record.workspace)
        } else {
            SocketAddr::from((Ipv4Addr::LOCALHOST, record.port)).into()
        }
    }

    fn answered(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Identity>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn search_is_due(&self) -> bool {
        let searched = *self.searched.lock().unwrap_or_else(PoisonError::into_inner);
        searched.is_none_or(|at| at.elapsed() >= SEARCH_EVERY)
    }

    fn no_records(&self, error: &io::Error) -> RuntimeError {
        let dir = self.records.dir().display();
        RuntimeError::Unreachable(format!(
            "the records of running workspaces in {dir} cannot be read: {error}"
        ))
    }
}

async fn keep_logs_short(inner: Weak<Inner>) {
    let mut pruned: Option<Instant> = None;
    while let Some(alive) = inner.upgrade() {
        let every = alive.config.logs.check_every;
        let prune = pruned.is_none_or(|at| at.elapsed() >= PRUNE_EVERY);
        let done = blocking(move || {
            let ids = alive.records.all()?;
            alive.logs.rotate(&ids)?;
            if prune { alive.logs.prune(&HashSet::from_iter(ids)) } else { Ok(()) }
        });
        match done.await {
            Ok(()) if prune => pruned = Some(Instant::now()),
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, "the logs of workspaces cannot be kept short"),
        }
        tokio::time::sleep(every).await;
    }
}

/// Where new workspaces will listen. In a sandbox the socket's name is short, wherever the data directory is.
fn uses_socket(
    config: &ProcessConfig,
    sockets: &Sockets,
    sandboxed: bool,
) -> std::result::Result<bool, String> {
    if !config.ide.can_use_socket() {
        tracing::warn!(
            ide = config.ide.name,
            "the IDE listens on a port, so every user of this machine can reach it ({{socket}} in IDE_COMMAND would \
             give it a socket)"
        );
        return Ok(false);
    }
    let excess = sockets.excess();
    if excess == 0 || sandboxed {
        return Ok(true);
    }
    let why = format!(
        "the name of the data directory {} is {excess} bytes too long for a socket in it",
        config.data_dir.display()
    );
    if !config.ide.can_use_port() {
        return Err(format!("IDE_COMMAND asks for a {{socket}}, but {why}"));
    }
    tracing::warn!(%why, "workspaces listen on ports, so every user of this machine can reach them");
    Ok(false)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await?
}

fn failed<E: Display>(what: impl Display) -> impl FnOnce(E) -> RuntimeError {
    move |error| RuntimeError::Failed(format!("{what} failed: {error}"))
}

#[cfg(test)]
mod tests;

//! The runtime port on a Docker engine.
//!
//! Guarantees:
//! - **Never two.** A workspace's container has a fixed name, which the engine gives out once, and it is found by its
//!   labels, so one that somebody renamed is not joined by another on the same home.
//! - **Never a stranger.** A container without this deployment's label is not looked at, stopped or
//!   removed, whatever it is called.
//! - **Never on nothing.** A volume that does not exist is an error; the engine would make an empty one.
//! - **Never on another user's home.** Before anything runs in it, a home is the workspace's own user's.
//! - **As configured.** What ended, or was made with another image, limit or mount, is made anew.

use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bollard::{
    container::LogOutput,
    models::{ContainerInspectResponse, ContainerState, ContainerStateStatusEnum, ContainerSummaryStateEnum},
    query_parameters::{
        CreateContainerOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder,
        StopContainerOptionsBuilder,
    },
};
use codehub_domain::{
    Generation, WorkspaceId,
    observed::{EndedBy, Instance, InstanceState},
};
use futures::StreamExt as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::{
    DockerConfig, Reach,
    body::{self, Made},
    engine::{
        Engine, LABEL_CONFIG, LABEL_INSTANCE, LABEL_JOB, LABEL_WORKSPACE, found, is_missing, is_status,
    },
    engine::{label_filter, read_labels},
    events, image,
    jobs::Jobs,
    network::Network,
    safeguards::{self, Watch},
    sockets::{IO, SOCKET, Sockets},
    users::{self, Owner},
    write_default_files,
};
use crate::{
    Among, Fence, InstanceSpec, Instances, Listed, LogQuery, LogStream, Notice, Result, RuntimeError,
    Safeguard,
    process::health::{self, Health},
};
use codehub_archive::{Progress, hex};
use codehub_upstream::{Address, InstanceTag, Upstream};
use uuid::Uuid;

/// How often it is asked whether what is being removed is gone.
const GONE_STEP: Duration = Duration::from_millis(50);
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// How long the engine may take to notice the end of a program that no longer answers.
const DYING: Duration = Duration::from_secs(1);

const NEVER_STARTED: &str = "it was never started";
/// The exit code of a program that SIGKILL ended.
const KILLED: i64 = 137;
const REMOVED: &str = "its container was removed";

/// Instances as containers of one Docker engine.
#[derive(Clone)]
pub struct DockerRuntime {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<Engine>,
    jobs: Jobs,
    config: DockerConfig,
    /// The name of the program.
    ide: Arc<str>,
    network: Network,
    /// One at a time makes the network or its rules.
    making: tokio::sync::Mutex<()>,
    /// Looks after the rules; held while it does.
    watch: tokio::sync::Mutex<Watch>,
    /// The volumes that this process has furnished.
    furnished: Mutex<HashMap<WorkspaceId, Generation>>,
    /// The homes that this process has seen to be their users', and the lists in which it has seen those to have names.
    given: Mutex<HashMap<WorkspaceId, (Generation, Owner)>>,
    named: Mutex<HashSet<String>>,
    /// Where containers listen.
    sockets: Arc<Sockets>,
    /// At which sockets containers were last seen: what runs is proxied while the engine is away.
    seen_at: Mutex<HashMap<WorkspaceId, Upstream>>,
    /// Which container of a workspace was last seen to run, and after how many outages of the engine.
    alive: Mutex<HashMap<WorkspaceId, (String, u64)>>,
    /// Which container of a workspace has answered.
    answered: Mutex<HashMap<WorkspaceId, String>>,
}

/// What its container is called: one name for one workspace, which the engine gives out once. It is also a name in
/// the engine's DNS, where its neighbours can ask for it, so it does not tell the id.
pub(super) fn container_name(id: WorkspaceId) -> String {
    let digest = Sha256::digest(id.to_string().as_bytes());
    format!("codehub-ws-{}", hex(&digest[..10]))
}

impl DockerRuntime {
    /// On the engine of these jobs. Connects to nothing yet.
    pub fn new(jobs: &Jobs, config: DockerConfig) -> Self {
        let network = Network::of(&config);
        let inner = Inner {
            engine: Arc::clone(jobs.engine()),
            jobs: jobs.clone(),
            network,
            ide: config.ide.name.as_str().into(),
            sockets: Arc::new(Sockets::new(&config.data_dir)),
            config,
            making: tokio::sync::Mutex::default(),
            watch: tokio::sync::Mutex::default(),
            furnished: Mutex::default(),
            given: Mutex::default(),
            named: Mutex::default(),
            seen_at: Mutex::default(),
            alive: Mutex::default(),
            answered: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// As it was made.
    pub fn config(&self) -> &DockerConfig {
        &self.inner.config
    }
}

#[async_trait]
impl Instances for DockerRuntime {
    fn kind(&self) -> &'static str {
        "docker"
    }

    async fn ping(&self) -> Result<()> {
        self.inner.engine.ping().await
    }

    async fn prepare(&self, image_ref: &str, progress: &Progress) -> Result<()> {
        // Several may pull the same image: the engine fetches it once, and tells each how far it is.
        image::ensure(&self.inner.engine, image_ref, self.inner.config.pull, progress).await
    }

    async fn start(&self, spec: &InstanceSpec, fence: &Fence) -> Result<()> {
        // As a task of its own: a caller that gives up does not leave it half done.
        let (inner, spec, fence) = (Arc::clone(&self.inner), spec.clone(), fence.clone());
        let started = Instant::now();
        let outcome = tokio::spawn(async move { inner.start(&spec, &fence).await }).await;
        metrics::histogram!(crate::metric::DOCKER_START_SECONDS).record(started.elapsed().as_secs_f64());
        outcome.map_err(|error| RuntimeError::Failed(format!("the start failed: {error}")))?
    }

    async fn stop(&self, id: WorkspaceId) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        let outcome = tokio::spawn(async move { inner.stop(id).await }).await;
        outcome.map_err(|error| RuntimeError::Failed(format!("the stop failed: {error}")))?
    }

    async fn status(&self, id: WorkspaceId) -> Result<Option<Instance>> {
        let outages = self.inner.engine.outages();
        let Some((generation, container)) = self.inner.ours(id).await? else { return Ok(None) };
        let state = match ended(&container) {
            Some(how) => self.inner.ended(id, &container, how),
            None if is_paused(&container) => return Err(paused(&container)),
            None => {
                self.inner.is_alive(id, container.id.as_deref(), outages);
                match self.inner.health(id, &container).await {
                    Ok(InstanceState::Ready) => {
                        self.inner.answered().insert(id, container.id.unwrap_or_default());
                        InstanceState::Ready
                    }
                    health => return self.inner.after_silence(id, &container, health).await,
                }
            }
        };
        Ok(Some(Instance { generation, state }))
    }

    async fn list(&self, among: Among<'_>) -> Result<Vec<Listed>> {
        let inner = &self.inner;
        let deployment = inner.config.deployment.as_str();
        // One workspace can be asked for by name; several cost no more than all.
        let one = match among {
            Among::Known([known]) => known.workspace.to_string(),
            Among::All(_) | Among::Known(_) => String::new(),
        };
        let filter = label_filter(&[(LABEL_INSTANCE, deployment), (LABEL_WORKSPACE, &one)]);
        let outages = inner.engine.outages();
        let containers = inner.engine.containers(filter).await?;
        if !containers.is_empty() {
            // A survey does not wait for it.
            tokio::spawn(Arc::clone(&self.inner).keep_shut_in());
        }
        let listed = containers.into_iter().filter_map(|container| {
            let labels = container.labels.as_ref();
            if labels.is_some_and(|labels| labels.contains_key(LABEL_JOB)) {
                return None;
            }
            let (workspace, generation) = read_labels(labels, deployment)?;
            if !among.contains(workspace) {
                return None;
            }
            let state = match container.state {
                Some(ContainerSummaryStateEnum::CREATED) => InstanceState::evicted(NEVER_STARTED),
                Some(ContainerSummaryStateEnum::REMOVING) => InstanceState::evicted(REMOVED),
                Some(ContainerSummaryStateEnum::EXITED | ContainerSummaryStateEnum::DEAD) => {
                    let by = inner.ended_by(workspace, container.id.as_deref());
                    InstanceState::Ended { by, how: container.status.unwrap_or_else(|| "it ended".into()) }
                }
                _ => {
                    inner.is_alive(workspace, container.id.as_deref(), outages);
                    InstanceState::Alive
                }
            };
            Some(Listed { workspace, instance: Instance { generation, state } })
        });
        Ok(listed.collect())
    }

    async fn upstream(&self, id: WorkspaceId) -> Result<Option<Upstream>> {
        match self.inner.ours(id).await {
            // It takes connections, and never answers.
            Ok(Some((_, container))) if is_paused(&container) => {
                self.inner.forget(id);
                Err(paused(&container))
            }
            Ok(Some((_, container))) if ended(&container).is_none() => {
                Ok(self.inner.upstream(id, &container))
            }
            Ok(_) => {
                self.inner.forget(id);
                Ok(None)
            }
            // Not knowing better, it listens where it did, which nobody else can.
            Err(error @ RuntimeError::Unreachable(_)) => self.inner.last_seen(id).map(Some).ok_or(error),
            Err(error) => Err(error),
        }
    }

    fn watch(&self) -> Option<mpsc::Receiver<Notice>> {
        Some(events::watch(Arc::clone(&self.inner.engine), self.inner.config.deployment.clone()))
    }

    async fn safeguards(&self) -> Vec<Safeguard> {
        let inner = &self.inner;
        safeguards::look(&inner.engine, &inner.network, &inner.config).await
    }

    fn ide(&self) -> &str {
        &self.inner.config.ide.name
    }

    async fn logs(&self, id: WorkspaceId, query: LogQuery) -> Result<LogStream> {
        let Some(exact) = self.inner.ours(id).await?.and_then(|(_, container)| container.id) else {
            return Ok(Box::pin(futures::stream::empty()));
        };
        let options = LogsOptionsBuilder::new()
            .stdout(true)
            .stderr(true)
            .follow(query.follow)
            .tail(&query.tail.to_string())
            .build();
        let stream = self.inner.engine.client().await?.logs(&exact, Some(options));
        let bytes = stream.map(|piece| piece.map(LogOutput::into_bytes).map_err(std::io::Error::other));
        Ok(Box::pin(bytes))
    }
}

impl Inner {
    /// Puts back what keeps workspaces apart, should somebody have removed it.
    async fn keep_shut_in(self: Arc<Self>) {
        let Ok(mut watch) = self.watch.try_lock() else { return };
        if watch.is_due() {
            let _one = self.making.lock().await;
            watch.keep(&self.engine, &self.network, &self.config).await;
        }
    }

    /// The exact ids of the workspace's containers, whatever they are called. One, unless somebody made another.
    async fn containers_of(&self, id: WorkspaceId) -> Result<Vec<String>> {
        let id = id.to_string();
        let filter = label_filter(&[(LABEL_INSTANCE, &self.config.deployment), (LABEL_WORKSPACE, &id)]);
        let listed = self.engine.containers(filter).await?;
        let is_job = |labels: &HashMap<String, String>| labels.contains_key(LABEL_JOB);
        let ours = listed.into_iter().filter(|container| !container.labels.as_ref().is_some_and(is_job));
        Ok(ours.filter_map(|container| container.id).collect())
    }

    async fn inspect(&self, exact: &str) -> Result<Option<ContainerInspectResponse>> {
        let inspected = found(self.engine.client().await?.inspect_container(exact, None).await);
        inspected.map_err(self.engine.failed("look at a container"))
    }

    /// The workspace's container, if there is one of this deployment; one that runs before one that does not.
    async fn ours(&self, id: WorkspaceId) -> Result<Option<(Generation, ContainerInspectResponse)>> {
        let mut best = None;
        for exact in self.containers_of(id).await? {
            let Some(container) = self.inspect(&exact).await? else { continue };
            let labels = container.config.as_ref().and_then(|config| config.labels.as_ref());
            let Some((_, generation)) = read_labels(labels, &self.config.deployment) else { continue };
            if best.is_none() || ended(&container).is_none() {
                best = Some((generation, container));
            }
        }
        Ok(best)
    }

    async fn start(&self, spec: &InstanceSpec, fence: &Fence) -> Result<()> {
        let client = self.engine.client().await?;
        let owner = self.config.users.of(&self.engine, spec.workspace).await?;
        let wanted = body::workspace(&self.config, &self.network.name, spec, owner, Made::default());
        let volume = spec.volume.to_string();
        let network = async {
            let _one = self.making.lock().await;
            self.network.ensure(&self.engine, &self.config).await
        };
        let (before, there, etc, network) = tokio::join!(
            self.ours(spec.workspace),
            client.inspect_volume(&volume),
            self.list_of_users(spec),
            network
        );
        if let Some((generation, container)) = before? {
            let label = |labels: &HashMap<String, String>| labels.get(LABEL_CONFIG).cloned();
            let made_with =
                container.config.as_ref().and_then(|config| config.labels.as_ref()).and_then(label);
            let wanted = wanted.labels.as_ref().and_then(label);
            if ended(&container).is_none() && generation == spec.generation() && made_with == wanted {
                return match &container.id {
                    Some(exact) if is_paused(&container) => self.unpause(exact).await,
                    _ => Ok(()),
                };
            }
            fence.check().await?;
            self.stop(spec.workspace).await?;
        }
        let there = found(there).map_err(self.engine.failed("look at a volume"))?;
        let Some(there) = there else {
            return Err(RuntimeError::Failed(format!("the volume {volume} does not exist")));
        };
        if read_labels(Some(&there.labels), &self.config.deployment).is_none() {
            return Err(RuntimeError::Failed(format!("the volume {volume} is not this deployment's")));
        }
        network?;
        let secret =
            self.config.ide.guard.filter(|_| self.config.reach != Reach::Socket).map(|_| new_secret());
        let place = match self.config.reach {
            Reach::Socket => Some(self.prepare_sockets(spec.workspace).await?),
            Reach::Address | Reach::Port => None,
        };
        let etc = etc?;
        let made = Made { sockets: place.as_deref(), etc: etc.as_deref(), secret: secret.as_deref() };
        let body = body::workspace(&self.config, &self.network.name, spec, owner, made);
        let name = container_name(spec.workspace);
        let options = CreateContainerOptionsBuilder::new().name(&name).build();
        // It takes a while, and the packet rules only matter once something runs in it.
        let shut_in = async {
            let _one = self.making.lock().await;
            self.network.shut_in(&self.engine, &self.config).await
        };
        let (created, shut_in) = tokio::join!(client.create_container(Some(options), body), shut_in);
        if let (Err(_), Some(place)) = (&created, &place) {
            // Nothing was ever in it.
            let _ = std::fs::remove_dir(place);
        }
        let exact = created.map_err(|error| {
            if is_status(&error, 409) {
                RuntimeError::Failed(format!("the name {name} is taken by a container that is not ours"))
            } else if let Some(place) = place.as_deref().filter(|_| no_such_source(&error)) {
                RuntimeError::Failed(format!(
                    "the engine does not see CodeHub's data directory ({}): mount it into CodeHub's container under \
                     the name it has outside, or set RUNTIME_REACH to address or port; see docs/DOCKER.md",
                    place.display()
                ))
            } else if is_missing(&error) {
                RuntimeError::ImagePull(format!("the image {} is not there: {error}", spec.image_ref))
            } else {
                self.engine.failed("make the container")(error)
            }
        })?;
        let exact = exact.id;
        shut_in?;
        self.give_home(spec, &exact, owner, fence).await?;
        self.name_user(spec, &exact, owner, etc).await;
        self.write_default_files(spec, &exact, owner).await;
        if let Err(fenced) = fence.check().await {
            // It never ran, and whoever leads now makes its own.
            remove_container(&self.engine, &exact).await?;
            return Err(fenced.into());
        }
        let outages = self.engine.outages();
        client.start_container(&exact, None).await.map_err(|error| {
            self.forget_given(spec.workspace);
            self.engine.failed("start the container")(error)
        })?;
        self.is_alive(spec.workspace, Some(&exact), outages);
        Ok(())
    }

    fn alive(&self) -> MutexGuard<'_, HashMap<WorkspaceId, (String, u64)>> {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that this container ran after so many outages of the engine, counted before it was looked at.
    fn is_alive(&self, id: WorkspaceId, exact: Option<&str>, outages: u64) {
        if let Some(exact) = exact {
            self.alive().insert(id, (exact.to_owned(), outages));
        }
    }

    /// Whose doing it was. A container that ran when it was last looked at, with the engine there ever since,
    /// ended by itself; of any other nobody knows, and engines end all of theirs when they are restarted.
    fn ended_by(&self, id: WorkspaceId, exact: Option<&str>) -> EndedBy {
        let ran = (exact.unwrap_or_default().to_owned(), self.engine.outages());
        if self.alive().get(&id) == Some(&ran) { EndedBy::Program } else { EndedBy::Platform }
    }

    fn ended(&self, id: WorkspaceId, container: &ContainerInspectResponse, how: String) -> InstanceState {
        self.forget_given(id);
        let state = container.state.as_ref();
        let by = match state.and_then(|state| state.status) {
            Some(ContainerStateStatusEnum::CREATED | ContainerStateStatusEnum::REMOVING) => EndedBy::Platform,
            _ if state.is_some_and(out_of_memory) => EndedBy::Program,
            _ => self.ended_by(id, container.id.as_deref()),
        };
        InstanceState::Ended { by, how }
    }

    fn answered(&self) -> MutexGuard<'_, HashMap<WorkspaceId, String>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What did not answer may have ended, or been removed, while it was asked. One that answered before and does not
    /// listen any more is probably about to: its sockets close before the engine notices.
    async fn after_silence(
        &self,
        id: WorkspaceId,
        container: &ContainerInspectResponse,
        health: Result<InstanceState>,
    ) -> Result<Option<Instance>> {
        let exact = container.id.as_deref().unwrap_or_default();
        if health.is_ok() && self.answered().get(&id).is_some_and(|answered| answered == exact) {
            let mut ended = self.engine.client().await?.wait_container(exact, None);
            // However it ended, the look below tells.
            let _ = tokio::time::timeout(DYING, ended.next()).await;
        }
        let Some((generation, container)) = self.ours(id).await? else { return Ok(None) };
        let state = match ended(&container) {
            Some(how) => self.ended(id, &container, how),
            None => health?,
        };
        Ok(Some(Instance { generation, state }))
    }

    /// The volume for the list of users, where there is to be one. A new one has no names in it, whatever was known of it.
    async fn list_of_users(&self, spec: &InstanceSpec) -> Result<Option<String>> {
        if self.config.users.uid.is_some() {
            return Ok(None);
        }
        let client = self.engine.client().await?;
        let image = found(client.inspect_image(&spec.image_ref).await);
        let image = image.map_err(self.engine.failed("look at an image"))?.and_then(|image| image.id);
        let volume = users::etc_volume(&spec.volume, image.as_deref().unwrap_or(&spec.image_ref));
        let there = found(client.inspect_volume(&volume).await);
        if there.map_err(self.engine.failed("look at a volume"))?.is_none() {
            self.named.lock().unwrap_or_else(PoisonError::into_inner).remove(&volume);
        }
        Ok(Some(volume))
    }

    /// Nothing runs yet in this container, nor in the home that is mounted in it.
    async fn give_home(
        &self,
        spec: &InstanceSpec,
        container: &str,
        owner: Owner,
        fence: &Fence,
    ) -> Result<()> {
        let known = (spec.generation(), owner);
        if self.given().get(&spec.workspace) == Some(&known) {
            return Ok(());
        }
        if users::owner_of(&self.engine, container, &self.config.home).await? != Some(owner) {
            tracing::info!(workspace = %spec.workspace, uid = owner.0, "gives a home to the workspace's user");
            self.jobs.give(&spec.volume, fence).await?;
        }
        self.given().insert(spec.workspace, known);
        Ok(())
    }

    /// What ended by itself, or could not be started, may have a home that its owner has shut: the next start looks.
    fn forget_given(&self, id: WorkspaceId) {
        self.given().remove(&id);
    }

    fn given(&self) -> MutexGuard<'_, HashMap<WorkspaceId, (Generation, Owner)>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A user without a name is a user all the same.
    async fn name_user(&self, spec: &InstanceSpec, container: &str, owner: Owner, list: Option<String>) {
        let named = || self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(list) = list.filter(|list| !named().contains(list)) else { return };
        match users::name(&self.engine, container, owner, &self.config.home).await {
            Ok(()) => drop(named().insert(list)),
            Err(error) => {
                tracing::warn!(workspace = %spec.workspace, %error, "the workspace's user has no name in its container");
            }
        }
    }

    /// A home that will not have the IDE's settings is a home all the same.
    async fn write_default_files(&self, spec: &InstanceSpec, container: &str, owner: Owner) {
        let files = self.config.ide.files;
        let known =
            |map: &HashMap<WorkspaceId, Generation>| map.get(&spec.workspace) == Some(&spec.generation());
        if files.is_empty() || known(&self.furnished.lock().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let home = write_default_files::Home { container, path: &self.config.home, owner };
        match home.write_default_files(&self.engine, files).await {
            Ok(()) => {
                let mut furnished = self.furnished.lock().unwrap_or_else(PoisonError::into_inner);
                furnished.insert(spec.workspace, spec.generation());
            }
            Err(error) => {
                tracing::warn!(workspace = %spec.workspace, %error, "the IDE's default settings are not written");
            }
        }
    }

    /// Politely, then not; gone when this returns, and so is whatever else has this workspace's labels.
    async fn stop(&self, id: WorkspaceId) -> Result<()> {
        self.forget(id);
        self.alive().remove(&id);
        self.answered().remove(&id);
        for exact in self.containers_of(id).await? {
            self.stop_exactly(&exact).await?;
        }
        let sockets = Arc::clone(&self.sockets);
        let removed = tokio::task::spawn_blocking(move || sockets.remove(id)).await;
        removed.map_err(|error| RuntimeError::Failed(error.to_string()))
    }

    async fn prepare_sockets(&self, id: WorkspaceId) -> Result<PathBuf> {
        let sockets = Arc::clone(&self.sockets);
        let prepared = tokio::task::spawn_blocking(move || sockets.prepare(id)).await;
        prepared.map_err(std::io::Error::other).flatten().map_err(|error| {
            RuntimeError::Failed(format!("there can be no directory for the workspace's socket: {error}"))
        })
    }

    async fn stop_exactly(&self, exact: &str) -> Result<()> {
        let Some(container) = self.inspect(exact).await? else { return Ok(()) };
        let client = self.engine.client().await?;
        if is_paused(&container) {
            self.unpause(exact).await?;
        }
        if ended(&container).is_none() {
            let grace = i32::try_from(self.config.stop_grace.as_secs()).unwrap_or(i32::MAX);
            let options = StopContainerOptionsBuilder::new().t(grace).build();
            match found(client.stop_container(exact, Some(options)).await) {
                Ok(_) => {}
                Err(error) if is_status(&error, 304) => {}
                Err(error) => return Err(self.engine.failed("stop the container")(error)),
            }
        }
        remove_container(&self.engine, exact).await
    }

    async fn unpause(&self, exact: &str) -> Result<()> {
        let unpaused = found(self.engine.client().await?.unpause_container(exact).await);
        unpaused.map(|_| ()).map_err(self.engine.failed("let a paused container go on"))
    }

    async fn health(&self, id: WorkspaceId, container: &ContainerInspectResponse) -> Result<InstanceState> {
        let Some(upstream) = self.upstream(id, container) else { return Ok(InstanceState::Alive) };
        let (id, base_path) = (id.to_string(), base_path(container));
        let fill = crate::ide::Fill {
            port: self.config.port,
            socket: None,
            guarded: false,
            home: &self.config.home,
            id: &id,
            base_path: &base_path,
        };
        let path = self.config.ide.health_path(&fill);
        match health::ask(&upstream.address, upstream.secret.as_ref(), &path, self.config.health_timeout)
            .await
        {
            Health::Well => Ok(InstanceState::Ready),
            Health::NotYet => Ok(InstanceState::Alive),
            Health::Silent => Err(RuntimeError::Unreachable(format!(
                "the container runs, but does not answer its health check ({path}) within {:?}",
                self.config.health_timeout
            ))),
        }
    }

    /// Where the container is reached, as long as it is this one. It was made by an earlier CodeHub, perhaps: what
    /// it has counts, and not what a new one would have. A socket is remembered for when the engine is away: nobody
    /// but the container can listen there. An address may be another's by then.
    fn upstream(&self, id: WorkspaceId, container: &ContainerInspectResponse) -> Option<Upstream> {
        let address = socket_of(container).map(|path| Address::Socket(path.into())).or_else(|| {
            self.published(container).or_else(|| self.own_address(container)).map(Address::from)
        })?;
        // A container that was started again is another instance.
        let begun = container.state.as_ref().and_then(|state| state.started_at.as_ref());
        let upstream = Upstream {
            address,
            instance: InstanceTag::of(&(container.id.as_ref()?, begun)),
            ide: Arc::clone(&self.ide),
            keeps_prefix: !self.config.ide.strip_prefix,
            secret: self.config.ide.guard.and_then(|guard| {
                let env = container.config.as_ref()?.env.as_ref()?;
                let secret = env.iter().find_map(|line| line.strip_prefix(guard.env)?.strip_prefix('='))?;
                Some(guard.header(secret))
            }),
        };
        if upstream.address.port().is_none() {
            self.seen_at.lock().unwrap_or_else(PoisonError::into_inner).insert(id, upstream.clone());
        }
        Some(upstream)
    }

    /// The port of 127.0.0.1 that leads to it.
    fn published(&self, container: &ContainerInspectResponse) -> Option<SocketAddr> {
        let ports = container.network_settings.as_ref()?.ports.as_ref()?;
        let bound = ports.get(&format!("{}/tcp", self.config.port))?.as_ref()?;
        let port = bound.iter().find_map(|binding| binding.host_port.as_ref()?.parse().ok())?;
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    fn own_address(&self, container: &ContainerInspectResponse) -> Option<SocketAddr> {
        let networks = container.network_settings.as_ref()?.networks.as_ref()?;
        let ip: IpAddr = networks.get(&self.network.name)?.ip_address.as_ref()?.parse().ok()?;
        Some(SocketAddr::from((ip, self.config.port)))
    }

    fn forget(&self, id: WorkspaceId) {
        self.seen_at.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    fn last_seen(&self, id: WorkspaceId) -> Option<Upstream> {
        self.seen_at.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }
}

/// The socket on which a container listens, by its name out here.
fn socket_of(container: &ContainerInspectResponse) -> Option<String> {
    let mounts = container.mounts.as_ref()?;
    let place = mounts.iter().find(|mount| mount.destination.as_deref() == Some(IO))?.source.as_ref()?;
    Some(format!("{place}/{}", SOCKET.strip_prefix(IO)?.trim_start_matches('/')))
}

/// Whether the engine says that what is to be mounted is not there.
pub(super) fn no_such_source(error: &bollard::errors::Error) -> bool {
    is_status(error, 400) && error.to_string().contains("bind source path does not exist")
}

fn new_secret() -> String {
    let random = [0; 2].map(|_| Uuid::new_v4().simple().to_string());
    random.concat()
}

/// Removes a container by its exact id, and waits until it is gone.
pub(super) async fn remove_container(engine: &Engine, exact: &str) -> Result<()> {
    let client = engine.client().await?;
    // With the volumes without a name that an image asked for; a home has one.
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    match found(client.remove_container(exact, Some(options)).await) {
        Ok(_) => {}
        // Somebody removes it already.
        Err(error) if is_status(&error, 409) => {}
        Err(error) => return Err(engine.failed("remove the container")(error)),
    }
    let begun = Instant::now();
    while begun.elapsed() < GONE_WITHIN {
        let inspected = found(client.inspect_container(exact, None).await);
        if inspected.map_err(engine.failed("look at a container"))?.is_none() {
            return Ok(());
        }
        tokio::time::sleep(GONE_STEP).await;
    }
    Err(RuntimeError::Failed("the engine does not get the container removed".to_owned()))
}

fn is_paused(container: &ContainerInspectResponse) -> bool {
    container.state.as_ref().is_some_and(|state| state.paused == Some(true))
}

fn paused(container: &ContainerInspectResponse) -> RuntimeError {
    let name = container.name.as_deref().unwrap_or_default().trim_start_matches('/');
    RuntimeError::Unreachable(format!(
        "somebody paused the container: `docker unpause {name}`, or restart the workspace"
    ))
}

/// Whether its program was killed for its memory. The engine also says so of a container in which something else was,
/// long before it ended.
fn out_of_memory(state: &ContainerState) -> bool {
    state.oom_killed == Some(true) && state.exit_code == Some(KILLED)
}

/// A limit as operators write it: `2 GiB`, `1536 MiB`.
fn binary_size(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 30) {
        format!("{} GiB", bytes >> 30)
    } else {
        format!("{} MiB", bytes >> 20)
    }
}

/// How it ended, if it did.
fn ended(container: &ContainerInspectResponse) -> Option<String> {
    let state = container.state.as_ref()?;
    match state.status? {
        ContainerStateStatusEnum::CREATED => Some(NEVER_STARTED.to_owned()),
        ContainerStateStatusEnum::REMOVING => Some(REMOVED.to_owned()),
        ContainerStateStatusEnum::EXITED | ContainerStateStatusEnum::DEAD => {
            let code = state.exit_code.unwrap_or_default();
            let why = match state.error.as_deref() {
                _ if out_of_memory(state) => {
                    let limit = container.host_config.as_ref().and_then(|config| config.memory);
                    match limit.and_then(|bytes| u64::try_from(bytes).ok()).filter(|bytes| *bytes > 0) {
                        Some(bytes) => format!("out of memory ({})", binary_size(bytes)),
                        None => "out of memory".to_owned(),
                    }
                }
                None | Some("") => format!("exit code {code}"),
                Some(error) => error.to_owned(),
            };
            Some(why)
        }
        _ => None,
    }
}

/// What the paths of a container's program begin with: it was told when it was made.
fn base_path(container: &ContainerInspectResponse) -> String {
    let env = container.config.as_ref().and_then(|config| config.env.as_deref()).unwrap_or_default();
    let url = env.iter().find_map(|item| item.strip_prefix("CODEHUB_URL=")).unwrap_or_default();
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/", |at| &rest[at..]).to_owned()
}

//! Helper containers: short-lived, of our own image, with one volume mounted and nothing else. A
//! workspace has at most one, by its name; whoever wants another deals with the one that is there
//! first, so two jobs never touch one volume.

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use bollard::{
    container::LogOutput,
    errors::Error,
    models::{ContainerCreateBody, ContainerSummary, HostConfig, HostConfigLogConfig},
    query_parameters::{AttachContainerOptionsBuilder, CreateContainerOptionsBuilder},
};
use bytes::Bytes;
use codehub_domain::{UserId, VolumeKey, WorkspaceId};
use futures::{Stream, StreamExt as _};
use tokio::{io::AsyncWrite, sync::mpsc};
use uuid::Uuid;

use super::{
    body::volume_mount,
    engine::{Engine, LABEL_GENERATION, LABEL_INSTANCE, LABEL_JOB, LABEL_WORKSPACE, Labels},
    engine::{found, label_filter, read_labels},
    image,
    instances::remove_container,
    job_main::{JobMessage, Summary, VOLUME, failure},
    users::{Owner, Users},
};
use crate::{Fence, Result, RuntimeError};
use codehub_archive::{ArchiveError, Progress};

const MEMORY: i64 = 1 << 30;
const PIDS: i64 = 256;

/// Pieces of an archive between the engine and the archive engine.
const PIECES: usize = 16;

/// How long a job that has ended is still listened to.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Data that may come before the first word.
const EARLY: usize = 8 << 20;

/// Which job, and with what.
#[derive(Debug, Clone)]
pub(super) enum Job {
    Prepare {
        at_least: u64,
    },
    /// To the workspace's user.
    Give,
    Pack {
        level: i32,
    },
    /// Without the chunks that it is told of first, in so many bytes.
    PackChunks {
        level: i32,
        known: u64,
    },
    Unpack {
        size: u64,
        uncompressed: u64,
        entries: u64,
    },
    UnpackTar {
        uncompressed: u64,
        entries: u64,
    },
}

impl Job {
    pub(super) const PREPARE: &str = "prepare";

    fn name(&self) -> &'static str {
        match self {
            Self::Prepare { .. } => Self::PREPARE,
            Self::Give => "give",
            Self::Pack { .. } => "pack",
            Self::PackChunks { .. } => "pack-chunks",
            Self::Unpack { .. } => "unpack",
            Self::UnpackTar { .. } => "unpack-tar",
        }
    }

    /// Whether something is sent to it.
    fn listens(&self) -> bool {
        match self {
            Self::Prepare { .. } | Self::Give | Self::Pack { .. } => false,
            Self::PackChunks { .. } | Self::Unpack { .. } | Self::UnpackTar { .. } => true,
        }
    }
}

/// Starts helpers of one deployment.
#[derive(Clone)]
pub struct Jobs {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<Engine>,
    deployment: String,
    users: Users,
    /// What the helpers' image is made from, should the engine not have it.
    exe: PathBuf,
    /// Which image that is.
    image: tokio::sync::OnceCell<String>,
    making: tokio::sync::Mutex<()>,
}

impl Jobs {
    /// Jobs for the volumes of this deployment, whose files belong to these users. Where the engine lacks the
    /// helpers' image, it is made from `exe`.
    pub fn new(engine: Arc<Engine>, deployment: &str, users: Users, exe: PathBuf) -> Self {
        let making = tokio::sync::Mutex::default();
        let image = tokio::sync::OnceCell::new();
        let deployment = deployment.to_owned();
        Self { inner: Arc::new(Inner { engine, deployment, users, exe, image, making }) }
    }

    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.inner.engine
    }

    pub(super) fn deployment(&self) -> &str {
        &self.inner.deployment
    }

    /// Makes a volume with room for at least so many bytes, and gives it to the workspace's user.
    pub(super) async fn prepare(&self, key: &VolumeKey, labels: Labels, at_least: u64) -> Result<()> {
        let mut running = self.start(Job::Prepare { at_least }, key, Some(labels), &Fence::open()).await?;
        match running.result(&Progress::new()).await {
            Ok(_) => {}
            Err(ArchiveError::NoSpace { message }) => return Err(RuntimeError::NoCapacity(message)),
            Err(error) => {
                return Err(RuntimeError::Failed(format!("a volume could not be prepared: {error}")));
            }
        }
        running.end().await
    }

    /// Gives a home to its workspace's user, whoever it belonged to. Nothing may run in it.
    pub(super) async fn give(&self, key: &VolumeKey, fence: &Fence) -> Result<()> {
        let mut running = self.start(Job::Give, key, None, fence).await?;
        running.result(&Progress::new()).await.map_err(|error| {
            RuntimeError::Failed(format!("the home cannot be given to the workspace's user: {error}"))
        })?;
        running.end().await
    }

    /// Starts a job on a volume, after dealing with what is left of an earlier one, if the fence lets it.
    pub(super) async fn start(
        &self,
        job: Job,
        key: &VolumeKey,
        volume_labels: Option<Labels>,
        fence: &Fence,
    ) -> Result<Running> {
        let inner = &self.inner;
        {
            let _one = inner.making.lock().await;
            image::ensure_own(&inner.engine, inner.image().await?, &inner.exe).await?;
        }
        // What is left may be of whoever leads now.
        fence.check().await?;
        self.settle(key.workspace).await?;
        fence.check().await?;
        inner.launch(&job_name(key.workspace), &job, key, volume_labels).await
    }

    /// Refuses a volume that does not exist: the engine would make an empty one, and that is nobody's home.
    pub(super) async fn check_volume(&self, key: &VolumeKey) -> Result<()> {
        let inner = &self.inner;
        let volume = found(inner.engine.client().await?.inspect_volume(&key.to_string()).await);
        let Some(volume) = volume.map_err(inner.engine.failed("look at a volume"))? else {
            return Err(RuntimeError::Failed(format!("the volume {key} does not exist")));
        };
        if read_labels(Some(&volume.labels), &inner.deployment).is_none() {
            return Err(RuntimeError::Failed(format!("the volume {key} is not this deployment's")));
        }
        Ok(())
    }

    /// Ends whatever job of this workspace is there. A volume in the making is finished first, since it
    /// counts as soon as no helper that prepares it is left.
    pub(super) async fn settle(&self, id: WorkspaceId) -> Result<()> {
        let inner = &self.inner;
        let left = inner.helpers(id).await?;
        let mut unfinished = BTreeSet::new();
        for helper in &left {
            let labels = helper.labels.as_ref();
            if labels.and_then(|labels| labels.get(LABEL_JOB)).is_some_and(|job| job == Job::PREPARE) {
                unfinished.extend(read_labels(labels, &inner.deployment).map(|(_, generation)| generation));
            }
        }
        let mut finishing = Vec::new();
        for generation in unfinished {
            // Only the name of the volume counts here, and that does not say whose it is.
            let owner = UserId::from_uuid(Uuid::nil());
            let key = VolumeKey { owner, workspace: id, generation };
            // Under another name: what an engine that was killed left behind may not be startable.
            let name = format!("{}-{}", job_name(id), Uuid::new_v4().simple());
            let mut running = inner.launch(&name, &Job::Prepare { at_least: 0 }, &key, None).await?;
            running
                .result(&Progress::new())
                .await
                .map_err(|error| RuntimeError::Failed(format!("a volume could not be prepared: {error}")))?;
            finishing.push(running);
        }
        for exact in left.iter().filter_map(|helper| helper.id.as_ref()) {
            tracing::info!(workspace = %id, "ends a storage job that an earlier try has left");
            remove_container(&inner.engine, exact).await?;
        }
        for running in finishing {
            running.end().await?;
        }
        Ok(())
    }

    /// Ends the jobs that hold a volume which is to be deleted.
    pub(super) async fn end_of_volume(&self, key: &VolumeKey) -> Result<()> {
        let name = key.to_string();
        for helper in self.inner.helpers(key.workspace).await? {
            let mounts = helper.mounts.unwrap_or_default();
            if let Some(exact) = &helper.id
                && mounts.iter().any(|mount| mount.name.as_ref() == Some(&name))
            {
                remove_container(&self.inner.engine, exact).await?;
            }
        }
        Ok(())
    }
}

fn job_name(id: WorkspaceId) -> String {
    format!("codehub-job-{id}")
}

impl Inner {
    /// The helpers of a workspace, whatever they are called.
    async fn helpers(&self, id: WorkspaceId) -> Result<Vec<ContainerSummary>> {
        let id = id.to_string();
        let labels = [(LABEL_INSTANCE, self.deployment.as_str()), (LABEL_WORKSPACE, &id), (LABEL_JOB, "")];
        self.engine.containers(label_filter(&labels)).await
    }

    async fn launch(
        &self,
        name: &str,
        job: &Job,
        key: &VolumeKey,
        volume_labels: Option<Labels>,
    ) -> Result<Running> {
        let client = self.engine.client().await?;
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        let owner = self.users.of(&self.engine, key.workspace).await?;
        let body = self.body(self.image().await?, job, key, owner, volume_labels);
        let created = client.create_container(Some(options), body).await;
        let exact = created.map_err(self.engine.failed("make a storage job"))?.id;
        let guard = Guard { engine: Arc::clone(&self.engine), exact: Some(exact.clone()) };
        let options = AttachContainerOptionsBuilder::new()
            .stream(true)
            .stdin(job.listens())
            .stdout(true)
            .stderr(true)
            .build();
        let attached = client.attach_container(&exact, Some(options)).await;
        let attached = attached.map_err(self.engine.failed("attach to a storage job"))?;
        let started = client.start_container(&exact, None).await;
        started.map_err(self.engine.failed("start a storage job"))?;
        metrics::counter!(crate::metric::DOCKER_JOBS, "job" => job.name()).increment(1);
        Ok(Running {
            guard,
            output: attached.output,
            input: Some(attached.input),
            lines: Vec::new(),
            early: Vec::new(),
            finished: None,
        })
    }

    /// The image of the helpers, by what is in it.
    async fn image(&self) -> Result<&str> {
        let name = || async {
            let exe = self.exe.clone();
            let named = tokio::task::spawn_blocking(move || image::job_image(&exe)).await;
            named.map_err(std::io::Error::other).flatten().map_err(|error| {
                RuntimeError::Failed(format!("{} cannot be read: {error}", self.exe.display()))
            })
        };
        self.image.get_or_try_init(name).await.map(String::as_str)
    }

    fn body(
        &self,
        image: &str,
        job: &Job,
        key: &VolumeKey,
        (uid, gid): Owner,
        volume_labels: Option<Labels>,
    ) -> ContainerCreateBody {
        let root = "0:0".to_owned();
        let (words, user, capabilities, read_only) = match job {
            Job::Prepare { at_least } => {
                let words = vec![uid.to_string(), gid.to_string(), at_least.to_string()];
                (words, root, vec!["CHOWN"], false)
            }
            // What is setuid loses that with its owner, and only who may change modes may do so.
            Job::Give => {
                let capabilities = vec!["CHOWN", "DAC_READ_SEARCH", "FOWNER"];
                (vec![uid.to_string(), gid.to_string()], root, capabilities, false)
            }
            // The home may hold what its owner has no right to read.
            Job::Pack { level } => (vec![level.to_string()], root, vec!["DAC_READ_SEARCH"], true),
            Job::PackChunks { level, known } => {
                (vec![level.to_string(), known.to_string()], root, vec!["DAC_READ_SEARCH"], true)
            }
            Job::Unpack { size, uncompressed, entries } => {
                let words = [size, uncompressed, entries].map(u64::to_string).to_vec();
                (words, format!("{uid}:{gid}"), Vec::new(), false)
            }
            Job::UnpackTar { uncompressed, entries } => {
                let words = [uncompressed, entries].map(u64::to_string).to_vec();
                (words, format!("{uid}:{gid}"), Vec::new(), false)
            }
        };
        let mut mount = volume_mount(&key.to_string(), VOLUME, read_only);
        if let Some(options) = &mut mount.volume_options {
            options.labels = volume_labels;
        }
        let mut cmd = vec!["storage-job".to_owned(), job.name().to_owned()];
        cmd.extend(words);
        let stdin = job.listens();
        ContainerCreateBody {
            image: Some(image.to_owned()),
            entrypoint: Some(vec![image::PROGRAM.to_owned()]),
            cmd: Some(cmd),
            user: Some(user),
            env: Some(Vec::new()),
            labels: Some(HashMap::from([
                (LABEL_INSTANCE.to_owned(), self.deployment.clone()),
                (LABEL_WORKSPACE.to_owned(), key.workspace.to_string()),
                (LABEL_GENERATION.to_owned(), key.generation.to_string()),
                (LABEL_JOB.to_owned(), job.name().to_owned()),
            ])),
            attach_stdin: Some(stdin),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            open_stdin: Some(stdin),
            stdin_once: Some(stdin),
            host_config: Some(HostConfig {
                mounts: Some(vec![mount]),
                network_mode: Some("none".to_owned()),
                cap_drop: Some(vec!["ALL".to_owned()]),
                cap_add: Some(capabilities.into_iter().map(str::to_owned).collect()),
                security_opt: Some(vec!["no-new-privileges:true".to_owned()]),
                readonly_rootfs: Some(true),
                memory: Some(MEMORY),
                pids_limit: Some(PIDS),
                // The stream is the home: it has no business in the engine's logs.
                log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        }
    }
}

/// Removes the helper when whoever ran it is gone.
struct Guard {
    engine: Arc<Engine>,
    exact: Option<String>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (Some(exact), Ok(runtime)) = (self.exact.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let engine = Arc::clone(&self.engine);
        runtime.spawn(async move {
            if let Err(error) = remove_container(&engine, &exact).await {
                tracing::debug!(%error, "a storage job is left for the next try to end");
            }
        });
    }
}

/// Waits until a container does not run any more; how it ended. Never, where that cannot be told.
async fn ended(engine: Arc<Engine>, exact: Option<String>) -> String {
    if let (Some(exact), Ok(client)) = (exact, engine.client().await)
        && let Some(outcome) = client.wait_container(&exact, None).next().await
    {
        match outcome {
            Ok(how) => return format!("exit code {}", how.status_code),
            Err(Error::DockerContainerWaitError { code, .. }) => return format!("exit code {code}"),
            // The engine is away, or answers late: the streams tell.
            Err(_) => {}
        }
    }
    std::future::pending().await
}

/// A job under way. Dropping it ends it.
pub(super) struct Running {
    guard: Guard,
    output: Pin<Box<dyn Stream<Item = std::result::Result<LogOutput, Error>> + Send>>,
    input: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    /// Of stderr, not yet a whole one.
    lines: Vec<u8>,
    /// Data and words come by different ways: what came before the first word, and the last one.
    early: Vec<Bytes>,
    finished: Option<Summary>,
}

/// What came out of a job.
pub(super) enum JobOutput {
    Data(Bytes),
    Message(JobMessage),
    End,
}

impl Running {
    pub(super) fn input(&mut self) -> Option<Pin<Box<dyn AsyncWrite + Send>>> {
        self.input.take()
    }

    /// The next thing it says.
    pub(super) async fn hear(&mut self) -> std::result::Result<JobOutput, ArchiveError> {
        loop {
            if let Some(end) = self.lines.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.lines.drain(..=end).collect();
                match serde_json::from_slice(&line) {
                    Ok(said) => return Ok(JobOutput::Message(said)),
                    Err(_) => tracing::warn!(line = %String::from_utf8_lossy(&line), "a storage job said"),
                }
                continue;
            }
            match self.output.next().await {
                None => return Ok(JobOutput::End),
                Some(Ok(LogOutput::StdOut { message })) => return Ok(JobOutput::Data(message)),
                Some(Ok(LogOutput::StdErr { message })) => self.lines.extend_from_slice(&message),
                Some(Ok(LogOutput::StdIn { .. } | LogOutput::Console { .. })) => {}
                Some(Err(error)) => {
                    let message = format!("the storage job's stream broke: {error}");
                    return Err(ArchiveError::Unreachable { message });
                }
            }
        }
    }

    /// How much there is to pack, near enough: the first thing a packing job says.
    pub(super) async fn total(&mut self) -> std::result::Result<u64, ArchiveError> {
        while self.early.iter().map(Bytes::len).sum::<usize>() < EARLY {
            match self.hear().await? {
                JobOutput::Data(bytes) => self.early.push(bytes),
                JobOutput::Message(JobMessage::Total(total)) => return Ok(total),
                JobOutput::Message(JobMessage::Done(_)) => {}
                JobOutput::Message(JobMessage::Finished(summary)) => self.finished = Some(summary),
                JobOutput::Message(JobMessage::Failed { kind, message }) => {
                    return Err(failure(&kind, message));
                }
                JobOutput::End => break,
            }
        }
        Ok(0)
    }

    /// Listens until the result. Data goes nowhere.
    pub(super) async fn result(&mut self, progress: &Progress) -> std::result::Result<Summary, ArchiveError> {
        let (nowhere, _) = mpsc::channel(1);
        self.stream(progress, &nowhere).await
    }

    /// [`Self::result`] of a job whose input is open: its streams may outlive it, so the container is watched as well.
    pub(super) async fn result_or_end(
        &mut self,
        progress: &Progress,
    ) -> std::result::Result<Summary, ArchiveError> {
        let ended = ended(Arc::clone(&self.guard.engine), self.guard.exact.clone());
        let gone = async {
            let how = ended.await;
            // Its last words may still be on their way.
            tokio::time::sleep(LAST_WORDS).await;
            how
        };
        tokio::select! {
            biased;
            outcome = self.result(progress) => outcome,
            how = gone => Err(ArchiveError::Unreachable {
                message: format!("the storage job ended without a result ({how})"),
            }),
        }
    }

    /// Hands on the data until the result.
    pub(super) async fn stream(
        &mut self,
        progress: &Progress,
        data: &mpsc::Sender<Bytes>,
    ) -> std::result::Result<Summary, ArchiveError> {
        for bytes in std::mem::take(&mut self.early) {
            drop(data.send(bytes).await);
        }
        let mut finished = self.finished.take();
        loop {
            match self.hear().await? {
                // A receiver that is gone has its own reason; the job is ended with us.
                JobOutput::Data(bytes) => drop(data.send(bytes).await),
                JobOutput::Message(JobMessage::Total(total)) => progress.start(total),
                JobOutput::Message(JobMessage::Done(done)) => {
                    progress.advance(done.saturating_sub(progress.done()));
                }
                JobOutput::Message(JobMessage::Finished(summary)) => {
                    progress.advance(summary.uncompressed.saturating_sub(progress.done()));
                    finished = Some(summary);
                }
                JobOutput::Message(JobMessage::Failed { kind, message }) => {
                    return Err(failure(&kind, message));
                }
                // Only here: what it wrote before it said so may still be on its way.
                JobOutput::End => break,
            }
        }
        finished.ok_or_else(|| ArchiveError::Unreachable {
            message: "the storage job ended without a result".to_owned(),
        })
    }

    /// Removes it, its work being done, or nobody wanting it any more. The engine does not get rid of a container while
    /// somebody is attached to it who does not listen.
    pub(super) async fn end(self) -> Result<()> {
        let Self { mut guard, output, input, .. } = self;
        drop((output, input));
        let Some(exact) = guard.exact.take() else { return Ok(()) };
        remove_container(&guard.engine, &exact).await
    }

    pub(super) fn pieces() -> (mpsc::Sender<Bytes>, mpsc::Receiver<Bytes>) {
        mpsc::channel(PIECES)
    }
}

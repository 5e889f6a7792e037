//! Where workspaces run and homes lie: instances, volumes and the way of a home into and out of an archive,
//! on local processes and directories or on a Docker engine. Knows no database, no people and no HTTP.
//!
//! | port | embedded | production |
//! |---|---|---|
//! | [`Instances`] | local processes | Docker |
//! | [`volumes::Volumes`] | directories | Docker volumes |
//! | [`homes::HomeTransfer`] | reads and writes directories | helper containers |
//! | [`archives::Archives`] | files | S3 |
//!
//! Every call is idempotent: starting what runs, stopping what does not and deleting what is not
//! there all succeed. An error always means "could not", never "is not there". Every port shows what was
//! done through it: a look after a call that returned sees what it did (read-your-writes).

pub mod archives;
#[cfg(test)]
mod contract;
pub mod docker;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod fence;
mod forbidden;
pub mod homes;
pub mod ide;
mod metric;
pub mod process;
pub mod volumes;

use std::{net::SocketAddr, pin::Pin, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use codehub_domain::{
    ErrorReason, Failure, Generation, VolumeKey, WorkspaceId,
    observed::{EndedBy, Instance, InstanceState, Waiting},
};
use futures::Stream;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, watch},
};

pub use codehub_upstream::{
    Address, Carried, Connection, Dial, Dialling, Inside, InstanceTag, NotDialled, Secret, Upstream,
};
pub use fence::{Fence, Fenced};

use codehub_archive::Progress;

/// What a workspace's instance is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceSpec {
    /// Whose instance it is.
    pub workspace: WorkspaceId,
    /// The name of the workspace, for the program to show.
    pub name: String,
    /// The image, where the runtime has images.
    pub image_ref: String,
    /// The home; must exist.
    pub volume: VolumeKey,
    /// What its paths begin with where people reach it: `/`, or `/w/{id}/`.
    pub base_path: String,
    /// Where people reach it.
    pub url: String,
    /// Where the dashboard and the API are.
    pub api_url: String,
    /// Where people reach its ports, with `{port}` for the number; `None` where they do not.
    pub port_url: Option<String>,
}

impl InstanceSpec {
    /// The generation of its home.
    pub fn generation(&self) -> Generation {
        self.volume.generation
    }
}

/// One instance of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Whose instance it is.
    pub workspace: WorkspaceId,
    /// Alive or ended; `Ready` only where telling costs nothing (see [`Instances::status`]).
    pub instance: Instance,
}

/// What whoever asks for a listing knows of a workspace already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Which workspace.
    pub workspace: WorkspaceId,
    /// It had an instance when it was last looked at: that it has none would be news.
    pub there: bool,
    /// Something is being done for it, and what follows depends on whether it has an instance.
    pub under_way: bool,
}

impl Known {
    /// Whether "not there" has to be found out, and may not come from memory. "There" may always be old.
    pub fn confirm(self) -> bool {
        self.there || self.under_way
    }
}

/// Which instances a listing tells of.
#[derive(Debug, Clone, Copy)]
pub enum Among<'a> {
    /// All of this deployment, of which these are known.
    All(&'a [Known]),
    /// Those of these workspaces only.
    Known(&'a [Known]),
}

impl Among<'_> {
    /// Whether the listing tells of this workspace.
    pub fn contains(&self, id: WorkspaceId) -> bool {
        match self {
            Self::All(_) => true,
            Self::Known(known) => known.iter().any(|known| known.workspace == id),
        }
    }
}

/// Why something with an instance did not work. Never means "is not there".
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The engine does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The image is not on the engine and could not be pulled.
    #[error("{0}")]
    ImagePull(String),
    /// The engine has no room for it now.
    #[error("{0}")]
    NoCapacity(String),
    /// The engine answered that it cannot.
    #[error("{0}")]
    Failed(String),
}

/// What the calls of [`Instances`] answer.
pub type Result<T> = std::result::Result<T, RuntimeError>;

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        let reason = match &error {
            RuntimeError::Unreachable(_) => ErrorReason::Unreachable,
            RuntimeError::ImagePull(_) => ErrorReason::ImagePullFailed,
            RuntimeError::NoCapacity(_) => ErrorReason::NoCapacity,
            RuntimeError::Failed(_) => ErrorReason::ActionFailed,
        };
        Self::new(reason, error.to_string())
    }
}

/// A stream of log bytes, oldest first.
pub type LogStream = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// Bytes both ways.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// A line to the program inside an instance, or why there is none.
pub enum LineTo {
    /// Here it is.
    Open(Box<dyn ByteStream>),
    /// It runs without the program inside, for this reason.
    Nobody(&'static str),
    /// It does not run.
    NotRunning,
}

impl std::fmt::Debug for LineTo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Open(_) => "Open",
            Self::Nobody(_) => "Nobody",
            Self::NotRunning => "NotRunning",
        })
    }
}

/// Which part of the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogQuery {
    /// The last so many lines.
    pub tail: usize,
    /// Go on with what is written from now on.
    pub follow: bool,
}

/// Something that keeps instances apart from each other and everything else, and that can fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Safeguard {
    /// `engine`, `reach`, `firewall`; `sandbox`, `network`, `limits`.
    pub name: &'static str,
    /// Whether it works.
    pub state: SafeguardState,
    /// A sentence for an operator, with what to do where something is to be done.
    pub text: String,
}

/// How a safeguard is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SafeguardState {
    /// It works.
    Good,
    /// Works, but somebody should know.
    Note,
    /// It does not work, and somebody has to act.
    Bad,
}

/// What a backend noticed by itself. It carries no state: whoever hears it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// Something happened to this workspace's instance.
    Changed(WorkspaceId),
    /// Something happened, or may have while nobody listened.
    Wake,
}

/// How often a starting instance is asked whether it is ready: often at first, for those that take
/// milliseconds, and each time a little later.
const READY_STEP: Duration = Duration::from_millis(1);
const READY_MOST: Duration = Duration::from_millis(250);

/// Where workspaces run. Every call is idempotent, and an error means "could not", never "is not there".
///
/// Read-your-writes: after `start` or `stop` returned, `status`, `list` and `upstream` show what it did, or
/// something later. Whoever decides relies on it: an action that was done and cannot be seen counts as failed.
#[async_trait]
pub trait Instances: Send + Sync + 'static {
    /// `process`, `docker`: saved with the workspace.
    fn kind(&self) -> &'static str;
    /// Whether the engine answers; what to fix if it does not.
    async fn ping(&self) -> Result<()>;

    /// Gets what a start needs and may take long (an image); does nothing where it is there.
    async fn prepare(&self, image_ref: &str, progress: &Progress) -> Result<()> {
        let _ = (image_ref, progress);
        Ok(())
    }

    /// Launches it, or adopts what already runs on that generation. Returns when it was launched;
    /// [`Instances::status`] tells when it is ready. Something that ended is replaced. Refuses when
    /// the volume does not exist. The fence is asked after all is prepared, before anything runs.
    async fn start(&self, spec: &InstanceSpec, fence: &Fence) -> Result<()>;
    /// Ends it (politely, then not) and removes it; returns when it is gone.
    async fn stop(&self, id: WorkspaceId) -> Result<()>;
    /// With its health: asks the IDE's health path. `None`: not there. What ended says by whose doing, and what
    /// cannot run yet what it waits for.
    async fn status(&self, id: WorkspaceId) -> Result<Option<Instance>>;
    /// Waits until a started instance is ready, without a limit of its own, and tells `waiting` what holds it
    /// up meanwhile. By default asks [`Instances::status`] again and again; a backend that is told of changes
    /// waits for those.
    ///
    /// # Errors
    /// It ended or disappeared before. That a look failed is no error here: the next may not.
    async fn wait_ready(&self, id: WorkspaceId, waiting: &watch::Sender<Option<Waiting>>) -> Result<()> {
        let mut pause = READY_STEP;
        loop {
            let state = self.status(id).await.map(|found| found.map(|instance| instance.state));
            if let Ok(state) = &state {
                let held_up = match state {
                    Some(InstanceState::Waiting(waiting)) => Some(waiting),
                    Some(_) | None => None,
                };
                waiting.send_if_modified(|before| {
                    let changed = before.as_ref() != held_up;
                    if changed {
                        *before = held_up.cloned();
                    }
                    changed
                });
            }
            match state {
                Ok(Some(InstanceState::Ready)) => return Ok(()),
                Ok(Some(InstanceState::Ended { by, how })) => return Err(ended_early(by, how)),
                Ok(None) => {
                    let message = "the instance disappeared before it was ready".to_owned();
                    return Err(RuntimeError::Failed(message));
                }
                // Busy starting, or the engine did not answer this time: ask again.
                Ok(Some(InstanceState::Alive | InstanceState::Waiting(_))) | Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause + READY_STEP).min(READY_MOST);
        }
    }
    /// What happens to instances, as it happens, for backends that are told; watched while the receiver
    /// lives. Losing a notice costs time, never correctness: everything is listed every few seconds anyway.
    fn watch(&self) -> Option<mpsc::Receiver<Notice>> {
        None
    }
    /// This deployment's instances, cheaply. Complete for what is asked for, or an error. A backend that
    /// answers from memory first finds out by name about those whose absence must be confirmed
    /// ([`Known::confirm`]): "there" may be old, "not there" never.
    async fn list(&self, among: Among<'_>) -> Result<Vec<Listed>>;
    /// Where the proxy reaches it, and as what; `None` when nothing is there. Changes with the instance.
    async fn upstream(&self, id: WorkspaceId) -> Result<Option<Upstream>>;
    /// The name of the web program that new instances run, by which the rules about its idle chatter are found
    /// at start; empty where nothing is known about it.
    fn ide(&self) -> &str {
        ""
    }
    /// Whether what one user runs is kept from what is another's.
    fn isolates_users(&self) -> bool {
        true
    }
    /// Whether a connection to this server from this loopback address of its machine comes from an instance, or cannot
    /// be told from one that does.
    async fn comes_from_instance(&self, peer: SocketAddr) -> bool {
        let _ = peer;
        false
    }
    /// What keeps instances apart, as it is now. Changes nothing; empty where nothing can be told.
    async fn safeguards(&self) -> Vec<Safeguard> {
        Vec::new()
    }
    /// A line to the program inside it: bytes both ways, on which HTTP/2 runs (`codehub_inside::line`). As many at once as
    /// are asked for; each ends with the instance. Who answers is whatever the workspace put there: nothing it says may
    /// be believed.
    async fn line(&self, id: WorkspaceId) -> Result<LineTo> {
        Ok(match self.status(id).await? {
            Some(Instance { state: InstanceState::Ended { .. }, .. }) | None => LineTo::NotRunning,
            Some(_) => LineTo::Nobody("workspaces in containers cannot be worked in by the API yet"),
        })
    }
    /// What it printed; also after it ended.
    async fn logs(&self, id: WorkspaceId, query: LogQuery) -> Result<LogStream>;
}

/// What it means for a start that the instance ended before it was ready.
fn ended_early(by: EndedBy, how: String) -> RuntimeError {
    match by {
        EndedBy::Program => RuntimeError::Failed(format!("the instance ended before it was ready: {how}")),
        EndedBy::Platform => RuntimeError::Unreachable(format!(
            "the instance was ended from outside before it was ready: {how}"
        )),
        EndedBy::Image => RuntimeError::ImagePull(how),
    }
}

/// Which web program a workspace runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdeChoice {
    /// What is installed, `Builtin` if nothing is.
    Auto,
    /// The IDE that is part of CodeHub.
    Builtin,
    /// code-server.
    CodeServer,
    /// JupyterLab.
    JupyterLab,
    /// The operator's own command.
    Command,
}

/// Whether a local process is shut in by bubblewrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxChoice {
    /// Where `bwrap` is installed and works.
    Auto,
    /// Refuse to start workspaces where that does not work.
    Always,
    /// Not at all.
    Never,
}

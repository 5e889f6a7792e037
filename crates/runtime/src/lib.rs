//! Where workspaces run and homes lie: instances, volumes and the way of a home into and out of an archive,
//! on local processes and directories or on a Docker engine. Knows no database, no people and no HTTP.
//!
//! | port | embedded | production |
//! |---|---|---|
//! | [`Instances`] | local processes | Docker |
//! | [`volumes::Volumes`] | directories | Docker volumes |
//! | [`archives::Archives`] | files | S3 |
//!
//! Every call is idempotent: starting what runs, stopping what does not and deleting what is not
//! there all succeed. An error always means "could not", never "is not there".

pub mod archives;
pub mod docker;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod forbidden;
pub mod ide;
mod metric;
pub mod process;
pub mod volumes;

use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use codehub_domain::{ErrorReason, Failure, Generation, VolumeKey, WorkspaceId, observed::Instance};
use futures::Stream;

pub use codehub_upstream::{Connection, Upstream};

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
    /// `/w/{id}/`
    pub base_path: String,
    /// Where people reach it: public base plus path.
    pub url: String,
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

/// Why something with an instance did not work. Never means "is not there".
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The engine does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The image is not on the engine and could not be pulled.
    #[error("{0}")]
    ImagePull(String),
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
            RuntimeError::Failed(_) => ErrorReason::ActionFailed,
        };
        Self::new(reason, error.to_string())
    }
}

/// A stream of log bytes, oldest first.
pub type LogStream = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

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
    /// `engine`, `firewall`; `sandbox`, `network`, `limits`.
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

/// Where workspaces run. Every call is idempotent, and an error means "could not", never "is not there".
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
    /// the volume does not exist.
    async fn start(&self, spec: &InstanceSpec) -> Result<()>;
    /// Ends it (politely, then not) and removes it; returns when it is gone.
    async fn stop(&self, id: WorkspaceId) -> Result<()>;
    /// With its health: asks the IDE's health path. `None`: not there.
    async fn status(&self, id: WorkspaceId) -> Result<Option<Instance>>;
    /// All of this deployment's, cheaply. Complete, or an error.
    async fn list(&self) -> Result<Vec<Listed>>;
    /// Where the proxy reaches it; `None` when nothing is there.
    async fn upstream(&self, id: WorkspaceId) -> Result<Option<Upstream>>;
    /// Whether the program wants to see `/w/{id}` in front of its paths.
    fn keeps_prefix(&self) -> bool {
        false
    }
    /// The name of the web program, by which the rules about its idle chatter are found; empty where
    /// nothing is known about it.
    fn ide(&self) -> &str {
        ""
    }
    /// Whether what one user runs is kept from what is another's.
    fn isolates_users(&self) -> bool {
        true
    }
    /// What keeps instances apart, as it is now. Changes nothing; empty where nothing can be told.
    async fn safeguards(&self) -> Vec<Safeguard> {
        Vec::new()
    }
    /// What it printed; also after it ended.
    async fn logs(&self, id: WorkspaceId, query: LogQuery) -> Result<LogStream>;
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

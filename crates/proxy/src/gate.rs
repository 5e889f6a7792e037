//! The narrow seam between the proxy and the rest: who is asking, what is known of a workspace, where
//! it listens, and the wish to wake it. Everything the proxy caches comes from here, so that a test
//! replaces the whole server with a few lines.

use std::time::Instant;

use async_trait::async_trait;
use codehub_domain::{
    ArchiveKey, Desired, Failure, Operation, Phase, Progress, Timestamp, UserId, Workspace, WorkspaceId,
    activity::ActivityMode,
    change::Change,
    limits::LimitHit,
    origins::WorkspaceOrigin,
    ports::{PortScheme, PortSettings, Visibility},
};
use codehub_upstream::Upstream;
use futures::stream::BoxStream;
use tokio::sync::broadcast;

use crate::appearance::{Lang, Theme};

/// What a request brought to prove who sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential<'a> {
    /// The value of the session cookie.
    Session(&'a [u8]),
    /// The value of the cookie of this origin, a workspace's or one of its ports'.
    Workspace(WorkspaceOrigin, &'a [u8]),
    /// What follows `Bearer `.
    Bearer(&'a [u8]),
}

/// Somebody who proved who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    pub user: UserId,
    /// By something browsers send by themselves: then the origin of a WebSocket matters.
    pub by_cookie: bool,
    /// When the credential runs out, unless it is prolonged.
    pub until: Option<Instant>,
}

/// How the web program of a workspace wants to be proxied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProxyIde {
    /// Withhold WebSocket compression, because the rules that tell work from idle chatter need to see
    /// message types.
    pub plain_websockets: bool,
}

/// What the proxy needs to know of a workspace.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkspaceView {
    pub id: WorkspaceId,
    pub owner: UserId,
    pub name: String,
    pub phase: Phase,
    pub operation: Operation,
    pub desired: Desired,
    pub deleted: bool,
    pub error: Option<Failure>,
    pub archive_key: Option<ArchiveKey>,
    pub progress: Option<Progress>,
    pub ide: ProxyIde,
    /// The workspace's own; `None` is the deployment's.
    pub activity_mode: Option<ActivityMode>,
    /// What moves the moment it sleeps, besides activity: whoever waits for that hears of a change.
    pub standby_ttl_seconds: Option<u32>,
    pub held_until: Option<Timestamp>,
    /// What its owner said about its ports, where that was asked for.
    pub ports: Vec<PortSettings>,
}

/// A port that something in a workspace listens on, as the workspace says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listening {
    pub port: u16,
    /// What the program calls itself; may be empty.
    pub process: String,
    /// What the owner calls it; may be empty.
    pub label: String,
}

impl WorkspaceView {
    /// A row of the store, reduced to what the proxy needs.
    pub fn new(workspace: &Workspace, ide: ProxyIde) -> Self {
        let status = &workspace.status;
        Self {
            id: workspace.id,
            owner: workspace.owner,
            name: workspace.name.clone(),
            phase: status.phase,
            operation: status.operation,
            desired: workspace.desired,
            deleted: workspace.deleted_at.is_some(),
            error: status.error.clone(),
            archive_key: status.archive_key,
            progress: status.progress,
            ide,
            activity_mode: workspace.activity_mode,
            standby_ttl_seconds: workspace.standby_ttl_seconds,
            held_until: workspace.held_until,
            ports: Vec::new(),
        }
    }

    /// Others than its owner may have connections to it.
    pub fn is_shared(&self) -> bool {
        self.ports.iter().any(|port| port.visibility != Visibility::Owner)
    }

    /// Nothing can be reached in it any more, or is about to be unreachable.
    pub fn stopping(&self) -> bool {
        self.deleted
            || self.phase != Phase::Running
            || matches!(self.operation, Operation::Stopping | Operation::Deleting)
    }
}

/// What became of the wish to wake a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Woken {
    /// It is wanted, and somebody is looking after it.
    Asked,
    /// Something is under way; the wish was not taken. Ask again when that has ended.
    Busy,
    NeedsRecovery,
    NotFound,
    Limit(LimitHit),
}

/// When a workspace will sleep, as is known now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sleep {
    /// By the same clock as `stops_at`.
    pub now: Timestamp,
    /// `None`: not by itself, as things are.
    pub stops_at: Option<Timestamp>,
    /// How long without activity it stays awake; 0 is for ever.
    pub ttl_seconds: u32,
}

/// Size and time of an archive, for the page that offers to restore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveFacts {
    pub size_bytes: u64,
    pub created_at: Timestamp,
}

/// What the nonce hashes to that a browser was given at the origin it is on its way to.
pub type HandoverState = [u8; 32];

/// What became of a code at the origin it was for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entered {
    /// What the cookie of this origin is to hold, and the path to go on to.
    Session { secret: String, target: String },
    /// It was used before, or never was.
    Used,
    /// It came too late.
    Late,
    /// It was made for another browser, or this one keeps no cookies.
    AnotherBrowser,
}

/// The rest of the server does not answer; try again.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct GateError(pub String);

/// What the proxy asks of the rest of the server. Answers are remembered for seconds at most.
#[async_trait]
pub trait Gate: Send + Sync + 'static {
    /// `None`: not ours, or not valid any more.
    async fn identify(&self, credential: Credential<'_>) -> Result<Option<Caller>, GateError>;
    /// `None`: never existed. What the owner said about its ports is looked up only with `ports`.
    async fn workspace(&self, id: WorkspaceId, ports: bool) -> Result<Option<WorkspaceView>, GateError>;
    async fn upstream(&self, id: WorkspaceId) -> Result<Option<Upstream>, GateError>;
    /// What listens on this port in the workspace, if anything does: connecting tells.
    fn port(&self, id: WorkspaceId, port: u16, scheme: PortScheme) -> Upstream;
    /// What else listens there, without the IDE. Never worth failing a page for.
    async fn listening(&self, id: WorkspaceId) -> Vec<Listening>;
    /// The same as often as it changes, beginning with what it is now. It is looked for while this is held.
    fn follow_listening(&self, id: WorkspaceId) -> BoxStream<'static, Vec<Listening>>;
    async fn wake(&self, id: WorkspaceId, by: UserId) -> Result<Woken, GateError>;
    /// `None`: there is no such workspace.
    async fn sleep(&self, id: WorkspaceId) -> Result<Option<Sleep>, GateError>;
    /// Keeps it awake for a while whatever happens in it. `Err` in the inner result says why not.
    async fn keep_awake(&self, id: WorkspaceId, by: UserId) -> Result<Result<(), String>, GateError>;
    /// A code by which whoever has this session gets to this origin, in the browser with this state.
    /// `None`: the session has ended.
    async fn hand_over(
        &self,
        session: Credential<'_>,
        to: WorkspaceOrigin,
        state: &HandoverState,
        target: &str,
    ) -> Result<Option<String>, GateError>;
    /// Exchanges such a code at its origin, in a browser that has these states.
    async fn enter(
        &self,
        at: WorkspaceOrigin,
        code: &str,
        states: &[HandoverState],
    ) -> Result<Entered, GateError>;
    /// The language and theme of this person's account, as far as they were chosen.
    async fn appearance(&self, user: UserId) -> Result<(Option<Lang>, Option<Theme>), GateError>;
    /// What tells this deployment from every other; nobody outside knows it.
    async fn deployment(&self) -> Result<String, GateError>;
    /// Something is not as the database says: the controller should look.
    async fn look(&self, id: WorkspaceId);
    /// Somebody who may has opened the workspace, or a port of somebody else's, with this credential and these headers, from
    /// this address. Returns at once.
    fn opened(
        &self,
        _at: WorkspaceOrigin,
        _credential: Credential<'_>,
        _headers: &http::HeaderMap,
        _address: std::net::IpAddr,
    ) {
    }
    /// `None` where it is not known; never worth failing a page for.
    async fn archive(&self, key: ArchiveKey) -> Option<ArchiveFacts>;
    /// What the store announces from now on; a reader that falls behind is told so.
    fn changes(&self) -> broadcast::Receiver<Change>;
}

//! What the API shows of a workspace and of people: the domain's values in the spec's words.

use codehub_domain::{
    ArchiveKey, Desired, Operation, Phase, Timestamp, UserId, Workspace, WorkspaceId,
    activity::ActivityMode,
    condition::Conditions,
    labels::Labels,
    user::{Role, User},
    waiting::{Waiting, waiting},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::activity::ActivityView;
use crate::{app::App, config::RuntimeKind};

/// A workspace.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Workspace)]
pub struct WorkspaceView {
    #[schema(value_type = String, format = Uuid)]
    pub id: WorkspaceId,
    pub name: String,
    /// A short name, `[a-z0-9-]{1,40}`: unique among the owner's workspaces, made from the name when the
    /// workspace was created.
    pub slug: String,
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub labels: Labels,
    pub description: String,
    pub memo: String,
    pub owner: Owner,
    /// Null where workspaces are processes, which have none.
    pub image_ref: Option<String>,
    /// What exists.
    #[schema(value_type = PhaseName)]
    pub phase: Phase,
    /// What is being done.
    #[schema(value_type = OperationName)]
    pub operation: Operation,
    /// What the owner wants.
    #[schema(value_type = DesiredName)]
    pub desired_state: Desired,
    /// What to show: the phase.
    #[schema(value_type = PhaseName)]
    pub status: Phase,
    /// Where it is opened: an origin of its own, unless the deployment has workspaces below paths.
    pub url: String,
    /// What its paths begin with there: `/`, or `/w/{id}/`.
    pub path: String,
    /// Keyed by dotted names: `storage.volume_ready`, `storage.archive_ready`, `infra.container_ready`,
    /// `policy.healthy`; what nobody has observed yet is absent.
    #[schema(value_type = std::collections::BTreeMap<String, ConditionView>)]
    pub conditions: Conditions,
    #[schema(value_type = Option<String>)]
    pub archive_key: Option<ArchiveKey>,
    pub error: Option<ErrorView>,
    pub progress: Option<ProgressView>,
    /// Why nothing is being done for it, though it is not where it is wanted.
    pub waiting: Option<WaitingView>,
    /// The workspace's own; null is the deployment's default, 0 is never.
    pub standby_ttl_seconds: Option<u32>,
    pub archive_ttl_seconds: Option<u32>,
    /// The workspace's own; null is the deployment's default.
    #[schema(value_type = Option<ActivityModeName>)]
    pub activity_mode: Option<ActivityMode>,
    pub last_access_at: Timestamp,
    /// The end of the longest keep-awake lease.
    pub held_until: Option<Timestamp>,
    pub phase_changed_at: Timestamp,
    /// When it will be stopped unless somebody uses it. Includes what this server process has seen and not
    /// written down yet, and the time the server waits for activity that it may not have seen.
    pub stops_at: Option<Timestamp>,
    /// When it will be archived.
    pub archives_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Why it is awake. Only where one workspace is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<ActivityView>,
}

/// Whose workspace it is.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Owner {
    #[schema(value_type = String, format = Uuid)]
    pub id: UserId,
    pub username: String,
}

/// A condition in the manner of Kubernetes.
#[derive(Debug, ToSchema)]
#[schema(as = Condition)]
#[expect(dead_code, reason = "the schema of what the domain serializes")]
pub struct ConditionView {
    /// `"True"` or `"False"`.
    status: String,
    /// CamelCase.
    reason: String,
    message: String,
    last_transition_time: Timestamp,
}

/// Why the last try failed. Terminal reasons come with phase ERROR, the others are being retried.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = WorkspaceError)]
pub struct ErrorView {
    pub reason: &'static str,
    pub message: String,
    pub count: u32,
}

/// What a workspace waits for.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Waiting)]
pub struct WaitingView {
    /// `NeedsRecovery`: for a person. `NextTry`: until `until`; `error` says what failed. `HomeUnseen`: until
    /// the storage that holds the home can be looked at.
    #[schema(value_type = WaitingName)]
    pub reason: Waiting,
    pub message: String,
    /// When it goes on by itself, where that is known.
    pub until: Option<Timestamp>,
}

impl WaitingView {
    fn of(workspace: &Workspace) -> Option<Self> {
        let (reason, status) = (waiting(workspace)?, &workspace.status);
        let until = status.next_retry_at.filter(|_| reason == Waiting::NextTry);
        Some(Self { reason, message: reason.message(status), until })
    }
}

/// How far an operation that moves bytes has come.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Progress)]
pub struct ProgressView {
    pub done: u64,
    pub total: u64,
    /// Always `bytes`.
    pub unit: &'static str,
    /// Bytes per second.
    pub rate: u64,
    /// How long the rest takes at this rate; null while nothing moves.
    pub remaining_seconds: Option<u64>,
}

/// The words the domain uses, for the document.
macro_rules! names {
    ($name:ident, $as:ident, $rename:tt, [$($variant:ident),+]) => {
        #[derive(Debug, Clone, Copy, Serialize, ToSchema)]
        #[serde(rename_all = $rename)]
        #[schema(as = $as)]
        pub enum $name { $($variant),+ }

        impl $name {
            #[cfg(test)]
            const ALL: &'static [Self] = &[$(Self::$variant),+];
        }
    };
}

names!(
    PhaseName,
    Phase,
    "SCREAMING_SNAKE_CASE",
    [Pending, Archived, Standby, Running, Error, Deleting, Deleted]
);
names!(DesiredName, DesiredState, "SCREAMING_SNAKE_CASE", [Running, Standby, Archived, Deleted]);
names!(
    OperationName,
    Operation,
    "SCREAMING_SNAKE_CASE",
    [None, Provisioning, CreateEmptyArchive, Restoring, Starting, Stopping, Archiving, Deleting]
);
names!(ActivityModeName, ActivityMode, "lowercase", [Traffic, Connections]);
names!(WaitingName, WaitingReason, "PascalCase", [NeedsRecovery, NextTry, HomeUnseen]);
names!(RoleName, Role, "lowercase", [User, Admin]);

impl WorkspaceView {
    pub fn of(workspace: &Workspace, owner: &str, app: &App) -> Self {
        let status = &workspace.status;
        let config = &app.config;
        let origins = config.origins();
        let expiry = app.expiry(workspace);
        let at = |desired| expiry.filter(|expiry| expiry.to == desired).map(|expiry| expiry.acts_at);
        Self {
            id: workspace.id,
            name: workspace.name.clone(),
            slug: workspace.slug.clone(),
            labels: workspace.labels.clone(),
            description: workspace.description.clone(),
            memo: workspace.memo.clone(),
            owner: Owner { id: workspace.owner, username: owner.to_owned() },
            image_ref: (config.runtime.kind != RuntimeKind::Process).then(|| workspace.image_ref.clone()),
            phase: status.phase,
            operation: status.operation,
            desired_state: workspace.desired,
            status: status.phase,
            url: origins.url(workspace.id),
            path: origins.base_path(workspace.id),
            conditions: status.conditions.clone(),
            archive_key: status.archive_key,
            error: status.error.as_ref().map(|failure| ErrorView {
                reason: failure.reason.as_str(),
                message: failure.message.clone(),
                count: status.error_count,
            }),
            progress: status.progress.map(|progress| ProgressView {
                done: progress.done,
                total: progress.total,
                unit: "bytes",
                rate: progress.rate,
                remaining_seconds: progress.remaining_seconds(),
            }),
            waiting: WaitingView::of(workspace),
            standby_ttl_seconds: workspace.standby_ttl_seconds,
            archive_ttl_seconds: workspace.archive_ttl_seconds,
            activity_mode: workspace.activity_mode,
            last_access_at: workspace.last_access_at,
            held_until: workspace.held_until,
            phase_changed_at: status.phase_changed_at,
            stops_at: at(Desired::Standby),
            archives_at: at(Desired::Archived),
            created_at: workspace.created_at,
            updated_at: workspace.updated_at,
            activity: None,
        }
    }
}

/// A person.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = User)]
pub struct UserView {
    #[schema(value_type = String, format = Uuid)]
    pub id: UserId,
    pub username: String,
    #[schema(value_type = RoleName)]
    pub role: Role,
    pub disabled: bool,
    pub created_at: Timestamp,
}

impl From<User> for UserView {
    fn from(user: User) -> Self {
        Self {
            id: user.id,
            username: user.username,
            role: user.role,
            disabled: user.disabled,
            created_at: user.created_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_domains_words() {
        fn words(all: &[impl Serialize]) -> serde_json::Value {
            serde_json::to_value(all).unwrap()
        }
        assert_eq!(words(PhaseName::ALL), words(Phase::ALL));
        assert_eq!(words(DesiredName::ALL), words(Desired::ALL));
        assert_eq!(words(OperationName::ALL), words(Operation::ALL));
        assert_eq!(words(ActivityModeName::ALL), words(ActivityMode::ALL));
        assert_eq!(words(WaitingName::ALL), words(Waiting::ALL));
        assert_eq!(words(RoleName::ALL), words(Role::ALL));
    }

    /// What derives the schemas reads the attributes by itself, and may read them otherwise than serde.
    #[test]
    fn the_schemas_have_the_words_that_are_sent() {
        fn same(name: &str, sent: &[impl Serialize]) {
            let document = serde_json::to_value(crate::api::openapi::document()).unwrap();
            let schema = &document["components"]["schemas"][name];
            assert_eq!(schema["enum"], serde_json::to_value(sent).unwrap(), "{name}");
        }
        same("Phase", Phase::ALL);
        same("DesiredState", Desired::ALL);
        same("Operation", Operation::ALL);
        same("ActivityMode", ActivityMode::ALL);
        same("WaitingReason", Waiting::ALL);
        same("Role", Role::ALL);
    }
}

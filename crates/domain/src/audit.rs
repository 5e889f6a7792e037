//! Who did what to whom, from where, and what became of it: what an operator reads after something happened.
//!
//! [`Act`] is made once per request (or command, or start) and handed to whatever acts, so that the store can
//! write one [`AuditEntry`] in the transaction of the act itself. Nothing here ever holds a secret: not a
//! password, a token or a cookie, and no name that somebody who is not signed in typed.

use std::{fmt, str::FromStr};

use uuid::Uuid;

use crate::{ArchiveKey, SessionId, Timestamp, TokenId, UserId, WorkspaceId, named::named_enum, user::User};

/// The longest browser or program name that is kept.
pub const USER_AGENT_CHARS: usize = 200;
/// The longest of every other text of an event that is kept.
pub const TEXT_CHARS: usize = 1000;
/// Denials and failures of one actor and action within this many seconds are one event with a count.
pub const FOLDED_SECONDS: u32 = 60;
/// A workspace that one session opens again within this many seconds is one event.
pub const OPENED_SECONDS: u32 = 3600;

named_enum! {
    /// What kind of actor.
    ActorKind, "kind of actor" {
        /// A person in a browser.
        User => "user",
        /// A program with a person's token.
        Token => "token",
        /// Whoever uses the command line on the server's machine.
        Operator => "operator",
        /// CodeHub itself.
        System => "system",
        /// Nobody who has signed in.
        Anonymous => "anonymous",
    }
}

named_enum! {
    /// What became of an act.
    AuditOutcome, "outcome" {
        /// It was done.
        Ok => "ok",
        /// They may not.
        Denied => "denied",
        /// It was tried and did not work.
        Failed => "failed",
    }
}

named_enum! {
    /// What is written down.
    AuditAction, "action" {
        LoginOk => "login.ok",
        LoginFailed => "login.failed",
        LoginBlocked => "login.blocked",
        Logout => "logout",
        SessionRevoked => "session.revoked",
        UserCreated => "user.created",
        UserEdited => "user.edited",
        UserDisabled => "user.disabled",
        UserEnabled => "user.enabled",
        UserDeleted => "user.deleted",
        UserPasswordChanged => "user.password_changed",
        UserReset => "user.reset",
        TokenMinted => "token.minted",
        TokenDeleted => "token.deleted",
        DeviceAllowed => "device.allowed",
        DeviceDenied => "device.denied",
        WorkspaceCreated => "workspace.created",
        WorkspaceEdited => "workspace.edited",
        WorkspaceStarted => "workspace.started",
        WorkspaceStopped => "workspace.stopped",
        WorkspaceArchived => "workspace.archived",
        WorkspaceRecovered => "workspace.recovered",
        WorkspaceDeleted => "workspace.deleted",
        WorkspaceOpened => "workspace.opened",
        ExecStarted => "exec.started",
        PortEdited => "port.edited",
        PortOpened => "port.opened",
        ArchiveBrowsed => "archive.browsed",
        ArchiveDownloaded => "archive.downloaded",
        ArchiveAdopted => "archive.adopted",
        ConfigChanged => "config.changed",
        AdminGcApproved => "admin.gc_approved",
        AuditPruned => "audit.pruned",
    }
}

impl AuditAction {
    /// What it is called to ask for this target state.
    pub const fn of_desired(desired: crate::Desired) -> Self {
        match desired {
            crate::Desired::Running => Self::WorkspaceStarted,
            crate::Desired::Standby => Self::WorkspaceStopped,
            crate::Desired::Archived => Self::WorkspaceArchived,
            crate::Desired::Deleted => Self::WorkspaceDeleted,
        }
    }
}

named_enum! {
    /// What kind of thing was acted on.
    ObjectKind, "kind of object" {
        User => "user",
        Session => "session",
        Token => "token",
        Workspace => "workspace",
        Archive => "archive",
        Config => "config",
    }
}

/// Names one event. UUIDv7, made of the database's time: ids sort by when it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditId(Uuid);

impl AuditId {
    /// Any UUID is an id; the store makes them.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// For the database.
    pub const fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Display for AuditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for AuditId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::try_parse(text).map(Self)
    }
}

/// Who acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditActor {
    pub kind: ActorKind,
    /// Of a user, or of the user whose token it is.
    pub id: Option<UserId>,
    /// What they were called then; empty where nobody has a name.
    pub name: String,
    /// The session they acted in.
    pub session: Option<SessionId>,
    /// The token they acted with.
    pub token: Option<TokenId>,
}

impl AuditActor {
    const fn nobody(kind: ActorKind) -> Self {
        Self { kind, id: None, name: String::new(), session: None, token: None }
    }

    /// A person, by a way that does not tell the session.
    pub fn of_user(user: &User) -> Self {
        Self { id: Some(user.id), name: user.username.clone(), ..Self::nobody(ActorKind::User) }
    }

    /// A person, in this session.
    pub fn in_session(user: &User, session: SessionId) -> Self {
        Self {
            id: Some(user.id),
            name: user.username.clone(),
            session: Some(session),
            ..Self::nobody(ActorKind::User)
        }
    }

    /// A program, with this token of a person's.
    pub fn with_token(user: &User, token: TokenId) -> Self {
        Self {
            id: Some(user.id),
            name: user.username.clone(),
            token: Some(token),
            ..Self::nobody(ActorKind::Token)
        }
    }
}

/// Who acts, from where, by which request and in which process: made once, and passed to what acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    pub actor: AuditActor,
    /// The client's address, through trusted proxies only; empty where there is none.
    pub address: String,
    /// What the client calls itself, cut to [`USER_AGENT_CHARS`].
    pub user_agent: String,
    /// As in the log and in the answer's header.
    pub request_id: String,
    /// The process that it happened in.
    pub replica: String,
}

impl Act {
    fn of(kind: ActorKind, replica: &str) -> Self {
        Self {
            actor: AuditActor::nobody(kind),
            address: String::new(),
            user_agent: String::new(),
            request_id: String::new(),
            replica: replica.into(),
        }
    }

    /// CodeHub's own doing.
    pub fn system(replica: &str) -> Self {
        Self::of(ActorKind::System, replica)
    }

    /// The command line on the server's machine.
    pub fn operator(replica: &str) -> Self {
        Self::of(ActorKind::Operator, replica)
    }

    /// A request of somebody who has not said yet who they are.
    pub fn anonymous(address: String, user_agent: &str, request_id: &str, replica: &str) -> Self {
        Self {
            address,
            user_agent: cut(user_agent, USER_AGENT_CHARS),
            request_id: cut(request_id, USER_AGENT_CHARS),
            ..Self::of(ActorKind::Anonymous, replica)
        }
    }

    /// The same request, now that it is known who sent it.
    #[must_use]
    pub fn by(&self, actor: AuditActor) -> Self {
        Self { actor, ..self.clone() }
    }

    /// Whether this is the user themself.
    pub fn is_by(&self, user: UserId) -> bool {
        self.actor.id == Some(user)
    }

    /// What is counted together: somebody by who they are, a stranger by the network they come from.
    pub fn counted_as(&self) -> String {
        match self.actor.id {
            Some(id) => format!("{} {id}", self.actor.kind),
            None => format!("{} {}", self.actor.kind, network(&self.address)),
        }
    }
}

/// An IPv6 client has a whole /64 to itself.
fn network(address: &str) -> String {
    match address.parse::<std::net::Ipv6Addr>() {
        Ok(address) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        Err(_) => address.to_owned(),
    }
}

/// What was acted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditObject {
    pub kind: ObjectKind,
    /// Its id or key.
    pub id: String,
    /// What it was called then; empty where nobody calls it anything.
    pub name: String,
}

impl AuditObject {
    fn new(kind: ObjectKind, id: impl fmt::Display, name: &str) -> Self {
        Self { kind, id: id.to_string(), name: cut(name, TEXT_CHARS) }
    }

    pub fn user(user: &User) -> Self {
        Self::new(ObjectKind::User, user.id, &user.username)
    }

    pub fn session(id: SessionId) -> Self {
        Self::new(ObjectKind::Session, id, "")
    }

    pub fn token(id: TokenId, name: &str) -> Self {
        Self::new(ObjectKind::Token, id, name)
    }

    pub fn workspace(id: WorkspaceId, name: &str) -> Self {
        Self::new(ObjectKind::Workspace, id, name)
    }

    pub fn archive(key: ArchiveKey) -> Self {
        Self::new(ObjectKind::Archive, key, "")
    }

    pub fn config() -> Self {
        Self::new(ObjectKind::Config, "settings", "")
    }
}

/// One thing to be written down about an [`Act`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub action: AuditAction,
    pub object: Option<AuditObject>,
    pub outcome: AuditOutcome,
    /// Why not, as a stable word (`FORBIDDEN`), or what else belongs to it.
    pub code: Option<String>,
    /// What was there before, and what is there now: never a secret.
    pub before: Option<String>,
    pub after: Option<String>,
    /// One event with a count within so many seconds, instead of one each.
    pub folded: Option<u32>,
}

impl AuditEntry {
    /// It was done.
    pub fn ok(action: AuditAction, object: AuditObject) -> Self {
        Self {
            action,
            object: Some(object),
            outcome: AuditOutcome::Ok,
            code: None,
            before: None,
            after: None,
            folded: None,
        }
    }

    /// They may not. Counted together ([`FOLDED_SECONDS`]).
    pub fn denied(action: AuditAction, object: Option<AuditObject>, code: &str) -> Self {
        let entry = Self::failed(action, object, code);
        Self { outcome: AuditOutcome::Denied, ..entry }
    }

    /// It did not work. Counted together ([`FOLDED_SECONDS`]).
    pub fn failed(action: AuditAction, object: Option<AuditObject>, code: &str) -> Self {
        Self {
            action,
            object,
            outcome: AuditOutcome::Failed,
            code: Some(code.into()),
            before: None,
            after: None,
            folded: Some(FOLDED_SECONDS),
        }
    }

    /// With what was changed.
    #[must_use]
    pub fn changing(self, before: &str, after: &str) -> Self {
        let text = |text: &str| (!text.is_empty()).then(|| cut(text, TEXT_CHARS));
        Self { before: text(before), after: text(after), ..self }
    }

    /// With what else belongs to it.
    #[must_use]
    pub fn with_code(self, code: &str) -> Self {
        Self { code: Some(cut(code, TEXT_CHARS)), ..self }
    }

    /// Under which its repetitions are counted; `None` where each is an event of its own. A failed sign-in names
    /// its account only where there is one, so strangers make one event per network, account and minute.
    pub fn counted_as(&self, by: &Act) -> Option<String> {
        self.folded?;
        let object = match self.action {
            AuditAction::LoginFailed
            | AuditAction::LoginBlocked
            | AuditAction::WorkspaceOpened
            | AuditAction::PortOpened
            | AuditAction::ArchiveBrowsed => self.object.as_ref().map_or("", |object| &object.id),
            _ => "",
        };
        let session = match self.action {
            AuditAction::WorkspaceOpened | AuditAction::PortOpened => {
                by.actor.session.map(|id| id.to_string()).unwrap_or_default()
            }
            _ => String::new(),
        };
        // Each port is one of its own.
        let port =
            self.code.as_deref().filter(|_| self.action == AuditAction::PortOpened).unwrap_or_default();
        Some(format!("{} {} {} {object} {session}{port}", by.counted_as(), self.action, self.outcome))
    }
}

/// An event as it is read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    pub id: AuditId,
    /// By the database's clock; the first of those that are counted together.
    pub at: Timestamp,
    pub actor: AuditActor,
    /// A word of [`AuditAction`], or one of a later version.
    pub action: String,
    /// Kind, id, name.
    pub object: Option<(String, String, String)>,
    pub outcome: AuditOutcome,
    pub code: Option<String>,
    pub address: String,
    pub user_agent: String,
    pub request_id: String,
    pub replica: String,
    pub before: Option<String>,
    pub after: Option<String>,
    /// How often, within [`FOLDED_SECONDS`] of the first.
    pub count: u64,
}

/// At most so many characters.
fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(address: &str) -> Act {
        Act::anonymous(address.into(), "curl", "r", "host:1")
    }

    #[test]
    fn strangers_are_counted_by_their_network_and_people_by_who_they_are() {
        assert_eq!(stranger("2001:db8::1").counted_as(), stranger("2001:db8::ffff:1").counted_as());
        assert_ne!(stranger("2001:db8::1").counted_as(), stranger("2001:db8:0:1::1").counted_as());
        assert_ne!(stranger("192.0.2.1").counted_as(), stranger("192.0.2.2").counted_as());
        let user = User::new(
            UserId::from_uuid(Uuid::from_u128(1)),
            "ann",
            crate::user::Role::User,
            Timestamp::UNIX_EPOCH,
        );
        let session = |n| AuditActor::in_session(&user, SessionId::from_uuid(Uuid::from_u128(n)));
        let (one, other) = (stranger("192.0.2.1").by(session(1)), stranger("192.0.2.2").by(session(2)));
        assert_eq!(one.counted_as(), other.counted_as());
    }

    #[test]
    fn failed_sign_ins_are_counted_by_account_and_openings_by_session_and_workspace() {
        let user = User::new(
            UserId::from_uuid(Uuid::from_u128(1)),
            "ann",
            crate::user::Role::User,
            Timestamp::UNIX_EPOCH,
        );
        let by = stranger("192.0.2.1");
        let failed = |object| AuditEntry::failed(AuditAction::LoginFailed, object, "WRONG").counted_as(&by);
        assert_eq!(failed(None), failed(None));
        assert_ne!(failed(None), failed(Some(AuditObject::user(&user))));
        let workspace = |n| AuditObject::workspace(WorkspaceId::from_uuid(Uuid::from_u128(n)), "work");
        let opened = |n, session| {
            let by = by.by(AuditActor::in_session(&user, SessionId::from_uuid(Uuid::from_u128(session))));
            let entry = AuditEntry::ok(AuditAction::WorkspaceOpened, workspace(n));
            AuditEntry { folded: Some(OPENED_SECONDS), ..entry }.counted_as(&by)
        };
        assert_eq!(opened(1, 1), opened(1, 1));
        assert!(opened(1, 1) != opened(2, 1) && opened(1, 1) != opened(1, 2));
        let denied = |n| {
            AuditEntry::denied(AuditAction::WorkspaceStarted, Some(workspace(n)), "FORBIDDEN").counted_as(&by)
        };
        assert_eq!(denied(1), denied(2), "one actor, action and minute");
        assert_eq!(AuditEntry::ok(AuditAction::Logout, AuditObject::user(&user)).counted_as(&by), None);
    }

    #[test]
    fn texts_are_cut() {
        let by = Act::anonymous(String::new(), &"가".repeat(500), &"x".repeat(500), "");
        assert_eq!(by.user_agent.chars().count(), USER_AGENT_CHARS);
        assert_eq!(by.request_id.len(), USER_AGENT_CHARS);
    }
}

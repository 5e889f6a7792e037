//! Sessions, tokens, known devices, and tries at passwords. Secrets are known here by their hashes only.

use codehub_domain::{
    SessionId, Timestamp, TokenId, UserId,
    audit::Act,
    user::{ApiToken, Session, User},
};

pub use codehub_domain::origins::WorkspaceOrigin;

use super::theme;
use crate::{Result, row::later};

/// Tries that were counted under one key and not taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    pub failures: u32,
    pub last_failure: Timestamp,
}

/// How many tries are free under one key, and how long one waits after those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// What is counted together.
    pub key: String,
    /// So many cost nothing.
    pub free: u32,
    /// What the first try after those waits for; it doubles with every one.
    pub first_wait_seconds: u32,
    /// Where the doubling ends.
    pub longest_wait_seconds: u32,
    /// After this long without a try the count starts again.
    pub forget_after_seconds: u32,
}

impl Allowance {
    /// What has to pass after the last of so many tries.
    pub fn wait_seconds(&self, tries: u32) -> u32 {
        match tries.checked_sub(self.free) {
            None => 0,
            Some(doublings) => {
                self.first_wait_seconds.saturating_mul(1 << doublings.min(16)).min(self.longest_wait_seconds)
            }
        }
    }

    /// How many seconds until the next try, at least 1; `None`: now.
    pub(crate) fn retry_after(&self, counted: Option<Attempts>, now: Timestamp) -> Option<u64> {
        let counted = counted?;
        let wait = self.wait_seconds(counted.failures);
        let left = later(counted.last_failure, wait).as_microsecond().saturating_sub(now.as_microsecond());
        (wait > 0 && left > 0).then(|| left.unsigned_abs().div_ceil(1_000_000))
    }
}

/// Whether a try may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tried {
    /// It is counted under every key.
    Counted,
    /// Nothing was counted: the allowance of this number (from 0) has to be waited for.
    Wait { allowance: usize, seconds: u64 },
}

impl Tried {
    /// What comes of the waits of some allowances, by their numbers: the longest has to be waited for.
    pub(crate) fn of(waits: impl IntoIterator<Item = (usize, Option<u64>)>) -> Self {
        let waits = waits.into_iter().filter_map(|(allowance, seconds)| Some((seconds?, allowance)));
        waits.max().map_or(Self::Counted, |(seconds, allowance)| Self::Wait { allowance, seconds })
    }
}

/// Under what every try at this user's password is counted, from devices that are not known. A new password forgets it.
pub fn tries_at(user: UserId) -> String {
    format!("user:{user}")
}

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// Its person signs out.
    Logout,
    /// Anything else: another sign-in in the same browser, or the password changed meanwhile.
    Revoked,
}

/// Somebody on their way from the dashboard to an origin of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handover {
    /// Theirs at the dashboard.
    pub session: SessionId,
    pub origin: WorkspaceOrigin,
    /// What the nonce hashes to that their browser was given there.
    pub state: Vec<u8>,
    /// The path they go on to.
    pub target: String,
}

/// What became of a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redeemed {
    /// There is a session for this origin now; it goes on to this path.
    Entered { target: String },
    /// There is no such code: never, not any more, or not for this origin.
    Unknown,
    /// It came too late.
    Late,
    /// It was made for another browser.
    AnotherState,
}

/// A program that asks to act for whoever confirms it in a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceLogin {
    /// What its machine calls itself.
    pub machine: String,
    /// Where it asked from.
    pub address: String,
}

impl DeviceLogin {
    /// What the token is called that comes of it.
    pub fn token_name(&self) -> String {
        format!("codehub on {}", self.machine)
    }
}

/// What a program gets that asked for a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceRedeemed {
    /// Somebody allowed it; this is their token, and nobody gets it twice.
    Minted(ApiToken, User),
    /// Nobody has decided yet.
    Pending,
    /// Somebody denied it; it is told once.
    Denied,
    /// There is no such question: never, not any more, or the session it was allowed in has ended.
    Unknown,
}

theme! {
    /// Sessions, tokens, known devices, and tries at passwords.
    Credentials, credentials {
        /// Somebody has signed in, which the audit trail says with it. `secret_hash` is what the cookie's random secret hashes to.
        async fn session_create(
            &self,
            by: &Act,
            id: SessionId,
            user: UserId,
            secret_hash: &[u8],
            lifetime_seconds: u32,
        ) -> Result<Session>;
        /// The session and its enabled user, while it lasts. Each use moves its end, written at most once
        /// a minute so that reading does not always write (more often only where a lifetime is so short
        /// that it would matter).
        async fn session_use(
            &self,
            secret_hash: &[u8],
            lifetime_seconds: u32,
        ) -> Result<Option<(Session, User)>>;
        /// One that is not there is ended already. `why` is what the audit trail calls it.
        async fn session_delete(&self, by: &Act, id: SessionId, why: SessionEnd) -> Result<()>;
        /// Removes sessions, codes and known devices that have ended, and tries that are forgotten; how many sessions.
        async fn sessions_sweep(&self) -> Result<u64>;

        /// Saves a code that can be redeemed once within so long. `false` where its session has ended meanwhile.
        async fn handover_create(
            &self,
            code_hash: &[u8],
            handover: &Handover,
            lifetime_seconds: u32,
        ) -> Result<bool>;
        /// Exchanges a code for a session of this origin, whose secret hashes to `secret_hash`. However many try at
        /// once, on however many replicas, one gets it; whoever is refused has not used it up.
        async fn handover_redeem(
            &self,
            code_hash: &[u8],
            origin: WorkspaceOrigin,
            state: &[u8],
            secret_hash: &[u8],
        ) -> Result<Redeemed>;
        /// The session that one of this origin came from, and its enabled user: as [`Self::session_use`], which it also
        /// is a use of. It ends with that session.
        async fn workspace_session_use(
            &self,
            secret_hash: &[u8],
            origin: WorkspaceOrigin,
            lifetime_seconds: u32,
        ) -> Result<Option<(Session, User)>>;

        /// A token that lasts for ever, or this long. `session` is the one that asks for it: it must still be there
        /// in the same transaction, so that nothing is made behind a new password's back. `None` where it is not
        /// (any more).
        async fn token_create(
            &self,
            by: &Act,
            id: TokenId,
            session: SessionId,
            name: &str,
            secret_hash: &[u8],
            expires_in_seconds: Option<u32>,
        ) -> Result<Option<ApiToken>>;
        /// The token and its enabled user, while it is valid; notes the use (at most once a minute).
        async fn token_use(&self, secret_hash: &[u8]) -> Result<Option<(ApiToken, User)>>;
        /// Newest first, expired ones included.
        async fn token_list(&self, user: UserId) -> Result<Vec<ApiToken>>;
        /// `false` where the user has no such token.
        async fn token_delete(&self, by: &Act, user: UserId, id: TokenId) -> Result<bool>;

        /// Saves a question that can be decided and redeemed within so long. `false` where the code is in use.
        async fn device_login_create(
            &self,
            device_hash: &[u8],
            code_hash: &[u8],
            login: &DeviceLogin,
            lifetime_seconds: u32,
        ) -> Result<bool>;
        /// The question with this code, while nobody has decided it.
        async fn device_login_find(&self, code_hash: &[u8]) -> Result<Option<DeviceLogin>>;
        /// Allows or denies it, once, on behalf of the session's user. `false` where there is nothing to decide, or the
        /// session has ended.
        async fn device_login_decide(
            &self,
            by: &Act,
            code_hash: &[u8],
            session: SessionId,
            allow: bool,
        ) -> Result<bool>;
        /// Exchanges an allowed question for a token whose secret hashes to `secret_hash`, in one transaction, while the
        /// session lasts that allowed it. However many try at once, on however many replicas, one gets it.
        async fn device_login_redeem(
            &self,
            by: &Act,
            device_hash: &[u8],
            id: TokenId,
            secret_hash: &[u8],
            expires_in_seconds: u32,
        ) -> Result<DeviceRedeemed>;

        /// Notes that somebody has signed in with this browser, for so long from now; `instead_of` is what its cookie
        /// hashed to before. Of a user's browsers the 50 that last longest are kept.
        async fn device_note(
            &self,
            user: UserId,
            secret_hash: &[u8],
            instead_of: Option<&[u8]>,
            lifetime_seconds: u32,
        ) -> Result<()>;
        /// Whether this user has signed in with this browser, and it still counts.
        async fn device_is_known(&self, user: UserId, secret_hash: &[u8]) -> Result<bool>;

        /// What is counted under a key; `None` where nothing is (any more).
        async fn attempts_get(&self, key: &str) -> Result<Option<Attempts>>;
        /// Whether a try could be made now. Counts nothing.
        async fn attempts_check(&self, allowances: &[Allowance]) -> Result<Tried>;
        /// Counts one try under every key, or under none where one of them has to be waited for. However many come at
        /// once, on however many replicas, no key gets more than its allowance.
        async fn attempts_count(&self, allowances: &[Allowance]) -> Result<Tried>;
        /// Takes `tries` back from what is counted under a key.
        async fn attempts_take_back(&self, key: &str, tries: u32) -> Result<()>;
        /// Forgets what is counted under a key.
        async fn attempts_clear(&self, key: &str) -> Result<()>;
    }
}

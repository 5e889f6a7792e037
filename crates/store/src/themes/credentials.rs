//! Sessions, tokens, and logins that failed. Secrets are known here by their hashes only.

use codehub_domain::{
    SessionId, Timestamp, TokenId, UserId,
    user::{ApiToken, Session, User},
};

use super::theme;
use crate::Result;

/// Failed logins of one key (an account-and-address, or an address).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    pub failures: u32,
    pub last_failure: Timestamp,
}

theme! {
    /// Sessions, tokens, and logins that failed.
    Credentials, credentials {
        /// `secret_hash` is what the cookie's random secret hashes to.
        async fn session_create(
            &self,
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
        /// One that is not there is ended already.
        async fn session_delete(&self, id: SessionId) -> Result<()>;
        /// Removes sessions that have ended, and failed logins that are forgotten; how many sessions.
        async fn sessions_sweep(&self) -> Result<u64>;

        /// A token that lasts for ever, or this long. `by` is the session that asks for it: it must still be there
        /// in the same transaction, so that nothing is made behind a new password's back. `None` where it is not
        /// (any more).
        async fn token_create(
            &self,
            id: TokenId,
            by: SessionId,
            name: &str,
            secret_hash: &[u8],
            expires_in_seconds: Option<u32>,
        ) -> Result<Option<ApiToken>>;
        /// The token and its enabled user, while it is valid; notes the use (at most once a minute).
        async fn token_use(&self, secret_hash: &[u8]) -> Result<Option<(ApiToken, User)>>;
        /// Newest first, expired ones included.
        async fn token_list(&self, user: UserId) -> Result<Vec<ApiToken>>;
        /// `false` where the user has no such token.
        async fn token_delete(&self, user: UserId, id: TokenId) -> Result<bool>;

        /// `None` where none failed lately.
        async fn attempts_get(&self, key: &str) -> Result<Option<Attempts>>;
        /// Counts one more failure (a count older than `forget_after_seconds` starts again).
        async fn attempts_fail(&self, key: &str, forget_after_seconds: u32) -> Result<Attempts>;
        /// Forgets the failures of a key.
        async fn attempts_clear(&self, key: &str) -> Result<()>;
    }
}

//! Sessions, tokens, known devices, and tries at passwords.

use async_trait::async_trait;
use codehub_domain::{
    SessionId, TokenId, UserId,
    audit::Act,
    user::{ApiToken, Session, User},
};

use super::{SqlStore, attempts, device_logins, devices, handovers, sessions, timed, tokens};
use crate::{
    Allowance, Attempts, Credentials, DeviceLogin, DeviceRedeemed, Handover, Redeemed, Result, SessionEnd,
    Tried, WorkspaceOrigin,
};

#[async_trait]
impl<S: SqlStore> Credentials for S {
    async fn session_create(
        &self,
        by: &Act,
        id: SessionId,
        user: UserId,
        secret_hash: &[u8],
        lifetime_seconds: u32,
    ) -> Result<Session> {
        timed::<S, _>("session_create", sessions::create(self, by, id, user, secret_hash, lifetime_seconds))
            .await
    }

    async fn session_use(
        &self,
        secret_hash: &[u8],
        lifetime_seconds: u32,
    ) -> Result<Option<(Session, User)>> {
        timed::<S, _>("session_use", sessions::use_by_secret(self, secret_hash, lifetime_seconds)).await
    }

    async fn session_delete(&self, by: &Act, id: SessionId, why: SessionEnd) -> Result<()> {
        timed::<S, _>("session_delete", sessions::delete(self, by, id, why)).await
    }

    async fn sessions_sweep(&self) -> Result<u64> {
        timed::<S, _>("sessions_sweep", sessions::sweep(self)).await
    }

    async fn handover_create(
        &self,
        code_hash: &[u8],
        handover: &Handover,
        lifetime_seconds: u32,
    ) -> Result<bool> {
        timed::<S, _>("handover_create", handovers::create(self, code_hash, handover, lifetime_seconds)).await
    }

    async fn handover_redeem(
        &self,
        code_hash: &[u8],
        origin: WorkspaceOrigin,
        state: &[u8],
        secret_hash: &[u8],
    ) -> Result<Redeemed> {
        timed::<S, _>("handover_redeem", handovers::redeem(self, code_hash, origin, state, secret_hash)).await
    }

    async fn workspace_session_use(
        &self,
        secret_hash: &[u8],
        origin: WorkspaceOrigin,
        lifetime_seconds: u32,
    ) -> Result<Option<(Session, User)>> {
        let used = handovers::use_by_secret(self, secret_hash, origin, lifetime_seconds);
        timed::<S, _>("workspace_session_use", used).await
    }

    async fn token_create(
        &self,
        by: &Act,
        id: TokenId,
        session: SessionId,
        name: &str,
        secret_hash: &[u8],
        expires_in_seconds: Option<u32>,
    ) -> Result<Option<ApiToken>> {
        timed::<S, _>(
            "token_create",
            tokens::create(self, by, id, session, name, secret_hash, expires_in_seconds),
        )
        .await
    }

    async fn token_use(&self, secret_hash: &[u8]) -> Result<Option<(ApiToken, User)>> {
        timed::<S, _>("token_use", tokens::use_by_secret(self, secret_hash)).await
    }

    async fn token_list(&self, user: UserId) -> Result<Vec<ApiToken>> {
        timed::<S, _>("token_list", tokens::list(self, user)).await
    }

    async fn token_delete(&self, by: &Act, user: UserId, id: TokenId) -> Result<bool> {
        timed::<S, _>("token_delete", tokens::delete(self, by, user, id)).await
    }

    async fn device_login_create(
        &self,
        device_hash: &[u8],
        code_hash: &[u8],
        login: &DeviceLogin,
        lifetime_seconds: u32,
    ) -> Result<bool> {
        let created = device_logins::create(self, device_hash, code_hash, login, lifetime_seconds);
        timed::<S, _>("device_login_create", created).await
    }

    async fn device_login_find(&self, code_hash: &[u8]) -> Result<Option<DeviceLogin>> {
        timed::<S, _>("device_login_find", device_logins::find(self, code_hash)).await
    }

    async fn device_login_decide(
        &self,
        by: &Act,
        code_hash: &[u8],
        session: SessionId,
        allow: bool,
    ) -> Result<bool> {
        timed::<S, _>("device_login_decide", device_logins::decide(self, by, code_hash, session, allow)).await
    }

    async fn device_login_redeem(
        &self,
        by: &Act,
        device_hash: &[u8],
        id: TokenId,
        secret_hash: &[u8],
        expires_in_seconds: u32,
    ) -> Result<DeviceRedeemed> {
        let redeemed = device_logins::redeem(self, by, device_hash, id, secret_hash, expires_in_seconds);
        timed::<S, _>("device_login_redeem", redeemed).await
    }

    async fn device_note(
        &self,
        user: UserId,
        secret_hash: &[u8],
        instead_of: Option<&[u8]>,
        lifetime_seconds: u32,
    ) -> Result<()> {
        timed::<S, _>("device_note", devices::note(self, user, secret_hash, instead_of, lifetime_seconds))
            .await
    }

    async fn device_is_known(&self, user: UserId, secret_hash: &[u8]) -> Result<bool> {
        timed::<S, _>("device_is_known", devices::is_known(self, user, secret_hash)).await
    }

    async fn attempts_get(&self, key: &str) -> Result<Option<Attempts>> {
        timed::<S, _>("attempts_get", attempts::get(self, key)).await
    }

    async fn attempts_check(&self, allowances: &[Allowance]) -> Result<Tried> {
        timed::<S, _>("attempts_check", attempts::check(self, allowances)).await
    }

    async fn attempts_count(&self, allowances: &[Allowance]) -> Result<Tried> {
        timed::<S, _>("attempts_count", attempts::count(self, allowances)).await
    }

    async fn attempts_take_back(&self, key: &str, tries: u32) -> Result<()> {
        timed::<S, _>("attempts_take_back", attempts::take_back(self, key, tries)).await
    }

    async fn attempts_clear(&self, key: &str) -> Result<()> {
        timed::<S, _>("attempts_clear", attempts::clear(self, key)).await
    }
}

//! Users, sessions, tokens and failed logins of the fake store.

use std::{collections::HashMap, time::Duration};

use codehub_domain::{
    SessionId, Timestamp, TokenId, UserId,
    audit::{Act, AuditActor},
    retry::saturating_add,
    user::{ApiToken, Role, Session, User},
};

use super::{
    AttemptRow, DeviceLoginRow, SessionRow, Step, TokenRow, UserRow,
    workspaces::{later, page},
};
use crate::{
    Allowance, Attempts, Change, DeviceLogin, DeviceRedeemed, Handover, KNOWN_DEVICES, Page, Redeemed,
    Result, SessionEnd, StoreError, Tried, USE_NOTED_EVERY_MICROS, UserChange, UserEdit, UserWithHash,
    WORKSPACE_SESSIONS, WorkspaceOrigin, renews_after_micros, trail, tries_at,
};

impl Step<'_> {
    pub(super) fn user(&self, id: UserId) -> Option<&User> {
        self.state.users.get(&id).filter(|row| !row.deleted).map(|row| &row.user)
    }

    fn living_users(&self) -> impl Iterator<Item = &UserRow> {
        self.state.users.values().filter(|row| !row.deleted)
    }

    pub(super) fn user_create(
        &mut self,
        by: &Act,
        id: UserId,
        username: &str,
        password_hash: &str,
        role: Role,
    ) -> Result<UserChange> {
        let name_key = username.to_lowercase();
        if self.living_users().any(|row| row.name_key == name_key) {
            return Ok(UserChange::NameTaken);
        }
        if self.state.users.contains_key(&id) {
            return Err(StoreError::Failed(format!("there is already a user {id}")));
        }
        let user = User::new(id, username, role, self.now);
        let row = UserRow {
            user: user.clone(),
            name_key,
            password_hash: Some(password_hash.into()),
            deleted: false,
        };
        self.state.users.insert(id, row);
        self.audit(by, &trail::created(&user));
        Ok(UserChange::Done(user))
    }

    pub(super) fn user_create_first(
        &mut self,
        by: &Act,
        id: UserId,
        username: &str,
        password_hash: &str,
    ) -> Result<Option<User>> {
        if !self.state.users.is_empty() {
            return Ok(None);
        }
        match self.user_create(by, id, username, password_hash, Role::Admin)? {
            UserChange::Done(user) => Ok(Some(user)),
            _ => Ok(None),
        }
    }

    pub(super) fn users(&self, ids: &[UserId]) -> HashMap<UserId, User> {
        ids.iter().filter_map(|id| self.user(*id).map(|user| (*id, user.clone()))).collect()
    }

    pub(super) fn user_by_name(&self, username: &str) -> Option<UserWithHash> {
        let key = username.to_lowercase();
        let row = self.living_users().find(|row| row.name_key == key)?;
        Some(UserWithHash { user: row.user.clone(), password_hash: row.password_hash.clone() })
    }

    pub(super) fn user_list(&self, after: Option<UserId>, limit: u32) -> Page<User> {
        let rest = self.living_users().filter(|row| after.is_none_or(|after| row.user.id > after));
        page(rest.map(|row| row.user.clone()), self.user_count(), limit)
    }

    pub(super) fn user_count(&self) -> usize {
        self.living_users().count()
    }

    fn is_last_admin(&self, id: UserId) -> bool {
        let mut admins = self.living_users().filter(|row| row.user.administers()).map(|row| row.user.id);
        admins.next() == Some(id) && admins.next().is_none()
    }

    pub(super) fn user_edit(&mut self, by: &Act, id: UserId, edit: UserEdit) -> UserChange {
        let Some(before) = self.user(id).cloned() else {
            return UserChange::NotFound;
        };
        let (after, ends_sessions) = edit.applied_to(&before);
        if self.is_last_admin(id) && !after.administers() {
            return UserChange::LastAdmin;
        }
        for entry in trail::edited(by, &before, &after, &edit) {
            self.audit(by, &entry);
        }
        if edit.password_hash.is_some() && !edit.keep_tokens {
            self.state.tokens.retain(|_, row| row.token.user != id);
        }
        if edit.revokes_devices() {
            self.devices_revoke(id, edit.keep_device.as_deref());
        }
        if edit.password_hash.is_some() {
            self.state.attempts.remove(&tries_at(id));
        }
        if let Some(row) = self.state.users.get_mut(&id) {
            row.user = after.clone();
            row.password_hash = edit.password_hash.or(row.password_hash.take());
        }
        if ends_sessions {
            self.state.sessions.retain(|_, row| row.session.user != id);
            self.tell(Change::Access { user: id });
        }
        UserChange::Done(after)
    }

    pub(super) fn user_delete(&mut self, by: &Act, id: UserId) -> UserChange {
        let Some(user) = self.user(id).cloned() else {
            return UserChange::NotFound;
        };
        if self.is_last_admin(id) {
            return UserChange::LastAdmin;
        }
        let owned = |found: &&codehub_domain::Workspace| found.owner == id && found.deleted_at.is_none();
        let living = self.state.workspaces.values().filter(owned).count();
        if living > 0 {
            return UserChange::OwnsWorkspaces(living as u64);
        }
        if let Some(row) = self.state.users.get_mut(&id) {
            row.deleted = true;
            row.password_hash = None;
        }
        self.state.sessions.retain(|_, row| row.session.user != id);
        self.state.tokens.retain(|_, row| row.token.user != id);
        self.devices_revoke(id, None);
        self.tell(Change::Access { user: id });
        self.audit(by, &trail::deleted(&user));
        UserChange::Done(user)
    }

    pub(super) fn existing(&self, user: UserId) -> Result<()> {
        let missing = || StoreError::Failed(format!("there is no user {user}"));
        self.user(user).map(|_| ()).ok_or_else(missing)
    }

    fn enabled(&self, user: UserId) -> Option<User> {
        self.user(user).filter(|user| !user.disabled).cloned()
    }

    pub(super) fn session_create(
        &mut self,
        by: &Act,
        id: SessionId,
        user: UserId,
        secret_hash: &[u8],
        lifetime_seconds: u32,
    ) -> Result<Session> {
        self.existing(user)?;
        if self.state.sessions.values().any(|row| row.session.id == id || row.secret_hash == secret_hash) {
            return Err(StoreError::Failed("there is already such a session".into()));
        }
        let expires_at = later(self.now, lifetime_seconds);
        let session = Session { id, user, created_at: self.now, expires_at };
        let row =
            SessionRow { session: session.clone(), secret_hash: secret_hash.into(), renewed_at: self.now };
        self.state.sessions.insert(id, row);
        if let Some(who) = self.user(user).cloned() {
            let (by, entry) = trail::signed_in(by, &who, id);
            self.audit(&by, &entry);
        }
        Ok(session)
    }

    pub(super) fn session_use(
        &mut self,
        secret_hash: &[u8],
        lifetime_seconds: u32,
    ) -> Option<(Session, User)> {
        let row = self.state.sessions.values().find(|row| row.secret_hash == secret_hash)?;
        self.session_used(row.session.id, lifetime_seconds)
    }

    fn session_used(&mut self, id: SessionId, lifetime_seconds: u32) -> Option<(Session, User)> {
        let now = self.now;
        let user = self.enabled(self.state.sessions.get(&id)?.session.user)?;
        let row = self.state.sessions.get_mut(&id).filter(|row| row.session.expires_at > now)?;
        if micros_later(row.renewed_at, renews_after_micros(lifetime_seconds)) <= now {
            row.renewed_at = now;
            row.session.expires_at = later(now, lifetime_seconds);
        }
        Some((row.session.clone(), user))
    }

    pub(super) fn handover_create(&mut self, code_hash: &[u8], handover: &Handover, seconds: u32) -> bool {
        let session = self.state.sessions.get(&handover.session);
        let lives = session.is_some_and(|row| row.session.expires_at > self.now);
        if lives {
            let until = later(self.now, seconds);
            self.state.handovers.insert(code_hash.into(), (handover.clone(), until));
        }
        lives
    }

    pub(super) fn handover_redeem(
        &mut self,
        code_hash: &[u8],
        origin: WorkspaceOrigin,
        state: &[u8],
        secret_hash: &[u8],
    ) -> Redeemed {
        let found = self.state.handovers.get(code_hash).filter(|(handover, _)| {
            handover.origin == origin && self.state.sessions.contains_key(&handover.session)
        });
        let (session, target) = match found {
            None => return Redeemed::Unknown,
            Some((_, until)) if *until <= self.now => return Redeemed::Late,
            Some((handover, _)) if handover.state != state => return Redeemed::AnotherState,
            Some((handover, _)) => (handover.session, handover.target.clone()),
        };
        self.state.handovers.remove(code_hash);
        let all = &mut self.state.workspace_sessions;
        all.push((secret_hash.into(), session, origin));
        let is_like = |row: &(Vec<u8>, SessionId, WorkspaceOrigin)| row.1 == session && row.2 == origin;
        let mut too_many =
            all.iter().filter(|row| is_like(row)).count().saturating_sub(WORKSPACE_SESSIONS as usize);
        all.retain(|row| {
            let goes = is_like(row) && too_many > 0;
            too_many -= usize::from(goes);
            !goes
        });
        Redeemed::Entered { target }
    }

    pub(super) fn workspace_session_use(
        &mut self,
        secret_hash: &[u8],
        origin: WorkspaceOrigin,
        lifetime_seconds: u32,
    ) -> Option<(Session, User)> {
        let all = &self.state.workspace_sessions;
        let (_, session, _) = all.iter().find(|(hash, _, of)| hash == secret_hash && *of == origin)?;
        self.session_used(*session, lifetime_seconds)
    }

    pub(super) fn session_delete(&mut self, by: &Act, id: SessionId, why: SessionEnd) {
        if let Some(row) = self.state.sessions.remove(&id) {
            self.tell(Change::Access { user: row.session.user });
            let who = self.state.users.get(&row.session.user).map(|row| row.user.clone());
            let (by, entry) = trail::session_ended(by, who.as_ref(), id, why);
            self.audit(&by, &entry);
        }
    }

    pub(super) fn sessions_sweep(&mut self) -> u64 {
        let now = self.now;
        let ended = self.state.sessions.extract_if(.., |_, row| row.session.expires_at <= now);
        let users: Vec<_> = ended.map(|(_, row)| row.session.user).collect();
        for user in &users {
            self.tell(Change::Access { user: *user });
        }
        self.state.attempts.retain(|_, row| row.forget_at > now);
        self.state.devices.retain(|_, until| *until > now);
        self.state.handovers.retain(|_, (_, until)| *until > now);
        self.state.device_logins.retain(|_, row| row.until > now);
        users.len() as u64
    }

    pub(super) fn token_create(
        &mut self,
        by: &Act,
        id: TokenId,
        session: SessionId,
        name: &str,
        secret_hash: &[u8],
        expires_in_seconds: Option<u32>,
    ) -> Result<Option<ApiToken>> {
        let Some(user) = self.user_of_session(session).map(|user| user.id) else { return Ok(None) };
        if self.state.tokens.values().any(|row| row.token.id == id || row.secret_hash == secret_hash) {
            return Err(StoreError::Failed("there is already such a token".into()));
        }
        let token = ApiToken {
            id,
            user,
            name: name.into(),
            created_at: self.now,
            expires_at: expires_in_seconds.map(|seconds| later(self.now, seconds)),
            last_used_at: None,
        };
        self.state.tokens.insert(id, TokenRow { token: token.clone(), secret_hash: secret_hash.into() });
        self.audit(by, &trail::minted(id, name, token.expires_at));
        Ok(Some(token))
    }

    pub(super) fn device_login_create(
        &mut self,
        device_hash: &[u8],
        code_hash: &[u8],
        login: &DeviceLogin,
        lifetime_seconds: u32,
    ) -> bool {
        let now = self.now;
        let all = &mut self.state.device_logins;
        all.retain(|_, row| row.code_hash != code_hash || row.until > now);
        if all.contains_key(device_hash) || all.values().any(|row| row.code_hash == code_hash) {
            return false;
        }
        let row = DeviceLoginRow {
            code_hash: code_hash.into(),
            login: login.clone(),
            session: None,
            denied: false,
            until: later(now, lifetime_seconds),
        };
        all.insert(device_hash.into(), row);
        true
    }

    fn device_login_open(&mut self, code_hash: &[u8]) -> Option<&mut DeviceLoginRow> {
        let now = self.now;
        let mut all = self.state.device_logins.values_mut();
        all.find(|row| row.code_hash == code_hash && row.session.is_none() && !row.denied && row.until > now)
    }

    pub(super) fn device_login_find(&mut self, code_hash: &[u8]) -> Option<DeviceLogin> {
        self.device_login_open(code_hash).map(|row| row.login.clone())
    }

    pub(super) fn device_login_decide(
        &mut self,
        by: &Act,
        code_hash: &[u8],
        session: SessionId,
        allow: bool,
    ) -> bool {
        let Some(user) = self.user_of_session(session) else { return false };
        let Some(row) = self.device_login_open(code_hash) else { return false };
        (row.session, row.denied) = (allow.then_some(session), !allow);
        let login = row.login.clone();
        self.audit(by, &trail::device_decided(&user, &login, allow));
        true
    }

    pub(super) fn device_login_redeem(
        &mut self,
        by: &Act,
        device_hash: &[u8],
        id: TokenId,
        secret_hash: &[u8],
        expires_in_seconds: u32,
    ) -> Result<DeviceRedeemed> {
        let row = self.state.device_logins.get(device_hash).filter(|row| row.until > self.now);
        let (session, name) = match row {
            None => return Ok(DeviceRedeemed::Unknown),
            Some(row) if row.denied => {
                self.state.device_logins.remove(device_hash);
                return Ok(DeviceRedeemed::Denied);
            }
            Some(DeviceLoginRow { session: None, .. }) => return Ok(DeviceRedeemed::Pending),
            Some(DeviceLoginRow { session: Some(session), login, .. }) => (*session, login.token_name()),
        };
        let Some(user) = self.user_of_session(session) else { return Ok(DeviceRedeemed::Unknown) };
        let by = by.by(AuditActor::in_session(&user, session));
        let token = self.token_create(&by, id, session, &name, secret_hash, Some(expires_in_seconds))?;
        self.state.device_logins.remove(device_hash);
        Ok(token.map_or(DeviceRedeemed::Unknown, |token| DeviceRedeemed::Minted(token, user)))
    }

    fn user_of_session(&self, session: SessionId) -> Option<User> {
        let session = self.state.sessions.get(&session).filter(|row| row.session.expires_at > self.now)?;
        self.enabled(session.session.user)
    }

    pub(super) fn token_use(&mut self, secret_hash: &[u8]) -> Option<(ApiToken, User)> {
        let now = self.now;
        let row = self.state.tokens.values().find(|row| row.secret_hash == secret_hash)?;
        let (id, user) = (row.token.id, self.enabled(row.token.user)?);
        let row = self.state.tokens.get_mut(&id)?;
        if row.token.expires_at.is_some_and(|end| end <= now) {
            return None;
        }
        if row.token.last_used_at.is_none_or(|at| micros_later(at, USE_NOTED_EVERY_MICROS) <= now) {
            row.token.last_used_at = Some(now);
        }
        Some((row.token.clone(), user))
    }

    pub(super) fn token_list(&self, user: UserId) -> Vec<ApiToken> {
        let rows = self.state.tokens.values().rev().filter(|row| row.token.user == user);
        rows.map(|row| row.token.clone()).collect()
    }

    pub(super) fn token_delete(&mut self, by: &Act, user: UserId, id: TokenId) -> bool {
        let theirs = self.state.tokens.get(&id).filter(|row| row.token.user == user);
        let Some(name) = theirs.map(|row| row.token.name.clone()) else { return false };
        self.state.tokens.remove(&id);
        self.tell(Change::Access { user });
        self.audit(by, &trail::token_deleted(by, user, id, &name));
        true
    }

    pub(super) fn attempts_get(&self, key: &str) -> Option<Attempts> {
        let row = self.state.attempts.get(key).filter(|row| row.forget_at > self.now)?;
        Some(Attempts { failures: row.failures, last_failure: row.last_failure })
    }

    pub(super) fn attempts_check(&self, allowances: &[Allowance]) -> Tried {
        let wait = |allowance: &Allowance| allowance.retry_after(self.attempts_get(&allowance.key), self.now);
        Tried::of(allowances.iter().map(wait).enumerate())
    }

    pub(super) fn attempts_count(&mut self, allowances: &[Allowance]) -> Tried {
        let tried = self.attempts_check(allowances);
        if tried == Tried::Counted {
            for Allowance { key, forget_after_seconds, .. } in allowances {
                let before = self.attempts_get(key).map_or(0, |counted| counted.failures);
                let row = AttemptRow {
                    failures: before.saturating_add(1),
                    last_failure: self.now,
                    forget_at: later(self.now, *forget_after_seconds),
                };
                self.state.attempts.insert(key.clone(), row);
            }
        }
        tried
    }

    pub(super) fn attempts_take_back(&mut self, key: &str, tries: u32) {
        match self.state.attempts.get_mut(key) {
            Some(row) if row.failures > tries => row.failures -= tries,
            Some(_) => drop(self.state.attempts.remove(key)),
            None => {}
        }
    }

    pub(super) fn device_note(
        &mut self,
        user: UserId,
        secret_hash: &[u8],
        instead_of: Option<&[u8]>,
        lifetime_seconds: u32,
    ) -> Result<()> {
        self.existing(user)?;
        if let Some(before) = instead_of {
            self.state.devices.remove(&(user, before.to_vec()));
        }
        let until = later(self.now, lifetime_seconds);
        self.state.devices.insert((user, secret_hash.into()), until);
        let of_user =
            self.state.devices.iter().filter(|((owner, hash), _)| *owner == user && hash != secret_hash);
        let mut others: Vec<_> =
            of_user.map(|(key, until)| (std::cmp::Reverse(*until), key.clone())).collect();
        others.sort();
        for (_, key) in others.into_iter().skip(KNOWN_DEVICES as usize - 1) {
            self.state.devices.remove(&key);
        }
        Ok(())
    }

    pub(super) fn device_is_known(&self, user: UserId, secret_hash: &[u8]) -> bool {
        self.state.devices.get(&(user, secret_hash.to_vec())).is_some_and(|until| *until > self.now)
    }

    fn devices_revoke(&mut self, user: UserId, keep: Option<&[u8]>) {
        self.state.devices.retain(|(owner, hash), _| *owner != user || Some(hash.as_slice()) == keep);
    }
}

fn micros_later(at: Timestamp, micros: i64) -> Timestamp {
    saturating_add(at, Duration::from_micros(micros.unsigned_abs()))
}

//! People. A deleted user's row stays (deleted workspaces and the history name it), but nobody finds it.

use std::collections::HashMap;

use async_trait::async_trait;
use codehub_domain::{
    UserId,
    audit::Act,
    change::Change,
    user::{Role, User, UserEdit},
};

use super::{Lock, SqlStore, SqlWrite, Statements, args, attempts, audit, devices, page, timed};
use crate::{
    Page, People, Result, StoreError, UserChange, UserWithHash,
    row::{self, SqlRow, user_columns},
    trail, tries_at,
};

#[async_trait]
impl<S: SqlStore> People for S {
    async fn user_create(
        &self,
        by: &Act,
        id: UserId,
        username: &str,
        password_hash: &str,
        role: Role,
    ) -> Result<UserChange> {
        timed::<S, _>("user_create", async {
            let mut write = self.write().await?;
            match insert(&mut write, id, username, password_hash, role).await? {
                Some(user) => {
                    audit::append(&mut write, by, &trail::created(&user)).await?;
                    write.commit().await?;
                    Ok(UserChange::Done(user))
                }
                None => Ok(UserChange::NameTaken),
            }
        })
        .await
    }

    async fn user_create_first(
        &self,
        by: &Act,
        id: UserId,
        username: &str,
        password_hash: &str,
    ) -> Result<Option<User>> {
        timed::<S, _>("user_create_first", async {
            let mut write = self.write().await?;
            write.lock(Lock::Administrators).await?;
            // Deleted ones count: whoever deleted the last account has not asked for a stranger to set it up.
            if write.first("SELECT id FROM users LIMIT 1", args![]).await?.is_some() {
                return Ok(None);
            }
            let user = insert(&mut write, id, username, password_hash, Role::Admin).await?;
            if let Some(user) = &user {
                audit::append(&mut write, by, &trail::created(user)).await?;
            }
            write.commit().await?;
            Ok(user)
        })
        .await
    }

    async fn user_get(&self, id: UserId) -> Result<Option<User>> {
        timed::<S, _>("user_get", async {
            self.select(GET, args![id]).await?.first().map(row::user).transpose()
        })
        .await
    }

    async fn users_get(&self, ids: &[UserId]) -> Result<HashMap<UserId, User>> {
        timed::<S, _>("users_get", async {
            let rows = self.select(GET_MANY, args![ids]).await?;
            rows.iter().map(|found| row::user(found).map(|user| (user.id, user))).collect()
        })
        .await
    }

    async fn user_by_name(&self, username: &str) -> Result<Option<UserWithHash>> {
        timed::<S, _>("user_by_name", async {
            let rows = self.select(BY_NAME, args![username.to_lowercase()]).await?;
            let found = rows.first().map(|found| {
                let password_hash = found.maybe_text("password_hash")?.map(str::to_owned);
                Ok(UserWithHash { user: row::user(found)?, password_hash })
            });
            found.transpose()
        })
        .await
    }

    async fn user_list(&self, after: Option<UserId>, limit: u32) -> Result<Page<User>> {
        timed::<S, _>("user_list", async {
            let mut read = self.read().await?;
            let total = row::count(&read.one(COUNT, args![]).await?, "total")?;
            let rows = read.all(LIST.into(), args![after, i64::from(limit) + 1]).await?;
            page(&rows, limit, Some(total), row::user)
        })
        .await
    }

    async fn user_edit(&self, by: &Act, id: UserId, edit: UserEdit) -> Result<UserChange> {
        timed::<S, _>("user_edit", async {
            let mut write = self.write().await?;
            write.lock(Lock::Administrators).await?;
            let Some(before) = get_locked(&mut write, id).await? else { return Ok(UserChange::NotFound) };
            let (after, ends_sessions) = edit.applied_to(&before);
            let (new_password, ends_devices) = (edit.password_hash.is_some(), edit.revokes_devices());
            let ends_tokens = new_password && !edit.keep_tokens;
            if before.administers() && !after.administers() && !has_other_admin(&mut write, id).await? {
                return Ok(UserChange::LastAdmin);
            }
            let now = write.now().await?;
            write
                .run(
                    "UPDATE users SET role = $2, disabled = $3, password_hash = coalesce($4, password_hash),
                         language = $5, theme = $6, updated_at = $7
                     WHERE id = $1",
                    args![
                        id,
                        after.role,
                        after.disabled,
                        edit.password_hash.as_deref(),
                        after.language,
                        after.theme,
                        now
                    ],
                )
                .await?;
            if ends_tokens {
                write.run("DELETE FROM api_tokens WHERE user_id = $1", args![id]).await?;
            }
            if ends_devices {
                devices::revoke(&mut write, id, edit.keep_device.as_deref()).await?;
            }
            if new_password {
                // Whatever was guessed, it was another password.
                attempts::forget(&mut write, &tries_at(id)).await?;
            }
            if ends_sessions {
                write.run("DELETE FROM sessions WHERE user_id = $1", args![id]).await?;
                write.changed(Change::Access { user: id });
            }
            for entry in trail::edited(by, &before, &after, &edit) {
                audit::append(&mut write, by, &entry).await?;
            }
            write.commit().await?;
            Ok(UserChange::Done(after))
        })
        .await
    }

    async fn user_delete(&self, by: &Act, id: UserId) -> Result<UserChange> {
        timed::<S, _>("user_delete", async {
            let mut write = self.write().await?;
            write.lock(Lock::Administrators).await?;
            let Some(user) = get_locked(&mut write, id).await? else { return Ok(UserChange::NotFound) };
            if user.administers() && !has_other_admin(&mut write, id).await? {
                return Ok(UserChange::LastAdmin);
            }
            let living =
                "SELECT count(*) AS n FROM workspaces WHERE owner_user_id = $1 AND deleted_at IS NULL";
            let living = row::count(&write.one(living, args![id]).await?, "n")?;
            if living > 0 {
                return Ok(UserChange::OwnsWorkspaces(living));
            }
            let now = write.now().await?;
            write
                .run(
                    "UPDATE users SET deleted_at = $2, updated_at = $2, disabled = TRUE, password_hash = NULL
                     WHERE id = $1",
                    args![id, now],
                )
                .await?;
            write.run("DELETE FROM sessions WHERE user_id = $1", args![id]).await?;
            write.run("DELETE FROM api_tokens WHERE user_id = $1", args![id]).await?;
            devices::revoke(&mut write, id, None).await?;
            write.changed(Change::Access { user: id });
            audit::append(&mut write, by, &trail::deleted(&user)).await?;
            write.commit().await?;
            Ok(UserChange::Done(user))
        })
        .await
    }

    async fn user_count(&self) -> Result<u64> {
        timed::<S, _>("user_count", async {
            self.select(COUNT, args![]).await?.first().map_or(Ok(0), |found| row::count(found, "total"))
        })
        .await
    }
}

const GET: &str = concat!("SELECT ", user_columns!(), " FROM users WHERE id = $1 AND deleted_at IS NULL");

const GET_LOCKED: &str =
    concat!("SELECT ", user_columns!(), " FROM users WHERE id = $1 AND deleted_at IS NULL FOR UPDATE");

const GET_KEPT: &str =
    concat!("SELECT ", user_columns!(), " FROM users WHERE id = $1 AND deleted_at IS NULL FOR KEY SHARE");

const FIND: &str = concat!("SELECT ", user_columns!(), " FROM users WHERE id = $1");

const GET_MANY: &str =
    concat!("SELECT ", user_columns!(), " FROM users WHERE id = ANY ($1) AND deleted_at IS NULL");

const BY_NAME: &str = concat!(
    "SELECT ",
    user_columns!(),
    ", password_hash FROM users WHERE username_key = $1 AND deleted_at IS NULL"
);

const LIST: &str = concat!(
    "SELECT ",
    user_columns!(),
    " FROM users WHERE ($1 IS NULL OR id > $1) AND deleted_at IS NULL ORDER BY id LIMIT $2"
);

const COUNT: &str = "SELECT count(*) AS total FROM users WHERE deleted_at IS NULL";

/// `None` where the name is taken.
async fn insert(
    write: &mut impl SqlWrite,
    id: UserId,
    username: &str,
    password_hash: &str,
    role: Role,
) -> Result<Option<User>> {
    let now = write.now().await?;
    let done = write
        .run(
            "INSERT INTO users (id, username, username_key, password_hash, role, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $6)
             ON CONFLICT (username_key) WHERE deleted_at IS NULL DO NOTHING",
            args![id, username, username.to_lowercase(), password_hash, role, now],
        )
        .await?;
    Ok((done == 1).then(|| User::new(id, username, role, now)))
}

/// The user, whom nobody else changes (or makes something for) before this transaction ends.
async fn get_locked(write: &mut impl SqlWrite, id: UserId) -> Result<Option<User>> {
    write.first(GET_LOCKED, args![id]).await?.as_ref().map(row::user).transpose()
}

/// The user as they are, deleted or not.
pub(super) async fn find(write: &mut impl SqlWrite, id: UserId) -> Result<Option<User>> {
    write.first(FIND, args![id]).await?.as_ref().map(row::user).transpose()
}

/// Whatever is made for a user, is made for one who is there, and stays until it is made.
pub(super) async fn existing(write: &mut impl SqlWrite, id: UserId) -> Result<User> {
    match write.first(GET_KEPT, args![id]).await? {
        Some(found) => row::user(&found),
        None => Err(StoreError::Failed(format!("there is no user {id}"))),
    }
}

async fn has_other_admin(write: &mut impl SqlWrite, id: UserId) -> Result<bool> {
    let sql = "SELECT id FROM users
        WHERE role = 'admin' AND NOT disabled AND deleted_at IS NULL AND id <> $1 LIMIT 1";
    Ok(write.first(sql, args![id]).await?.is_some())
}

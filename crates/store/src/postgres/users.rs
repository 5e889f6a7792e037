//! People. A deleted user's row stays (deleted workspaces and the history name it), but nobody finds it.

use std::collections::HashMap;

use codehub_domain::{
    UserId,
    user::{Role, User},
};
use sqlx::PgConnection;

use super::{
    Lock, PostgresStore, Result, StoreError,
    row::{self, user_columns},
    write::Write,
};
use crate::{
    Page, UserChange, UserEdit, UserWithHash,
    values::{self, administers},
};

pub(super) async fn create(
    store: &PostgresStore,
    id: UserId,
    username: &str,
    password_hash: &str,
    role: Role,
) -> Result<UserChange> {
    let mut write = store.write().await?;
    match insert(&mut write, id, username, password_hash, role).await? {
        Some(user) => {
            write.commit().await?;
            Ok(UserChange::Done(user))
        }
        None => Ok(UserChange::NameTaken),
    }
}

pub(super) async fn create_first(
    store: &PostgresStore,
    id: UserId,
    username: &str,
    password_hash: &str,
) -> Result<Option<User>> {
    let mut write = store.write().await?;
    write.lock(Lock::Administrators).await?;
    // Deleted ones count: whoever deleted the last account has not asked for a stranger to set it up.
    let anybody: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM users)").fetch_one(write.connection()).await?;
    if anybody {
        return Ok(None);
    }
    let user = insert(&mut write, id, username, password_hash, Role::Admin).await?;
    write.commit().await?;
    Ok(user)
}

/// `None` where the name is taken.
async fn insert(
    write: &mut Write,
    id: UserId,
    username: &str,
    password_hash: &str,
    role: Role,
) -> Result<Option<User>> {
    let now = write.now().await?;
    let done = sqlx::query(
        "INSERT INTO users (id, username, username_key, password_hash, role, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $6)
         ON CONFLICT (username_key) WHERE deleted_at IS NULL DO NOTHING",
    )
    .bind(id.as_uuid())
    .bind(username)
    .bind(username.to_lowercase())
    .bind(password_hash)
    .bind(role.as_str())
    .bind(now)
    .execute(write.connection())
    .await?;
    let user = User { id, username: username.into(), role, disabled: false, created_at: row::time(now)? };
    Ok((done.rows_affected() == 1).then_some(user))
}

pub(super) async fn get(connection: &mut PgConnection, id: UserId) -> Result<Option<User>> {
    let found =
        sqlx::query(concat!("SELECT ", user_columns!(), " FROM users WHERE id = $1 AND deleted_at IS NULL"))
            .bind(id.as_uuid())
            .fetch_optional(connection)
            .await?;
    found.as_ref().map(row::user).transpose()
}

/// The user, whom nobody else changes (or makes something for) before this transaction ends.
async fn get_locked(write: &mut Write, id: UserId) -> Result<Option<User>> {
    let found = sqlx::query(concat!(
        "SELECT ",
        user_columns!(),
        " FROM users WHERE id = $1 AND deleted_at IS NULL FOR UPDATE"
    ))
    .bind(id.as_uuid())
    .fetch_optional(write.connection())
    .await?;
    found.as_ref().map(row::user).transpose()
}

/// Whatever is made for a user, is made for one who is there, and stays until it is made.
pub(super) async fn existing(write: &mut Write, id: UserId) -> Result<()> {
    let found = sqlx::query("SELECT FROM users WHERE id = $1 AND deleted_at IS NULL FOR KEY SHARE")
        .bind(id.as_uuid())
        .fetch_optional(write.connection())
        .await?;
    match found {
        Some(_) => Ok(()),
        None => Err(StoreError::Failed(format!("there is no user {id}"))),
    }
}

pub(super) async fn get_many(store: &PostgresStore, ids: &[UserId]) -> Result<HashMap<UserId, User>> {
    let ids: Vec<_> = ids.iter().map(UserId::as_uuid).collect();
    let rows = sqlx::query(concat!(
        "SELECT ",
        user_columns!(),
        " FROM users WHERE id = ANY ($1) AND deleted_at IS NULL"
    ))
    .bind(ids)
    .fetch_all(&store.pool)
    .await?;
    rows.iter().map(|found| row::user(found).map(|user| (user.id, user))).collect()
}

pub(super) async fn by_name(store: &PostgresStore, username: &str) -> Result<Option<UserWithHash>> {
    // A text that PostgreSQL cannot hold is nobody's name.
    if username.contains('\0') {
        return Ok(None);
    }
    let found = sqlx::query(concat!(
        "SELECT ",
        user_columns!(),
        ", password_hash FROM users WHERE username_key = $1 AND deleted_at IS NULL"
    ))
    .bind(username.to_lowercase())
    .fetch_optional(&store.pool)
    .await?;
    found
        .map(|found| {
            Ok(UserWithHash { user: row::user(&found)?, password_hash: row::get(&found, "password_hash")? })
        })
        .transpose()
}

pub(super) async fn list(store: &PostgresStore, after: Option<UserId>, limit: u32) -> Result<Page<User>> {
    let mut read = store.read().await?;
    let total: i64 = sqlx::query_scalar("SELECT count(*) FROM users WHERE deleted_at IS NULL")
        .fetch_one(&mut *read)
        .await?;
    let rows = sqlx::query(concat!(
        "SELECT ",
        user_columns!(),
        " FROM users WHERE ($1::UUID IS NULL OR id > $1) AND deleted_at IS NULL ORDER BY id LIMIT $2"
    ))
    .bind(after.map(|id| id.as_uuid()))
    .bind(i64::from(limit) + 1)
    .fetch_all(&mut *read)
    .await?;
    read.commit().await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Page {
        more: rows.len() > limit,
        items: rows.iter().take(limit).map(row::user).collect::<Result<_>>()?,
        total: row::count(total),
    })
}

pub(super) async fn edit(store: &PostgresStore, id: UserId, edit: UserEdit) -> Result<UserChange> {
    let mut write = store.write().await?;
    write.lock(Lock::Administrators).await?;
    let Some(before) = get_locked(&mut write, id).await? else {
        return Ok(UserChange::NotFound);
    };
    let after = values::edited_user(&before, &edit);
    if administers(&before) && !administers(&after) && !has_other_admin(&mut write, id).await? {
        return Ok(UserChange::LastAdmin);
    }
    sqlx::query(
        "UPDATE users SET role = $2, disabled = $3, password_hash = coalesce($4, password_hash),
             updated_at = codehub_now()
         WHERE id = $1",
    )
    .bind(id.as_uuid())
    .bind(after.role.as_str())
    .bind(after.disabled)
    .bind(&edit.password_hash)
    .execute(write.connection())
    .await?;
    if edit.password_hash.is_some() && !edit.keep_tokens {
        delete_tokens(&mut write, id).await?;
    }
    if edit.password_hash.is_some() || before != after {
        end_sessions(&mut write, id).await?;
    }
    write.commit().await?;
    Ok(UserChange::Done(after))
}

pub(super) async fn delete(store: &PostgresStore, id: UserId) -> Result<UserChange> {
    let mut write = store.write().await?;
    write.lock(Lock::Administrators).await?;
    let Some(user) = get_locked(&mut write, id).await? else {
        return Ok(UserChange::NotFound);
    };
    if administers(&user) && !has_other_admin(&mut write, id).await? {
        return Ok(UserChange::LastAdmin);
    }
    let living: i64 =
        sqlx::query_scalar("SELECT count(*) FROM workspaces WHERE owner_user_id = $1 AND deleted_at IS NULL")
            .bind(id.as_uuid())
            .fetch_one(write.connection())
            .await?;
    if living > 0 {
        return Ok(UserChange::OwnsWorkspaces(row::count(living)));
    }
    sqlx::query(
        "UPDATE users SET deleted_at = codehub_now(), updated_at = codehub_now(), disabled = TRUE,
             password_hash = ''
         WHERE id = $1",
    )
    .bind(id.as_uuid())
    .execute(write.connection())
    .await?;
    end_sessions(&mut write, id).await?;
    delete_tokens(&mut write, id).await?;
    write.commit().await?;
    Ok(UserChange::Done(user))
}

async fn has_other_admin(write: &mut Write, id: UserId) -> Result<bool> {
    Ok(sqlx::query_scalar(
        "SELECT EXISTS (
             SELECT FROM users WHERE role = 'admin' AND NOT disabled AND deleted_at IS NULL AND id <> $1
         )",
    )
    .bind(id.as_uuid())
    .fetch_one(write.connection())
    .await?)
}

async fn end_sessions(write: &mut Write, id: UserId) -> Result<()> {
    sqlx::query("DELETE FROM sessions WHERE user_id = $1")
        .bind(id.as_uuid())
        .execute(write.connection())
        .await?;
    Ok(())
}

async fn delete_tokens(write: &mut Write, id: UserId) -> Result<()> {
    sqlx::query("DELETE FROM api_tokens WHERE user_id = $1")
        .bind(id.as_uuid())
        .execute(write.connection())
        .await?;
    Ok(())
}

pub(super) async fn count(store: &PostgresStore) -> Result<u64> {
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM users WHERE deleted_at IS NULL")
        .fetch_one(&store.pool)
        .await?;
    Ok(row::count(count))
}

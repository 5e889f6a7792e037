//! People. A deleted user's row stays (deleted workspaces and the history name it), but nobody finds it.

use std::collections::HashMap;

use codehub_domain::{
    UserId,
    user::{Role, User},
};
use sqlx::{SqliteConnection, error::ErrorKind};

use super::{
    Result, SqliteStore, StoreError,
    row::{self, to_json, user_columns},
    write::Write,
};
use crate::{
    Page, UserChange, UserEdit, UserWithHash,
    values::{self, administers},
};

pub(super) async fn create(
    store: &SqliteStore,
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
    store: &SqliteStore,
    id: UserId,
    username: &str,
    password_hash: &str,
) -> Result<Option<User>> {
    let mut write = store.write().await?;
    // Deleted ones count: whoever deleted the last account has not asked for a stranger to set it up.
    let anybody: i64 = sqlx::query_scalar("SELECT count(*) FROM users").fetch_one(write.connection()).await?;
    if anybody > 0 {
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
    let now = write.now;
    let done = sqlx::query(
        "INSERT INTO users (id, username, username_key, password_hash, role, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
    )
    .bind(id.to_string())
    .bind(username)
    .bind(username.to_lowercase())
    .bind(password_hash)
    .bind(role.as_str())
    .bind(now)
    .execute(write.connection())
    .await;
    match done {
        Ok(_) => Ok(Some(User {
            id,
            username: username.into(),
            role,
            disabled: false,
            created_at: row::time(now)?,
        })),
        Err(sqlx::Error::Database(error))
            if error.kind() == ErrorKind::UniqueViolation && error.message().contains("username_key") =>
        {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn get(connection: &mut SqliteConnection, id: UserId) -> Result<Option<User>> {
    let found =
        sqlx::query(concat!("SELECT ", user_columns!(), " FROM users WHERE id = ?1 AND deleted_at IS NULL"))
            .bind(id.to_string())
            .fetch_optional(connection)
            .await?;
    found.as_ref().map(row::user).transpose()
}

/// Whatever is made for a user, is made for one who is there.
pub(super) async fn existing(write: &mut Write, id: UserId) -> Result<()> {
    match get(write.connection(), id).await? {
        Some(_) => Ok(()),
        None => Err(StoreError::Failed(format!("there is no user {id}"))),
    }
}

pub(super) async fn get_many(store: &SqliteStore, ids: &[UserId]) -> Result<HashMap<UserId, User>> {
    let rows = sqlx::query(concat!(
        "SELECT ",
        user_columns!(),
        " FROM users WHERE id IN (SELECT value FROM json_each(?1)) AND deleted_at IS NULL"
    ))
    .bind(to_json(&ids)?)
    .fetch_all(&store.readers)
    .await?;
    rows.iter().map(|found| row::user(found).map(|user| (user.id, user))).collect()
}

pub(super) async fn by_name(store: &SqliteStore, username: &str) -> Result<Option<UserWithHash>> {
    let found = sqlx::query(concat!(
        "SELECT ",
        user_columns!(),
        ", password_hash FROM users WHERE username_key = ?1 AND deleted_at IS NULL"
    ))
    .bind(username.to_lowercase())
    .fetch_optional(&store.readers)
    .await?;
    found
        .map(|found| {
            Ok(UserWithHash { user: row::user(&found)?, password_hash: row::get(&found, "password_hash")? })
        })
        .transpose()
}

pub(super) async fn list(store: &SqliteStore, after: Option<UserId>, limit: u32) -> Result<Page<User>> {
    let mut read = store.read().await?;
    let total: i64 = sqlx::query_scalar("SELECT count(*) FROM users WHERE deleted_at IS NULL")
        .fetch_one(&mut *read)
        .await?;
    let rows = sqlx::query(concat!(
        "SELECT ",
        user_columns!(),
        " FROM users WHERE id > ?1 AND deleted_at IS NULL ORDER BY id LIMIT ?2"
    ))
    .bind(after.map(|id| id.to_string()).unwrap_or_default())
    .bind(i64::from(limit) + 1)
    .fetch_all(&mut *read)
    .await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Page {
        more: rows.len() > limit,
        items: rows.iter().take(limit).map(row::user).collect::<Result<_>>()?,
        total: row::count(total),
    })
}

pub(super) async fn edit(store: &SqliteStore, id: UserId, edit: UserEdit) -> Result<UserChange> {
    let mut write = store.write().await?;
    let Some(before) = get(write.connection(), id).await? else {
        return Ok(UserChange::NotFound);
    };
    let after = values::edited_user(&before, &edit);
    if administers(&before) && !administers(&after) && !has_other_admin(&mut write, id).await? {
        return Ok(UserChange::LastAdmin);
    }
    let now = write.now;
    sqlx::query(
        "UPDATE users SET role = ?2, disabled = ?3, password_hash = coalesce(?4, password_hash),
             updated_at = ?5
         WHERE id = ?1",
    )
    .bind(id.to_string())
    .bind(after.role.as_str())
    .bind(after.disabled)
    .bind(&edit.password_hash)
    .bind(now)
    .execute(write.connection())
    .await?;
    if edit.password_hash.is_some() && !edit.keep_tokens {
        delete_tokens(&mut write, id).await?;
    }
    if edit.password_hash.is_some() || before != after {
        end_sessions(&mut write, id).await?;
        write.access(id);
    }
    write.commit().await?;
    Ok(UserChange::Done(after))
}

pub(super) async fn delete(store: &SqliteStore, id: UserId) -> Result<UserChange> {
    let mut write = store.write().await?;
    let Some(user) = get(write.connection(), id).await? else {
        return Ok(UserChange::NotFound);
    };
    if administers(&user) && !has_other_admin(&mut write, id).await? {
        return Ok(UserChange::LastAdmin);
    }
    let living: i64 =
        sqlx::query_scalar("SELECT count(*) FROM workspaces WHERE owner_user_id = ?1 AND deleted_at IS NULL")
            .bind(id.to_string())
            .fetch_one(write.connection())
            .await?;
    if living > 0 {
        return Ok(UserChange::OwnsWorkspaces(row::count(living)));
    }
    let now = write.now;
    sqlx::query(
        "UPDATE users SET deleted_at = ?2, updated_at = ?2, disabled = 1, password_hash = '' WHERE id = ?1",
    )
    .bind(id.to_string())
    .bind(now)
    .execute(write.connection())
    .await?;
    end_sessions(&mut write, id).await?;
    delete_tokens(&mut write, id).await?;
    write.access(id);
    write.commit().await?;
    Ok(UserChange::Done(user))
}

async fn has_other_admin(write: &mut Write, id: UserId) -> Result<bool> {
    let others: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM users
         WHERE role = 'admin' AND disabled = 0 AND deleted_at IS NULL AND id <> ?1",
    )
    .bind(id.to_string())
    .fetch_one(write.connection())
    .await?;
    Ok(others > 0)
}

async fn end_sessions(write: &mut Write, id: UserId) -> Result<()> {
    sqlx::query("DELETE FROM sessions WHERE user_id = ?1")
        .bind(id.to_string())
        .execute(write.connection())
        .await?;
    Ok(())
}

async fn delete_tokens(write: &mut Write, id: UserId) -> Result<()> {
    sqlx::query("DELETE FROM api_tokens WHERE user_id = ?1")
        .bind(id.to_string())
        .execute(write.connection())
        .await?;
    Ok(())
}

pub(super) async fn count(store: &SqliteStore) -> Result<u64> {
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM users WHERE deleted_at IS NULL")
        .fetch_one(&store.readers)
        .await?;
    Ok(row::count(count))
}

//! Between columns and values. What cannot be read is named, never guessed.

use std::{fmt::Display, str::FromStr};

use codehub_domain::{
    Failure, HomeCtx, Status, Timestamp, UserId, Workspace,
    user::{ApiToken, Session, User},
};
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{Decode, Row, Sqlite, Type, sqlite::SqliteRow};

use super::{Result, StoreError};

/// The columns of a workspace, in the order of their numbers in `INSERT`.
macro_rules! workspace_columns {
    () => {
        "id, owner_user_id, name, description, memo, image_ref, home_store_key, standby_ttl_seconds, \
         archive_ttl_seconds, desired_state, desired_changed_at, deleted_at, last_access_at, conditions, \
         observed_at, phase, phase_changed_at, operation, op_started_at, op_moved_at, op_id, archive_key, \
         error_reason, error_message, error_count, next_retry_at, home_ctx, progress, instance_backend, \
         storage_backend, created_at, updated_at, revision, activity_mode, held_until"
    };
}
pub(super) use workspace_columns;

/// The columns of a user, of the table `users` however many are joined.
macro_rules! user_columns {
    () => {
        "users.id AS user_id, users.username, users.role, users.disabled, \
         users.created_at AS user_created_at"
    };
}
pub(super) use user_columns;

pub(super) fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

/// Times at the very end are the end: jiff counts microseconds up to the last whole second only.
pub(super) fn time(micros: i64) -> Result<Timestamp> {
    if micros > Timestamp::MAX.as_second() * 1_000_000 {
        return Ok(Timestamp::MAX);
    }
    Timestamp::from_microsecond(micros).map_err(|error| unreadable("a time", error))
}

/// `micros` plus whole seconds, never past the end of time.
pub(super) fn later(micros: i64, seconds: u32) -> i64 {
    micros.saturating_add(i64::from(seconds) * 1_000_000).min(Timestamp::MAX.as_microsecond())
}

fn unreadable(what: &str, why: impl Display) -> StoreError {
    StoreError::Failed(format!("{what} in the database cannot be read: {why}"))
}

pub(super) fn get<'r, T>(row: &'r SqliteRow, column: &str) -> Result<T>
where
    T: Decode<'r, Sqlite> + Type<Sqlite>,
{
    Ok(row.try_get(column)?)
}

pub(super) fn parsed<T>(row: &SqliteRow, column: &str) -> Result<T>
where
    T: FromStr,
    T::Err: Display,
{
    get::<&str>(row, column)?.parse().map_err(|error| unreadable(column, error))
}

pub(super) fn maybe_parsed<T>(row: &SqliteRow, column: &str) -> Result<Option<T>>
where
    T: FromStr,
    T::Err: Display,
{
    get::<Option<&str>>(row, column)?
        .map(|text| text.parse().map_err(|error| unreadable(column, error)))
        .transpose()
}

pub(super) fn at(row: &SqliteRow, column: &str) -> Result<Timestamp> {
    time(get(row, column)?)
}

pub(super) fn maybe_at(row: &SqliteRow, column: &str) -> Result<Option<Timestamp>> {
    get::<Option<i64>>(row, column)?.map(time).transpose()
}

pub(super) fn json<T: DeserializeOwned>(row: &SqliteRow, column: &str) -> Result<T> {
    serde_json::from_str(get(row, column)?).map_err(|error| unreadable(column, error))
}

fn maybe_json<T: DeserializeOwned>(row: &SqliteRow, column: &str) -> Result<Option<T>> {
    get::<Option<&str>>(row, column)?
        .map(|text| serde_json::from_str(text).map_err(|error| unreadable(column, error)))
        .transpose()
}

pub(super) fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Failed(error.to_string()))
}

pub(super) fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

pub(super) fn workspace(row: &SqliteRow) -> Result<Workspace> {
    Ok(Workspace {
        id: parsed(row, "id")?,
        owner: parsed(row, "owner_user_id")?,
        name: get(row, "name")?,
        description: get(row, "description")?,
        memo: get(row, "memo")?,
        image_ref: get(row, "image_ref")?,
        home_store_key: get(row, "home_store_key")?,
        standby_ttl_seconds: get(row, "standby_ttl_seconds")?,
        archive_ttl_seconds: get(row, "archive_ttl_seconds")?,
        activity_mode: maybe_parsed(row, "activity_mode")?,
        desired: parsed(row, "desired_state")?,
        desired_changed_at: at(row, "desired_changed_at")?,
        deleted_at: maybe_at(row, "deleted_at")?,
        last_access_at: at(row, "last_access_at")?,
        held_until: maybe_at(row, "held_until")?,
        status: status(row)?,
        created_at: at(row, "created_at")?,
        updated_at: at(row, "updated_at")?,
        revision: get(row, "revision")?,
    })
}

fn status(row: &SqliteRow) -> Result<Status> {
    let error = match maybe_parsed(row, "error_reason")? {
        Some(reason) => Some(Failure { reason, message: get(row, "error_message")? }),
        None => None,
    };
    Ok(Status {
        conditions: json(row, "conditions")?,
        observed_at: maybe_at(row, "observed_at")?,
        phase: parsed(row, "phase")?,
        phase_changed_at: at(row, "phase_changed_at")?,
        operation: parsed(row, "operation")?,
        op_started_at: maybe_at(row, "op_started_at")?,
        op_moved_at: maybe_at(row, "op_moved_at")?,
        op_id: maybe_parsed(row, "op_id")?,
        archive_key: maybe_parsed(row, "archive_key")?,
        error,
        error_count: get(row, "error_count")?,
        next_retry_at: maybe_at(row, "next_retry_at")?,
        home: json::<HomeCtx>(row, "home_ctx")?,
        progress: maybe_json(row, "progress")?,
        instance_backend: get(row, "instance_backend")?,
        storage_backend: get(row, "storage_backend")?,
    })
}

pub(super) fn user(row: &SqliteRow) -> Result<User> {
    Ok(User {
        id: parsed(row, "user_id")?,
        username: get(row, "username")?,
        role: parsed(row, "role")?,
        disabled: get(row, "disabled")?,
        created_at: at(row, "user_created_at")?,
    })
}

pub(super) fn session(row: &SqliteRow, user: UserId) -> Result<Session> {
    Ok(Session {
        id: parsed(row, "id")?,
        user,
        created_at: at(row, "created_at")?,
        expires_at: at(row, "expires_at")?,
    })
}

pub(super) fn token(row: &SqliteRow, user: UserId) -> Result<ApiToken> {
    Ok(ApiToken {
        id: parsed(row, "id")?,
        user,
        name: get(row, "name")?,
        created_at: at(row, "created_at")?,
        expires_at: maybe_at(row, "expires_at")?,
        last_used_at: maybe_at(row, "last_used_at")?,
    })
}

//! Between columns and values, for every dialect. What cannot be read is named, never guessed.
//!
//! A dialect says how it reads the few kinds of column there are ([`SqlRow`]); what the columns of a
//! table add up to is said once, here. Times are microseconds since 1970 in every dialect.

use std::{fmt::Display, str::FromStr, time::Duration};

use codehub_domain::{
    Epoch, Failure, HoldId, HomeCtx, OpId, SessionId, Status, Timestamp, TokenId, UserId, Workspace,
    WorkspaceId,
    activity::Hold,
    event::{HistoryEntry, Reason},
    gc::GcRow,
    limits::RunningWorkspace,
    ports::PortSettings,
    retry::saturating_add,
    user::{ApiToken, Session, User},
};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{LeaderSeen, ReplicaSeen, Result, StoreError};

/// The columns of a workspace.
macro_rules! workspace_columns {
    () => {
        "id, owner_user_id, name, slug, labels, description, memo, image_ref, home_store_key, \
         standby_ttl_seconds, archive_ttl_seconds, activity_mode, desired_state, desired_changed_at, \
         deleted_at, last_access_at, held_until, conditions, observed_at, phase, phase_changed_at, \
         operation, op_started_at, op_moved_at, op_id, archive_key, error_reason, error_message, \
         error_count, next_retry_at, home_ctx, progress, instance_backend, storage_backend, created_at, \
         updated_at, revision"
    };
}
pub(super) use workspace_columns;

/// The columns of a user, of the table `users` however many are joined.
macro_rules! user_columns {
    () => {
        "users.id AS user_id, users.username, users.role, users.disabled, \
         users.created_at AS user_created_at, users.language, users.theme"
    };
}
pub(super) use user_columns;

/// How a dialect reads a column of each kind.
pub trait SqlRow {
    fn text(&self, column: &str) -> Result<&str>;
    fn maybe_text(&self, column: &str) -> Result<Option<&str>>;
    fn int(&self, column: &str) -> Result<i64>;
    fn maybe_int(&self, column: &str) -> Result<Option<i64>>;
    fn flag(&self, column: &str) -> Result<bool>;
    fn maybe_uuid(&self, column: &str) -> Result<Option<Uuid>>;
    fn maybe_json<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>>;

    fn uuid(&self, column: &str) -> Result<Uuid> {
        self.maybe_uuid(column)?.ok_or_else(|| missing(column))
    }

    fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T> {
        self.maybe_json(column)?.ok_or_else(|| missing(column))
    }
}

/// Times at the very end are the end: jiff counts microseconds up to the last whole second only.
pub(super) fn time(micros: i64) -> Result<Timestamp> {
    if micros > Timestamp::MAX.as_second() * 1_000_000 {
        return Ok(Timestamp::MAX);
    }
    Timestamp::from_microsecond(micros).map_err(|error| unreadable("a time", error))
}

/// Whole seconds later, never past the end of time.
pub(super) fn later(at: Timestamp, seconds: u32) -> Timestamp {
    saturating_add(at, Duration::from_secs(seconds.into()))
}

pub(super) fn unreadable(what: &str, why: impl Display) -> StoreError {
    StoreError::Failed(format!("{what} in the database cannot be read: {why}"))
}

fn missing(column: &str) -> StoreError {
    unreadable(column, "it is NULL")
}

pub(super) fn parsed<T>(row: &impl SqlRow, column: &str) -> Result<T>
where
    T: FromStr,
    T::Err: Display,
{
    row.text(column)?.parse().map_err(|error| unreadable(column, error))
}

pub(super) fn maybe_parsed<T>(row: &impl SqlRow, column: &str) -> Result<Option<T>>
where
    T: FromStr,
    T::Err: Display,
{
    row.maybe_text(column)?.map(|text| text.parse().map_err(|error| unreadable(column, error))).transpose()
}

fn text(row: &impl SqlRow, column: &str) -> Result<String> {
    row.text(column).map(str::to_owned)
}

pub(super) fn at(row: &impl SqlRow, column: &str) -> Result<Timestamp> {
    time(row.int(column)?)
}

pub(super) fn maybe_at(row: &impl SqlRow, column: &str) -> Result<Option<Timestamp>> {
    row.maybe_int(column)?.map(time).transpose()
}

/// A number that is never negative and fits.
pub(super) fn number(row: &impl SqlRow, column: &str) -> Result<u32> {
    u32::try_from(row.int(column)?).map_err(|error| unreadable(column, error))
}

fn maybe_number(row: &impl SqlRow, column: &str) -> Result<Option<u32>> {
    let number = |value: i64| u32::try_from(value).map_err(|error| unreadable(column, error));
    row.maybe_int(column)?.map(number).transpose()
}

/// What `count(*)` says.
pub(super) fn count(row: &impl SqlRow, column: &str) -> Result<u64> {
    u64::try_from(row.int(column)?).map_err(|error| unreadable(column, error))
}

pub(super) fn workspace_id(row: &impl SqlRow) -> Result<WorkspaceId> {
    row.uuid("id").map(WorkspaceId::from_uuid)
}

pub(super) fn workspace(row: &impl SqlRow) -> Result<Workspace> {
    Ok(Workspace {
        id: workspace_id(row)?,
        owner: UserId::from_uuid(row.uuid("owner_user_id")?),
        name: text(row, "name")?,
        slug: text(row, "slug")?,
        labels: row.json("labels")?,
        description: text(row, "description")?,
        memo: text(row, "memo")?,
        image_ref: text(row, "image_ref")?,
        home_store_key: text(row, "home_store_key")?,
        standby_ttl_seconds: maybe_number(row, "standby_ttl_seconds")?,
        archive_ttl_seconds: maybe_number(row, "archive_ttl_seconds")?,
        activity_mode: maybe_parsed(row, "activity_mode")?,
        desired: parsed(row, "desired_state")?,
        desired_changed_at: at(row, "desired_changed_at")?,
        deleted_at: maybe_at(row, "deleted_at")?,
        last_access_at: at(row, "last_access_at")?,
        held_until: maybe_at(row, "held_until")?,
        status: status(row)?,
        created_at: at(row, "created_at")?,
        updated_at: at(row, "updated_at")?,
        revision: row.int("revision")?,
    })
}

fn status(row: &impl SqlRow) -> Result<Status> {
    let error = match maybe_parsed(row, "error_reason")? {
        Some(reason) => Some(Failure { reason, message: text(row, "error_message")? }),
        None => None,
    };
    Ok(Status {
        conditions: row.json("conditions")?,
        observed_at: maybe_at(row, "observed_at")?,
        phase: parsed(row, "phase")?,
        phase_changed_at: at(row, "phase_changed_at")?,
        operation: parsed(row, "operation")?,
        op_started_at: maybe_at(row, "op_started_at")?,
        op_moved_at: maybe_at(row, "op_moved_at")?,
        op_id: row.maybe_uuid("op_id")?.map(OpId::from_uuid),
        archive_key: maybe_parsed(row, "archive_key")?,
        error,
        error_count: number(row, "error_count")?,
        next_retry_at: maybe_at(row, "next_retry_at")?,
        home: row.json::<HomeCtx>("home_ctx")?,
        progress: row.maybe_json("progress")?,
        instance_backend: text(row, "instance_backend")?,
        storage_backend: text(row, "storage_backend")?,
    })
}

pub(super) fn running(row: &impl SqlRow) -> Result<RunningWorkspace> {
    Ok(RunningWorkspace { id: workspace_id(row)?, name: text(row, "name")? })
}

pub(super) fn gc_row(row: &impl SqlRow) -> Result<GcRow> {
    let home: HomeCtx = row.json("home_ctx")?;
    Ok(GcRow {
        id: workspace_id(row)?,
        phase: parsed(row, "phase")?,
        operation: parsed(row, "operation")?,
        deleted: maybe_at(row, "deleted_at")?.is_some(),
        truth: home.truth,
        generation: home.generation,
        archive_key: maybe_parsed(row, "archive_key")?,
        op_id: row.maybe_uuid("op_id")?.map(OpId::from_uuid),
    })
}

pub(super) fn hold(row: &impl SqlRow) -> Result<Hold> {
    Ok(Hold {
        id: HoldId::from_uuid(row.uuid("id")?),
        by: user_id(row)?,
        reason: text(row, "reason")?,
        created_at: at(row, "created_at")?,
        until: at(row, "until")?,
    })
}

pub(super) fn port(row: &impl SqlRow) -> Result<PortSettings> {
    Ok(PortSettings {
        port: u16::try_from(row.int("port")?).map_err(|error| unreadable("port", error))?,
        label: text(row, "label")?,
        scheme: parsed(row, "scheme")?,
        host: parsed(row, "host")?,
        visibility: parsed(row, "visibility")?,
        activity: parsed(row, "activity")?,
    })
}

pub(super) fn history_entry(row: &impl SqlRow) -> Result<HistoryEntry> {
    Ok(HistoryEntry {
        id: row.int("id")?,
        at: at(row, "at")?,
        from: parsed(row, "from_phase")?,
        to: parsed(row, "to_phase")?,
        operation: parsed(row, "operation")?,
        reason: Reason::read(&text(row, "reason")?),
        actor: text(row, "actor")?,
    })
}

pub(super) fn user_id(row: &impl SqlRow) -> Result<UserId> {
    row.uuid("user_id").map(UserId::from_uuid)
}

pub(super) fn user(row: &impl SqlRow) -> Result<User> {
    Ok(User {
        id: user_id(row)?,
        username: text(row, "username")?,
        role: parsed(row, "role")?,
        disabled: row.flag("disabled")?,
        created_at: at(row, "user_created_at")?,
        language: maybe_parsed(row, "language")?,
        theme: maybe_parsed(row, "theme")?,
    })
}

pub(super) fn session(row: &impl SqlRow, user: UserId) -> Result<Session> {
    Ok(Session {
        id: SessionId::from_uuid(row.uuid("id")?),
        user,
        created_at: at(row, "created_at")?,
        expires_at: at(row, "expires_at")?,
    })
}

pub(super) fn token(row: &impl SqlRow, user: UserId) -> Result<ApiToken> {
    Ok(ApiToken {
        id: TokenId::from_uuid(row.uuid("id")?),
        user,
        name: text(row, "name")?,
        created_at: at(row, "created_at")?,
        expires_at: maybe_at(row, "expires_at")?,
        last_used_at: maybe_at(row, "last_used_at")?,
    })
}

pub(super) fn leader(row: &impl SqlRow) -> Result<LeaderSeen> {
    Ok(LeaderSeen {
        epoch: Epoch(row.int("epoch")?),
        holder: text(row, "holder")?,
        since: at(row, "taken_at")?,
    })
}

pub(super) fn replica(row: &impl SqlRow) -> Result<ReplicaSeen> {
    Ok(ReplicaSeen {
        name: text(row, "name")?,
        version: text(row, "version")?,
        role: text(row, "role")?,
        started_at: at(row, "started_at")?,
        seen_at: at(row, "seen_at")?,
        flushed_at: at(row, "flushed_at")?,
    })
}

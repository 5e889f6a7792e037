//! Sessions in the browser. Only hashes of their secrets are here.

use codehub_domain::{
    SessionId, Timestamp, UserId,
    audit::Act,
    change::Change,
    user::{Session, User},
};

use super::{SqlStore, SqlWrite, Statements, args, audit, people};
use crate::{
    Result, SessionEnd, renews_after_micros,
    row::{self, SqlRow, later, user_columns},
    trail,
};

/// What a living session is, and its enabled user; `$2` says how old a renewal is stale.
macro_rules! living_session {
    ($which:literal) => {
        concat!(
            "SELECT sessions.id, sessions.created_at, sessions.expires_at, ",
            user_columns!(),
            ", sessions.renewed_at + $2 <= codehub_now() AS stale
             FROM sessions JOIN users ON users.id = sessions.user_id ",
            $which,
            " AND sessions.expires_at > codehub_now() AND NOT users.disabled AND users.deleted_at IS NULL"
        )
    };
}
pub(super) use living_session;

pub(super) async fn create<S: SqlStore>(
    store: &S,
    by: &Act,
    id: SessionId,
    user: UserId,
    secret_hash: &[u8],
    lifetime_seconds: u32,
) -> Result<Session> {
    let mut write = store.write().await?;
    let who = people::existing(&mut write, user).await?;
    let now = write.now().await?;
    let session = Session { id, user, created_at: now, expires_at: later(now, lifetime_seconds) };
    write
        .run(
            "INSERT INTO sessions (id, user_id, secret_hash, created_at, expires_at, renewed_at)
             VALUES ($1, $2, $3, $4, $5, $4)",
            args![id, user, secret_hash, now, session.expires_at],
        )
        .await?;
    let (by, entry) = trail::signed_in(by, &who, id);
    audit::append(&mut write, &by, &entry).await?;
    write.commit().await?;
    Ok(session)
}

pub(super) async fn use_by_secret<S: SqlStore>(
    store: &S,
    secret_hash: &[u8],
    lifetime_seconds: u32,
) -> Result<Option<(Session, User)>> {
    let arguments = args![secret_hash, renews_after_micros(lifetime_seconds)];
    let rows = store.select(living_session!("WHERE sessions.secret_hash = $1"), arguments).await?;
    used(store, &rows, lifetime_seconds).await
}

/// The session that was found, prolonged where it is time.
pub(super) async fn used<S: SqlStore>(
    store: &S,
    rows: &[S::Row],
    lifetime_seconds: u32,
) -> Result<Option<(Session, User)>> {
    let Some(found) = rows.first() else { return Ok(None) };
    let user = row::user(found)?;
    let mut session = row::session(found, user.id)?;
    if found.flag("stale")? {
        match renew(store, session.id, lifetime_seconds).await {
            Ok(Some(end)) => session.expires_at = end,
            Ok(None) => return Ok(None),
            // A session that cannot be prolonged just now (the disk is full) is still valid.
            Err(error) => tracing::warn!(%error, "a session could not be prolonged"),
        }
    }
    Ok(Some((session, user)))
}

/// The new end; `None` where the session ended meanwhile.
async fn renew<S: SqlStore>(store: &S, id: SessionId, lifetime_seconds: u32) -> Result<Option<Timestamp>> {
    let mut write = store.write().await?;
    let now = write.now().await?;
    let end = later(now, lifetime_seconds);
    let renewed = write
        .run(
            "UPDATE sessions SET expires_at = $2, renewed_at = $3 WHERE id = $1 AND expires_at > $3",
            args![id, end, now],
        )
        .await?;
    write.commit().await?;
    Ok((renewed > 0).then_some(end))
}

pub(super) async fn delete<S: SqlStore>(store: &S, by: &Act, id: SessionId, why: SessionEnd) -> Result<()> {
    let mut write = store.write().await?;
    let ended = write.first("DELETE FROM sessions WHERE id = $1 RETURNING user_id", args![id]).await?;
    if let Some(ended) = ended {
        let user = row::user_id(&ended)?;
        write.changed(Change::Access { user });
        let who = people::find(&mut write, user).await?;
        let (by, entry) = trail::session_ended(by, who.as_ref(), id, why);
        audit::append(&mut write, &by, &entry).await?;
        write.commit().await?;
    }
    Ok(())
}

/// Also forgets old tries at passwords, codes and devices: they have the same enemy, a table that only grows.
pub(super) async fn sweep<S: SqlStore>(store: &S) -> Result<u64> {
    let mut write = store.write().await?;
    let now = write.now().await?;
    let over = "DELETE FROM sessions WHERE expires_at <= $1 RETURNING user_id";
    let ended = write.all(over.into(), args![now]).await?;
    for session in &ended {
        write.changed(Change::Access { user: row::user_id(session)? });
    }
    let forgotten = write.run("DELETE FROM login_attempts WHERE forget_at <= $1", args![now]).await?
        + write.run("DELETE FROM devices WHERE expires_at <= $1", args![now]).await?
        + write.run("DELETE FROM device_logins WHERE expires_at <= $1", args![now]).await?
        + write.run("DELETE FROM handovers WHERE expires_at <= $1", args![now]).await?;
    if !ended.is_empty() || forgotten > 0 {
        write.commit().await?;
    }
    Ok(ended.len() as u64)
}

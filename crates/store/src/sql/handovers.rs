//! The way from the dashboard to the origins of workspaces, and the sessions there. Only hashes are here.

use codehub_domain::{
    SessionId,
    user::{Session, User},
};

use super::{
    SqlStore, SqlWrite, Statements, args,
    sessions::{self, living_session},
};
use crate::{
    Handover, Redeemed, Result, WORKSPACE_SESSIONS, WorkspaceOrigin, renews_after_micros,
    row::{SqlRow, later, user_columns},
};

/// As the column has it: 0 is the workspace itself.
fn port(origin: WorkspaceOrigin) -> i64 {
    origin.port.unwrap_or_default().into()
}

pub(super) async fn create<S: SqlStore>(
    store: &S,
    code_hash: &[u8],
    handover: &Handover,
    lifetime_seconds: u32,
) -> Result<bool> {
    let Handover { session, origin, state, target } = handover;
    let mut write = store.write().await?;
    let now = write.now().await?;
    let saved = write
        .run(
            "INSERT INTO handovers (code_hash, session_id, workspace_id, port, state, target, expires_at)
             SELECT $1, id, $3, $4, $5, $6, $7 FROM sessions WHERE id = $2 AND expires_at > $8",
            args![
                code_hash,
                *session,
                origin.workspace,
                port(*origin),
                state.as_slice(),
                target,
                later(now, lifetime_seconds),
                now
            ],
        )
        .await?;
    write.commit().await?;
    Ok(saved > 0)
}

pub(super) async fn redeem<S: SqlStore>(
    store: &S,
    code_hash: &[u8],
    origin: WorkspaceOrigin,
    state: &[u8],
    secret_hash: &[u8],
) -> Result<Redeemed> {
    let mut write = store.write().await?;
    let now = write.now().await?;
    let taken = write
        .first(
            "DELETE FROM handovers
             WHERE code_hash = $1 AND workspace_id = $2 AND port = $3 AND state = $4 AND expires_at > $5
             RETURNING session_id, target",
            args![code_hash, origin.workspace, port(origin), state, now],
        )
        .await?;
    let Some(taken) = taken else {
        let left = write
            .first(
                "SELECT expires_at <= $4 AS late FROM handovers
                 WHERE code_hash = $1 AND workspace_id = $2 AND port = $3",
                args![code_hash, origin.workspace, port(origin), now],
            )
            .await?;
        return Ok(match left.map(|row| row.flag("late")).transpose()? {
            None => Redeemed::Unknown,
            Some(true) => Redeemed::Late,
            Some(false) => Redeemed::AnotherState,
        });
    };
    let session = SessionId::from_uuid(taken.uuid("session_id")?);
    write
        .run(
            "INSERT INTO workspace_sessions (secret_hash, session_id, workspace_id, port, created_at)
             VALUES ($1, $2, $3, $4, $5)",
            args![secret_hash, session, origin.workspace, port(origin), now],
        )
        .await?;
    // A browser has one; what it had before may still be spoken for by an open connection.
    write
        .run(
            "DELETE FROM workspace_sessions WHERE secret_hash IN
                 (SELECT secret_hash FROM workspace_sessions
                  WHERE session_id = $1 AND workspace_id = $2 AND port = $3 AND secret_hash <> $4
                  ORDER BY created_at DESC, secret_hash LIMIT 1000000 OFFSET $5)",
            args![session, origin.workspace, port(origin), secret_hash, i64::from(WORKSPACE_SESSIONS) - 1],
        )
        .await?;
    let target = taken.text("target")?.to_owned();
    write.commit().await?;
    Ok(Redeemed::Entered { target })
}

pub(super) async fn use_by_secret<S: SqlStore>(
    store: &S,
    secret_hash: &[u8],
    origin: WorkspaceOrigin,
    lifetime_seconds: u32,
) -> Result<Option<(Session, User)>> {
    let rows = store
        .select(
            living_session!(
                "JOIN workspace_sessions entered ON entered.session_id = sessions.id
                 WHERE entered.secret_hash = $1 AND entered.workspace_id = $3 AND entered.port = $4"
            ),
            args![secret_hash, renews_after_micros(lifetime_seconds), origin.workspace, port(origin)],
        )
        .await?;
    sessions::used(store, &rows, lifetime_seconds).await
}

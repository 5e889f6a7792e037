//! Programs that are signed in by somebody in a browser. Only hashes of their secrets and codes are here.

use codehub_domain::{
    SessionId, TokenId,
    audit::{Act, AuditActor},
    user::ApiToken,
};

use super::{SqlStore, SqlWrite, Statements, args, audit, tokens};
use crate::{
    DeviceLogin, DeviceRedeemed, Result,
    row::{SqlRow, later},
    trail,
};

pub(super) async fn create<S: SqlStore>(
    store: &S,
    device_hash: &[u8],
    code_hash: &[u8],
    login: &DeviceLogin,
    lifetime_seconds: u32,
) -> Result<bool> {
    let mut write = store.write().await?;
    let now = write.now().await?;
    write
        .run("DELETE FROM device_logins WHERE code_hash = $1 AND expires_at <= $2", args![code_hash, now])
        .await?;
    let saved = write
        .run(
            "INSERT INTO device_logins (device_hash, code_hash, machine, address, session_id, denied, expires_at)
             VALUES ($1, $2, $3, $4, NULL, $5, $6) ON CONFLICT DO NOTHING",
            args![device_hash, code_hash, &login.machine, &login.address, false, later(now, lifetime_seconds)],
        )
        .await?;
    write.commit().await?;
    Ok(saved > 0)
}

pub(super) async fn find<S: SqlStore>(store: &S, code_hash: &[u8]) -> Result<Option<DeviceLogin>> {
    let rows = store
        .select(
            "SELECT machine, address FROM device_logins
             WHERE code_hash = $1 AND session_id IS NULL AND NOT denied AND expires_at > codehub_now()",
            args![code_hash],
        )
        .await?;
    rows.first().map(login).transpose()
}

pub(super) async fn decide<S: SqlStore>(
    store: &S,
    by: &Act,
    code_hash: &[u8],
    session: SessionId,
    allow: bool,
) -> Result<bool> {
    let mut write = store.write().await?;
    let Some(user) = tokens::user_of_session(&mut write, session).await? else { return Ok(false) };
    let now = write.now().await?;
    let decided = write
        .first(
            "UPDATE device_logins SET session_id = $2, denied = $3
             WHERE code_hash = $1 AND session_id IS NULL AND NOT denied AND expires_at > $4
             RETURNING machine, address",
            args![code_hash, allow.then_some(session), !allow, now],
        )
        .await?;
    let Some(decided) = decided else { return Ok(false) };
    audit::append(&mut write, by, &trail::device_decided(&user, &login(&decided)?, allow)).await?;
    write.commit().await?;
    Ok(true)
}

pub(super) async fn redeem<S: SqlStore>(
    store: &S,
    by: &Act,
    device_hash: &[u8],
    id: TokenId,
    secret_hash: &[u8],
    expires_in_seconds: u32,
) -> Result<DeviceRedeemed> {
    let mut write = store.write().await?;
    let now = write.now().await?;
    let found = write
        .first(
            "SELECT session_id, denied FROM device_logins WHERE device_hash = $1 AND expires_at > $2",
            args![device_hash, now],
        )
        .await?;
    let Some(found) = found else { return Ok(DeviceRedeemed::Unknown) };
    let taking = "DELETE FROM device_logins WHERE device_hash = $1 RETURNING machine, address";
    if found.flag("denied")? {
        write.run("DELETE FROM device_logins WHERE device_hash = $1", args![device_hash]).await?;
        write.commit().await?;
        return Ok(DeviceRedeemed::Denied);
    }
    let Some(session) = found.maybe_uuid("session_id")?.map(SessionId::from_uuid) else {
        return Ok(DeviceRedeemed::Pending);
    };
    // The user first, as whoever ends their sessions does: neither waits for both.
    let Some(user) = tokens::user_of_session(&mut write, session).await? else {
        return Ok(DeviceRedeemed::Unknown);
    };
    let Some(taken) = write.first(taking, args![device_hash]).await? else {
        return Ok(DeviceRedeemed::Unknown);
    };
    let (name, expires_at) = (login(&taken)?.token_name(), Some(later(now, expires_in_seconds)));
    let token = ApiToken { id, user: user.id, name, created_at: now, expires_at, last_used_at: None };
    tokens::insert(&mut write, &token, secret_hash).await?;
    let by = by.by(AuditActor::in_session(&user, session));
    audit::append(&mut write, &by, &trail::minted(id, &token.name, expires_at)).await?;
    write.commit().await?;
    Ok(DeviceRedeemed::Minted(token, user))
}

fn login(found: &impl SqlRow) -> Result<DeviceLogin> {
    Ok(DeviceLogin { machine: found.text("machine")?.to_owned(), address: found.text("address")?.to_owned() })
}

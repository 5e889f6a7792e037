//! Tokens for programs. Only hashes of their secrets are here.

use codehub_domain::{
    SessionId, Timestamp, TokenId, UserId,
    audit::Act,
    change::Change,
    user::{ApiToken, User},
};

use super::{SqlStore, SqlWrite, Statements, args, audit};
use crate::{
    Result, USE_NOTED_EVERY_MICROS,
    row::{self, SqlRow, later, user_columns},
    trail,
};

pub(super) async fn create<S: SqlStore>(
    store: &S,
    by: &Act,
    id: TokenId,
    session: SessionId,
    name: &str,
    secret_hash: &[u8],
    expires_in_seconds: Option<u32>,
) -> Result<Option<ApiToken>> {
    let mut write = store.write().await?;
    let Some(user) = user_of_session(&mut write, session).await? else { return Ok(None) };
    let now = write.now().await?;
    let expires_at = expires_in_seconds.map(|seconds| later(now, seconds));
    let token =
        ApiToken { id, user: user.id, name: name.into(), created_at: now, expires_at, last_used_at: None };
    insert(&mut write, &token, secret_hash).await?;
    audit::append(&mut write, by, &trail::minted(id, name, expires_at)).await?;
    write.commit().await?;
    Ok(Some(token))
}

/// A row for a new token.
pub(super) async fn insert(write: &mut impl SqlWrite, token: &ApiToken, secret_hash: &[u8]) -> Result<()> {
    let ApiToken { id, user, name, created_at, expires_at, last_used_at: _ } = token;
    write
        .run(
            "INSERT INTO api_tokens (id, user_id, name, secret_hash, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6)",
            args![*id, *user, name, secret_hash, *created_at, *expires_at],
        )
        .await?;
    Ok(())
}

/// Whose session it is, while it lasts. The user stays as they are until this transaction ends: whoever ends their
/// sessions locks the user first, and then finds what was made here. In that order, so that neither waits for both.
pub(super) async fn user_of_session(write: &mut impl SqlWrite, id: SessionId) -> Result<Option<User>> {
    let user = write
        .first(
            concat!(
                "SELECT ",
                user_columns!(),
                " FROM users
                 WHERE id = (SELECT user_id FROM sessions WHERE id = $1) AND NOT disabled AND deleted_at IS NULL
                 FOR KEY SHARE"
            ),
            args![id],
        )
        .await?;
    let lasts = write
        .first("SELECT id FROM sessions WHERE id = $1 AND expires_at > codehub_now()", args![id])
        .await?
        .is_some();
    user.filter(|_| lasts).as_ref().map(row::user).transpose()
}

pub(super) async fn use_by_secret<S: SqlStore>(
    store: &S,
    secret_hash: &[u8],
) -> Result<Option<(ApiToken, User)>> {
    let rows = store
        .select(
            concat!(
                "SELECT api_tokens.id, api_tokens.name, api_tokens.created_at, api_tokens.expires_at,
                     api_tokens.last_used_at, ",
                user_columns!(),
                ", coalesce(api_tokens.last_used_at, 0) + $2 <= codehub_now() AS stale
                 FROM api_tokens JOIN users ON users.id = api_tokens.user_id
                 WHERE api_tokens.secret_hash = $1
                   AND (api_tokens.expires_at IS NULL OR api_tokens.expires_at > codehub_now())
                   AND NOT users.disabled AND users.deleted_at IS NULL"
            ),
            args![secret_hash, USE_NOTED_EVERY_MICROS],
        )
        .await?;
    let Some(found) = rows.first() else { return Ok(None) };
    let user = row::user(found)?;
    let mut token = row::token(found, user.id)?;
    if found.flag("stale")? {
        match note_use(store, token.id).await {
            Ok(Some(at)) => token.last_used_at = Some(at),
            Ok(None) => return Ok(None),
            // A token whose use cannot be noted just now is still valid.
            Err(error) => tracing::warn!(%error, "the use of a token could not be noted"),
        }
    }
    Ok(Some((token, user)))
}

/// `None` where the token was deleted meanwhile.
async fn note_use<S: SqlStore>(store: &S, id: TokenId) -> Result<Option<Timestamp>> {
    let mut write = store.write().await?;
    let now = write.now().await?;
    let noted = write.run("UPDATE api_tokens SET last_used_at = $2 WHERE id = $1", args![id, now]).await?;
    write.commit().await?;
    Ok((noted > 0).then_some(now))
}

/// Newest first; those that have expired stay visible until somebody deletes them.
pub(super) async fn list<S: SqlStore>(store: &S, user: UserId) -> Result<Vec<ApiToken>> {
    let rows = store
        .select(
            "SELECT id, name, created_at, expires_at, last_used_at FROM api_tokens
             WHERE user_id = $1 ORDER BY id DESC",
            args![user],
        )
        .await?;
    rows.iter().map(|found| row::token(found, user)).collect()
}

pub(super) async fn delete<S: SqlStore>(store: &S, by: &Act, user: UserId, id: TokenId) -> Result<bool> {
    let mut write = store.write().await?;
    let deleting = "DELETE FROM api_tokens WHERE id = $1 AND user_id = $2 RETURNING name";
    let Some(deleted) = write.first(deleting, args![id, user]).await? else { return Ok(false) };
    write.changed(Change::Access { user });
    audit::append(&mut write, by, &trail::token_deleted(by, user, id, deleted.text("name")?)).await?;
    write.commit().await?;
    Ok(true)
}

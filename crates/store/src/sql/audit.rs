//! The one writer of what was done, and its reader.

use async_trait::async_trait;
use codehub_domain::{
    Epoch, Timestamp,
    audit::{Act, AuditActor, AuditEntry, AuditEvent, AuditId},
};
use uuid::Uuid;

use super::{Bind, Lock, SqlStore, SqlWrite, Statements, Value, args, page, timed};
use crate::{
    ActorFilter, Audit, AuditFilter, Page, Result,
    row::{self, SqlRow},
    trail,
};

#[async_trait]
impl<S: SqlStore> Audit for S {
    async fn audit_write(&self, by: &Act, entry: &AuditEntry) -> Result<()> {
        timed::<S, _>("audit_write", async {
            let mut write = self.write().await?;
            append(&mut write, by, entry).await?;
            write.commit().await
        })
        .await
    }

    async fn audit_prune(
        &self,
        by: &Act,
        epoch: Epoch,
        before: Timestamp,
        at_most: u32,
    ) -> Result<Option<u64>> {
        timed::<S, _>("audit_prune", async {
            let mut write = self.write().await?;
            if !write.leads(epoch).await? {
                return Ok(None);
            }
            let oldest = "DELETE FROM audit_events WHERE id IN
                              (SELECT id FROM audit_events WHERE id < $1 AND at < $2 ORDER BY id LIMIT $3)";
            let limit = i64::from(at_most);
            let removed = write.run(oldest, args![first_id_at(before), before, limit]).await?;
            if removed > 0 {
                append(&mut write, by, &trail::pruned(before, removed)).await?;
                write.commit().await?;
            }
            Ok(Some(removed))
        })
        .await
    }

    async fn audit_list(&self, filter: &AuditFilter) -> Result<Page<AuditEvent>> {
        timed::<S, _>("audit_list", async {
            let (sql, args) = listing(filter);
            let mut read = self.read().await?;
            let rows = read.all(sql.into(), args).await?;
            page(&rows, filter.limit, None, event)
        })
        .await
    }
}

/// Writes it down in the transaction of the act: committed with it, or not at all.
pub(super) async fn append(write: &mut impl SqlWrite, by: &Act, entry: &AuditEntry) -> Result<()> {
    let fold = entry.counted_as(by);
    if let (Some(fold), Some(seconds)) = (&fold, entry.folded) {
        if counted(write, fold, seconds).await? {
            return Ok(());
        }
        // Nobody else begins the same count meanwhile.
        write.lock(Lock::AuditCounts).await?;
        if counted(write, fold, seconds).await? {
            return Ok(());
        }
    }
    let now = write.now().await?;
    let (actor, object) = (&by.actor, entry.object.as_ref());
    write
        .run(
            "INSERT INTO audit_events (id, at, actor_kind, actor_id, actor_name, session_id, token_id, action,
                 object_kind, object_id, object_name, outcome, code, address, user_agent, request_id, replica,
                 changed_from, changed_to, fold)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)",
            args![
                id_at(now),
                now,
                actor.kind.as_str(),
                actor.id,
                &actor.name,
                actor.session,
                actor.token,
                entry.action.as_str(),
                object.map(|object| object.kind.as_str()),
                object.map(|object| object.id.as_str()),
                object.map(|object| object.name.as_str()),
                entry.outcome.as_str(),
                entry.code.as_deref(),
                &by.address,
                &by.user_agent,
                &by.request_id,
                &by.replica,
                entry.before.as_deref(),
                entry.after.as_deref(),
                fold,
            ],
        )
        .await?;
    write.audited(entry.action, entry.outcome);
    Ok(())
}

/// Whether one like it was there already, and has been counted up.
async fn counted(write: &mut impl SqlWrite, fold: &str, seconds: u32) -> Result<bool> {
    let now = write.now().await?;
    let since = now.as_microsecond() - i64::from(seconds) * 1_000_000;
    let done = write
        .run("UPDATE audit_events SET times = times + 1 WHERE fold = $1 AND at > $2", args![fold, since])
        .await?;
    Ok(done > 0)
}

/// UUIDv7 of the database's time, not of this process's clock.
fn id_at(now: Timestamp) -> AuditId {
    let seconds = u64::try_from(now.as_second()).unwrap_or(0);
    let nanoseconds = u32::try_from(now.subsec_nanosecond()).unwrap_or(0);
    AuditId::from_uuid(Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, nanoseconds)))
}

/// The first id that an event of this time may have.
fn first_id_at(at: Timestamp) -> AuditId {
    let milliseconds = u64::try_from(at.as_millisecond()).unwrap_or(0);
    AuditId::from_uuid(Uuid::from_u128(u128::from(milliseconds) << 80))
}

/// The conditions on ids say the same as those on times, and let the index end the search.
pub(crate) fn listing(filter: &AuditFilter) -> (String, Vec<Value>) {
    let (mut conditions, mut args) = (String::from("TRUE"), Vec::new());
    let mut and = |condition: &str, value: Value| {
        args.push(value);
        let number = format!("${}", args.len());
        conditions.push_str(" AND ");
        conditions.push_str(&condition.replace('?', &number));
    };
    if let Some(from) = filter.from {
        and("at >= ?", from.bind());
        and("id >= ?", first_id_at(from).bind());
    }
    if let Some(to) = filter.to {
        and("at < ?", to.bind());
        let after = to.checked_add(std::time::Duration::from_millis(1)).unwrap_or(Timestamp::MAX);
        and("id < ?", first_id_at(after).bind());
    }
    match filter.actor {
        Some(ActorFilter::User(id)) => and("actor_id = ?", id.bind()),
        Some(ActorFilter::Kind(kind)) => and("actor_kind = ?", kind.as_str().bind()),
        None => {}
    }
    if let Some(action) = filter.action {
        and("action = ?", action.as_str().bind());
    }
    if let Some(object) = &filter.object {
        and("object_id = ?", object.bind());
    }
    if let Some(outcome) = filter.outcome {
        and("outcome = ?", outcome.as_str().bind());
    }
    if let Some(before) = filter.before {
        and("id < ?", before.bind());
    }
    let sql = format!(
        "SELECT id, at, actor_kind, actor_id, actor_name, session_id, token_id, action, object_kind, object_id,
             object_name, outcome, code, address, user_agent, request_id, replica, changed_from, changed_to, times
         FROM audit_events WHERE {conditions} ORDER BY id DESC LIMIT {}",
        u64::from(filter.limit) + 1,
    );
    (sql, args)
}

fn event(found: &impl SqlRow) -> Result<AuditEvent> {
    let text = |column: &str| found.text(column).map(str::to_owned);
    let maybe = |column: &str| found.maybe_text(column).map(|text| text.map(str::to_owned));
    let object = match (maybe("object_kind")?, maybe("object_id")?) {
        (Some(kind), Some(id)) => Some((kind, id, maybe("object_name")?.unwrap_or_default())),
        _ => None,
    };
    Ok(AuditEvent {
        id: AuditId::from_uuid(found.uuid("id")?),
        at: row::at(found, "at")?,
        actor: AuditActor {
            kind: row::parsed(found, "actor_kind")?,
            id: found.maybe_uuid("actor_id")?.map(codehub_domain::UserId::from_uuid),
            name: text("actor_name")?,
            session: found.maybe_uuid("session_id")?.map(codehub_domain::SessionId::from_uuid),
            token: found.maybe_uuid("token_id")?.map(codehub_domain::TokenId::from_uuid),
        },
        action: text("action")?,
        object,
        outcome: row::parsed(found, "outcome")?,
        code: maybe("code")?,
        address: text("address")?,
        user_agent: text("user_agent")?,
        request_id: text("request_id")?,
        replica: text("replica")?,
        before: maybe("changed_from")?,
        after: maybe("changed_to")?,
        count: row::count(found, "times")?,
    })
}

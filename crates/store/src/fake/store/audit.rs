//! The audit trail of the fake store.

use codehub_domain::{
    Epoch, Timestamp,
    audit::{Act, AuditEntry, AuditEvent, AuditId},
};
use uuid::Uuid;

use super::Step;
use crate::{ActorFilter, AuditFilter, Page, trail};

/// An event, and what it is counted under.
pub(super) struct Row {
    event: AuditEvent,
    fold: Option<String>,
}

impl Step<'_> {
    pub(super) fn audit(&mut self, by: &Act, entry: &AuditEntry) {
        let fold = entry.counted_as(by);
        if let (Some(fold), Some(seconds)) = (&fold, entry.folded) {
            let since = self.now.as_microsecond() - i64::from(seconds) * 1_000_000;
            let like = self
                .state
                .audit
                .iter_mut()
                .find(|row| row.fold.as_ref() == Some(fold) && row.event.at.as_microsecond() > since);
            if let Some(row) = like {
                row.event.count += 1;
                return;
            }
        }
        let millis = u64::try_from(self.now.as_millisecond()).unwrap_or(0);
        // Whatever was removed meanwhile, no number is given out twice.
        let number =
            self.state.audit.last().map_or(0, |row| row.event.id.as_uuid().as_u128() & 0xffff_ffff) + 1;
        let event = AuditEvent {
            id: AuditId::from_uuid(Uuid::from_u128((u128::from(millis) << 80) | (0x7 << 76) | number)),
            at: self.now,
            actor: by.actor.clone(),
            action: entry.action.as_str().into(),
            object: entry.object.clone().map(|object| (object.kind.as_str().into(), object.id, object.name)),
            outcome: entry.outcome,
            code: entry.code.clone(),
            address: by.address.clone(),
            user_agent: by.user_agent.clone(),
            request_id: by.request_id.clone(),
            replica: by.replica.clone(),
            before: entry.before.clone(),
            after: entry.after.clone(),
            count: 1,
        };
        self.state.audit.push(Row { event, fold });
    }

    pub(super) fn audit_prune(
        &mut self,
        by: &Act,
        epoch: Epoch,
        before: Timestamp,
        at_most: u32,
    ) -> Option<u64> {
        if !self.leads(epoch) {
            return None;
        }
        let mut removed = 0;
        self.state.audit.retain(|row| {
            let goes = row.event.at < before && removed < u64::from(at_most);
            removed += u64::from(goes);
            !goes
        });
        if removed > 0 {
            self.audit(by, &trail::pruned(before, removed));
        }
        Some(removed)
    }

    pub(super) fn audit_list(&self, filter: &AuditFilter) -> Page<AuditEvent> {
        let mut found: Vec<&AuditEvent> = self
            .state
            .audit
            .iter()
            .map(|row| &row.event)
            .filter(|event| filter.from.is_none_or(|from| event.at >= from))
            .filter(|event| filter.to.is_none_or(|to| event.at < to))
            .filter(|event| match filter.actor {
                None => true,
                Some(ActorFilter::User(id)) => event.actor.id == Some(id),
                Some(ActorFilter::Kind(kind)) => event.actor.kind == kind,
            })
            .filter(|event| filter.action.is_none_or(|action| event.action == action.as_str()))
            .filter(|event| filter.outcome.is_none_or(|outcome| event.outcome == outcome))
            .filter(|event| {
                filter
                    .object
                    .as_ref()
                    .is_none_or(|object| event.object.as_ref().is_some_and(|(_, id, _)| id == object))
            })
            .filter(|event| filter.before.is_none_or(|before| event.id < before))
            .collect();
        found.sort_by_key(|event| std::cmp::Reverse(event.id));
        let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        Page { items: found.into_iter().take(limit).cloned().collect(), more, total: None }
    }
}

//! The history as people tell it: one line for each thing that was done, with the steps of it folded away.
//!
//! Somebody's wish and what the controller then did about it are one act: "Archived by alice · 40 kB · 2 s".

use codehub_domain::{
    ArchiveKey, Operation, Timestamp,
    event::{HistoryEntry, Reason},
};
use codehub_runtime::archives::ListedArchive;
use maud::{Markup, html};

use super::{
    components::moment,
    i18n::{
        history::{self, Outcome},
        words,
    },
    view::PageContext,
};

/// Something that was done, from the wish to its end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Act<'a> {
    /// In the order in which they happened; never empty.
    pub(super) steps: Vec<&'a HistoryEntry>,
}

impl<'a> Act<'a> {
    fn first(&self) -> &'a HistoryEntry {
        self.steps[0]
    }

    fn last(&self) -> &'a HistoryEntry {
        self.steps[self.steps.len() - 1]
    }

    /// When it ended, or last got anywhere.
    pub(super) fn at(&self) -> Timestamp {
        self.last().at
    }

    /// How long it took, once it has ended.
    pub(super) fn took_millis(&self) -> Option<u64> {
        let done = matches!(self.outcome(), Outcome::Done { .. }) && self.steps.len() > 1;
        let millis = self.last().at.as_millisecond() - self.first().at.as_millisecond();
        done.then(|| u64::try_from(millis).unwrap_or_default())
    }

    pub(super) fn outcome(&self) -> Outcome<'a> {
        let last = self.last();
        match &last.reason {
            Reason::OperationStarted => Outcome::Doing(last.operation),
            Reason::OperationDone | Reason::Confirmed => Outcome::Done {
                to: last.to,
                restored: self.steps.iter().any(|step| step.operation == Operation::Restoring),
            },
            _ if is_wish(last) => Outcome::Asked,
            reason => Outcome::Noted(reason),
        }
    }

    /// The archive that was made by it, told by the time in its operation's id.
    fn archive<'b>(&self, archives: &'b [ListedArchive]) -> Option<&'b ListedArchive> {
        let made = |key: ArchiveKey| {
            let (seconds, nanos) = key.op.as_uuid().get_timestamp()?.to_unix();
            Some(i64::try_from(seconds).ok()? * 1000 + i64::from(nanos / 1_000_000))
        };
        // The clock of a database and that of a server may differ a little.
        let within = self.first().at.as_millisecond() - 2000..=self.last().at.as_millisecond();
        let archiving = self.steps.iter().any(|step| step.operation == Operation::Archiving);
        archives.iter().find(|archive| archiving && made(archive.key).is_some_and(|at| within.contains(&at)))
    }
}

/// A line that came from somebody or from time running out, not from the controller.
fn is_wish(entry: &HistoryEntry) -> bool {
    entry.actor != "controller"
}

/// Newest first, as the entries are. The oldest may have begun before the first entry.
pub(super) fn acts(entries: &[HistoryEntry]) -> Vec<Act<'_>> {
    let mut acts: Vec<Act<'_>> = Vec::new();
    for entry in entries.iter().rev() {
        // What the controller notices by itself begins something, too: an instance that ended, a lost home.
        let noticed = entry.operation == Operation::None
            && !matches!(entry.reason, Reason::Confirmed | Reason::OperationDone | Reason::OperationStarted);
        match acts.last_mut() {
            Some(act) if !is_wish(entry) && !noticed => act.steps.push(entry),
            Some(_) | None => acts.push(Act { steps: vec![entry] }),
        }
    }
    acts.reverse();
    acts
}

/// One line, and the steps behind it.
pub(super) fn line(
    view: &PageContext,
    act: &Act<'_>,
    archives: &[ListedArchive],
    name_of: &dyn Fn(&str) -> Option<String>,
) -> Markup {
    let (lang, first) = (view.lang, act.first());
    let actor = history::actor(lang, &first.actor, name_of);
    html! {
        li data-testid="history-entry" {
            details {
                summary {
                    span.act {
                        strong { (history::act(lang, act.outcome(), &first.reason, is_wish(first), &actor)) }
                        @if let Some(archive) = act.archive(archives) { " · " (words::bytes(archive.size)) }
                        @if let Some(millis) = act.took_millis() { " · " (words::took(lang, millis)) }
                    }
                    " " span.quiet { (moment(view, act.at())) }
                }
                ol.steps { @for step in &act.steps { (one(view, step, name_of)) } }
            }
        }
    }
}

fn one(view: &PageContext, step: &HistoryEntry, name_of: &dyn Fn(&str) -> Option<String>) -> Markup {
    let lang = view.lang;
    html! {
        li {
            @if step.operation != Operation::None { (history::operation(lang, step.operation)) ": " }
            span.break { (history::reason(lang, &step.reason)) }
            @if step.from != step.to { " · " (history::became(lang, step.from, step.to)) }
            span.quiet { " · " (history::actor(lang, &step.actor, name_of)) " · " (words::exact(step.at)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use codehub_domain::Phase;

    use super::*;
    use crate::web::i18n::Lang;

    fn entry(
        id: i64,
        actor: &str,
        operation: Operation,
        from: Phase,
        to: Phase,
        reason: Reason,
    ) -> HistoryEntry {
        let at = Timestamp::from_second(1_700_000_000 + id).unwrap();
        HistoryEntry { id, at, from, to, operation, reason, actor: actor.into() }
    }

    /// From somebody's archived workspace that is opened, sleeps, and dies.
    fn life() -> Vec<HistoryEntry> {
        use Operation::{None, Restoring, Starting, Stopping};
        use Phase::{Archived, Running, Standby};
        let mut life = vec![
            entry(1, "user:1", None, Archived, Archived, Reason::StartRequested),
            entry(2, "controller", Restoring, Archived, Archived, Reason::OperationStarted),
            entry(4, "controller", Restoring, Archived, Standby, Reason::OperationDone),
            entry(5, "controller", Starting, Standby, Standby, Reason::OperationStarted),
            entry(7, "controller", Starting, Standby, Running, Reason::OperationDone),
            entry(20, "controller", None, Running, Standby, Reason::InstanceEnded("exit code 1".into())),
            entry(30, "ttl", None, Running, Running, Reason::TtlStandby(600)),
            entry(31, "controller", Stopping, Running, Running, Reason::OperationStarted),
        ];
        life.reverse();
        life
    }

    #[test]
    fn a_wish_and_what_follows_are_one_line() {
        let life = life();
        let acts = acts(&life);
        let said = |lang, act: &Act<'_>| {
            let first = act.first();
            let name = |id: &str| (id == "1").then(|| "ann".to_owned());
            let actor = history::actor(lang, &first.actor, name);
            history::act(lang, act.outcome(), &first.reason, is_wish(first), &actor)
        };
        let lines: Vec<_> = acts.iter().map(|act| (said(Lang::En, act), said(Lang::Ko, act))).collect();
        let expected = [
            ("Stopping: No activity for 10 minutes", "중지하는 중: 10분 동안 활동 없음"),
            ("Instance ended: exit code 1", "인스턴스 종료: exit code 1"),
            ("Restored and started by ann", "ann 님이 복원하고 시작함"),
        ];
        assert_eq!(lines, expected.map(|(en, ko)| (en.to_owned(), ko.to_owned())));
        assert_eq!(acts.iter().map(Act::took_millis).collect::<Vec<_>>(), [None, None, Some(6000)]);
        assert_eq!(acts.iter().map(|act| act.steps.len()).sum::<usize>(), life.len(), "nothing is left out");
    }
}

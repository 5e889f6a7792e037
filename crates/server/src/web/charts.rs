//! The last day of the whole deployment in small charts, counted from the history that the database keeps.

use std::collections::HashMap;

use codehub_domain::{
    Operation, Phase, Timestamp, WorkspaceId,
    event::{HistoryEntry, Reason},
};
use maud::{Markup, html};

use super::{i18n::words, view::PageContext};

/// Entries that are looked at, at most: where more happened, the charts begin later.
pub(super) const ENTRIES: u32 = 20_000;
const HOURS: usize = 24;
const HOUR_MILLIS: i64 = 3_600_000;

/// What happened in each of the last 24 hours, the oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Day {
    /// Opened in a browser while asleep.
    wakes: [u64; HOURS],
    /// Came to run.
    starts: [u64; HOURS],
    /// Went wrong.
    failures: [u64; HOURS],
    /// How long starting took, in milliseconds on average; 0 where nothing started.
    latency: [u64; HOURS],
}

impl Day {
    /// `entries` are newest first.
    pub(super) fn of(entries: &[(WorkspaceId, HistoryEntry)], now: Timestamp) -> Self {
        let begin = now.as_millisecond() - HOURS as i64 * HOUR_MILLIS;
        let mut day = Self::default();
        let mut began: HashMap<WorkspaceId, i64> = HashMap::new();
        let mut timed = [0_u64; HOURS];
        for (id, entry) in entries.iter().rev() {
            let at = entry.at.as_millisecond();
            if entry.operation == Operation::Starting && entry.reason == Reason::OperationStarted {
                began.insert(*id, at);
            }
            let Some(hour) =
                usize::try_from((at - begin).div_euclid(HOUR_MILLIS)).ok().filter(|hour| *hour < HOURS)
            else {
                continue;
            };
            if entry.actor.starts_with("wake:") {
                day.wakes[hour] += 1;
            }
            if entry.to == Phase::Running && entry.from != Phase::Running {
                day.starts[hour] += 1;
                if let Some(began) = began.remove(id) {
                    timed[hour] += 1;
                    day.latency[hour] += u64::try_from(at - began).unwrap_or_default();
                }
            }
            if matches!(entry.reason, Reason::Failed(_)) {
                day.failures[hour] += 1;
            }
        }
        for (sum, count) in day.latency.iter_mut().zip(timed) {
            *sum = sum.checked_div(count).unwrap_or_default();
        }
        day
    }

    pub(super) fn render(&self, view: &PageContext) -> Markup {
        let (t, lang) = (view.t, view.lang);
        let count = |bars: &[u64; HOURS]| bars.iter().sum::<u64>().to_string();
        let times: Vec<u64> = self.latency.iter().copied().filter(|millis| *millis > 0).collect();
        let average = times.iter().sum::<u64>().checked_div(times.len() as u64);
        let latency = average.map_or_else(|| "–".to_owned(), |millis| words::took(lang, millis));
        html! {
            div.charts data-testid="charts" {
                (chart(t.wakes, &count(&self.wakes), &self.wakes, "wakes"))
                (chart(t.starts, &count(&self.starts), &self.starts, "starts"))
                (chart(t.failures, &count(&self.failures), &self.failures, "failures"))
                (chart(t.start_time, &latency, &self.latency, "latency"))
            }
        }
    }
}

/// Bars, with the number that they add up to.
fn chart(name: &str, said: &str, bars: &[u64; HOURS], testid: &str) -> Markup {
    let most = bars.iter().copied().max().unwrap_or_default().max(1);
    html! {
        figure.chart data-testid={ "chart-" (testid) } {
            figcaption { span { (name) } strong.count { (said) } }
            svg viewBox="0 0 240 48" preserveAspectRatio="none" role="img" aria-label={ (name) ": " (said) } {
                @for (hour, value) in bars.iter().enumerate() {
                    @let height = if *value == 0 { 1 } else { (value * 46 / most).max(3) };
                    rect class={ "bar " (testid) } x=(hour * 10) y=(48 - height) width="8" height=(height) data-value=(value) {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codehub_domain::{ErrorReason, Failure};
    use uuid::Uuid;

    #[test]
    fn hours_are_counted_and_starts_are_timed() {
        let now = Timestamp::from_millisecond(100 * HOUR_MILLIS).unwrap();
        let (one, two) =
            (WorkspaceId::from_uuid(Uuid::from_u128(1)), WorkspaceId::from_uuid(Uuid::from_u128(2)));
        let entry = |ago: i64, from, to, operation, reason, actor: &str| HistoryEntry {
            id: -ago,
            at: Timestamp::from_millisecond(now.as_millisecond() - ago).unwrap(),
            from,
            to,
            operation,
            reason,
            actor: actor.into(),
        };
        use Operation::{None, Starting};
        use Phase::{Running, Standby};
        let failed = Reason::Failed(Failure::new(ErrorReason::Timeout, "x"));
        let mut entries = vec![
            (one, entry(30 * HOUR_MILLIS, Standby, Standby, None, Reason::OpenedInBrowser, "wake:1")),
            (one, entry(9_000, Standby, Standby, None, Reason::OpenedInBrowser, "wake:1")),
            (one, entry(8_000, Standby, Standby, Starting, Reason::OperationStarted, "controller")),
            (two, entry(7_500, Standby, Standby, Starting, Reason::OperationStarted, "controller")),
            (one, entry(7_000, Standby, Running, Starting, Reason::OperationDone, "controller")),
            (two, entry(4_500, Standby, Running, Starting, Reason::Confirmed, "controller")),
            (two, entry(2 * HOUR_MILLIS - 1, Standby, Standby, Starting, failed, "controller")),
        ];
        entries.reverse();
        let day = Day::of(&entries, now);
        let last = |bars: [u64; HOURS]| (bars[HOURS - 1], bars.iter().sum::<u64>());
        assert_eq!((last(day.wakes), last(day.starts), last(day.latency)), ((1, 1), (2, 2), (2000, 2000)));
        assert_eq!((day.failures[HOURS - 2], day.failures.iter().sum::<u64>()), (1, 1));
    }
}

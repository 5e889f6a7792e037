//! The last days of a workspace as a bar: which phase it was in, and for how long.

use codehub_domain::{Phase, Timestamp, event::HistoryEntry};
use maud::{Markup, html};

use super::{components::moment, i18n::words, view::PageContext};

const DAYS: i64 = 7;
const WIDTH: i64 = 1000;

/// How long it was in one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    phase: Phase,
    /// Milliseconds since 1970.
    from: i64,
    to: i64,
}

/// The phases between two times, the oldest first. `entries` are newest first.
fn stretches(entries: &[HistoryEntry], now: Phase, from: i64, to: i64) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    let (mut phase, mut end) = (now, to);
    for entry in entries.iter().filter(|entry| entry.from != entry.to) {
        let at = entry.at.as_millisecond().clamp(from, to);
        if at < end {
            stretches.push(Stretch { phase, from: at, to: end });
        }
        (phase, end) = (entry.from, at);
    }
    if from < end {
        stretches.push(Stretch { phase, from, to: end });
    }
    stretches.reverse();
    stretches
}

/// The bar, and the same in words. `more`: there is history older than `entries`.
pub(super) fn of(
    view: &PageContext,
    entries: &[HistoryEntry],
    more: bool,
    now: Phase,
    created_at: Timestamp,
) -> Markup {
    let (t, end) = (view.t, view.now.as_millisecond());
    let oldest = entries.last().filter(|_| more).map_or(created_at, |entry| entry.at);
    let start = oldest.as_millisecond().max(end - DAYS * 86_400_000).min(end - 1);
    let all = stretches(entries, now, start, end);
    let x = |at: i64| (at - start) * WIDTH / (end - start);
    let mut sums: Vec<(Phase, i64)> = Vec::new();
    for one in &all {
        match sums.iter_mut().find(|(phase, _)| *phase == one.phase) {
            Some((_, sum)) => *sum += one.to - one.from,
            None => sums.push((one.phase, one.to - one.from)),
        }
    }
    sums.sort_by_key(|(_, sum)| -sum);
    // What nobody could see is not worth a word.
    let longest = sums.first().map_or(0, |(_, sum)| *sum);
    sums.retain(|(_, sum)| *sum == longest || (*sum >= 1000 && *sum * 500 >= longest));
    let spent = |sum: i64| words::roughly(view.lang, u64::try_from(sum / 1000).unwrap_or_default());
    let said: Vec<String> = sums
        .iter()
        .map(|(phase, sum)| format!("{} {}", words::phase(view.lang, *phase), spent(*sum)))
        .collect();
    html! {
        figure.days data-testid="phases" {
            svg viewBox={ "0 0 " (WIDTH) " 24" } preserveAspectRatio="none" role="img" aria-label={ (t.last_days) ": " (said.join(", ")) } {
                @for one in &all {
                    rect class={ "in-" (one.phase.as_str().to_ascii_lowercase()) } x=(x(one.from)) y="0" height="24"
                        width=((x(one.to) - x(one.from)).max(2)) data-phase=(one.phase) {}
                }
            }
            figcaption {
                span { (moment(view, Timestamp::from_millisecond(start).unwrap_or(created_at))) } span { (t.now) }
            }
            ul.legend aria-hidden="true" {
                @for ((phase, _), text) in sums.iter().zip(&said) {
                    li { span class={ "dot in-" (phase.as_str().to_ascii_lowercase()) } {} (text) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codehub_domain::{Operation, event::Reason};

    #[test]
    fn the_bar_has_no_holes() {
        let entry = |at: i64, from, to| HistoryEntry {
            id: at,
            at: Timestamp::from_millisecond(at).unwrap(),
            from,
            to,
            operation: Operation::None,
            reason: Reason::Confirmed,
            actor: "controller".into(),
        };
        let entries = [
            entry(90, Phase::Running, Phase::Running),
            entry(80, Phase::Standby, Phase::Running),
            entry(50, Phase::Archived, Phase::Standby),
            entry(5, Phase::Running, Phase::Archived),
        ];
        let one = |phase, from, to| Stretch { phase, from, to };
        assert_eq!(
            stretches(&entries, Phase::Running, 10, 100),
            [one(Phase::Archived, 10, 50), one(Phase::Standby, 50, 80), one(Phase::Running, 80, 100)]
        );
        assert_eq!(stretches(&[], Phase::Standby, 10, 100), [one(Phase::Standby, 10, 100)]);
    }
}

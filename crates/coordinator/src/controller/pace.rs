//! When the controller looks: at once when woken, every second while something goes on, every
//! fifteen otherwise.

use std::time::Duration;

use tokio::time::Instant;

use crate::Settings;

/// The schedule of surveys. Two kinds: an *active* one costs what is going on, a *full* one also
/// looks at what runs and at some of the rest.
#[derive(Debug)]
pub(super) struct Pace {
    idle: Duration,
    active: Duration,
    active_for: Duration,
    active_until: Instant,
    last: Instant,
    last_full: Instant,
    due: bool,
    due_full: bool,
}

impl Pace {
    pub(super) fn new(settings: &Settings, now: Instant) -> Self {
        Self {
            idle: settings.idle_interval,
            active: settings.active_interval,
            active_for: settings.active_duration,
            active_until: now,
            last: now,
            last_full: now,
            // A new leader looks at everything it can, at once.
            due: true,
            due_full: true,
        }
    }

    /// Somebody wants something.
    pub(super) fn wake(&mut self, now: Instant) {
        self.due = true;
        self.active_until = now + self.active_for;
    }

    /// Something is wrong, nobody knows where.
    pub(super) fn wake_to_everything(&mut self, now: Instant) {
        self.wake(now);
        self.due_full = true;
    }

    /// Something is under way.
    pub(super) fn busy(&mut self, now: Instant) {
        self.active_until = self.active_until.max(now + self.active * 2);
    }

    pub(super) fn time_is_up(&mut self, now: Instant) {
        self.due = true;
        self.due_full |= now >= self.last_full + self.idle;
    }

    /// When to look next, without a wake.
    pub(super) fn next(&self) -> Instant {
        let idle = self.last_full + self.idle;
        if self.last < self.active_until { idle.min(self.last + self.active) } else { idle }
    }

    /// Takes the survey that is due, if one is: `Some(true)` for a full one.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<bool> {
        if !self.due {
            return None;
        }
        let full = std::mem::take(&mut self.due_full);
        self.due = false;
        self.last = now;
        if full {
            self.last_full = now;
        }
        Some(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(now: Instant) -> Pace {
        let mut pace = Pace {
            idle: Duration::from_secs(15),
            active: Duration::from_secs(1),
            active_for: Duration::from_secs(30),
            active_until: now,
            last: now,
            last_full: now,
            due: true,
            due_full: true,
        };
        assert_eq!(pace.take_due(now), Some(true));
        pace
    }

    #[test]
    fn quiet_means_a_full_look_every_idle_interval() {
        let start = Instant::now();
        let mut pace = pace(start);
        assert_eq!(pace.take_due(start), None);
        assert_eq!(pace.next(), start + Duration::from_secs(15));
        pace.time_is_up(start + Duration::from_secs(15));
        assert_eq!(pace.take_due(start + Duration::from_secs(15)), Some(true));
    }

    #[test]
    fn a_wake_looks_at_once_and_keeps_looking_for_a_while() {
        let start = Instant::now();
        let mut pace = pace(start);
        let woken = start + Duration::from_secs(3);
        pace.wake(woken);
        assert_eq!(pace.take_due(woken), Some(false));
        let mut now = woken;
        let mut full = 0;
        for _ in 0..30 {
            assert_eq!(pace.next(), now + Duration::from_secs(1));
            now = pace.next();
            pace.time_is_up(now);
            full += usize::from(pace.take_due(now).unwrap());
        }
        assert_eq!(full, 2, "full looks go on while active");
        assert!(pace.next() > now + Duration::from_secs(1), "it calms down");
    }
}

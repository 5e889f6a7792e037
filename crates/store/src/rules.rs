//! Numbers that every store shares, the fake included.

/// How long a claim outlives what it was made for: far longer than a deletion can hang.
pub(crate) const CLAIM_KEPT_MICROS: i64 = 7 * 86_400 * 1_000_000;

/// A session's end is moved, and a token's use noted, at most this often.
pub(crate) const USE_NOTED_EVERY_MICROS: i64 = 60_000_000;

/// How old a session's last renewal must be before a use renews it: a minute, or less where sessions are
/// so short that a minute would matter.
pub(crate) fn renews_after_micros(lifetime_seconds: u32) -> i64 {
    USE_NOTED_EVERY_MICROS.min(i64::from(lifetime_seconds) * 1_000_000 / 4)
}

/// So many browsers of a user are known.
pub(crate) const KNOWN_DEVICES: u32 = 50;
/// So many sessions of one origin are kept for one session of the dashboard.
pub(crate) const WORKSPACE_SESSIONS: u32 = 8;

/// How far a reader of changes may fall behind before it reads everything again.
pub(crate) const CHANGES_BACKLOG: usize = 4096;

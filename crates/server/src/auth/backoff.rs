//! How long somebody who guesses passwords waits. Counted per account-and-address, and per address:
//! nobody can lock a person out from elsewhere, and nobody can try one password on every account.

use std::time::Duration;

use codehub_domain::Timestamp;
use codehub_store::Attempts;

use codehub_domain::fields as rules;

/// Wrong tries that cost nothing.
pub const FREE_TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 60);
/// After this long without a failure the count starts again.
pub const FORGET_AFTER_SECONDS: u32 = 2 * 3600;

/// What has to pass after the last of so many failures.
pub fn wait_after(failures: u32) -> Duration {
    match failures.checked_sub(FREE_TRIES) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_WAIT.saturating_mul(1 << doublings.min(16)).min(LONGEST_WAIT),
    }
}

/// How many seconds until the next try, at least 1; `None`: now.
pub fn retry_after(attempts: Option<Attempts>, now: Timestamp) -> Option<u64> {
    let attempts = attempts?;
    let wait = wait_after(attempts.failures);
    let until = attempts.last_failure.checked_add(wait).unwrap_or(Timestamp::MAX);
    let left = now.duration_until(until);
    (left.is_positive() && !wait.is_zero())
        .then(|| u64::try_from(left.as_millis()).unwrap_or(u64::MAX).div_ceil(1000).max(1))
}

pub fn account_key(username: &str, address: &str) -> String {
    // What nobody can be called is one account that nobody has, however long it is or whatever is in it.
    let username = if rules::username(username).is_ok() { username } else { "" };
    format!("account:{}@{address}", username.to_lowercase())
}

pub fn address_key(address: &str) -> String {
    format!("address:{address}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_tries_are_free_then_waiting_doubles_to_half_an_hour() {
        let table = [
            (0, 0),
            (4, 0),
            (5, 30),
            (6, 60),
            (7, 120),
            (8, 240),
            (10, 960),
            (11, 1800),
            (12, 1800),
            (u32::MAX, 1800),
        ];
        for (failures, seconds) in table {
            assert_eq!(wait_after(failures).as_secs(), seconds, "{failures} failures");
        }
    }

    #[test]
    fn the_wait_counts_from_the_last_failure() {
        let at = |s| Timestamp::from_second(s).unwrap();
        let attempts = |failures| Some(Attempts { failures, last_failure: at(1000) });
        assert_eq!(retry_after(None, at(1000)), None);
        assert_eq!(retry_after(attempts(4), at(1000)), None);
        assert_eq!(retry_after(attempts(5), at(1000)), Some(30));
        assert_eq!(retry_after(attempts(5), at(1029)), Some(1));
        assert_eq!(retry_after(attempts(5), at(1030)), None);
        assert_eq!(retry_after(attempts(50), at(1000)), Some(1800));
    }

    #[test]
    fn names_are_counted_without_case() {
        assert_eq!(account_key("Ann", "192.0.2.1"), account_key("ann", "192.0.2.1"));
        assert_eq!(account_key("a\0nn", "192.0.2.1"), account_key(&"x".repeat(100_000), "192.0.2.1"));
    }
}

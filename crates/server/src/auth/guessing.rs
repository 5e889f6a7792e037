//! How many passwords anybody may try. A browser that its user has signed in with before is counted by itself, so no
//! guessing elsewhere makes it wait. All others are counted together: per account and address, per account, and per
//! address. So an office behind one address waits for seconds at most, and any number of addresses get one guess a minute
//! at an account.
//!
//! Counting comes before checking, in one transaction for all keys: many at once, on many replicas, get no more.

use codehub_domain::UserId;
use codehub_store::{Allowance, Store, StoreError, Tried, tries_at};
use sha2::{Digest as _, Sha256};

const MINUTE: u32 = 60;
const HOUR: u32 = 60 * MINUTE;
/// Names that nobody has share so many counts: whoever invents names makes no more rows than this.
const NOBODIES: u16 = 4096;

/// Which count has to be waited for: it decides what a person can do instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// This account, from this address.
    Here,
    /// This account, by this known browser.
    Device,
    /// This account, from everywhere.
    Account,
    /// All accounts, from this address.
    Address,
}

/// What a try at a password is counted under.
#[derive(Debug)]
pub struct Tries(Vec<(Counted, Allowance)>);

impl Tries {
    /// At the account of `user`, or at that of nobody by the name, from an address (as [`counted_as`] says it). `device`
    /// is what the cookie of a browser hashes to that is known to be the user's.
    ///
    /// [`counted_as`]: codehub_proxy::client::counted_as
    pub fn new(user: Option<UserId>, username: &str, address: &str, device: Option<&[u8]>) -> Self {
        if let Some(device) = device {
            return Self(vec![(Counted::Device, known(&format!("device:{}", hex(device))))]);
        }
        let account = user.map_or_else(|| nobody(username), tries_at);
        Self(vec![
            (Counted::Here, here(format!("{account}@{address}"))),
            (Counted::Account, everywhere(account)),
            (Counted::Address, at_an_address(format!("address:{address}"))),
        ])
    }

    /// Whether a try could be made now; `Some` names what has to be waited for, and how many seconds.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn check(&self, store: &dyn Store) -> Result<Option<(Counted, u64)>, StoreError> {
        Ok(self.waits(store.attempts_check(&self.allowances()).await?))
    }

    /// Counts a try, before anybody knows whether it is a good one. `Some`: it may not be made, and is not counted.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn count(&self, store: &dyn Store) -> Result<Option<(Counted, u64)>, StoreError> {
        Ok(self.waits(store.attempts_count(&self.allowances()).await?))
    }

    /// The password was right: what was counted for this account from here were typing errors. Nothing more is taken
    /// back, or one valid account would buy guesses at the others.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn forgive(&self, store: &dyn Store) -> Result<(), StoreError> {
        let own = self.0.iter().find(|(counted, _)| matches!(counted, Counted::Here | Counted::Device));
        let Some((_, own)) = own else { return Ok(()) };
        let tries = store.attempts_get(&own.key).await?.map_or(1, |counted| counted.failures);
        store.attempts_clear(&own.key).await?;
        for (_, shared) in self.0.iter().filter(|(_, shared)| shared.key != own.key) {
            store.attempts_take_back(&shared.key, tries).await?;
        }
        Ok(())
    }

    fn allowances(&self) -> Vec<Allowance> {
        self.0.iter().map(|(_, allowance)| allowance.clone()).collect()
    }

    fn waits(&self, tried: Tried) -> Option<(Counted, u64)> {
        match tried {
            Tried::Counted => None,
            Tried::Wait { allowance, seconds } => Some((self.0[allowance].0, seconds)),
        }
    }
}

fn here(key: String) -> Allowance {
    Allowance {
        key,
        free: 5,
        first_wait_seconds: 30,
        longest_wait_seconds: 30 * MINUTE,
        forget_after_seconds: 2 * HOUR,
    }
}

fn known(key: &str) -> Allowance {
    Allowance {
        key: key.into(),
        free: 10,
        first_wait_seconds: 30,
        longest_wait_seconds: 5 * MINUTE,
        forget_after_seconds: HOUR,
    }
}

fn everywhere(key: String) -> Allowance {
    Allowance {
        key,
        free: 30,
        first_wait_seconds: MINUTE,
        longest_wait_seconds: MINUTE,
        forget_after_seconds: HOUR,
    }
}

fn at_an_address(key: String) -> Allowance {
    Allowance {
        key,
        free: 60,
        first_wait_seconds: 5,
        longest_wait_seconds: 5,
        forget_after_seconds: 10 * MINUTE,
    }
}

/// What nobody is called is counted as if somebody were: an answer must not tell which names exist.
fn nobody(username: &str) -> String {
    let digest = Sha256::digest(username.to_lowercase().as_bytes());
    format!("nobody:{}", u16::from_be_bytes([digest[0], digest[1]]) % NOBODIES)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use codehub_store::fake::{FakeClock, FakeStore};
    use uuid::Uuid;

    use super::*;

    fn user(n: u128) -> Option<UserId> {
        Some(UserId::from_uuid(Uuid::from_u128(n)))
    }

    #[test]
    fn the_table() {
        let waits = |allowance: &Allowance, tries: &[u32]| {
            tries.iter().map(|tries| allowance.wait_seconds(*tries)).collect::<Vec<_>>()
        };
        let (k, a) = ("k", "k".to_owned());
        assert_eq!(
            waits(&here(a.clone()), &[0, 4, 5, 6, 7, 10, 11, 99, u32::MAX]),
            [0, 0, 30, 60, 120, 960, 1800, 1800, 1800]
        );
        assert_eq!(waits(&known(k), &[9, 10, 11, 12, 13, 14, 99]), [0, 30, 60, 120, 240, 300, 300]);
        assert_eq!(waits(&everywhere(a.clone()), &[29, 30, 31, 999]), [0, 60, 60, 60]);
        assert_eq!(waits(&at_an_address(a), &[59, 60, 61, 999]), [0, 5, 5, 5]);
    }

    #[test]
    fn names_that_nobody_has_are_counted_like_others_and_make_few_rows() {
        let keys: std::collections::HashSet<String> =
            (0..100_000).map(|n| nobody(&format!("name {n}"))).collect();
        assert!(keys.len() <= usize::from(NOBODIES));
        assert_eq!(nobody("Ann"), nobody("ann"));
        let counted = |user| {
            Tries::new(user, "ann", "192.0.2.1", None).0.iter().map(|(what, _)| *what).collect::<Vec<_>>()
        };
        assert_eq!(counted(None), counted(user(1)));
    }

    /// A world in which time passes when the test says so.
    struct World {
        store: Arc<FakeStore>,
        clock: FakeClock,
    }

    impl World {
        fn new() -> Self {
            let clock = FakeClock::default();
            Self { store: Arc::new(FakeStore::new(clock.clone())), clock }
        }

        /// One try. Whether it was let through to be checked.
        async fn tries(&self, tries: &Tries) -> bool {
            tries.count(&*self.store).await.unwrap().is_none()
        }

        /// Signs in with the right password. Whether that worked at once.
        async fn signs_in(&self, tries: &Tries) -> bool {
            let in_time = self.tries(tries).await;
            if in_time {
                tries.forgive(&*self.store).await.unwrap();
            }
            in_time
        }
    }

    /// Five hundred regulars of an office come and go while one in it, and many outside, guess.
    #[tokio::test]
    async fn an_office_behind_one_address_signs_in_while_somebody_guesses() {
        let world = World::new();
        let office = "192.0.2.1";
        let mut guessed = 0;
        for second in 0..3600_u32 {
            // One in the office tries everybody's password, as fast as it goes; others do from elsewhere.
            let victim = u128::from(second % 500);
            for tries in [
                Tries::new(user(victim), "", office, None),
                Tries::new(user(victim), "", &format!("198.51.100.{}", second % 250), None),
            ] {
                guessed += u32::from(world.tries(&tries).await);
            }
            // And every seven seconds somebody comes to work, with a typing error first.
            if second % 7 == 0 {
                let n = u128::from(second / 7 % 500);
                let device = n.to_be_bytes();
                let tries = Tries::new(user(n), "", office, Some(&device));
                assert!(world.tries(&tries).await, "person {n} in second {second}");
                assert!(world.signs_in(&tries).await, "person {n} in second {second}");
            }
            world.clock.advance(Duration::from_secs(1));
        }
        assert!(guessed > 60, "guessing was tried at all: {guessed}");
        // Somebody new in the office waits for seconds, not longer.
        let newcomer = Tries::new(user(501), "", office, None);
        let wait = newcomer.check(&*world.store).await.unwrap();
        assert!(
            wait.is_none_or(|(counted, seconds)| counted == Counted::Address && seconds <= 5),
            "{wait:?}"
        );
    }

    #[tokio::test]
    async fn a_thousand_addresses_get_ninety_guesses_an_hour_at_one_account() {
        let world = World::new();
        let mut by_hour = [0_u32; 3];
        for second in 0..3 * 3600_u32 {
            for n in 0..4 {
                let address = format!("10.{}.{}.1", n, (second * 4 + n) % 250);
                let tries = Tries::new(user(7), "", &address, None);
                by_hour[second as usize / 3600] += u32::from(world.tries(&tries).await);
            }
            world.clock.advance(Duration::from_secs(1));
        }
        assert!(by_hour.iter().all(|guesses| (50..=90).contains(guesses)), "{by_hour:?}");
        // The person whose account it is does not notice, in a browser that they have used before.
        assert!(world.signs_in(&Tries::new(user(7), "", "192.0.2.7", Some(b"laptop"))).await);
        // In one that they have not, they are told whose fault it is.
        let tries = Tries::new(user(7), "", "192.0.2.7", None);
        let wait = tries.check(&*world.store).await.unwrap();
        assert!(matches!(wait, None | Some((Counted::Account, 1..=60))), "{wait:?}");
    }

    #[tokio::test]
    async fn a_right_password_forgives_ones_own_errors_only() {
        let world = World::new();
        let (mine, other) =
            (Tries::new(user(1), "", "192.0.2.1", None), Tries::new(user(2), "", "192.0.2.1", None));
        for _ in 0..4 {
            assert!(world.tries(&mine).await && world.tries(&other).await);
        }
        assert!(world.signs_in(&mine).await);
        let counted = async |key: &str| {
            use codehub_store::Credentials as _;
            world.store.attempts_get(key).await.unwrap().map_or(0, |counted| counted.failures)
        };
        assert_eq!(counted("address:192.0.2.1").await, 4, "the other's stay");
        assert_eq!(
            (counted(&tries_at(user(1).unwrap())).await, counted(&tries_at(user(2).unwrap())).await),
            (0, 4)
        );
        // A known browser waits, too, but not for long.
        let device = Tries::new(user(1), "", "192.0.2.1", Some(b"laptop"));
        for _ in 0..10 {
            assert!(world.tries(&device).await);
        }
        assert_eq!(device.check(&*world.store).await.unwrap(), Some((Counted::Device, 30)));
    }
}

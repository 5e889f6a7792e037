//! Who gets a connection. Nobody can take all of them: an address gets so many on which nobody has signed in, some are
//! kept for people who are signed in, and some for health checks.
//!
//! A connection is counted when it is accepted, when its first head has come, when somebody turns out to be signed in on
//! it, and when it ends: never for a request as such.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ipnet::IpNet;
use metrics::{Counter, counter};

use crate::client;

/// Whoever has a place that is kept for others shows within this time that it is theirs.
const SOON: Duration = Duration::from_secs(2);

/// How many connections there may be.
#[derive(Debug, Clone, Copy)]
pub struct PlaceLimits {
    /// In all.
    pub total: usize,
    /// Of those, for health checks by machines that may ask for details.
    pub for_checks: usize,
    /// Of those, on which nobody has signed in, from one address; 0: any number.
    pub strangers_per_address: usize,
    /// On which no whole head has come, from one address; more have to be quick. 0: any number.
    pub headless_per_address: usize,
}

impl PlaceLimits {
    fn general(&self) -> usize {
        self.total.saturating_sub(self.for_checks).max(1)
    }

    /// A quarter is kept for people who are signed in.
    fn strangers(&self) -> usize {
        self.general() - self.general() / 4
    }
}

/// All places of a listener, and who has them.
pub struct Places {
    limits: PlaceLimits,
    /// Proxies in front: what comes from them comes from many.
    trusted: Vec<IpNet>,
    /// Who may have a place for checks, beside loopback and the proxies.
    checkers: Vec<IpNet>,
    taken: Mutex<Taken>,
    refused: [Counter; 3],
}

#[derive(Default)]
struct Taken {
    general: usize,
    strangers: usize,
    for_checks: usize,
    addresses: HashMap<u128, FromAddress>,
}

#[derive(Default)]
struct FromAddress {
    strangers: usize,
    headless: usize,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlace {
    /// The address has as many strangers as it may.
    Address,
    /// The address has as many connections without a whole head as it may, and this one's did not come soon.
    Headless,
    Full,
}

impl NoPlace {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Address, "address"), (Self::Headless, "headless"), (Self::Full, "full")];
}

impl Places {
    /// `trusted` are proxies in front of us, `checkers` may ask for metrics.
    pub fn new(limits: PlaceLimits, trusted: Vec<IpNet>, checkers: Vec<IpNet>) -> Arc<Self> {
        let refused =
            NoPlace::ALL.map(|(_, why)| counter!("codehub_connections_refused_total", "reason" => why));
        Arc::new(Self { limits, trusted, checkers, taken: Mutex::default(), refused })
    }

    /// A place for a connection from this address.
    ///
    /// # Errors
    /// There is none: it should be closed. It has been counted.
    pub fn admit(self: &Arc<Self>, ip: IpAddr) -> Result<Arc<Place>, NoPlace> {
        let place = self.try_admit(ip);
        if let Err(why) = &place {
            self.refused[*why as usize].increment(1);
        }
        place
    }

    fn try_admit(self: &Arc<Self>, ip: IpAddr) -> Result<Arc<Place>, NoPlace> {
        let limits = &self.limits;
        let from_proxy = client::is_trusted(ip, &self.trusted);
        let mut taken = self.taken();
        let address = (!from_proxy).then(|| counted_as(ip));
        let refusal = match address.and_then(|address| taken.addresses.get(&address)) {
            Some(found) if reached(found.strangers, limits.strangers_per_address) => Some(NoPlace::Address),
            _ => (taken.general >= limits.general()).then_some(NoPlace::Full),
        };
        // A burst is no attack: those that are too many have to be quick.
        let found = address.and_then(|address| taken.addresses.get(&address));
        let hurried = found.is_some_and(|found| reached(found.headless, limits.headless_per_address));
        let kind = match refusal {
            None if address.is_some() && taken.strangers >= limits.strangers() => Kind::Kept,
            None => Kind::General,
            Some(why) => {
                let loopback = ip.to_canonical().is_loopback();
                let checks = from_proxy || loopback || client::is_trusted(ip, &self.checkers);
                if !checks || taken.for_checks >= limits.for_checks {
                    return Err(why);
                }
                Kind::ForChecks(why)
            }
        };
        // It answers checks only, and nothing is waited for.
        let address = address.filter(|_| !matches!(kind, Kind::ForChecks(_)));
        match kind {
            Kind::General | Kind::Kept => taken.general += 1,
            Kind::ForChecks(_) => taken.for_checks += 1,
        }
        if let Some(address) = address {
            taken.strangers += 1;
            let found = taken.addresses.entry(address).or_default();
            found.strangers += 1;
            found.headless += 1;
        }
        drop(taken);
        let (stranger, headless) = (AtomicBool::new(true), AtomicBool::new(true));
        Ok(Arc::new(Place { places: self.clone(), address, kind, hurried, stranger, headless }))
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reached(count: usize, limit: usize) -> bool {
    limit > 0 && count >= limit
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    General,
    /// Kept for somebody who is signed in.
    Kept,
    /// For a check, because there was no other.
    ForChecks(NoPlace),
}

/// The place of one connection, until it is dropped.
pub struct Place {
    places: Arc<Places>,
    /// Under what it is counted; `None` for proxies.
    address: Option<u128>,
    kind: Kind,
    /// Its first head has to come soon.
    hurried: bool,
    /// Nobody has signed in on it.
    stranger: AtomicBool,
    /// No whole head has come.
    headless: AtomicBool,
}

impl Place {
    /// One without limits, for tests and tools.
    pub fn anywhere() -> Arc<Self> {
        let limits = PlaceLimits {
            total: usize::MAX,
            for_checks: 0,
            strangers_per_address: 0,
            headless_per_address: 0,
        };
        let places = Places::new(limits, Vec::new(), Vec::new());
        places.taken().general += 1;
        let (stranger, headless) = (AtomicBool::new(true), AtomicBool::new(true));
        Arc::new(Self { places, address: None, kind: Kind::General, hurried: false, stranger, headless })
    }

    /// Somebody who is signed in has sent a request on it.
    pub fn signed_in(&self) {
        self.head_came();
        if self.stranger.swap(false, Ordering::AcqRel) {
            self.uncount(|taken, found| {
                taken.strangers -= 1;
                found.strangers -= 1;
            });
        }
    }

    /// A whole head has come.
    pub(crate) fn head_came(&self) {
        if self.headless.swap(false, Ordering::AcqRel) {
            self.uncount(|_, found| found.headless -= 1);
        }
    }

    fn uncount(&self, change: impl FnOnce(&mut Taken, &mut FromAddress)) {
        let Some(address) = self.address else { return };
        let mut taken = self.places.taken();
        let Some(mut found) = taken.addresses.remove(&address) else { return };
        change(&mut taken, &mut found);
        if found.strangers > 0 || found.headless > 0 {
            taken.addresses.insert(address, found);
        }
    }

    /// Whether nobody has signed in on it so far.
    pub fn is_strangers(&self) -> bool {
        self.stranger.load(Ordering::Acquire)
    }

    /// Whether it is kept for somebody else, as far as is known: then only requests of people who are signed in are
    /// answered on it.
    pub fn is_kept_for_others(&self) -> bool {
        self.kind == Kind::Kept && self.is_strangers()
    }

    pub(crate) fn is_for_checks(&self) -> bool {
        matches!(self.kind, Kind::ForChecks(_))
    }

    /// Whether it has to be given back after an answer.
    pub(crate) fn goes_back(&self) -> bool {
        self.is_for_checks() || self.is_kept_for_others()
    }

    /// How long the next head may take on it.
    pub(crate) fn patience(&self, usual: Duration) -> Duration {
        let soon = self.goes_back() || (self.hurried && self.headless.load(Ordering::Acquire));
        if soon { usual.min(SOON) } else { usual }
    }

    /// No head came in time.
    pub(crate) fn gave_up(&self) {
        if self.hurried && self.headless.load(Ordering::Acquire) {
            self.places.refused[NoPlace::Headless as usize].increment(1);
        }
        self.was_for_checks();
    }

    /// It was kept for a check, and there was none: counted like any other for which there is no place.
    pub(crate) fn was_for_checks(&self) {
        if let Kind::ForChecks(why) = self.kind {
            self.places.refused[why as usize].increment(1);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Each is taken out where it is still counted.
        self.signed_in();
        let mut taken = self.places.taken();
        match self.kind {
            Kind::General | Kind::Kept => taken.general -= 1,
            Kind::ForChecks(_) => taken.for_checks -= 1,
        }
    }
}

/// Whoever has one IPv6 address has a whole /64.
fn counted_as(ip: IpAddr) -> u128 {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits() >> 64 << 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PlaceLimits =
        PlaceLimits { total: 20, for_checks: 4, strangers_per_address: 6, headless_per_address: 3 };

    fn places(limits: PlaceLimits) -> Arc<Places> {
        Places::new(limits, vec!["10.9.0.0/16".parse().unwrap()], vec!["10.1.0.0/16".parse().unwrap()])
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn why(place: Result<Arc<Place>, NoPlace>) -> Option<NoPlace> {
        place.err()
    }

    #[test]
    fn an_address_has_so_many_without_a_head_and_so_many_strangers() {
        let places = places(LIMITS);
        let usual = Duration::from_secs(60);
        let mut held: Vec<_> = (0..3).map(|_| places.admit(ip("192.0.2.1")).unwrap()).collect();
        assert!(held.iter().all(|place| place.patience(usual) == usual));
        let hurried = places.admit(ip("192.0.2.1")).unwrap();
        assert_eq!(hurried.patience(usual), SOON);
        hurried.head_came();
        assert_eq!(hurried.patience(usual), usual, "in time");
        drop(hurried);
        assert_eq!(places.admit(ip("192.0.2.2")).unwrap().patience(usual), usual, "somebody else");
        held.iter().for_each(|place| place.head_came());
        for _ in 0..3 {
            let place = places.admit(ip("192.0.2.1")).unwrap();
            place.head_came();
            held.push(place);
        }
        assert_eq!(why(places.admit(ip("192.0.2.1"))), Some(NoPlace::Address));
        // Those of people who are signed in are not counted.
        held[0].signed_in();
        held[0].signed_in();
        held.push(places.admit(ip("192.0.2.1")).unwrap());
        drop(held);
        let taken = places.taken();
        assert_eq!((taken.addresses.len(), taken.strangers, taken.general), (0, 0, 0));
    }

    #[test]
    fn whoever_fills_an_address_does_not_keep_checks_out() {
        let places = places(LIMITS);
        let held: Vec<_> = (0..6).map(|_| places.admit(ip("127.0.0.1")).unwrap()).collect();
        let check = places.admit(ip("127.0.0.1")).unwrap();
        assert!(check.is_for_checks());
        drop((held, check));
        let taken = places.taken();
        assert_eq!((taken.for_checks, taken.general, taken.addresses.len()), (0, 0, 0));
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_a_proxy_is_none() {
        let places = places(LIMITS);
        let held: Vec<_> = (1..=3).map(|n| places.admit(ip(&format!("2001:db8::{n}"))).unwrap()).collect();
        let usual = Duration::from_secs(60);
        assert_eq!(places.admit(ip("2001:db8::9")).unwrap().patience(usual), SOON);
        assert_eq!(places.admit(ip("2001:db8:0:1::9")).unwrap().patience(usual), usual);
        let through: Vec<_> = (0..13).map(|_| places.admit(ip("::ffff:10.9.0.1")).unwrap()).collect();
        assert_eq!(places.taken().strangers, 3);
        drop((held, through));
    }

    #[test]
    fn places_are_kept_for_people_who_are_signed_in_and_for_checks() {
        let places = places(PlaceLimits { strangers_per_address: 0, headless_per_address: 0, ..LIMITS });
        let mut held: Vec<_> = (0..12).map(|_| places.admit(ip("192.0.2.1")).unwrap()).collect();
        assert!(held.iter().all(|place| !place.goes_back()), "16 in general, 12 of them for anybody");
        let kept = places.admit(ip("192.0.2.1")).unwrap();
        assert!(kept.is_kept_for_others() && kept.goes_back());
        assert_eq!(kept.patience(Duration::from_secs(60)), SOON);
        kept.signed_in();
        assert!(!kept.goes_back());
        assert_eq!(kept.patience(Duration::from_secs(60)), Duration::from_secs(60));
        held.extend((0..3).map(|_| places.admit(ip("192.0.2.1")).unwrap()));
        assert_eq!(why(places.admit(ip("192.0.2.1"))), Some(NoPlace::Full));
        for checker in ["127.0.0.1", "::1", "10.1.2.3", "10.9.0.1"] {
            let place = places.admit(ip(checker)).unwrap();
            assert!(place.is_for_checks() && place.goes_back(), "{checker}");
            held.push(place);
        }
        assert_eq!(why(places.admit(ip("127.0.0.1"))), Some(NoPlace::Full));
        assert_eq!(places.taken().strangers, 15);
        held.clear();
        drop(kept);
        assert!(!places.admit(ip("127.0.0.1")).unwrap().is_for_checks());
    }
}

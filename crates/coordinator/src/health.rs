//! Panics. One is a bug, and ends what it happened in, nothing else: a component is started again, an
//! action has failed, a workspace that nobody could decide for waits. The term of the leader goes on.
//!
//! A component is given a little longer before each new beginning. Until it has kept going for a while,
//! [`Health`] says so, to `/readyz`, to administrators and in the metrics.

use std::{
    any::Any,
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::FutureExt as _;

use super::Ended;

/// How long a component must have kept going to be well again.
pub const STEADY: Duration = Duration::from_secs(120);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What may panic again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// What passes the store's changes on to the bus.
    Events,
    /// What reconciles workspaces.
    Controller,
    /// The controller's look at everything: without it nothing is noticed.
    Survey,
    /// What puts workspaces to sleep.
    Ttl,
    /// What deletes orphans.
    Gc,
}

impl Component {
    /// Its name in logs, metrics and the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Controller => "controller",
            Self::Survey => "survey",
            Self::Ttl => "ttl",
            Self::Gc => "gc",
        }
    }
}

/// Which components of this process panicked lately, and how often in a row. Nothing is known, and
/// nothing wrong, while it does not lead.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<BTreeMap<Component, u32>>>);

impl Health {
    /// Those that are in trouble, with the number of panics in a row.
    pub fn failing(&self) -> BTreeMap<Component, u32> {
        self.lock().clone()
    }

    /// Which components are in trouble, as a sentence for people; `None` when all is well.
    pub fn problem(&self) -> Option<String> {
        let failing = self.failing();
        let each =
            failing.iter().map(|(component, times)| format!("{} ({times} in a row)", component.as_str()));
        let each: Vec<String> = each.collect();
        (!each.is_empty()).then(|| {
            format!("panicked and started again: {}; this is a bug, and the log says where", each.join(", "))
        })
    }

    /// It panicked: counted, logged, remembered. How often that has happened in a row.
    pub(super) fn panicked(&self, component: Component, panic: &(dyn Any + Send)) -> u32 {
        let times = {
            let mut failing = self.lock();
            let times = failing.entry(component).or_default();
            *times = times.saturating_add(1);
            *times
        };
        gauge(component, times);
        let why = caught(component.as_str(), panic);
        tracing::error!(
            component = component.as_str(),
            why,
            times,
            "a component panicked; it is started again"
        );
        times
    }

    pub(super) fn well(&self, component: Component) {
        gauge(component, 0);
        if self.lock().remove(&component).is_some() {
            tracing::info!(component = component.as_str(), "the component keeps going again");
        }
    }

    /// This process does not lead (any more).
    pub(super) fn forget(&self) {
        for component in std::mem::take(&mut *self.lock()).into_keys() {
            gauge(component, 0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Component, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gauge(component: Component, times: u32) {
    metrics::gauge!(crate::metric::COMPONENT_FAILING, "component" => component.as_str())
        .set(f64::from(times));
}

/// Counts a panic and finds its words. Where it happened has been printed by the panic itself.
pub(super) fn caught(part: &'static str, panic: &(dyn Any + Send)) -> String {
    metrics::counter!(crate::metric::COMPONENT_PANICS, "component" => part).increment(1);
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no words").to_owned()
}

/// Runs a component until it ends by itself, however often it panics.
pub(super) async fn keep_going<F>(component: Component, health: Health, begin: impl Fn() -> F) -> Ended
where
    F: Future<Output = Ended>,
{
    loop {
        let times = match once(component, &health, begin()).await {
            Ok(ended) => return ended,
            Err(panic) => health.panicked(component, &*panic),
        };
        tokio::time::sleep(pause_after(times)).await;
    }
}

/// Whatever it held is gone when this returns.
async fn once(
    component: Component,
    health: &Health,
    work: impl Future<Output = Ended>,
) -> Result<Ended, Box<dyn Any + Send>> {
    // Nothing that it may have left half-changed is used afterwards: it begins anew.
    let mut work = pin!(AssertUnwindSafe(work).catch_unwind());
    tokio::select! {
        biased;
        ended = &mut work => ended,
        () = tokio::time::sleep(STEADY) => {
            health.well(component);
            work.await
        }
    }
}

fn pause_after(times: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(times.saturating_sub(1))).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute() {
        let seconds: Vec<u64> =
            [1, 2, 3, 6, 7, 8, u32::MAX].map(|times| pause_after(times).as_secs()).to_vec();
        assert_eq!(seconds, [1, 2, 4, 32, 60, 60, 60]);
    }

    #[test]
    fn a_panic_of_any_kind_has_words() {
        let words = |panic: Box<dyn Any + Send>| caught("test", &*panic);
        assert_eq!(words(Box::new("plain")), "plain");
        assert_eq!(words(Box::new(String::from("formatted"))), "formatted");
        assert_eq!(words(Box::new(7)), "no words");
    }

    #[test]
    fn trouble_is_named_until_it_is_over() {
        let health = Health::default();
        assert_eq!(health.problem(), None);
        assert_eq!(health.panicked(Component::Ttl, &"first"), 1);
        assert_eq!(health.panicked(Component::Ttl, &"second"), 2);
        assert_eq!(health.panicked(Component::Gc, &"other"), 1);
        let problem = health.problem().unwrap();
        assert!(problem.contains("ttl (2 in a row), gc (1 in a row)"), "{problem}");
        assert!(!problem.contains("second"), "anybody may read it: {problem}");
        health.well(Component::Ttl);
        assert!(!health.problem().unwrap().contains("ttl"));
        health.forget();
        assert_eq!(health.problem(), None);
    }
}

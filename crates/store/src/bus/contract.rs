//! What every bus must do, whatever is behind it. The suite knows the port only; a bus runs it by giving the
//! macro a function that makes a fresh [`Harness`] (or none, where its server is missing).

use std::{sync::Arc, time::Duration};

use codehub_domain::{Timestamp, UserId, WorkspaceId};
use tokio::{sync::broadcast, time::timeout};
use uuid::Uuid;

use super::{Bus, Event};

/// Expands to the whole suite, as tests of the module it is called in.
macro_rules! bus_suite {
    ($harness:path) => {
        $crate::bus::contract::bus_suite! { @all $harness;
            what_is_published_is_heard_once_by_its_user_in_every_process, a_resync_is_for_everybody,
            what_is_told_stays_here, wakes_and_looks_reach_every_process, nothing_from_before_is_heard,
            activity_only_grows, activity_is_removed_only_as_it_was_read
        }
    };
    (@all $harness:path; $($test:ident),+ $(,)?) => {
        mod contract {
            // On one thread: a harness listens before what it opened in the background has connected.
            $(#[tokio::test]
            async fn $test() {
                let harness: Option<$crate::bus::contract::Harness> = $harness().await.into();
                if let Some(harness) = harness {
                    $crate::bus::contract::$test(&harness).await;
                }
            })+
        }
    };
}
pub(super) use bus_suite;

/// The bus as two processes see it; the same one where there is only one process.
pub(super) struct Harness {
    pub(super) here: Arc<dyn Bus>,
    pub(super) there: Arc<dyn Bus>,
}

impl Harness {
    fn one_process(&self) -> bool {
        Arc::ptr_eq(&self.here, &self.there)
    }
}

const SOON: Duration = Duration::from_secs(10);

fn user() -> UserId {
    UserId::from_uuid(Uuid::now_v7())
}

fn workspace() -> WorkspaceId {
    WorkspaceId::from_uuid(Uuid::now_v7())
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(1_700_000_000_000_000 + micros).unwrap()
}

/// The next event, other than that something may have been missed: that may be said at any time.
async fn next(events: &mut broadcast::Receiver<Event>) -> Event {
    let wait = async {
        loop {
            match events.recv().await.unwrap() {
                Event::Resync => {}
                event => return event,
            }
        }
    };
    timeout(SOON, wait).await.expect("an event is heard")
}

pub(super) async fn what_is_published_is_heard_once_by_its_user_in_every_process(harness: &Harness) {
    let (ann, bob, id) = (user(), user(), workspace());
    let (mut here, mut there) = (harness.here.subscribe(ann), harness.there.subscribe(ann));
    let mut bobs = harness.there.subscribe(bob);
    let said = [Event::Updated { workspace: id }, Event::Deleted { workspace: id }];
    for event in &said {
        harness.here.publish(ann, event.clone()).await.unwrap();
    }
    // What comes after them shows that nothing came twice, or to others.
    let last = Event::Updated { workspace: workspace() };
    for user in [ann, bob] {
        harness.here.publish(user, last.clone()).await.unwrap();
    }
    for events in [&mut here, &mut there] {
        for event in said.iter().chain([&last]) {
            assert_eq!(next(events).await, *event);
        }
    }
    assert_eq!(next(&mut bobs).await, last, "nobody else's");
}

pub(super) async fn a_resync_is_for_everybody(harness: &Harness) {
    let mut events = [harness.here.subscribe(user()), harness.there.subscribe(user())];
    harness.here.resync().await.unwrap();
    for events in &mut events {
        assert_eq!(timeout(SOON, events.recv()).await.expect("it is heard"), Ok(Event::Resync));
    }
}

pub(super) async fn what_is_told_stays_here(harness: &Harness) {
    let ann = user();
    let (mut here, mut there) = (harness.here.subscribe(ann), harness.there.subscribe(ann));
    let (told, published) =
        (Event::Updated { workspace: workspace() }, Event::Deleted { workspace: workspace() });
    harness.here.tell(ann, told.clone());
    harness.here.publish(ann, published.clone()).await.unwrap();
    assert_eq!(next(&mut here).await, told);
    assert_eq!(next(&mut here).await, published);
    if !harness.one_process() {
        assert_eq!(next(&mut there).await, published);
    }
}

pub(super) async fn wakes_and_looks_reach_every_process(harness: &Harness) {
    for bus in [&harness.here, &harness.there] {
        let (mut wakes, mut looks, id) = (bus.wakes(), bus.looks(), workspace());
        harness.here.wake().await.unwrap();
        // Several that nobody has heard yet are one.
        let woken = timeout(SOON, wakes.recv()).await.expect("it wakes");
        assert!(matches!(woken, Ok(()) | Err(broadcast::error::RecvError::Lagged(_))), "{woken:?}");
        harness.here.look(id).await.unwrap();
        // What was said before may still be on its way here.
        let heard = async { while looks.recv().await.unwrap() != id {} };
        timeout(SOON, heard).await.expect("it looks");
    }
}

pub(super) async fn nothing_from_before_is_heard(harness: &Harness) {
    let (ann, before, after) = (user(), workspace(), workspace());
    let mut early = harness.there.subscribe(ann);
    harness.here.publish(ann, Event::Updated { workspace: before }).await.unwrap();
    assert_eq!(next(&mut early).await, Event::Updated { workspace: before });
    let mut late = harness.there.subscribe(ann);
    harness.here.publish(ann, Event::Updated { workspace: after }).await.unwrap();
    assert_eq!(next(&mut late).await, Event::Updated { workspace: after });
}

pub(super) async fn activity_only_grows(harness: &Harness) {
    let (one, two) = (workspace(), workspace());
    harness.here.activity_add(&[(one, at(5)), (two, at(7))]).await.unwrap();
    harness.there.activity_add(&[(one, at(3))]).await.unwrap();
    harness.here.activity_add(&[]).await.unwrap();
    for bus in [&harness.here, &harness.there] {
        let mut read = bus.activity_read().await.unwrap();
        read.sort();
        assert_eq!(read, [(one, at(5)), (two, at(7))], "to the microsecond");
    }
}

pub(super) async fn activity_is_removed_only_as_it_was_read(harness: &Harness) {
    let (one, two) = (workspace(), workspace());
    harness.here.activity_add(&[(one, at(5)), (two, at(7))]).await.unwrap();
    let read = harness.there.activity_read().await.unwrap();
    harness.here.activity_add(&[(one, at(9))]).await.unwrap();
    for _ in 0..2 {
        harness.there.activity_remove(&read).await.unwrap();
        assert_eq!(harness.here.activity_read().await.unwrap(), [(one, at(9))], "what came meanwhile stays");
    }
    harness.there.activity_remove(&[]).await.unwrap();
}

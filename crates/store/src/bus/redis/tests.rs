//! Against a real Redis (`CODEHUB_TEST_REDIS`); without one the tests say so and pass.

use std::time::{Duration, Instant};

use super::{
    super::contract::{Harness, bus_suite},
    *,
};
use codehub_testing::{eventually, let_time_pass};

fn names() -> Prefixes {
    let unique = Uuid::new_v4().simple();
    Prefixes {
        events: format!("test:{unique}:[sse]*:"),
        wakes: format!("test:{unique}:wake:"),
        activity: format!("test:{unique}:activity"),
    }
}

fn open(names: &Prefixes, settle: Duration) -> Option<RedisBus> {
    open_as("ours", names, settle)
}

fn open_as(deployment: &str, names: &Prefixes, settle: Duration) -> Option<RedisBus> {
    let url = codehub_testing::service("CODEHUB_TEST_REDIS", "no Redis")?;
    Some(RedisBus::open(&url, names, deployment, settle).unwrap())
}

fn user() -> UserId {
    UserId::from_uuid(Uuid::now_v7())
}

fn workspace() -> WorkspaceId {
    WorkspaceId::from_uuid(Uuid::now_v7())
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(1_700_000_000_000_000 + micros).unwrap()
}

async fn heard(events: &mut broadcast::Receiver<Event>, wanted: &Event) {
    let wait = async { while events.recv().await.unwrap() != *wanted {} };
    timeout(Duration::from_secs(5), wait).await.unwrap_or_else(|_| panic!("{wanted:?} was not heard"));
}

async fn connected(bus: &RedisBus) {
    let mut wakes = bus.wakes();
    let _ = timeout(Duration::from_secs(5), wakes.recv()).await.expect("it connects");
}

bus_suite!(super::harness);

async fn harness() -> Option<Harness> {
    let names = names();
    let (here, there) = (open(&names, Duration::ZERO)?, open(&names, Duration::ZERO)?);
    tokio::join!(connected(&here), connected(&there));
    Some(Harness { here: Arc::new(here), there: Arc::new(there) })
}

/// Two deployments with the same settings: neither hears the other, or takes its activity; each is told.
#[tokio::test]
async fn deployments_on_one_redis_keep_to_themselves_and_know_of_each_other() {
    let names = names();
    let open = |deployment| open_as(deployment, &names, Duration::ZERO);
    let (Some(ours), Some(beside)) = (open("ours"), open("ours")) else { return };
    let (Some(theirs), Some(other)) = (open("theirs"), open("theirs")) else { return };
    tokio::join!(connected(&ours), connected(&beside), connected(&theirs), connected(&other));
    let (ann, id) = (user(), workspace());
    let (mut here, mut there) = (beside.subscribe(ann), theirs.subscribe(ann));
    let (mut wakes, mut looks) = (theirs.wakes(), theirs.looks());
    ours.wake().await.unwrap();
    ours.look(id).await.unwrap();
    ours.resync().await.unwrap();
    ours.publish(ann, Event::Updated { workspace: id }).await.unwrap();
    heard(&mut here, &Event::Updated { workspace: id }).await;
    // Redis tells everybody in its own order: had any of it been for them, it would come first.
    other.publish(ann, Event::Deleted { workspace: id }).await.unwrap();
    assert_eq!(there.recv().await.unwrap(), Event::Deleted { workspace: id }, "nothing of ours came before");
    assert!(wakes.try_recv().is_err() && looks.try_recv().is_err());

    ours.activity_add(&[(id, at(5))]).await.unwrap();
    assert_eq!(theirs.activity_read().await.unwrap(), [], "not theirs to take");
    assert_eq!(beside.activity_read().await.unwrap(), [(id, at(5))]);

    let noticed = async {
        while !ours.neighbours().await.unwrap().iter().any(|who| who.contains("theirs")) {
            codehub_testing::poll_every(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(5), noticed).await.expect("the neighbour is noticed");
    assert_eq!(ours.neighbours().await.unwrap().len(), 1, "our own replicas are none");
    let mut commands = ours.commands.clone();
    let old = redis::cmd("ZADD").arg(&names.activity).arg(1).arg("x").query_async::<()>(&mut commands).await;
    old.unwrap();
    let found = ours.neighbours().await.unwrap();
    assert!(found.iter().any(|who| who.contains(&names.activity)), "an older version: {found:?}");
}

#[tokio::test]
async fn what_could_not_be_published_is_made_up_for() {
    let names = names();
    let (Some(one), Some(two)) = (open(&names, Duration::ZERO), open(&names, Duration::ZERO)) else { return };
    tokio::join!(connected(&one), connected(&two));
    let (mut anns, mut bobs, mut wakes) = (two.subscribe(user()), two.subscribe(user()), two.wakes());
    one.resync().await.unwrap();
    for events in [&mut anns, &mut bobs] {
        heard(events, &Event::Resync).await;
    }
    // As when the connection for commands broke, and nobody else's did.
    one.shared.lost.store(true, Relaxed);
    for events in [&mut anns, &mut bobs] {
        heard(events, &Event::Resync).await;
    }
    timeout(Duration::from_secs(5), wakes.recv()).await.expect("and the leader looks").unwrap();
    let_time_pass(outgoing::MAKE_UP * 2).await;
    assert!(anns.try_recv().is_err(), "once");
}

#[tokio::test]
async fn what_redis_forgot_is_noticed_and_waited_for() {
    let names = names();
    let Some(bus) = open(&names, Duration::from_millis(400)) else { return };
    assert!(!bus.forgot().await.unwrap(), "nothing was told before");
    let_time_pass(Duration::from_millis(450)).await;
    assert!(!bus.forgot().await.unwrap());
    bus.activity_add(&[(workspace(), at(1))]).await.unwrap();
    assert_eq!(bus.activity_read().await.unwrap().len(), 1);
    // As FLUSHALL does, for our keys.
    let mut commands = bus.commands.clone();
    let keys = [bus.shared.names.activity.clone(), bus.shared.names.mark()];
    redis::cmd("DEL").arg(&keys).query_async::<()>(&mut commands).await.unwrap();
    assert!(bus.activity_read().await.is_err(), "an empty answer would put people to sleep");
    assert!(bus.forgot().await.unwrap());
    assert!(!bus.forgot().await.unwrap(), "once");
    eventually("it is believed again", async || bus.activity_read().await.is_ok()).await;
    assert_eq!(bus.activity_read().await.unwrap(), []);
}

#[tokio::test]
async fn without_redis_calls_fail_quickly_and_this_process_still_hears_itself() {
    let bus = RedisBus::open("redis://127.0.0.1:1", &names(), "ours", Duration::ZERO).unwrap();
    let ann = user();
    let (mut events, mut wakes) = (bus.subscribe(ann), bus.wakes());
    let started = Instant::now();
    assert!(bus.ping().await.is_err());
    assert!(bus.wake().await.is_err());
    assert!(bus.publish(ann, Event::Resync).await.is_err());
    assert!(bus.activity_read().await.is_err());
    assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
    assert_eq!(events.recv().await.unwrap(), Event::Resync);
    wakes.recv().await.unwrap();
}

#[tokio::test]
async fn an_address_that_is_none_is_refused_without_its_password() {
    let error =
        RedisBus::open("redis://:hush@", &names(), "ours", Duration::ZERO).map(drop).unwrap_err().to_string();
    assert!(error.contains("redis://") && !error.contains("hush"), "{error}");
}

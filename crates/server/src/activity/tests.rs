use async_trait::async_trait;
use codehub_adapters::bus::{BusError, Event, MemoryBus, Result};
use codehub_domain::UserId;
use codehub_testing::let_time_pass;
use tokio::sync::broadcast;

use super::*;

fn id(n: u8) -> WorkspaceId {
    format!("01890a5d-ac96-774b-bcce-b302099a80{n:02}").parse().unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

async fn flush(activity: &Activity, now: Timestamp, bus: &dyn Bus) -> usize {
    activity.flush_by(async { Ok(now) }, bus).await.unwrap()
}

/// The bus while Redis is away.
struct Down;

#[async_trait]
impl Bus for Down {
    fn kind(&self) -> &'static str {
        "down"
    }
    async fn ping(&self) -> Result<()> {
        Err(BusError("down".into()))
    }
    async fn publish(&self, _: UserId, _: Event) -> Result<()> {
        self.ping().await
    }
    async fn resync(&self) -> Result<()> {
        self.ping().await
    }
    fn tell(&self, _: UserId, _: Event) {}
    fn subscribe(&self, _: UserId) -> broadcast::Receiver<Event> {
        broadcast::Sender::new(1).subscribe()
    }
    async fn wake(&self) -> Result<()> {
        self.ping().await
    }
    fn wakes(&self) -> broadcast::Receiver<()> {
        broadcast::Sender::new(1).subscribe()
    }
    async fn look(&self, _: WorkspaceId) -> Result<()> {
        self.ping().await
    }
    fn looks(&self) -> broadcast::Receiver<WorkspaceId> {
        broadcast::Sender::new(1).subscribe()
    }
    async fn activity_add(&self, _: &[(WorkspaceId, Timestamp)]) -> Result<()> {
        self.ping().await
    }
    async fn activity_read(&self) -> Result<Vec<(WorkspaceId, Timestamp)>> {
        Err(BusError("down".into()))
    }
    async fn activity_remove(&self, _: &[(WorkspaceId, Timestamp)]) -> Result<()> {
        self.ping().await
    }
}

#[tokio::test]
async fn ages_become_times_by_the_databases_clock() {
    let activity = Activity::default();
    let bus = MemoryBus::new();
    activity.record(id(1), Kind::Http);
    let_time_pass(Duration::from_millis(200)).await;
    activity.record(id(2), Kind::FromWorkspace);
    // A database that lives in another year than this machine.
    assert_eq!(flush(&activity, at(1_000), &bus).await, 2);
    let seen: HashMap<_, _> = bus.activity_read().await.unwrap().into_iter().collect();
    let age = |n| (at(1_000) - seen[&id(n)]).total(jiff::Unit::Millisecond).unwrap();
    assert!((190.0..2_000.0).contains(&age(1)), "{}", age(1));
    assert!((0.0..150.0).contains(&age(2)), "{}", age(2));
}

#[tokio::test]
async fn only_what_is_new_is_told() {
    let activity = Activity::default();
    let bus = MemoryBus::new();
    let cell = activity.cell(id(1));
    assert_eq!(flush(&activity, at(10), &bus).await, 0);
    cell.record(Kind::Http);
    assert_eq!(flush(&activity, at(10), &bus).await, 1);
    assert_eq!(flush(&activity, at(20), &bus).await, 0);
    let_time_pass(Duration::from_millis(5)).await;
    cell.record(Kind::FromClient);
    assert_eq!(flush(&activity, at(30), &bus).await, 1);
    assert!(bus.activity_read().await.unwrap()[0].1 > at(29));
}

#[tokio::test]
async fn nothing_is_lost_while_the_bus_or_the_database_is_away() {
    let activity = Activity::default();
    let bus = MemoryBus::new();
    activity.record(id(1), Kind::Http);
    assert!(activity.flush_by(async { Ok(at(10)) }, &Down).await.is_err());
    activity.record(id(2), Kind::Http);
    assert!(activity.flush_by(async { anyhow::bail!("no database") }, &bus).await.is_err());
    assert_eq!(flush(&activity, at(100), &bus).await, 2);
    assert!(bus.activity_read().await.unwrap().iter().all(|(_, seen)| *seen > at(98)));
}

#[tokio::test]
async fn an_open_connection_is_told_again_and_again_where_connections_count() {
    for (mode, told_again) in [(ActivityMode::Connections, 1), (ActivityMode::Traffic, 0)] {
        let activity = Activity::new(mode);
        let bus = MemoryBus::new();
        let socket = activity.open_socket(&activity.cell(id(1)), false);
        assert_eq!(flush(&activity, at(10), &bus).await, 1);
        let_time_pass(Duration::from_millis(5)).await;
        assert_eq!(flush(&activity, at(20), &bus).await, told_again, "{mode:?}");
        let_time_pass(Duration::from_millis(5)).await;
        drop(socket);
        // Its end is the last activity.
        assert_eq!(flush(&activity, at(30), &bus).await, told_again, "{mode:?}");
        assert_eq!(flush(&activity, at(40), &bus).await, 0);
    }
}

#[tokio::test]
async fn cells_nobody_used_are_forgotten_and_cells_in_use_are_kept() {
    let activity = Activity::default();
    let bus = MemoryBus::new();
    let held = activity.cell(id(1));
    let _ = activity.cell(id(2));
    activity.record(id(3), Kind::Http);
    flush(&activity, at(10), &bus).await;
    assert!(activity.peek(id(1)).is_some_and(|cell| Arc::ptr_eq(&cell, &held)));
    assert!(activity.peek(id(2)).is_none());
    assert!(activity.peek(id(3)).is_some(), "recent activity is kept to be shown");
}

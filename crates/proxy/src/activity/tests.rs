use std::sync::Mutex;

use anyhow::Context as _;
use codehub_testing::let_time_pass;

use super::*;

fn id(n: u8) -> WorkspaceId {
    format!("01890a5d-ac96-774b-bcce-b302099a80{n:02}").parse().unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// A leader that remembers what it was told; or a bus or a database that is away.
struct Recorded {
    seen: Mutex<HashMap<WorkspaceId, Timestamp>>,
    now: Mutex<Option<Timestamp>>,
    bus_is_down: bool,
}

impl Recorded {
    fn new() -> Self {
        Self { seen: Mutex::default(), now: Mutex::new(None), bus_is_down: false }
    }

    fn seen(&self) -> HashMap<WorkspaceId, Timestamp> {
        self.seen.lock().unwrap().clone()
    }
}

#[async_trait]
impl Sink for Recorded {
    async fn now(&self) -> anyhow::Result<Timestamp> {
        self.now.lock().unwrap().context("no database")
    }
    async fn forgot(&self) -> anyhow::Result<bool> {
        Ok(false)
    }
    async fn add(&self, seen: &[(WorkspaceId, Timestamp)]) -> anyhow::Result<()> {
        anyhow::ensure!(!self.bus_is_down, "no bus");
        self.seen.lock().unwrap().extend(seen.iter().copied());
        Ok(())
    }
    async fn flushed(&self, _: Duration) -> anyhow::Result<()> {
        Ok(())
    }
}

async fn flush(activity: &Activity, now: Timestamp, told: &Recorded) -> usize {
    *told.now.lock().unwrap() = Some(now);
    activity.flush(told).await.unwrap()
}

#[tokio::test]
async fn ages_become_times_by_the_databases_clock() {
    let activity = Activity::default();
    let told = Recorded::new();
    activity.record(id(1), ActivityKind::Http);
    let_time_pass(Duration::from_millis(200)).await;
    activity.record(id(2), ActivityKind::FromWorkspace);
    // A database that lives in another year than this machine.
    assert_eq!(flush(&activity, at(1_000), &told).await, 2);
    let seen = told.seen();
    let age = |n| (at(1_000) - seen[&id(n)]).total(jiff::Unit::Millisecond).unwrap();
    assert!((190.0..2_000.0).contains(&age(1)), "{}", age(1));
    assert!((0.0..150.0).contains(&age(2)), "{}", age(2));
}

#[tokio::test]
async fn only_what_is_new_is_told() {
    let activity = Activity::default();
    let told = Recorded::new();
    let cell = activity.cell(id(1));
    assert_eq!(flush(&activity, at(10), &told).await, 0);
    cell.record(ActivityKind::Http);
    assert_eq!(flush(&activity, at(10), &told).await, 1);
    assert_eq!(flush(&activity, at(20), &told).await, 0);
    let_time_pass(Duration::from_millis(5)).await;
    cell.record(ActivityKind::FromClient);
    assert_eq!(flush(&activity, at(30), &told).await, 1);
    assert!(told.seen()[&id(1)] > at(29));
}

#[tokio::test]
async fn nothing_is_lost_while_the_bus_or_the_database_is_away() {
    let activity = Activity::default();
    let told = Recorded::new();
    activity.record(id(1), ActivityKind::Http);
    let down = Recorded { bus_is_down: true, now: Mutex::new(Some(at(10))), ..Recorded::new() };
    assert!(activity.flush(&down).await.is_err());
    activity.record(id(2), ActivityKind::Http);
    assert!(activity.flush(&told).await.is_err());
    assert_eq!(flush(&activity, at(100), &told).await, 2);
    assert!(told.seen().values().all(|seen| *seen > at(98)));
}

#[tokio::test]
async fn an_open_connection_is_told_again_and_again_where_connections_count() {
    for (mode, told_again) in [(ActivityMode::Connections, 1), (ActivityMode::Traffic, 0)] {
        let activity = Activity::new(mode);
        let told = Recorded::new();
        let socket = activity.open_socket(&activity.cell(id(1)), false);
        assert_eq!(flush(&activity, at(10), &told).await, 1);
        let_time_pass(Duration::from_millis(5)).await;
        assert_eq!(flush(&activity, at(20), &told).await, told_again, "{mode:?}");
        let_time_pass(Duration::from_millis(5)).await;
        drop(socket);
        // Its end is the last activity.
        assert_eq!(flush(&activity, at(30), &told).await, told_again, "{mode:?}");
        assert_eq!(flush(&activity, at(40), &told).await, 0);
    }
}

#[tokio::test]
async fn cells_nobody_used_are_forgotten_and_cells_in_use_are_kept() {
    let activity = Activity::default();
    let told = Recorded::new();
    let held = activity.cell(id(1));
    let _ = activity.cell(id(2));
    activity.record(id(3), ActivityKind::Http);
    flush(&activity, at(10), &told).await;
    assert!(activity.peek(id(1)).is_some_and(|cell| Arc::ptr_eq(&cell, &held)));
    assert!(activity.peek(id(2)).is_none());
    assert!(activity.peek(id(3)).is_some(), "recent activity is kept to be shown");
}

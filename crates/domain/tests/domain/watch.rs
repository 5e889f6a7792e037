//! Deadlines follow progress.

use codehub_domain::{
    Desired, ErrorReason, Operation, Phase, Progress, Truth, Workspace,
    decide::{Watch, watch},
    observed::WaitingFor,
    retry::Policy,
};

use crate::support::*;

fn archiving() -> Workspace {
    given(Phase::Standby, Desired::Archived, Operation::Archiving, Truth::Volume)
}

fn progress(done: u64) -> Option<Progress> {
    Some(Progress { done, total: 100, rate: 1 })
}

fn watched(ws: &Workspace, done: Option<Progress>, second: i64) -> Watch {
    watch(ws, done, None, &Policy::default(), at(second))
}

fn waits(ws: &Workspace, kind: WaitingFor, second: i64) -> Watch {
    watch(ws, None, Some(&waiting(kind)), &Policy::default(), at(second))
}

#[test]
fn each_kind_of_waiting_is_shown_and_has_its_own_limit() {
    let policy = Policy::default();
    for (kind, limit) in [
        (WaitingFor::Capacity, Some(policy.schedule_deadline)),
        (WaitingFor::Volume, Some(policy.schedule_deadline)),
        (WaitingFor::Image, Some(policy.pull_deadline)),
        (WaitingFor::Container, Some(policy.container_deadline)),
        (WaitingFor::Node, None),
    ] {
        let ws = given(Phase::Standby, Desired::Running, Operation::Starting, Truth::Volume);
        // The operation's own limit is over: what it waits for now is news.
        let begun = waits(&ws, kind, NOW + 1_000);
        assert!(!begun.cancel, "{kind}");
        let ws = Workspace { status: begun.status.unwrap(), ..ws };
        assert_eq!(ws.status.op_moved_at, Some(at(NOW + 1_000)));
        let shown = ws.status.conditions.container_ready.clone().unwrap();
        assert_eq!((shown.status, shown.reason), (false, format!("WaitingFor{kind}")));
        assert_eq!(shown.message, format!("no {kind} yet"));
        let Some(limit) = limit else {
            assert!(!waits(&ws, kind, NOW + 1_000_000).cancel, "{kind}");
            continue;
        };
        let limit = i64::try_from(limit.as_secs()).unwrap();
        let still = waits(&ws, kind, NOW + 1_000 + limit);
        assert_eq!((still.status, still.cancel), (None, false), "{kind}: nothing new, nothing saved");
        let over = waits(&ws, kind, NOW + 1_001 + limit);
        assert!(over.cancel);
        let failure = over.status.unwrap().error.unwrap();
        assert_eq!(failure.reason, ErrorReason::Timeout);
        let words = format!("STARTING did not get any further for {limit} s; it waited: no {kind} yet");
        assert_eq!(failure.message, words);
    }
}

fn moved(ws: &Workspace, done: u64, second: i64) -> Workspace {
    let got = watched(ws, progress(done), second);
    assert!(!got.cancel, "cancelled at {second}");
    Workspace { status: got.status.unwrap(), ..ws.clone() }
}

#[test]
fn what_moves_bytes_is_never_timed_out() {
    let mut ws = archiving();
    for tick in 1..100_u32 {
        let second = NOW + i64::from(tick) * 590;
        ws = moved(&ws, tick.into(), second);
        assert_eq!(ws.status.op_moved_at, Some(at(second)));
        assert_eq!(ws.status.progress, progress(tick.into()));
    }
}

#[test]
fn what_has_not_moved_for_its_limit_is_a_timeout() {
    let ws = moved(&archiving(), 10, NOW);
    let still = watched(&ws, progress(10), NOW + 600);
    assert_eq!(still, Watch { status: None, transitions: Vec::new(), cancel: false });
    let got = watched(&ws, progress(10), NOW + 601);
    assert!(got.cancel);
    let status = got.status.unwrap();
    assert_eq!((status.phase, status.operation), (Phase::Error, Operation::None));
    assert_eq!((status.error_count, status.progress, status.op_moved_at), (1, None, None));
    assert!(!status.conditions.healthy());
    let failure = status.error.unwrap();
    assert_eq!(failure.reason, ErrorReason::Timeout);
    assert_eq!(failure.message, "ARCHIVING did not get any further for 600 s");
    assert_eq!(got.transitions.len(), 1);
    assert_eq!((got.transitions[0].from, got.transitions[0].to), (Phase::Standby, Phase::Error));
    assert_eq!(status.home, ws.status.home, "a timeout does not move the home");
}

#[test]
fn the_first_bytes_and_a_new_start_count_as_movement() {
    let ws = moved(&archiving(), 50, NOW);
    // A retry starts at the front again: less is movement as well.
    let ws = moved(&ws, 1, NOW + 500);
    assert_eq!(ws.status.op_moved_at, Some(at(NOW + 500)));
    let none = watched(&archiving(), None, NOW);
    assert_eq!(none.status, None, "nothing new, nothing saved");
}

#[test]
fn a_slow_deletion_is_ended_and_tried_again() {
    let ws = given(Phase::Deleting, Desired::Deleted, Operation::Deleting, Truth::Volume);
    let got = watched(&ws, None, NOW + 700);
    assert!(got.cancel && got.transitions.is_empty());
    let status = got.status.unwrap();
    assert_eq!((status.phase, status.operation), (Phase::Deleting, Operation::Deleting));
    assert_eq!(status.error.unwrap().reason, ErrorReason::ActionFailed);
    assert_eq!(status.next_retry_at, Some(at(NOW + 701)));
}

#[test]
fn an_action_whose_operation_has_ended_is_ended_too() {
    let ws = failed(ErrorReason::Timeout, Truth::Volume);
    assert_eq!(watched(&ws, progress(5), NOW), Watch { status: None, transitions: Vec::new(), cancel: true });
}

#[test]
fn the_rest_takes_as_long_as_the_rate_says() {
    let remaining = |done, total, rate| Progress { done, total, rate }.remaining_seconds();
    assert_eq!(remaining(0, 100, 10), Some(10));
    assert_eq!(remaining(95, 100, 10), Some(1), "rounded up");
    assert_eq!(remaining(100, 100, 10), Some(0));
    assert_eq!(remaining(101, 100, 10), Some(0), "an estimate may be passed");
    assert_eq!(remaining(0, 100, 0), None, "nothing moves");
}

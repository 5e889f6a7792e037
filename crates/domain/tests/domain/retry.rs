//! Tries, backoff and deadlines.

use std::time::Duration;

use codehub_domain::{
    Desired, ErrorReason, Failure, Operation, Phase, Status, Timestamp, Truth,
    retry::{Policy, Verdict, judge_failure, overdue, saturating_add},
};

use crate::support::*;

fn status(operation: Operation, before: Option<ErrorReason>, count: u32) -> Status {
    let mut status = given(Phase::Standby, Desired::Running, operation, Truth::Volume).status;
    status.error = before.map(|reason| Failure::new(reason, "before"));
    status.error_count = count;
    status
}

fn judged(status: &Status, reason: ErrorReason) -> Verdict {
    judge_failure(status, Failure::new(reason, "why"), &Policy::default(), 1.0, now())
}

#[test]
fn backoff_doubles_from_a_second_up_to_a_minute() {
    let policy = Policy::default();
    for (tries, seconds) in
        [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 60), (8, 60), (33, 60), (u32::MAX, 60)]
    {
        assert_eq!(policy.backoff(tries, 1.0), Duration::from_secs(seconds), "{tries}");
    }
}

#[test]
fn jitter_stays_within_a_fifth_and_under_the_cap() {
    let policy = Policy::default();
    for tries in 1..12 {
        let plain = policy.backoff(tries, 1.0);
        for jitter in [-1.0, 0.0, 0.8, 0.9, 1.0, 1.1, 1.2, 7.0] {
            let got = policy.backoff(tries, jitter);
            assert!(got >= plain.mul_f64(0.8) && got <= plain.mul_f64(1.2), "{tries} {jitter} {got:?}");
            assert!(got <= policy.backoff_cap, "{tries} {jitter} {got:?}");
        }
    }
    assert_eq!(policy.backoff(1, 0.8), Duration::from_millis(800));
    assert_eq!(policy.backoff(1, 1.2), Duration::from_millis(1200));
}

#[test]
fn terminal_reasons_give_up_at_once() {
    for &reason in ErrorReason::ALL.iter().filter(|reason| reason.is_terminal()) {
        let got = judged(&status(Operation::Starting, None, 0), reason);
        assert_eq!(got, Verdict::GiveUp(Failure::new(reason, "why")));
    }
}

#[test]
fn a_failing_action_is_tried_three_times_in_a_row() {
    use ErrorReason::{ActionFailed, Unreachable};
    for (before, count, expected) in [
        (None, 0, Some(1)),
        (Some(ActionFailed), 1, Some(2)),
        (Some(ActionFailed), 2, None),
        (Some(ActionFailed), 9, None),
        // An outage in between is not a failed action.
        (Some(Unreachable), 9, Some(1)),
    ] {
        let got = judged(&status(Operation::Archiving, before, count), ActionFailed);
        match expected {
            Some(tries) => {
                let at = saturating_add(now(), Policy::default().backoff(tries, 1.0));
                assert_eq!(
                    got,
                    Verdict::Retry { failure: Failure::new(ActionFailed, "why"), count: tries, at }
                );
            }
            None => {
                let Verdict::GiveUp(failure) = got else { panic!("{got:?}") };
                assert_eq!(failure.reason, ErrorReason::RetryExceeded);
                let tries = count + 1;
                assert_eq!(failure.message, format!("ARCHIVING failed {tries} times; the last time: why"));
            }
        }
    }
}

#[test]
fn an_outage_is_waited_out_however_long() {
    let got =
        judged(&status(Operation::Starting, Some(ErrorReason::Unreachable), 1000), ErrorReason::Unreachable);
    let Verdict::Retry { count, at: again, .. } = got else { panic!("{got:?}") };
    assert_eq!((count, again), (1001, at(NOW + 60)));
}

#[test]
fn deleting_never_gives_up_and_never_shows_a_terminal_reason() {
    for &reason in ErrorReason::ALL {
        let got = judged(&status(Operation::Deleting, Some(reason), 50), reason);
        let Verdict::Retry { failure, .. } = got else { panic!("{got:?}") };
        assert!(!failure.reason.is_terminal());
        assert_eq!(failure.message, "why");
    }
}

#[test]
fn an_operation_is_overdue_when_it_has_not_moved_for_its_limit() {
    let policy = Policy::default();
    for (operation, limit) in [
        (Operation::Starting, Some(120)),
        (Operation::Stopping, Some(120)),
        (Operation::Provisioning, Some(600)),
        (Operation::CreateEmptyArchive, Some(600)),
        (Operation::Restoring, Some(600)),
        (Operation::Archiving, Some(600)),
        (Operation::Deleting, Some(600)),
        (Operation::None, None),
    ] {
        assert_eq!(policy.deadline(operation).map(|limit| limit.as_secs()), limit);
        let mut status = status(operation, None, 0);
        status.op_started_at = Some(at(0));
        status.op_moved_at = Some(at(NOW));
        let Some(limit) = limit else {
            assert!(!overdue(&status, policy.deadline(operation), Timestamp::MAX));
            continue;
        };
        let limit = i64::try_from(limit).unwrap();
        assert!(!overdue(&status, policy.deadline(operation), at(NOW + limit)), "{operation}");
        assert!(overdue(&status, policy.deadline(operation), at(NOW + limit + 1)), "{operation}");
        status.op_moved_at = None;
        assert!(
            overdue(&status, policy.deadline(operation), at(limit + 1)),
            "{operation}: counts from its start"
        );
    }
}

#[test]
fn the_end_of_time_is_far_enough() {
    assert_eq!(saturating_add(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
    assert_eq!(saturating_add(now(), Duration::MAX), Timestamp::MAX);
}

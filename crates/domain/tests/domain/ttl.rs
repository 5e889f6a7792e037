//! When a workspace goes to sleep.

use std::time::Duration;

use codehub_domain::{
    Desired, Operation, Phase, Truth, Workspace,
    ttl::{Expiry, TtlPolicy, expired, expiry},
};

use crate::support::*;

const POLICY: TtlPolicy =
    TtlPolicy { standby_seconds: 600, archive_seconds: 1800, unseen_activity: Duration::from_secs(90) };

fn resting(phase: Phase, desired: Desired) -> Workspace {
    let mut ws = given(phase, desired, Operation::None, Truth::Volume);
    ws.status.phase_changed_at = at(1000);
    ws.last_access_at = at(1000);
    ws
}

fn running() -> Workspace {
    resting(Phase::Running, Desired::Running)
}

fn standby() -> Workspace {
    resting(Phase::Standby, Desired::Standby)
}

#[test]
fn running_sleeps_after_the_later_of_access_and_arrival_and_unseen_activity_wins() {
    for (access, arrival, from) in [(1000, 1000, 1000), (5000, 1000, 5000), (1000, 5000, 5000)] {
        let mut ws = running();
        ws.last_access_at = at(access);
        ws.status.phase_changed_at = at(arrival);
        let expected = Expiry { acts_at: at(from + 690), to: Desired::Standby };
        assert_eq!(expiry(&ws, &POLICY), Some(expected));
        assert_eq!(expired(&ws, &POLICY, at(from + 690)), None);
        assert_eq!(expired(&ws, &POLICY, at(from + 691)), Some(Desired::Standby));
    }
}

#[test]
fn standby_is_archived_by_the_time_it_has_been_so_without_grace() {
    let mut ws = standby();
    ws.last_access_at = at(9000);
    let expected = Expiry { acts_at: at(2800), to: Desired::Archived };
    assert_eq!(expiry(&ws, &POLICY), Some(expected));
    assert_eq!(expired(&ws, &POLICY, at(2800)), None);
    assert_eq!(expired(&ws, &POLICY, at(2801)), Some(Desired::Archived));
}

#[test]
fn its_own_value_goes_before_the_default_and_zero_is_never() {
    for (own, default, expected) in [
        (None, 600, Some(600)),
        (Some(60), 600, Some(60)),
        (Some(0), 600, None),
        (None, 0, None),
        (Some(5), 0, Some(5)),
    ] {
        let unseen_activity = Duration::ZERO;
        let policy = TtlPolicy { standby_seconds: default, archive_seconds: default, unseen_activity };
        let mut awake = running();
        awake.standby_ttl_seconds = own;
        awake.archive_ttl_seconds = Some(1);
        let mut asleep = standby();
        asleep.archive_ttl_seconds = own;
        asleep.standby_ttl_seconds = Some(1);
        let expected = expected.map(|ttl: i64| at(1000 + ttl));
        assert_eq!(expiry(&awake, &policy).map(|expiry| expiry.acts_at), expected, "{own:?} {default}");
        assert_eq!(expiry(&asleep, &policy).map(|expiry| expiry.acts_at), expected, "{own:?} {default}");
    }
}

#[test]
fn only_at_rest_in_the_phase_that_is_wanted() {
    for &phase in Phase::ALL {
        for &desired in Desired::ALL {
            for &operation in Operation::ALL {
                let mut ws = resting(phase, desired);
                ws.status.operation = operation;
                ws.deleted_at = None;
                let sleeps = matches!(
                    (phase, desired),
                    (Phase::Running, Desired::Running) | (Phase::Standby, Desired::Standby)
                );
                let expected = sleeps && operation == Operation::None;
                assert_eq!(expiry(&ws, &POLICY).is_some(), expected, "{phase} {desired} {operation}");
                ws.deleted_at = Some(at(1));
                assert_eq!(expiry(&ws, &POLICY), None, "deleted");
            }
        }
    }
}

#[test]
fn a_wake_up_that_waits_is_not_overwritten() {
    let ws = resting(Phase::Standby, Desired::Running);
    assert_eq!(expired(&ws, &POLICY, at(1_000_000)), None);
}

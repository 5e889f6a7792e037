//! Whole decisions: completion, reports, deaths, and what a new leader makes of a crash.

use std::collections::BTreeSet;

use codehub_domain::{
    Desired, ErrorReason, Failure, Generation, Operation, Phase, Truth, Workspace,
    decide::{Decision, Outcome},
    desired,
    event::{Actor, Reason},
    observed::{InstanceState, Observed, Seen},
    plan::Action,
};

use crate::support::*;

fn reason(decision: &Decision) -> Option<ErrorReason> {
    decision.status.error.as_ref().map(|failure| failure.reason)
}

#[test]
fn intent_comes_with_everything_that_must_be_saved_before_the_action() {
    let ws = workspace();
    let got = step(&ws, &at_rest(Phase::Pending));
    assert_eq!(got.action, Some(Action::CreateVolume { generation: Generation(1) }));
    assert_eq!(got.status.operation, Operation::Provisioning);
    assert_eq!(got.status.op_id, Some(next_op()));
    assert_eq!(got.status.home.generation, Generation(1));
    assert_eq!(got.status.home.truth, Truth::None);
    assert_eq!((got.status.op_started_at, got.status.op_moved_at), (Some(now()), Some(now())));
    assert_eq!(got.transitions.len(), 1);
    assert_eq!(got.transitions[0].actor, Actor::Controller);
}

#[test]
fn a_new_home_never_takes_a_volume_that_is_already_there() {
    let ws = workspace();
    let got = step(&ws, &seen(Seen::NotThere, volumes([Generation(1), Generation(4)]), Seen::Unknown));
    assert_eq!(got.action, Some(Action::CreateVolume { generation: Generation(5) }));
}

#[test]
fn every_operation_is_done_when_it_is_observed() {
    use Operation as O;
    for (operation, truth, from, seen, to, truth_after) in [
        (
            O::Provisioning,
            Truth::None,
            Phase::Pending,
            at_rest(Phase::Standby),
            Phase::Standby,
            Truth::Volume,
        ),
        (
            O::CreateEmptyArchive,
            Truth::Archive,
            Phase::Archived,
            at_rest(Phase::Archived),
            Phase::Archived,
            Truth::Archive,
        ),
        (O::Restoring, Truth::Volume, Phase::Standby, at_rest(Phase::Standby), Phase::Standby, Truth::Volume),
        (O::Starting, Truth::Volume, Phase::Standby, at_rest(Phase::Running), Phase::Running, Truth::Volume),
        (O::Stopping, Truth::Volume, Phase::Running, at_rest(Phase::Standby), Phase::Standby, Truth::Volume),
        (
            O::Archiving,
            Truth::Archive,
            Phase::Archived,
            at_rest(Phase::Archived),
            Phase::Archived,
            Truth::Archive,
        ),
        (O::Deleting, Truth::Volume, Phase::Deleting, at_rest(Phase::Deleted), Phase::Deleted, Truth::Volume),
    ] {
        let desired = if operation == O::Deleting { Desired::Deleted } else { Desired::Standby };
        let mut ws = given(from, desired, operation, truth);
        ws.status.error = Some(Failure::new(ErrorReason::ActionFailed, "once"));
        ws.status.error_count = 1;
        ws.status.next_retry_at = Some(at(NOW + 30));
        let got = step(&ws, &seen);
        assert_eq!((got.status.operation, got.status.phase), (O::None, to), "{operation}");
        assert_eq!(got.status.home.truth, truth_after, "{operation}");
        assert!(got.again && got.action.is_none(), "{operation}");
        // Success resets the errors.
        assert_eq!((got.status.error, got.status.error_count, got.status.next_retry_at), (None, 0, None));
    }
}

#[test]
fn what_is_observed_counts_more_than_what_was_reported() {
    let ws = given(Phase::Standby, Desired::Running, Operation::Starting, Truth::Volume);
    let action = Action::StartInstance { generation: CURRENT };
    let failed = Outcome::Failed(Failure::new(ErrorReason::ActionFailed, "the call timed out"));
    let got = after(&ws, &at_rest(Phase::Running), &action, &failed);
    assert_eq!((got.status.phase, got.status.operation), (Phase::Running, Operation::None));
    let got = after(&ws, &at_rest(Phase::Standby), &action, &Outcome::Done);
    assert_eq!(reason(&got), Some(ErrorReason::ActionFailed), "done, but nothing there");
    assert_eq!(got.action, None);
}

fn packed() -> (Action, Outcome) {
    let key = key(this_op());
    (Action::PutArchive { key, from: CURRENT }, archived(key))
}

#[test]
fn the_volume_goes_only_after_the_commit_was_saved_and_the_new_archive_was_seen() {
    let ws = given(Phase::Standby, Desired::Archived, Operation::Archiving, Truth::Volume);
    let (action, outcome) = packed();
    // Whatever was seen of the archive is of the one before.
    for archive in [Seen::There(()), Seen::NotThere, Seen::Unknown] {
        let seen_before = seen(Seen::NotThere, volumes([CURRENT]), archive);
        let got = after(&ws, &seen_before, &action, &outcome);
        assert_eq!((got.action.as_ref(), got.again), (None, true), "{seen_before:?}");
        assert_eq!(got.status.archive_key, Some(key(this_op())));
        assert_eq!(got.status.home.truth, Truth::Archive);
        assert_eq!((got.status.operation, got.status.phase), (Operation::Archiving, Phase::Archived));
        assert_eq!(got.status.error, None);
        let next = saved(&ws, &got);
        let blind = step(&next, &seen(Seen::NotThere, volumes([CURRENT]), Seen::Unknown));
        assert_eq!((blind.action.as_ref(), reason(&blind)), (None, Some(ErrorReason::Unreachable)));
        let lost = step(&next, &seen(Seen::NotThere, volumes([CURRENT]), Seen::NotThere));
        assert_eq!((lost.action.as_ref(), reason(&lost)), (None, Some(ErrorReason::DataLost)));
        let clean = step(&next, &seen(Seen::NotThere, volumes([CURRENT]), Seen::There(())));
        assert_eq!(clean.action, Some(Action::DeleteVolumes { generations: BTreeSet::from([CURRENT]) }));
    }
}

#[test]
fn an_archive_packed_while_something_ran_is_not_the_home() {
    let ws = given(Phase::Standby, Desired::Archived, Operation::Archiving, Truth::Volume);
    let (action, outcome) = packed();
    let got = after(&ws, &seen(alive(), volumes([CURRENT]), Seen::Unknown), &action, &outcome);
    assert_eq!(got.status.home.truth, Truth::Volume);
    assert_eq!(got.status.archive_key, Some(old_key()));
    assert_eq!((got.status.operation, got.status.phase), (Operation::None, Phase::Standby));
    // First the stray goes, then another operation (with another id) packs again.
    let got = step(&saved(&ws, &got), &seen(alive(), volumes([CURRENT]), Seen::Unknown));
    assert_eq!((got.status.operation, got.action), (Operation::Stopping, Some(Action::StopInstance)));
}

#[test]
fn reports_of_other_operations_and_generations_change_nothing() {
    let restoring = given(Phase::Archived, Desired::Running, Operation::Restoring, Truth::Archive);
    let restore = |into| Action::Restore { from: old_key(), into, wipe: BTreeSet::new() };
    for (ws, action, outcome) in [
        (
            given(Phase::Standby, Desired::Archived, Operation::Archiving, Truth::Volume),
            Action::PutArchive { key: old_key(), from: CURRENT },
            archived(old_key()),
        ),
        (given(Phase::Running, Desired::Standby, Operation::Stopping, Truth::Volume), packed().0, packed().1),
        (restoring.clone(), restore(OLD), Outcome::Restored { key: old_key(), generation: OLD }),
        (restoring, restore(CURRENT), Outcome::Restored { key: key(op(2)), generation: CURRENT }),
    ] {
        let look = seen(Seen::NotThere, volumes([CURRENT]), Seen::There(()));
        let got = after(&ws, &look, &action, &outcome);
        assert_eq!(got.status.home.truth, ws.status.home.truth, "{outcome:?}");
        assert_eq!(got.status.archive_key, ws.status.archive_key, "{outcome:?}");
    }
}

#[test]
fn a_restore_counts_once_it_is_whole_and_saved() {
    let ws = given(Phase::Archived, Desired::Running, Operation::Restoring, Truth::Archive);
    let action = Action::Restore { from: old_key(), into: CURRENT, wipe: BTreeSet::new() };
    let outcome = Outcome::Restored { key: old_key(), generation: CURRENT };
    // Seen before the restore made its volume: the report is newer.
    let got = after(&ws, &seen(Seen::NotThere, Seen::NotThere, Seen::There(())), &action, &outcome);
    assert_eq!((got.status.home.truth, got.status.home.restore_marker), (Truth::Volume, Some(old_key())));
    assert_eq!((got.status.phase, got.status.operation), (Phase::Standby, Operation::Restoring));
    assert!(got.again && got.action.is_none() && got.status.error.is_none());
    let got = step(&saved(&ws, &got), &seen(Seen::NotThere, volumes([CURRENT]), Seen::There(())));
    assert_eq!((got.status.phase, got.status.operation), (Phase::Standby, Operation::None));
    // A restore cut in half: into another generation, from the start.
    let got = step(&ws, &seen(Seen::NotThere, volumes([CURRENT]), Seen::There(())));
    let next = Generation(6);
    assert_eq!(
        got.action,
        Some(Action::Restore { from: old_key(), into: next, wipe: BTreeSet::from([CURRENT]) })
    );
    assert_eq!(got.status.home.generation, next);
}

/// Seed 004's matrix, as decisions on what a crash left behind. Where it says ERROR for what can be
/// done again, doing it again wins.
#[test]
fn a_new_leader_continues_what_it_finds() {
    use Operation as O;
    let volume = || volumes([CURRENT]);
    let start = || Some(Action::StartInstance { generation: CURRENT });
    let on_volume = |instance| seen(instance, volume(), Seen::Unknown);
    type Row = (Phase, O, Observed, Phase, O, Option<Action>);
    let rows: Vec<Row> = vec![
        // starting, running + healthy → RUNNING
        (Phase::Standby, O::Starting, on_volume(ready()), Phase::Running, O::None, None),
        // starting, anything else → the start is tried again
        (Phase::Standby, O::Starting, on_volume(alive()), Phase::Standby, O::Starting, start()),
        (Phase::Standby, O::Starting, on_volume(ended()), Phase::Standby, O::Starting, start()),
        (Phase::Standby, O::Starting, on_volume(Seen::NotThere), Phase::Standby, O::Starting, start()),
        // stopping, not running → STANDBY
        (Phase::Running, O::Stopping, on_volume(Seen::NotThere), Phase::Standby, O::None, None),
        // stopping, still running → stopped again
        (
            Phase::Running,
            O::Stopping,
            on_volume(ready()),
            Phase::Running,
            O::Stopping,
            Some(Action::StopInstance),
        ),
        // RUNNING, running + healthy → unchanged
        (Phase::Running, O::None, on_volume(ready()), Phase::Running, O::None, None),
        // RUNNING, anything else → started again
        (Phase::Running, O::None, on_volume(Seen::NotThere), Phase::Standby, O::Starting, start()),
        (Phase::Running, O::None, on_volume(ended()), Phase::Standby, O::Starting, start()),
        // silent → looked at once more, and then started again
        (Phase::Running, O::None, on_volume(alive()), Phase::Standby, O::None, None),
        (Phase::Standby, O::None, on_volume(alive()), Phase::Standby, O::Starting, start()),
    ];
    for (phase, operation, seen, phase_after, operation_after, action) in rows {
        let desired = if operation == O::Stopping { Desired::Standby } else { Desired::Running };
        let ws = given(phase, desired, operation, Truth::Volume);
        let got = step(&ws, &seen);
        let expected = (phase_after, operation_after, action);
        assert_eq!(
            (got.status.phase, got.status.operation, got.action),
            expected,
            "{phase} {operation} {seen:?}"
        );
    }
}

#[test]
fn a_new_leader_continues_a_deletion() {
    let delete = |generations: &[Generation]| {
        Some(Action::DeleteVolumes { generations: generations.iter().copied().collect() })
    };
    for (instance, volumes, phase, operation, action) in [
        (Seen::NotThere, Seen::NotThere, Phase::Deleted, Operation::None, None),
        (ready(), volumes([CURRENT]), Phase::Deleting, Operation::Deleting, Some(Action::StopInstance)),
        (
            Seen::NotThere,
            volumes([OLD, CURRENT]),
            Phase::Deleting,
            Operation::Deleting,
            delete(&[OLD, CURRENT]),
        ),
    ] {
        for (before, under_way) in [
            (Phase::Deleting, Operation::Deleting),
            (Phase::Standby, Operation::None),
            (Phase::Error, Operation::None),
        ] {
            let mut ws = given(before, Desired::Deleted, under_way, Truth::Volume);
            if before == Phase::Error {
                ws.status.error = Some(Failure::new(ErrorReason::Timeout, "before"));
            }
            let got = step(&ws, &seen(instance.clone(), volumes.clone(), Seen::Unknown));
            let expected = (phase, operation, action.clone());
            assert_eq!((got.status.phase, got.status.operation, got.action), expected, "{before}");
        }
    }
}

#[test]
fn deleted_is_an_end_that_an_outage_does_not_reopen() {
    let ws = given(Phase::Deleted, Desired::Deleted, Operation::None, Truth::Volume);
    let got = step(&ws, &Observed::default());
    assert_eq!((got.status.phase, got.status.operation, got.action), (Phase::Deleted, Operation::None, None));
    let got = step(&ws, &seen(Seen::NotThere, volumes([CURRENT]), Seen::Unknown));
    assert_eq!((got.status.phase, got.status.operation), (Phase::Deleting, Operation::Deleting));
}

#[test]
fn an_outage_changes_nothing_at_rest() {
    for (phase, desired, truth) in [
        (Phase::Running, Desired::Running, Truth::Volume),
        (Phase::Standby, Desired::Standby, Truth::Volume),
        (Phase::Archived, Desired::Archived, Truth::Archive),
    ] {
        let ws = given(phase, desired, Operation::None, truth);
        let got = step(&ws, &Observed::default());
        assert_eq!((got.status.phase, got.status.operation, got.action), (phase, Operation::None, None));
        assert_eq!(got.status.phase_changed_at, ws.status.phase_changed_at);
        assert!(got.transitions.is_empty());
    }
}

#[test]
fn a_home_that_cannot_be_seen_is_waited_for_never_made_anew() {
    for truth in [Truth::Volume, Truth::Archive] {
        for &desired in &[Desired::Running, Desired::Standby, Desired::Archived] {
            let mut ws = given(Phase::Error, desired, Operation::None, truth);
            ws.status.conditions = codehub_domain::condition::Conditions::default();
            let got = step(&ws, &Observed::default());
            assert_eq!((got.status.operation, got.action.as_ref()), (Operation::None, None));
            assert_eq!(got.why, "waits until the home can be seen");
        }
    }
}

fn die(ws: &Workspace, second: i64) -> Decision {
    after_at(ws, &seen(ended(), volumes([CURRENT]), Seen::Unknown), None, at(second))
}

/// Up again without being asked to start, as far as the workspace can tell.
fn up_again(ws: &Workspace, decision: &Decision) -> Workspace {
    let starting = saved(ws, decision);
    assert_eq!(starting.status.operation, Operation::Starting);
    saved(&starting, &step(&starting, &at_rest(Phase::Running)))
}

#[test]
fn three_deaths_within_ten_minutes_end_in_error() {
    let ws = given(Phase::Running, Desired::Running, Operation::None, Truth::Volume);
    let ws = up_again(&ws, &die(&ws, NOW));
    let ws = up_again(&ws, &die(&ws, NOW + 300));
    let got = die(&ws, NOW + 600);
    assert_eq!((got.status.phase, got.status.operation), (Phase::Error, Operation::None));
    let failure = got.status.error.unwrap();
    assert_eq!(failure.reason, ErrorReason::RetryExceeded);
    assert_eq!(
        failure.message,
        "the instance ended by itself 3 times within 10 minutes; the last time: exit status 1"
    );
    assert_eq!(
        got.transitions.iter().map(|line| (line.from, line.to)).collect::<Vec<_>>(),
        [(Phase::Running, Phase::Standby), (Phase::Standby, Phase::Error)]
    );
}

#[test]
fn deaths_further_apart_or_asked_for_or_merely_slow_do_not_count() {
    let ws = given(Phase::Running, Desired::Running, Operation::None, Truth::Volume);
    let mut far_apart = ws.clone();
    for death in 0..10 {
        let got = die(&far_apart, NOW + death * 301);
        far_apart = up_again(&far_apart, &got);
        assert!(far_apart.status.home.deaths.len() <= 2);
    }
    let mut slow = ws.clone();
    for _ in 0..10 {
        let looked = seen(alive(), volumes([CURRENT]), Seen::Unknown);
        let fell = step(&slow, &looked);
        assert!(fell.again && fell.action.is_none(), "it may be dying: another look tells");
        slow = saved(&slow, &fell);
        let got = step(&slow, &looked);
        slow = up_again(&slow, &got);
    }
    assert!(slow.status.home.deaths.is_empty());
    let unwanted = Workspace { desired: Desired::Standby, ..ws };
    let got = die(&unwanted, NOW);
    assert!(got.status.home.deaths.is_empty());
    assert_eq!(got.status.operation, Operation::Stopping);
}

#[test]
fn a_death_that_first_looks_like_silence_counts_once() {
    let ws = given(Phase::Running, Desired::Running, Operation::None, Truth::Volume);
    let silent = step(&ws, &seen(alive(), volumes([CURRENT]), Seen::Unknown));
    let ws = saved(&ws, &silent);
    assert_eq!((ws.status.phase, ws.status.operation), (Phase::Standby, Operation::None));
    assert_eq!(silent.transitions[0].reason, Reason::InstanceNotAnswering);
    let got = die(&ws, NOW + 1);
    assert_eq!(got.status.home.deaths, [at(NOW + 1)]);
    assert_eq!(
        got.transitions[0].reason,
        Reason::InstanceEnded("exit status 1".into()),
        "told as what it was"
    );
    let ws = up_again(&ws, &got);
    assert_eq!(ws.status.home.deaths, [at(NOW + 1)]);
}

#[test]
fn what_the_platform_ends_is_started_again_as_often_as_it_takes() {
    for instance in [evicted(), Seen::NotThere] {
        let mut ws = given(Phase::Running, Desired::Running, Operation::None, Truth::Volume);
        for _ in 0..10 {
            let got = step(&ws, &seen(instance.clone(), volumes([CURRENT]), Seen::Unknown));
            ws = up_again(&ws, &got);
            assert!(ws.status.home.deaths.is_empty(), "{instance:?}");
        }
    }
    let ws = given(Phase::Running, Desired::Running, Operation::None, Truth::Volume);
    let got = step(&ws, &seen(evicted(), volumes([CURRENT]), Seen::Unknown));
    assert_eq!(got.transitions[0].reason, Reason::InstanceInterrupted("the engine was restarted".into()));
}

#[test]
fn a_home_with_trouble_is_there_and_neither_started_nor_packed() {
    for (desired, operation) in
        [(Desired::Running, Operation::Starting), (Desired::Archived, Operation::Archiving)]
    {
        let ws = given(Phase::Standby, desired, Operation::None, Truth::Volume);
        let mut seen = seen(Seen::NotThere, volumes([CURRENT]), Seen::Unknown);
        let fine = step(&ws, &seen);
        assert_eq!(fine.status.operation, operation);
        assert!(fine.action.is_some());
        seen.trouble.insert(CURRENT, "it is being taken away".into());
        let got = step(&ws, &seen);
        assert_eq!((got.status.phase, &got.action), (Phase::Standby, &None), "not lost");
        let failure = got.status.error.as_ref().unwrap();
        assert_eq!(failure.reason, ErrorReason::ActionFailed);
        assert!(failure.message.contains("it is being taken away"), "{failure}");
        let ready = got.status.conditions.volume_ready.as_ref().unwrap();
        assert_eq!(
            (ready.reason.as_str(), ready.message.as_str()),
            ("FoundWithTrouble", "it is being taken away")
        );
        // What is wrong with another generation is nothing to this one.
        seen.trouble = std::iter::once((Generation(77), "old".to_owned())).collect();
        assert_eq!(step(&ws, &seen).action, fine.action);
    }
}

#[test]
fn without_room_it_is_tried_until_there_is() {
    let mut ws = given(Phase::Standby, Desired::Running, Operation::None, Truth::Volume);
    let seen = at_rest(Phase::Standby);
    let start = Action::StartInstance { generation: CURRENT };
    ws = saved(&ws, &step(&ws, &seen));
    let full = Outcome::Failed(Failure::new(ErrorReason::NoCapacity, "the quota is used up"));
    for n in 1..20 {
        let got = after(&ws, &seen, &start, &full);
        assert_eq!(reason(&got), Some(ErrorReason::NoCapacity), "shown");
        assert_eq!(
            (got.status.phase, got.status.operation),
            (Phase::Standby, Operation::Starting),
            "try {n}"
        );
        assert!(got.status.next_retry_at.is_some());
        ws = saved(&ws, &got);
    }
}

#[test]
fn an_instance_on_another_home_is_never_running_and_goes() {
    let ws = given(Phase::Running, Desired::Running, Operation::None, Truth::Volume);
    let other = instance(OLD, InstanceState::Ready);
    let got = step(&ws, &seen(other, volumes([OLD, CURRENT]), Seen::Unknown));
    assert_eq!((got.status.phase, got.status.operation), (Phase::Standby, Operation::Stopping));
    assert_eq!(got.action, Some(Action::StopInstance));
}

#[test]
fn a_failing_try_waits_is_shown_and_ends_in_retry_exceeded() {
    let mut ws = given(Phase::Standby, Desired::Running, Operation::Starting, Truth::Volume);
    let action = Action::StartInstance { generation: CURRENT };
    let failed = Outcome::Failed(Failure::new(ErrorReason::ActionFailed, "no port left"));
    let look = at_rest(Phase::Standby);
    for (tries, wait) in [(1, 1), (2, 2)] {
        let got = after(&ws, &look, &action, &failed);
        assert_eq!((got.status.phase, got.status.operation), (Phase::Standby, Operation::Starting));
        assert_eq!(reason(&got), Some(ErrorReason::ActionFailed));
        assert_eq!(got.status.error_count, tries);
        assert_eq!(got.status.next_retry_at, Some(at(NOW + wait)));
        ws = saved(&ws, &got);
        // Not a moment too soon, whoever leads.
        assert_eq!(step(&ws, &look).action, None);
        assert_eq!(after_at(&ws, &look, None, at(NOW + wait)).action, Some(action.clone()));
    }
    let got = after(&ws, &look, &action, &failed);
    assert_eq!((got.status.phase, got.status.operation), (Phase::Error, Operation::None));
    assert_eq!((got.status.error_count, got.status.next_retry_at), (3, None));
    assert_eq!(
        got.status.error.unwrap(),
        Failure::new(ErrorReason::RetryExceeded, "STARTING failed 3 times; the last time: no port left")
    );
    assert_eq!(got.status.op_id, Some(this_op()), "kept: the collector protects its path");
}

#[test]
fn archiving_that_fails_gives_way_between_its_tries() {
    let busy = given(Phase::Standby, Desired::Archived, Operation::Archiving, Truth::Volume);
    let seen = at_rest(Phase::Standby);
    let (action, _) = packed();
    let away = Outcome::Failed(Failure::new(ErrorReason::Unreachable, "the store is away"));
    let failed = after(&busy, &seen, &action, &away);
    assert_eq!((failed.status.operation, failed.status.phase), (Operation::None, Phase::Standby));
    assert_eq!(reason(&failed), Some(ErrorReason::Unreachable), "it is said why");
    assert!(failed.status.next_retry_at.is_some());
    let between = saved(&busy, &failed);

    let waits = step(&between, &seen);
    assert_eq!((waits.action, waits.status.operation), (None, Operation::None));

    // The next try is the same operation: what is already stored counts, and so do the failures.
    let later = after_at(&between, &seen, None, at(NOW + 100));
    assert_eq!(later.action, Some(Action::PutArchive { key: key(this_op()), from: CURRENT }));
    assert_eq!((later.status.error_count, reason(&later)), (1, Some(ErrorReason::Unreachable)));
    assert!(later.transitions.is_empty(), "history does not repeat it");

    // Whoever wants to work does not wait for the store.
    let mut wanted = between.clone();
    assert_eq!(desired::ask(&wanted, Desired::Running), desired::Answer::Change);
    wanted.desired = Desired::Running;
    let starts = step(&wanted, &seen);
    assert_eq!(starts.action, Some(Action::StartInstance { generation: CURRENT }));
    assert_eq!((starts.status.op_id, starts.status.error_count, reason(&starts)), (Some(next_op()), 0, None));

    // Nor is anything left of it for somebody who changed his mind: another home may be packed next time.
    let mut stays = between;
    stays.desired = Desired::Standby;
    let rests = step(&stays, &seen);
    assert_eq!((reason(&rests), rests.status.next_retry_at, rests.action), (None, None, None));
}

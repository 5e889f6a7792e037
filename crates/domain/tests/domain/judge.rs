//! Conditions, the order of judging, and the table of the home's truth.

use codehub_domain::{
    Desired, ErrorReason, Failure, Operation, Phase, Truth,
    condition::{Condition, Conditions, set},
    judge,
    observed::{EndedBy, Instance, InstanceState, Observed, Seen, WaitingFor},
};

use crate::support::*;

fn conditions(volume: bool, archive: bool, container: bool, healthy: bool) -> Conditions {
    let mut all = Conditions::default();
    set(&mut all.volume_ready, volume, "Given", "", at(0));
    set(&mut all.archive_ready, archive, "Given", "", at(0));
    set(&mut all.container_ready, container, "Given", "", at(0));
    set(&mut all.healthy, healthy, "Given", "", at(0));
    all
}

#[test]
fn empty_conditions_mean_pending() {
    assert_eq!(judge::phase(&Conditions::default(), false, true), Phase::Pending);
}

#[test]
fn the_phase_is_deletion_then_health_then_the_most_specific_reality() {
    for bits in 0..64_u32 {
        let bit = |n: u32| bits & (1 << n) != 0;
        let (volume, archive, container, healthy) = (bit(0), bit(1), bit(2), bit(3));
        let (deleted, remains) = (bit(4), bit(5));
        let expected = match (deleted, remains, healthy, container && volume, volume, archive) {
            (true, true, ..) => Phase::Deleting,
            (true, false, ..) => Phase::Deleted,
            (false, _, false, ..) => Phase::Error,
            (false, _, true, true, ..) => Phase::Running,
            (false, _, true, false, true, _) => Phase::Standby,
            (false, _, true, false, false, true) => Phase::Archived,
            (false, _, true, false, false, false) => Phase::Pending,
        };
        let given = conditions(volume, archive, container, healthy);
        assert_eq!(judge::phase(&given, deleted, remains), expected, "{bits:06b}");
    }
}

#[test]
fn a_deleted_workspace_remains_until_both_are_seen_to_be_gone() {
    for (instance, volumes, expected) in [
        (Seen::NotThere, Seen::NotThere, false),
        (Seen::NotThere, volumes([OLD]), true),
        (Seen::NotThere, Seen::Unknown, true),
        (Seen::Unknown, Seen::NotThere, true),
        (ended(), Seen::NotThere, true),
        // Promised never to happen; if it does, nothing is nothing.
        (Seen::NotThere, Seen::There(std::collections::BTreeSet::new()), false),
    ] {
        let seen = seen(instance, volumes, Seen::Unknown);
        assert_eq!(judge::remains(&seen), expected, "{seen:?}");
    }
}

/// `Some(status)` is what the condition says afterwards, `None` that it is still absent.
fn status(condition: &Option<Condition>) -> Option<bool> {
    condition.as_ref().map(|condition| condition.status)
}

#[test]
fn volume_ready_is_the_whole_volume_of_the_current_generation() {
    use Operation::{None as Idle, Provisioning, Restoring};
    let both = volumes([OLD, CURRENT]);
    for (truth, operation, volumes, before, expected) in [
        (Truth::Volume, Idle, volumes([CURRENT]), None, Some(true)),
        (Truth::Volume, Idle, both.clone(), None, Some(true)),
        (Truth::Volume, Idle, volumes([OLD]), Some(true), Some(false)),
        (Truth::Volume, Idle, Seen::NotThere, Some(true), Some(false)),
        // Unknown keeps the last …
        (Truth::Volume, Idle, Seen::Unknown, None, None),
        (Truth::Volume, Idle, Seen::Unknown, Some(true), Some(true)),
        (Truth::Volume, Idle, Seen::Unknown, Some(false), Some(false)),
        // … but debris is not a home, seen or not.
        (Truth::Archive, Idle, Seen::Unknown, Some(true), Some(false)),
        (Truth::Archive, Idle, volumes([CURRENT]), Some(true), Some(false)),
        (Truth::Archive, Restoring, volumes([CURRENT]), None, Some(false)),
        (Truth::Archive, Restoring, Seen::NotThere, None, Some(false)),
        (Truth::None, Idle, volumes([CURRENT]), None, Some(false)),
        (Truth::None, Idle, Seen::Unknown, Some(true), Some(false)),
        (Truth::None, Idle, Seen::Unknown, None, None),
        (Truth::None, Provisioning, volumes([CURRENT]), None, Some(true)),
        (Truth::None, Provisioning, volumes([OLD]), None, Some(false)),
        (Truth::None, Provisioning, Seen::Unknown, Some(true), Some(true)),
    ] {
        let mut ws = given(Phase::Pending, Desired::Running, operation, truth);
        if let Some(before) = before {
            set(&mut ws.status.conditions.volume_ready, before, "Before", "", at(0));
        }
        let seen = seen(Seen::Unknown, volumes, Seen::Unknown);
        let got = judge::conditions(&ws, &seen, now());
        assert_eq!(status(&got.volume_ready), expected, "{truth} {operation} {seen:?} {before:?}");
    }
}

#[test]
fn archive_ready_is_the_archive_at_the_key() {
    for (has_key, archive, before, expected) in [
        (true, Seen::There(()), None, Some(true)),
        (true, Seen::NotThere, Some(true), Some(false)),
        (true, Seen::Unknown, Some(true), Some(true)),
        (true, Seen::Unknown, Some(false), Some(false)),
        (true, Seen::Unknown, None, None),
        (false, Seen::Unknown, None, Some(false)),
        (false, Seen::There(()), None, Some(false)),
        (false, Seen::Unknown, Some(true), Some(false)),
    ] {
        let mut ws = given(Phase::Pending, Desired::Running, Operation::None, Truth::Volume);
        if !has_key {
            ws.status.archive_key = None;
        }
        if let Some(before) = before {
            set(&mut ws.status.conditions.archive_ready, before, "Before", "", at(0));
        }
        let got = judge::conditions(&ws, &seen(Seen::Unknown, Seen::Unknown, archive.clone()), now());
        assert_eq!(status(&got.archive_ready), expected, "key {has_key} {archive:?} {before:?}");
    }
}

fn no_image() -> Seen<Instance> {
    instance(CURRENT, InstanceState::Ended { by: EndedBy::Image, how: "no such tag".into() })
}

fn waits() -> Seen<Instance> {
    instance(CURRENT, InstanceState::Waiting(waiting(WaitingFor::Volume)))
}

#[test]
fn container_ready_answers_its_health_check_on_this_home() {
    for (instance, before, expected, reason) in [
        (ready(), None, Some(true), "Ready"),
        (alive(), Some(true), Some(false), "NotReady"),
        (ended(), Some(true), Some(false), "Ended"),
        (evicted(), Some(true), Some(false), "EndedFromOutside"),
        (no_image(), Some(true), Some(false), "ImagePullFailed"),
        (waits(), Some(true), Some(false), "WaitingForVolume"),
        (Seen::NotThere, Some(true), Some(false), "NotFound"),
        (instance(OLD, InstanceState::Ready), Some(true), Some(false), "WrongHome"),
        (Seen::Unknown, Some(true), Some(true), "Before"),
        (Seen::Unknown, Some(false), Some(false), "Before"),
        (Seen::Unknown, None, None, ""),
    ] {
        let mut ws = given(Phase::Pending, Desired::Running, Operation::None, Truth::Volume);
        if let Some(before) = before {
            set(&mut ws.status.conditions.container_ready, before, "Before", "", at(0));
        }
        let got = judge::conditions(&ws, &seen(instance.clone(), volumes([CURRENT]), Seen::Unknown), now());
        assert_eq!(status(&got.container_ready), expected, "{instance:?} {before:?}");
        assert_eq!(got.container_ready.map_or(String::new(), |condition| condition.reason), reason);
    }
}

#[test]
fn the_home_is_lost_when_the_true_copy_is_definitely_gone() {
    let lost = Some(ErrorReason::DataLost);
    let nowhere = seen(Seen::NotThere, Seen::NotThere, Seen::NotThere);
    for (truth, seen, expected) in [
        (Truth::None, nowhere.clone(), None),
        (Truth::Volume, nowhere.clone(), lost),
        (Truth::Volume, seen(Seen::NotThere, volumes([OLD]), Seen::There(())), lost),
        (Truth::Volume, seen(Seen::NotThere, Seen::Unknown, Seen::NotThere), None),
        (Truth::Volume, seen(Seen::NotThere, volumes([CURRENT]), Seen::NotThere), None),
        (Truth::Archive, nowhere, lost),
        (Truth::Archive, seen(Seen::NotThere, volumes([CURRENT]), Seen::NotThere), lost),
        (Truth::Archive, seen(Seen::NotThere, Seen::NotThere, Seen::Unknown), None),
        (Truth::Archive, seen(Seen::NotThere, Seen::NotThere, Seen::There(())), None),
    ] {
        let ws = given(Phase::Standby, Desired::Running, Operation::None, truth);
        let got = judge::conditions(&ws, &seen, now());
        let verdict = judge::verdict(&ws, &got, &seen).map(|failure| failure.reason);
        assert_eq!(verdict, expected, "{truth} {seen:?}");
        assert_eq!(got.healthy(), expected.is_none());
    }
}

#[test]
fn a_container_without_a_volume_is_a_violation_and_data_lost_comes_first() {
    let verdict = |truth, operation, seen: &Observed, change: fn(&mut codehub_domain::Workspace)| {
        let mut ws = given(Phase::Pending, Desired::Running, operation, truth);
        change(&mut ws);
        let got = judge::conditions(&ws, seen, now());
        judge::verdict(&ws, &got, seen).map(|failure| failure.reason)
    };
    let without = Some(ErrorReason::ContainerWithoutVolume);
    let debris = seen(ready(), volumes([CURRENT]), Seen::There(()));
    let bare = seen(ready(), Seen::NotThere, Seen::There(()));
    let same = |_: &mut codehub_domain::Workspace| {};
    assert_eq!(verdict(Truth::Archive, Operation::None, &debris, same), without);
    assert_eq!(verdict(Truth::None, Operation::None, &bare, same), without);
    assert_eq!(verdict(Truth::Volume, Operation::None, &bare, same), Some(ErrorReason::DataLost));
    // Being evicted after a recovery, or deleted, is not a violation.
    assert_eq!(
        verdict(Truth::Archive, Operation::Stopping, &debris, |ws| ws.status.home.evict_instance = true),
        None
    );
    assert_eq!(verdict(Truth::Archive, Operation::Deleting, &debris, |ws| ws.deleted_at = Some(at(1))), None);
}

#[test]
fn a_terminal_error_stays_the_verdict_until_a_person_clears_it() {
    for &reason in ErrorReason::ALL {
        let mut ws = given(Phase::Running, Desired::Running, Operation::None, Truth::Volume);
        ws.status.error = Some(Failure::new(reason, "before"));
        let seen = at_rest(Phase::Running);
        let got = judge::conditions(&ws, &seen, now());
        let verdict = judge::verdict(&ws, &got, &seen).map(|failure| failure.reason);
        assert_eq!(verdict, reason.is_terminal().then_some(reason));
        ws.deleted_at = Some(at(1));
        assert_eq!(judge::verdict(&ws, &got, &seen), None, "nothing is wrong with a deleted one");
    }
}

/// Whoever reads conditions finds all of them after the first look, also where there never was an archive.
#[test]
fn without_an_archive_the_first_look_says_so() {
    let mut ws = given(Phase::Pending, Desired::Running, Operation::None, Truth::None);
    ws.status.conditions = Conditions::default();
    ws.status.archive_key = None;
    let found = judge::conditions(&ws, &Observed::default(), now()).archive_ready.unwrap();
    assert_eq!((found.status, found.reason.as_str()), (false, "NoArchive"));
}

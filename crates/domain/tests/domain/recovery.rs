//! The ways out of ERROR.

use codehub_domain::{
    Desired, ErrorReason, Failure, Operation, Phase, Status, Truth, Workspace,
    condition::set,
    decide::Outcome,
    observed::{Observed, Seen},
    plan::Action,
    recovery::{Recovery, RecoveryRefusal, recover},
};

use crate::support::*;

const PLAIN: Recovery = Recovery { restore_from: None, accept_data_loss: false, home_found: false };
const ACCEPT: Recovery = Recovery { restore_from: None, accept_data_loss: true, home_found: false };

fn back_to(accept_data_loss: bool) -> Recovery {
    Recovery { restore_from: Some(old_key()), accept_data_loss, ..PLAIN }
}

/// The home was looked for, and (not) found.
fn looked(reason: ErrorReason, truth: Truth, found: bool) -> Workspace {
    let mut ws = failed(reason, truth);
    let conditions = &mut ws.status.conditions;
    set(&mut conditions.volume_ready, found && truth == Truth::Volume, "Given", "", at(0));
    set(&mut conditions.archive_ready, found && truth == Truth::Archive, "Given", "", at(0));
    ws
}

/// Seen just now by whoever passes the wish on: as good as found, and judged anew by the controller.
#[test]
fn a_home_that_was_just_found_is_not_lost() {
    let found = |recovery| Recovery { home_found: true, ..recovery };
    for truth in [Truth::Volume, Truth::Archive] {
        let ws = looked(ErrorReason::DataLost, truth, false);
        for recovery in [PLAIN, ACCEPT] {
            let next = recover(&ws.status, found(recovery)).unwrap();
            assert_eq!(
                (next.home.truth, next.archive_key),
                (truth, ws.status.archive_key),
                "nothing is given up"
            );
            assert_eq!(next.error, None);
            let looked_at = match truth {
                Truth::Volume => next.conditions.volume_ready,
                Truth::Archive | Truth::None => next.conditions.archive_ready,
            };
            assert_eq!(looked_at, None, "to be looked at again");
        }
    }
    let lost = looked(ErrorReason::DataLost, Truth::Volume, false);
    assert_eq!(recover(&lost.status, found(back_to(false))), Err(RecoveryRefusal::WouldDropHome));
}

#[test]
fn only_what_is_in_error_is_recovered() {
    for &phase in Phase::ALL {
        for &operation in Operation::ALL {
            let ws = given(phase, Desired::Running, operation, Truth::Volume);
            let expected = phase == Phase::Error && operation == Operation::None;
            assert_eq!(recover(&ws.status, PLAIN).is_ok(), expected, "{phase} {operation}");
        }
    }
}

#[test]
fn what_each_wish_makes_of_each_error() {
    use ErrorReason::{ArchiveCorrupted, DataLost, RetryExceeded, Timeout};
    use RecoveryRefusal::{HomeIsLost, WouldDropHome};
    use Truth::{Archive, None as Nowhere, Volume};
    for (reason, truth, found, recovery, expected) in [
        // lost: two ways out, and {} is neither
        (DataLost, Volume, false, PLAIN, Err(HomeIsLost)),
        (DataLost, Archive, false, PLAIN, Err(HomeIsLost)),
        (DataLost, Volume, false, back_to(false), Ok(Archive)),
        (DataLost, Archive, false, back_to(false), Ok(Archive)),
        (DataLost, Volume, false, back_to(true), Ok(Archive)),
        (DataLost, Volume, false, ACCEPT, Ok(Nowhere)),
        (DataLost, Archive, false, ACCEPT, Ok(Nowhere)),
        // found again: nothing is given up, even if offered
        (DataLost, Volume, true, PLAIN, Ok(Volume)),
        (DataLost, Archive, true, PLAIN, Ok(Archive)),
        (DataLost, Volume, true, ACCEPT, Ok(Volume)),
        (DataLost, Volume, true, back_to(false), Err(WouldDropHome)),
        (DataLost, Volume, true, back_to(true), Ok(Archive)),
        // an archive that cannot be unpacked
        (ArchiveCorrupted, Archive, true, PLAIN, Ok(Archive)),
        (ArchiveCorrupted, Archive, true, back_to(false), Ok(Archive)),
        (ArchiveCorrupted, Archive, true, ACCEPT, Ok(Nowhere)),
        // the same of one that is not the home
        (ArchiveCorrupted, Volume, true, PLAIN, Ok(Volume)),
        (ArchiveCorrupted, Volume, true, ACCEPT, Ok(Volume)),
        (ArchiveCorrupted, Volume, true, back_to(false), Err(WouldDropHome)),
        // everything else keeps the home, unless a person says both words
        (Timeout, Volume, true, PLAIN, Ok(Volume)),
        (Timeout, Volume, true, ACCEPT, Ok(Volume)),
        (Timeout, Volume, true, back_to(false), Err(WouldDropHome)),
        (Timeout, Volume, false, back_to(false), Err(WouldDropHome)),
        (Timeout, Volume, true, back_to(true), Ok(Archive)),
        (Timeout, Archive, true, ACCEPT, Ok(Archive)),
        (RetryExceeded, Nowhere, true, PLAIN, Ok(Nowhere)),
        (RetryExceeded, Nowhere, true, ACCEPT, Ok(Nowhere)),
    ] {
        let ws = looked(reason, truth, found);
        let got = recover(&ws.status, recovery);
        let row = format!("{reason} {truth} found {found} {recovery:?}");
        assert_eq!(got.as_ref().map(|status| status.home.truth).map_err(Clone::clone), expected, "{row}");
        let Ok(status) = got else { continue };
        assert_eq!((status.error, status.error_count, status.next_retry_at), (None, 0, None), "{row}");
        assert_eq!(status.home.generation, CURRENT, "{row}: no generation comes back");
        assert!(status.home.evict_instance && status.home.deaths.is_empty(), "{row}");
        let key = match (status.home.truth, recovery.restore_from) {
            (Truth::None, _) => None,
            (_, Some(key)) => Some(key),
            (_, None) => ws.status.archive_key,
        };
        assert_eq!(status.archive_key, key, "{row}");
    }
}

fn recovered(ws: &Workspace, recovery: Recovery) -> Workspace {
    Workspace { status: recover(&ws.status, recovery).unwrap(), ..ws.clone() }
}

#[test]
fn after_recovery_the_phase_is_what_reality_says() {
    let ws = recovered(&looked(ErrorReason::Timeout, Truth::Volume, true), PLAIN);
    let got = step(&ws, &at_rest(Phase::Standby));
    assert_eq!((got.status.phase, got.status.operation), (Phase::Standby, Operation::Starting));
    // What still runs is ended first.
    let got = step(&ws, &at_rest(Phase::Running));
    assert_eq!((got.status.operation, got.action), (Operation::Stopping, Some(Action::StopInstance)));
    let gone = step(&saved(&ws, &step(&ws, &at_rest(Phase::Running))), &at_rest(Phase::Standby));
    assert!(!gone.status.home.evict_instance);
    assert_eq!(gone.status.phase, Phase::Standby);
}

#[test]
fn an_accepted_loss_begins_with_a_new_empty_home() {
    let ws = recovered(&looked(ErrorReason::DataLost, Truth::Volume, false), ACCEPT);
    let got = step(&ws, &seen(Seen::NotThere, volumes([OLD]), Seen::Unknown));
    assert_eq!((got.status.phase, got.status.operation), (Phase::Pending, Operation::Provisioning));
    assert_eq!(got.action, Some(Action::CreateVolume { generation: CURRENT.next() }));
}

#[test]
fn going_back_restores_that_archive_into_a_new_generation() {
    let ws = recovered(&looked(ErrorReason::DataLost, Truth::Volume, false), back_to(false));
    let blind = step(&ws, &Observed::default());
    assert_eq!((blind.action.as_ref(), blind.why), (None, "waits until the home can be seen"));
    let got = step(&ws, &seen(Seen::NotThere, Seen::NotThere, Seen::There(())));
    let Some(Action::Restore { from, into, .. }) = got.action else { panic!("{:?}", got.action) };
    assert_eq!((from, into), (old_key(), CURRENT.next()));
    // An archive that is not there is said to be lost again.
    let got = step(&ws, &seen(Seen::NotThere, Seen::NotThere, Seen::NotThere));
    assert_eq!(got.status.error.unwrap().reason, ErrorReason::DataLost);
}

#[test]
fn going_back_in_time_keeps_the_newer_home_until_the_older_one_is_whole() {
    let ws = recovered(&looked(ErrorReason::Timeout, Truth::Volume, true), back_to(true));
    let look = |generations: &[_]| {
        let volumes = Seen::There(generations.iter().copied().collect());
        seen(Seen::NotThere, volumes, Seen::There(()))
    };
    let got = step(&ws, &look(&[OLD, CURRENT]));
    let Some(action @ Action::Restore { into, .. }) = got.action.clone() else { panic!("{:?}", got.action) };
    let Action::Restore { wipe, .. } = &action else { unreachable!() };
    assert_eq!((into, wipe), (CURRENT.next(), &[OLD].into()), "debris goes, the newer home does not");

    // The chosen archive is broken: recovering finds the newer home, and never gives a name out twice.
    let restoring = saved(&ws, &got);
    let broken = Outcome::Failed(Failure::new(ErrorReason::ArchiveCorrupted, "checksum"));
    let error = saved(&restoring, &after(&restoring, &look(&[CURRENT, into]), &action, &broken));
    assert_eq!(error.status.phase, Phase::Error);
    let back = recovered(&error, PLAIN);
    assert_eq!((back.status.home.truth, back.status.home.generation), (Truth::Volume, CURRENT));
    assert_eq!(back.status.home.newest(), into);
    let starts = step(&back, &look(&[CURRENT]));
    assert_eq!(starts.action, Some(Action::StartInstance { generation: CURRENT }));
    let again = recovered(&Workspace { status: error_again(&back), ..back.clone() }, back_to(true));
    let Some(Action::Restore { into: later, .. }) = step(&again, &look(&[CURRENT])).action else { panic!() };
    assert!(later > into);

    // It is whole: the newer home is nobody's any more, and the collector's.
    let restored = Outcome::Restored { key: old_key(), generation: into };
    let done = after(&restoring, &look(&[CURRENT, into]), &action, &restored);
    assert_eq!((done.status.home.truth, done.status.home.packed_from), (Truth::Volume, None));
}

fn error_again(ws: &Workspace) -> Status {
    let mut status = ws.status.clone();
    status.phase = Phase::Error;
    status.error = Some(Failure::new(ErrorReason::Timeout, "again"));
    set(&mut status.conditions.volume_ready, true, "Given", "", at(0));
    status
}

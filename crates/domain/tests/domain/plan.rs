//! Which operation, which action, and when an operation is done.

use std::collections::BTreeSet;

use codehub_domain::{
    Desired, Generation, Operation, Phase, Truth,
    observed::{InstanceState, Seen},
    plan::{Action, Step, choose, next_step, stray_instance},
};

use crate::support::*;

#[test]
fn the_operation_for_every_phase_wish_and_truth() {
    use {Operation as O, Phase as P};
    for &phase in Phase::ALL {
        for &desired in Desired::ALL {
            for &truth in Truth::ALL {
                // The specification's table, guarded by the truth where a home would be made.
                let expected = match (phase, desired, truth) {
                    (P::Deleted, ..) => O::None,
                    (_, Desired::Deleted, _) => O::Deleting,
                    (P::Pending, Desired::Archived, Truth::None) => O::CreateEmptyArchive,
                    (P::Pending, Desired::Standby | Desired::Running, Truth::None) => O::Provisioning,
                    (P::Archived, Desired::Standby | Desired::Running, Truth::Archive) => O::Restoring,
                    (P::Standby, Desired::Running, _) => O::Starting,
                    (P::Standby, Desired::Archived, _) => O::Archiving,
                    (P::Running, Desired::Standby | Desired::Archived, _) => O::Stopping,
                    _ => O::None,
                };
                assert_eq!(choose(phase, desired, truth), expected, "{phase} {desired} {truth}");
            }
        }
    }
}

#[test]
fn paths_are_monotonic_and_go_through_neighbours_only() {
    let level = |phase| match phase {
        Phase::Pending => 0,
        Phase::Archived => 5,
        Phase::Standby => 10,
        Phase::Running => 20,
        Phase::Error | Phase::Deleting | Phase::Deleted => unreachable!("no level"),
    };
    let target = |operation| match operation {
        Operation::Provisioning | Operation::Restoring | Operation::Stopping => Phase::Standby,
        Operation::CreateEmptyArchive | Operation::Archiving => Phase::Archived,
        Operation::Starting => Phase::Running,
        Operation::None | Operation::Deleting => unreachable!("no target"),
    };
    let truth = |phase| match phase {
        Phase::Pending => Truth::None,
        Phase::Archived => Truth::Archive,
        _ => Truth::Volume,
    };
    for from in [Phase::Pending, Phase::Archived, Phase::Standby, Phase::Running] {
        for desired in [Desired::Archived, Desired::Standby, Desired::Running] {
            let (mut phase, mut steps) = (from, 0);
            while phase != desired.phase() {
                let next = target(choose(phase, desired, truth(phase)));
                let (here, there, goal) = (level(phase), level(next), level(desired.phase()));
                assert!((here < there) == (here < goal), "{from} to {desired} turned at {phase}");
                (phase, steps) = (next, steps + 1);
                assert!(steps <= 3, "{from} never reaches {desired}");
            }
        }
    }
}

const OTHER: Generation = Generation(4);

fn create() -> Step {
    Step::Act(Action::CreateVolume { generation: CURRENT })
}

fn start() -> Step {
    Step::Act(Action::StartInstance { generation: CURRENT })
}

fn stop() -> Step {
    Step::Act(Action::StopInstance)
}

fn put() -> Step {
    Step::Act(Action::PutArchive { key: key(this_op()), from: CURRENT })
}

fn delete<const N: usize>(generations: [Generation; N]) -> Step {
    Step::Act(Action::DeleteVolumes { generations: BTreeSet::from(generations) })
}

fn restore<const N: usize>(into: Generation, wipe: [Generation; N]) -> Step {
    Step::Act(Action::Restore { from: old_key(), into, wipe: BTreeSet::from(wipe) })
}

fn blind(step: &Step) -> bool {
    matches!(step, Step::Blind(_))
}

#[test]
fn every_step_of_every_operation() {
    use Operation as O;
    use Seen::{NotThere, Unknown};
    let there = || Seen::There(());
    let other = |state| instance(OTHER, state);
    let newer = Generation(9);
    for (operation, truth, seen, expected) in [
        // PROVISIONING: done when volume_ready
        (O::Provisioning, Truth::None, seen(NotThere, NotThere, Unknown), create()),
        (O::Provisioning, Truth::None, seen(NotThere, Unknown, Unknown), create()),
        (O::Provisioning, Truth::None, seen(NotThere, volumes([OLD]), Unknown), create()),
        (O::Provisioning, Truth::None, seen(Unknown, volumes([CURRENT]), Unknown), Step::Complete),
        // CREATE_EMPTY_ARCHIVE: done when archive_ready ∧ archive_key = key(op)
        (
            O::CreateEmptyArchive,
            Truth::None,
            seen(NotThere, NotThere, there()),
            Step::Act(Action::PutEmptyArchive { key: key(this_op()) }),
        ),
        (O::CreateEmptyArchive, Truth::Archive, seen(NotThere, NotThere, there()), Step::Complete),
        // RESTORING: done when volume_ready ∧ restore_marker = archive_key
        (O::Restoring, Truth::Archive, seen(NotThere, NotThere, there()), restore(Generation(6), [])),
        (
            O::Restoring,
            Truth::Archive,
            seen(NotThere, volumes([OLD, CURRENT]), there()),
            restore(Generation(6), [OLD, CURRENT]),
        ),
        // A volume newer than the row: the database is older than the world.
        (
            O::Restoring,
            Truth::Archive,
            seen(NotThere, volumes([CURRENT, newer]), there()),
            restore(Generation(10), [CURRENT]),
        ),
        (O::Restoring, Truth::Archive, seen(ready(), volumes([CURRENT]), there()), stop()),
        (O::Restoring, Truth::Archive, seen(Unknown, volumes([CURRENT]), there()), stop()),
        (O::Restoring, Truth::Volume, seen(NotThere, volumes([CURRENT]), there()), Step::Complete),
        // STARTING: done when container_ready
        (O::Starting, Truth::Volume, seen(NotThere, volumes([CURRENT]), Unknown), start()),
        (O::Starting, Truth::Volume, seen(Unknown, volumes([CURRENT]), Unknown), start()),
        (O::Starting, Truth::Volume, seen(alive(), volumes([CURRENT]), Unknown), start()),
        (O::Starting, Truth::Volume, seen(ended(), volumes([CURRENT]), Unknown), start()),
        (O::Starting, Truth::Volume, seen(ready(), volumes([CURRENT]), Unknown), Step::Complete),
        (
            O::Starting,
            Truth::Volume,
            seen(other(InstanceState::Ready), volumes([CURRENT, OTHER]), Unknown),
            stop(),
        ),
        // STOPPING: done when it is gone
        (O::Stopping, Truth::Volume, seen(ready(), volumes([CURRENT]), Unknown), stop()),
        (O::Stopping, Truth::Volume, seen(alive(), volumes([CURRENT]), Unknown), stop()),
        (O::Stopping, Truth::Volume, seen(ended(), volumes([CURRENT]), Unknown), stop()),
        (O::Stopping, Truth::Volume, seen(Unknown, volumes([CURRENT]), Unknown), stop()),
        (O::Stopping, Truth::Volume, seen(NotThere, Unknown, Unknown), Step::Complete),
        // ARCHIVING: pack, commit, then clean up; done when ¬volume ∧ archive ∧ archive_key = key(op)
        (O::Archiving, Truth::Volume, seen(NotThere, volumes([CURRENT]), there()), put()),
        (O::Archiving, Truth::Volume, seen(Unknown, volumes([CURRENT]), there()), stop()),
        (O::Archiving, Truth::Volume, seen(other(InstanceState::Alive), volumes([CURRENT]), Unknown), stop()),
        (
            O::Archiving,
            Truth::Archive,
            seen(NotThere, volumes([OLD, CURRENT]), there()),
            delete([OLD, CURRENT]),
        ),
        (O::Archiving, Truth::Archive, seen(NotThere, volumes([OLD, newer]), there()), delete([OLD])),
        (O::Archiving, Truth::Archive, seen(ended(), volumes([CURRENT]), there()), stop()),
        (O::Archiving, Truth::Archive, seen(NotThere, NotThere, there()), Step::Complete),
        (O::Archiving, Truth::Archive, seen(NotThere, volumes([newer]), there()), Step::Complete),
        // DELETING: container, then volumes, whatever they are
        (O::Deleting, Truth::Volume, seen(ready(), volumes([CURRENT]), Unknown), stop()),
        (O::Deleting, Truth::Volume, seen(Unknown, NotThere, Unknown), stop()),
        (
            O::Deleting,
            Truth::Volume,
            seen(NotThere, volumes([OLD, CURRENT, newer]), Unknown),
            delete([OLD, CURRENT, newer]),
        ),
        (O::Deleting, Truth::Volume, seen(NotThere, NotThere, NotThere), Step::Complete),
    ] {
        let desired = if operation == O::Deleting { Desired::Deleted } else { Desired::Running };
        let ws = given(Phase::Standby, desired, operation, truth);
        assert_eq!(next_step(&ws, &seen), expected, "{operation} {truth} {seen:?}");
    }
}

#[test]
fn what_must_be_seen_first_and_cannot_be_is_waited_for() {
    use Operation as O;
    use Seen::{NotThere, Unknown};
    for (operation, truth, seen) in [
        (O::CreateEmptyArchive, Truth::Archive, seen(NotThere, NotThere, Unknown)),
        (O::Restoring, Truth::Archive, seen(NotThere, Unknown, Seen::There(()))),
        (O::Restoring, Truth::Volume, seen(NotThere, Unknown, Seen::There(()))),
        (O::Archiving, Truth::Volume, seen(NotThere, Unknown, Unknown)),
        (O::Archiving, Truth::Archive, seen(NotThere, volumes([CURRENT]), Unknown)),
        (O::Archiving, Truth::Archive, seen(NotThere, NotThere, Unknown)),
        (O::Archiving, Truth::Archive, seen(NotThere, Unknown, Seen::There(()))),
        (O::Deleting, Truth::Volume, seen(NotThere, Unknown, Unknown)),
    ] {
        let desired = if operation == O::Deleting { Desired::Deleted } else { Desired::Running };
        let ws = given(Phase::Standby, desired, operation, truth);
        let step = next_step(&ws, &seen);
        assert!(blind(&step), "{operation} {truth} {seen:?}: {step:?}");
    }
}

#[test]
fn archiving_is_not_complete_on_any_archive_but_its_own() {
    let mut ws = given(Phase::Standby, Desired::Archived, Operation::Archiving, Truth::Archive);
    ws.status.archive_key = Some(old_key());
    let step = next_step(&ws, &seen(Seen::NotThere, Seen::NotThere, Seen::There(())));
    assert!(matches!(step, Step::Abandon(_)), "{step:?}");
}

#[test]
fn an_archive_is_given_up_when_something_runs_on_the_home() {
    let ws = given(Phase::Standby, Desired::Archived, Operation::Archiving, Truth::Volume);
    for instance in [ready(), alive(), ended()] {
        let step = next_step(&ws, &seen(instance, volumes([CURRENT]), Seen::Unknown));
        assert!(matches!(step, Step::Abandon(_)), "{step:?}");
    }
}

#[test]
fn an_operation_that_has_no_business_with_the_home_is_given_up() {
    use Operation as O;
    for (operation, truth) in [
        (O::Provisioning, Truth::Volume),
        (O::Provisioning, Truth::Archive),
        (O::CreateEmptyArchive, Truth::Volume),
        (O::Restoring, Truth::None),
        (O::Starting, Truth::None),
        (O::Starting, Truth::Archive),
        (O::Archiving, Truth::None),
        (O::Deleting, Truth::Volume),
    ] {
        let ws = given(Phase::Standby, Desired::Running, operation, truth);
        let step = next_step(&ws, &at_rest(Phase::Standby));
        assert!(matches!(step, Step::Abandon(_)), "{operation} {truth}: {step:?}");
    }
}

#[test]
fn an_instance_nothing_wants_or_on_the_wrong_home_is_a_stray() {
    let other = || instance(OTHER, InstanceState::Ready);
    for (phase, desired, instance, expected) in [
        (Phase::Running, Desired::Running, ready(), false),
        (Phase::Running, Desired::Running, other(), true),
        (Phase::Standby, Desired::Running, alive(), false),
        (Phase::Standby, Desired::Running, other(), true),
        (Phase::Standby, Desired::Standby, ended(), true),
        (Phase::Standby, Desired::Archived, alive(), true),
        (Phase::Standby, Desired::Standby, Seen::NotThere, false),
        (Phase::Standby, Desired::Standby, Seen::Unknown, false),
        (Phase::Archived, Desired::Running, alive(), true),
        (Phase::Pending, Desired::Running, alive(), true),
        (Phase::Error, Desired::Running, ready(), false),
    ] {
        let mut ws = given(phase, desired, Operation::None, Truth::Volume);
        let seen = seen(instance, volumes([CURRENT]), Seen::Unknown);
        assert_eq!(stray_instance(&ws, phase, &seen), expected, "{phase} {desired} {seen:?}");
        ws.status.home.evict_instance = true;
        assert_eq!(stray_instance(&ws, phase, &seen), seen.instance.is_there(), "evicting {seen:?}");
    }
}

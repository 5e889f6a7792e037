//! What the collector protects, how long it waits, and when it brakes.

use std::collections::{BTreeMap, BTreeSet};

use codehub_domain::{
    ArchiveKey, Generation, OpId, Operation, Phase, Truth, WorkspaceId,
    gc::{Archived, Brake, GcPlan, GcPolicy, GcRow, Item, plan, refers},
};
use uuid::Uuid;

use crate::support::*;

const DELAY: i64 = 2 * 3600;

fn row() -> GcRow {
    GcRow {
        id: id(),
        phase: Phase::Standby,
        operation: Operation::None,
        deleted: false,
        truth: Truth::Volume,
        generation: CURRENT,
        archive_key: Some(key(op(5))),
        op_id: Some(op(5)),
    }
}

fn archive(n: u128) -> Item {
    Item::Archive(key(op(n)))
}

fn volume(generation: Generation) -> Item {
    Item::Volume { workspace: id(), generation }
}

/// Archives of workspaces nobody knows.
fn strangers(count: u128) -> BTreeSet<Item> {
    let stranger = |n| ArchiveKey::of(WorkspaceId::from_uuid(Uuid::from_u128(0x1000 + n)), op(1));
    (0..count).map(|n| Item::Archive(stranger(n))).collect()
}

/// Everything listed was first seen as an orphan long ago.
fn late(listed: &BTreeSet<Item>, rows: &[GcRow]) -> GcPlan {
    let seen_before = listed.iter().map(|item| (*item, at(0))).collect();
    plan(
        listed,
        &Archived::default(),
        &BTreeSet::new(),
        rows,
        &seen_before,
        &GcPolicy::default(),
        false,
        now(),
    )
}

fn deleted(row: GcRow, item: Item) -> bool {
    late(&BTreeSet::from([item]), &[row]).delete.contains(&item)
}

#[test]
fn archives_are_kept_while_something_refers_to_them() {
    let seven = (1..=7).map(archive).collect::<BTreeSet<_>>();
    let kept = |row: GcRow| -> Vec<u128> {
        let plan = late(&seven, &[row]);
        (1..=7).filter(|n| !plan.delete.contains(&archive(*n))).collect()
    };
    // The current one and the newest, three in all.
    assert_eq!(kept(GcRow { archive_key: Some(key(op(7))), op_id: Some(op(7)), ..row() }), [5, 6, 7]);
    // Gone back in time: the one gone back to, and the two newest.
    assert_eq!(kept(GcRow { archive_key: Some(key(op(2))), op_id: None, ..row() }), [2, 6, 7]);
    // The path of an operation, whether or not it ended well.
    assert_eq!(kept(GcRow { archive_key: Some(key(op(7))), op_id: Some(op(1)), ..row() }), [1, 5, 6, 7]);
    // No current one: the newest.
    assert_eq!(kept(GcRow { archive_key: None, op_id: None, ..row() }), [5, 6, 7]);
    // ERROR protects everything.
    assert_eq!(kept(GcRow { phase: Phase::Error, ..row() }), [1, 2, 3, 4, 5, 6, 7]);
    // Deleted: nothing is protected, whatever it says.
    assert!(kept(GcRow { deleted: true, phase: Phase::Deleted, ..row() }).is_empty());
    assert!(kept(GcRow { deleted: true, phase: Phase::Error, ..row() }).is_empty());
}

/// Which of seven archives would be deleted, the newest being the home, where some have parts in others.
fn goes(archived: &Archived, rows: &[GcRow]) -> Vec<u128> {
    let seven = (1..=7).map(archive).collect::<BTreeSet<_>>();
    let seen_before = seven.iter().map(|item| (*item, at(0))).collect();
    let policy = GcPolicy::default();
    let plan = plan(&seven, archived, &BTreeSet::new(), rows, &seen_before, &policy, false, now());
    (1..=7).filter(|n| plan.delete.contains(&archive(*n))).collect()
}

#[test]
fn an_object_that_holds_parts_of_a_kept_archive_stays() {
    let home = || GcRow { archive_key: Some(key(op(7))), op_id: Some(op(7)), ..row() };
    let parts = |of: &[(u128, &[u128])]| -> BTreeMap<ArchiveKey, BTreeSet<OpId>> {
        of.iter().map(|(n, parts)| (key(op(*n)), parts.iter().map(|n| op(*n)).collect())).collect()
    };
    let unfinished = |of: &[u128]| of.iter().map(|n| key(op(*n))).collect();
    let rows = [home()];
    assert_eq!(goes(&Archived::default(), &rows), [1, 2, 3, 4]);
    // With its mark it goes as far as the claim lets it; without, it is only the object that others need.
    let archived = Archived { parts: parts(&[(7, &[1, 2])]), ..Archived::default() };
    assert_eq!(goes(&archived, &rows), [1, 2, 3, 4]);
    let archived = Archived { unfinished: unfinished(&[1, 3]), ..archived };
    assert_eq!(goes(&archived, &rows), [2, 3, 4]);
    // What needs it is not needed itself: neither is it.
    let archived = Archived { parts: parts(&[(4, &[1]), (3, &[2])]), ..archived };
    assert_eq!(goes(&archived, &rows), [1, 2, 3, 4]);
    // ERROR keeps all archives, and what they have parts in.
    assert_eq!(goes(&archived, &[GcRow { phase: Phase::Error, ..home() }]), Vec::<u128>::new());
    // So does a workspace made from one, also when the one it belonged to is deleted.
    let fork =
        GcRow { id: WorkspaceId::from_uuid(Uuid::from_u128(0xf0)), archive_key: Some(key(op(4))), ..row() };
    let gone = GcRow { deleted: true, phase: Phase::Deleted, ..home() };
    assert_eq!(goes(&archived, &[gone.clone(), fork]), [2, 3, 5, 6, 7]);
    // A deleted workspace needs nothing.
    assert_eq!(goes(&archived, &[gone]), [1, 2, 3, 4, 5, 6, 7]);
}

/// Nothing in the database would refuse the claim.
#[test]
fn what_an_archive_without_a_record_has_parts_in_is_not_claimed() {
    let home = GcRow { archive_key: Some(key(op(7))), op_id: Some(op(7)), ..row() };
    let parts = BTreeMap::from([(key(op(6)), BTreeSet::from([op(1)]))]);
    let unrecorded = BTreeSet::from([key(op(6))]);
    let archived = Archived { parts, unrecorded, ..Archived::default() };
    assert_eq!(goes(&archived, &[home]), [2, 3, 4]);
}

#[test]
fn an_archive_another_workspace_was_made_from_is_kept() {
    let fork = || GcRow { id: WorkspaceId::from_uuid(Uuid::from_u128(0xf0)), op_id: None, ..row() };
    let from_first = || GcRow { archive_key: Some(key(op(1))), ..fork() };
    let seven = (1..=7).map(archive).collect::<BTreeSet<_>>();
    let source = || GcRow { archive_key: Some(key(op(7))), op_id: None, ..row() };
    let gone = || GcRow { deleted: true, phase: Phase::Deleted, ..source() };
    for (source, kept) in [(source(), vec![1, 5, 6, 7]), (gone(), vec![1])] {
        let plan = late(&seven, &[source, from_first()]);
        assert_eq!((1..=7).filter(|n| !plan.delete.contains(&archive(*n))).collect::<Vec<_>>(), kept);
    }
    assert!(refers(&from_first(), archive(1)) && !refers(&from_first(), archive(2)));
    assert!(!refers(&GcRow { deleted: true, ..from_first() }, archive(1)));
}

#[test]
fn at_least_the_current_archive_is_kept_whatever_the_setting() {
    let listed = BTreeSet::from([archive(1), archive(2)]);
    let seen_before = listed.iter().map(|item| (*item, at(0))).collect();
    let policy = GcPolicy { archive_keep: 0, ..GcPolicy::default() };
    let row = GcRow { archive_key: Some(key(op(1))), op_id: None, ..row() };
    let plan =
        plan(&listed, &Archived::default(), &BTreeSet::new(), &[row], &seen_before, &policy, false, now());
    assert_eq!(plan.delete, BTreeSet::from([archive(2)]));
}

#[test]
fn volumes_are_kept_while_they_are_or_may_become_the_home() {
    let newer = CURRENT.next();
    let archived = || GcRow { truth: Truth::Archive, phase: Phase::Archived, ..row() };
    let gone = || GcRow { deleted: true, phase: Phase::Deleted, ..row() };
    for (row, generation, expected) in [
        (row(), CURRENT, false),
        (row(), OLD, true),
        // Newer than the row: the database is older than the world.
        (row(), newer, false),
        (archived(), newer, false),
        (archived(), CURRENT, true),
        (archived(), OLD, true),
        (GcRow { truth: Truth::None, phase: Phase::Pending, ..row() }, CURRENT, false),
        (GcRow { phase: Phase::Error, ..archived() }, OLD, false),
        (GcRow { operation: Operation::Restoring, ..archived() }, CURRENT, false),
        (GcRow { operation: Operation::Archiving, ..row() }, OLD, false),
        (gone(), CURRENT, true),
        (gone(), newer, true),
        (GcRow { operation: Operation::Deleting, phase: Phase::Deleting, ..gone() }, CURRENT, false),
    ] {
        assert_eq!(deleted(row.clone(), volume(generation)), expected, "{row:?} {generation}");
    }
}

#[test]
fn the_volumes_of_a_workspace_with_an_instance_are_left_alone() {
    let listed = BTreeSet::from([volume(OLD), archive(1)]);
    let seen_before = listed.iter().map(|item| (*item, at(0))).collect();
    let rows = [GcRow { deleted: true, phase: Phase::Deleted, ..row() }];
    let plan = plan(
        &listed,
        &Archived::default(),
        &BTreeSet::from([id()]),
        &rows,
        &seen_before,
        &GcPolicy::default(),
        false,
        now(),
    );
    assert_eq!(plan.delete, BTreeSet::from([archive(1)]));
}

#[test]
fn an_orphan_waits_from_its_first_sighting() {
    let listed = BTreeSet::from([volume(OLD)]);
    let run = |before: &BTreeMap<Item, _>, second| {
        plan(
            &listed,
            &Archived::default(),
            &BTreeSet::new(),
            &[row()],
            before,
            &GcPolicy::default(),
            false,
            at(second),
        )
    };
    let first = run(&BTreeMap::new(), NOW);
    assert_eq!((first.delete.len(), &first.sightings), (0, &BTreeMap::from([(volume(OLD), at(NOW))])));
    let early = run(&first.sightings, NOW + DELAY - 1);
    assert_eq!((early.delete.len(), &early.sightings), (0, &first.sightings), "the sighting stays the first");
    let due = run(&early.sightings, NOW + DELAY);
    assert_eq!(due.delete, listed);
    assert_eq!(due.sightings, first.sightings, "remembered until it is gone");
}

#[test]
fn what_is_an_orphan_no_more_starts_anew() {
    let listed = BTreeSet::from([volume(OLD)]);
    let before = BTreeMap::from([(volume(OLD), at(0)), (archive(9), at(0))]);
    let wanted = GcRow { generation: OLD, ..row() };
    let plan = plan(
        &listed,
        &Archived::default(),
        &BTreeSet::new(),
        &[wanted],
        &before,
        &GcPolicy::default(),
        false,
        now(),
    );
    assert_eq!(plan, GcPlan::default());
}

#[test]
fn a_cycle_that_would_delete_too_many_archives_deletes_nothing() {
    // Eleven orphans among 54 or 55 archives: just over and just at a fifth.
    for (orphans, others, braked) in [(11, 43, true), (11, 44, false), (10, 0, false), (11, 0, true)] {
        let mut listed = strangers(orphans);
        listed.extend((0..others).map(archive));
        listed.insert(volume(OLD));
        let rows = [GcRow { phase: Phase::Error, ..row() }];
        let got = late(&listed, &rows);
        assert_eq!(got.braked.is_some(), braked, "{orphans} of {}", orphans + others);
        assert_eq!(got.delete.is_empty(), braked);
        assert_eq!(got.sightings.len(), usize::try_from(orphans).unwrap(), "sightings go on");
        if let Some(brake) = got.braked {
            let archives = usize::try_from(orphans + others).unwrap();
            assert_eq!(brake, Brake { would_delete: 11, archives, would_delete_volumes: 0, volumes: 1 });
            assert_eq!(brake.to_string(), format!("11 of {archives} archives, 0 of 1 volumes"));
        }
        let seen_before = listed.iter().map(|item| (*item, at(0))).collect();
        let approved = plan(
            &listed,
            &Archived::default(),
            &BTreeSet::new(),
            &rows,
            &seen_before,
            &GcPolicy::default(),
            true,
            now(),
        );
        assert_eq!((approved.braked, approved.delete.len()), (None, usize::try_from(orphans).unwrap()));
    }
}

#[test]
fn volumes_brake_too_where_homes_were_never_archived() {
    let home = |n: u128| Item::Volume {
        workspace: WorkspaceId::from_uuid(Uuid::from_u128(0x2000 + n)),
        generation: Generation(1),
    };
    let listed = (0..11).map(home).collect::<BTreeSet<_>>();
    let got = late(&listed, &[row()]);
    assert_eq!(got.delete, BTreeSet::new());
    assert_eq!(got.braked.map(|brake| (brake.would_delete_volumes, brake.volumes)), Some((11, 11)));
}

#[test]
fn an_empty_database_empties_nothing() {
    for count in [1, 3, 10, 100] {
        let got = late(&strangers(count), &[]);
        assert!(got.delete.is_empty() && got.braked.is_some(), "{count}");
    }
    assert_eq!(late(&BTreeSet::new(), &[]), GcPlan::default(), "nothing there, nothing to say");
}

#[test]
fn one_workspace_never_protects_anothers() {
    let other = WorkspaceId::from_uuid(Uuid::from_u128(0x78));
    let same_op: OpId = op(5);
    let foreign = Item::Archive(ArchiveKey::of(other, same_op));
    assert!(deleted(row(), foreign));
    assert!(deleted(row(), Item::Volume { workspace: other, generation: CURRENT }));
}

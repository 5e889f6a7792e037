//! Every combination of what can be stored, seen and reported, reachable or not, against the rules
//! that may never be broken.

use codehub_domain::{
    ArchiveKey, Desired, ErrorReason, Failure, Generation, Operation, Phase, Truth, Workspace,
    decide::{Decision, Outcome},
    observed::{EndedBy, InstanceState, Observed, Seen, WaitingFor},
    plan::Action,
    waiting::{Waiting, waiting},
};

use crate::support::*;

const NEWER: Generation = Generation(9);

struct Case<'a> {
    ws: &'a Workspace,
    seen: &'a Observed,
    outcome: Option<(&'a Action, &'a Outcome)>,
    got: &'a Decision,
}

fn observations() -> Vec<Observed> {
    let mut all = Vec::new();
    let mut instances = vec![Seen::NotThere, Seen::Unknown];
    for generation in [CURRENT, OLD] {
        for state in [
            InstanceState::Ready,
            InstanceState::Alive,
            InstanceState::Waiting(crate::support::waiting(WaitingFor::Image)),
            InstanceState::died("1"),
            InstanceState::evicted("2"),
            InstanceState::Ended { by: EndedBy::Image, how: "3".into() },
        ] {
            instances.push(instance(generation, state));
        }
    }
    let sets = [
        volumes([CURRENT]),
        volumes([OLD]),
        volumes([OLD, CURRENT]),
        volumes([CURRENT, NEWER]),
        Seen::NotThere,
        Seen::Unknown,
    ];
    for instance in instances {
        for volumes in &sets {
            for archive in [Seen::There(()), Seen::NotThere, Seen::Unknown] {
                all.push(seen(instance.clone(), volumes.clone(), archive));
            }
        }
    }
    all
}

fn reports() -> Vec<Option<(Action, Outcome)>> {
    let put = |op| Action::PutArchive { key: key(op), from: CURRENT };
    let restore =
        |into| Action::Restore { from: old_key(), into, wipe: std::collections::BTreeSet::default() };
    let failed = |reason| Some((Action::StopInstance, Outcome::Failed(Failure::new(reason, "no"))));
    vec![
        None,
        Some((Action::StopInstance, Outcome::Done)),
        Some((Action::StartInstance { generation: CURRENT }, Outcome::Done)),
        Some((put(this_op()), archived(key(this_op())))),
        Some((put(next_op()), archived(key(next_op())))),
        Some((restore(CURRENT), Outcome::Restored { key: old_key(), generation: CURRENT })),
        Some((restore(OLD), Outcome::Restored { key: old_key(), generation: OLD })),
        failed(ErrorReason::ActionFailed),
        failed(ErrorReason::Unreachable),
        failed(ErrorReason::ArchiveCorrupted),
    ]
}

/// Stored states with that operation: phases, wishes, truths, archives, errors on the way.
fn states(operation: Operation) -> Vec<Workspace> {
    let mut all = Vec::new();
    // Invariant 1: ERROR is stored with no operation only.
    let storable = |phase: &&Phase| **phase != Phase::Error || operation == Operation::None;
    for &phase in Phase::ALL.iter().filter(storable) {
        for &desired in Desired::ALL {
            for &truth in Truth::ALL {
                let plain = given(phase, desired, operation, truth);
                let mut other_archive = plain.clone();
                other_archive.status.archive_key = Some(old_key());
                let mut variants = vec![plain.clone()];
                if truth == Truth::Archive && other_archive.status.archive_key != plain.status.archive_key {
                    variants.push(other_archive);
                }
                for ws in variants {
                    all.extend(with_errors(&ws));
                }
            }
        }
    }
    all
}

fn with_errors(ws: &Workspace) -> Vec<Workspace> {
    let with = |reason, count, retry: Option<i64>| {
        let mut ws = ws.clone();
        ws.status.error = Some(Failure::new(reason, "before"));
        ws.status.error_count = count;
        ws.status.next_retry_at = retry.map(|seconds| at(NOW + seconds));
        ws
    };
    if ws.status.phase == Phase::Error || ws.status.operation == Operation::None {
        let mut evicting = ws.clone();
        evicting.status.home.evict_instance = true;
        let mut all = vec![ws.clone(), evicting, with(ErrorReason::Timeout, 1, None)];
        if ws.status.phase != Phase::Error {
            // Archiving that gave way between two tries.
            all.push(with(ErrorReason::ActionFailed, 2, Some(-1)));
            all.push(with(ErrorReason::Unreachable, 7, Some(1)));
        }
        return all;
    }
    vec![ws.clone(), with(ErrorReason::ActionFailed, 2, Some(-1)), with(ErrorReason::Unreachable, 7, Some(1))]
}

fn every_combination_with(operation: Operation) {
    let (observations, reports) = (observations(), reports());
    for ws in states(operation) {
        for seen in &observations {
            for report in &reports {
                let outcome = report.as_ref().map(|(action, outcome)| (action, outcome));
                let got = after_at(&ws, seen, outcome, now());
                let case = Case { ws: &ws, seen, outcome, got: &got };
                if let Err(why) = check(&case) {
                    panic!(
                        "{why}\nstatus: {:#?}\ndesired: {}\nseen: {seen:?}\nreport: {report:?}\ngot: {got:#?}",
                        ws.status, ws.desired,
                    );
                }
            }
        }
    }
}

#[test]
fn none() {
    every_combination_with(Operation::None);
}

#[test]
fn provisioning() {
    every_combination_with(Operation::Provisioning);
}

#[test]
fn create_empty_archive() {
    every_combination_with(Operation::CreateEmptyArchive);
}

#[test]
fn restoring() {
    every_combination_with(Operation::Restoring);
}

#[test]
fn starting() {
    every_combination_with(Operation::Starting);
}

#[test]
fn stopping() {
    every_combination_with(Operation::Stopping);
}

#[test]
fn archiving() {
    every_combination_with(Operation::Archiving);
}

#[test]
fn deleting() {
    every_combination_with(Operation::Deleting);
}

type Checked = Result<(), &'static str>;

fn must(holds: bool, rule: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(rule) }
}

fn check(case: &Case<'_>) -> Checked {
    errors_are_waited_out(case)?;
    the_truth_moves_only_with_the_home(case)?;
    a_lost_home_is_said_to_be_lost(case)?;
    one_operation_at_a_time(case)?;
    history_tells_every_change(case)?;
    match &case.got.action {
        Some(action) => actions_are_safe(case, action)?,
        None => what_it_waits_for_is_told_from_the_row(case)?,
    }
    deciding_again_changes_nothing(case)
}

/// Whoever reads the row knows what was decided.
fn what_it_waits_for_is_told_from_the_row(case: &Case<'_>) -> Checked {
    let saved = Workspace { status: case.got.status.clone(), ..case.ws.clone() };
    let told = waiting(&saved);
    let expected = match case.got.why {
        "" => return Err("rests without saying why"),
        "waits for recovery" => Some(Waiting::Recovery),
        "waits before the next try" | "the try failed" => Some(Waiting::NextTry),
        "waits until the home can be seen" => Some(Waiting::HomeUnseen),
        "nothing to do" => None,
        _ => return must(case.got.again, "neither waits nor goes on"),
    };
    // An operation ended or gave way, or the home moved: the next decision follows at once.
    must(case.got.again || told == expected, "what it waits for is not told from the row")
}

/// ERROR comes with NONE, and is not left without a person.
fn errors_are_waited_out(case: &Case<'_>) -> Checked {
    let (before, after) = (&case.ws.status, &case.got.status);
    let deleted = case.ws.deleted_at.is_some();
    if after.phase == Phase::Error {
        must(after.operation == Operation::None, "ERROR with an operation")?;
        must(after.failed(), "ERROR without a terminal reason")?;
        must(case.got.action.is_none(), "acts in ERROR")?;
        must(after.next_retry_at.is_none(), "retries in ERROR")?;
        must(before.failed() || after.error_count > 0, "ERROR without counting")?;
    }
    if before.failed() && !deleted {
        must(after.phase == Phase::Error, "left ERROR by itself")?;
        must(after.error == before.error, "changed a terminal error by itself")?;
    }
    if after.failed() && !deleted {
        must(after.phase == Phase::Error, "a terminal error outside ERROR")?;
    }
    must(
        after.phase != Phase::Pending || after.home.truth == Truth::None || !knows(case),
        "home shown as PENDING",
    )
}

/// Whether the true copy could be looked at, before or now.
fn knows(case: &Case<'_>) -> bool {
    match case.got.status.home.truth {
        Truth::None => true,
        Truth::Volume => case.seen.volume(case.got.status.home.generation).is_there(),
        Truth::Archive => case.seen.archive.is_there(),
    }
}

fn the_truth_moves_only_with_the_home(case: &Case<'_>) -> Checked {
    let (before, after) = (&case.ws.status, &case.got.status);
    let report = case.outcome.map(|(_, outcome)| outcome);
    let stored = |key: Option<ArchiveKey>| key.is_some_and(|key| report == Some(&archived(key)));
    let moved = after.home.truth != before.home.truth;
    must(
        (after.archive_key == before.archive_key) || (moved && after.home.truth == Truth::Archive),
        "another archive_key without a new archive",
    )?;
    if !moved {
        return Ok(());
    }
    let current = before.home.generation;
    let rule = match (before.home.truth, after.home.truth) {
        (Truth::None, Truth::Volume) => {
            before.operation == Operation::Provisioning && case.seen.volume(current).is_there()
        }
        (Truth::None, Truth::Archive) => {
            before.operation == Operation::CreateEmptyArchive && stored(case.ws.op_archive_key())
        }
        (Truth::Volume, Truth::Archive) => {
            before.operation == Operation::Archiving
                && stored(case.ws.op_archive_key())
                && !case.seen.runs_on(current)
        }
        (Truth::Archive, Truth::Volume) => {
            before.operation == Operation::Restoring
                && before.archive_key.is_some_and(|key| {
                    report == Some(&Outcome::Restored { key, generation: current })
                        && after.home.restore_marker == Some(key)
                })
        }
        (_, Truth::None) | (Truth::Volume, Truth::Volume) | (Truth::Archive, Truth::Archive) => false,
    };
    must(rule, "the truth moved without its home")?;
    must(before.home.truth == Truth::None || case.got.action.is_none(), "acts before the move is saved")?;
    must(
        after.home.truth == Truth::Volume || after.archive_key == case.ws.op_archive_key(),
        "truth in another archive",
    )
}

fn a_lost_home_is_said_to_be_lost(case: &Case<'_>) -> Checked {
    let (before, after) = (&case.ws.status, &case.got.status);
    if before.failed() || case.ws.deleted_at.is_some() {
        return Ok(());
    }
    let said = after.error.as_ref().is_some_and(|failure| failure.reason == ErrorReason::DataLost);
    let moved = before.home.truth != Truth::None && after.home.truth != before.home.truth;
    let gone = match before.home.truth {
        Truth::None => false,
        Truth::Volume => case.seen.volume(before.home.generation).is_gone(),
        Truth::Archive => case.seen.archive.is_gone(),
    };
    // What was seen when the home had just moved was the other copy, or another archive.
    must(said == (gone && !moved), "DataLost exactly when the true copy is gone")
}

fn one_operation_at_a_time(case: &Case<'_>) -> Checked {
    let (before, after) = (&case.ws.status, &case.got.status);
    let kept = before.operation == after.operation;
    let one_moved = before.operation == Operation::None || after.operation == Operation::None;
    must(kept || one_moved, "one operation became another")?;
    if before.operation == Operation::None && after.operation != Operation::None {
        let resumed = before.error.is_some() && after.operation == Operation::Archiving;
        let id = if resumed { before.op_id } else { Some(next_op()) };
        must(after.op_id == id, "an operation with the wrong id")?;
        must(after.op_started_at == Some(now()) && after.op_moved_at == Some(now()), "began without a time")?;
    } else {
        // It may have begun, failed at once, and given way.
        let gave_way = before.operation == Operation::None && case.got.again && after.error.is_some();
        must(after.op_id == before.op_id || gave_way, "another id for the same operation")?;
    }
    must(after.operation != Operation::None || after.op_started_at.is_none(), "no operation, but a start")?;
    must(after.home.generation >= before.home.generation, "a generation went back")
}

fn history_tells_every_change(case: &Case<'_>) -> Checked {
    let (before, after, lines) = (&case.ws.status, &case.got.status, &case.got.transitions);
    must(
        (after.phase_changed_at == now())
            == (after.phase != before.phase || lines.iter().any(|line| line.from != line.to)),
        "phase_changed_at moves exactly with the phase",
    )?;
    // Between its tries an operation that gives way is still the same: history does not repeat it.
    let paused = before.operation == Operation::Archiving && after.error.is_some() && !after.failed();
    let resumed = after.operation == Operation::Archiving && before.error.is_some();
    let changed = before.phase != after.phase
        || (before.operation != after.operation && !paused && !resumed)
        || (!before.failed() && after.failed());
    let began_and_gave_way = before.op_id != after.op_id;
    must(changed || began_and_gave_way || lines.is_empty(), "history without a change")?;
    must(!changed || !lines.is_empty(), "a change without history")?;
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return Ok(()) };
    must(first.from == before.phase && last.to == after.phase, "history ends elsewhere")?;
    must(lines.windows(2).all(|pair| pair[0].to == pair[1].from), "history has a gap")
}

fn actions_are_safe(case: &Case<'_>, action: &Action) -> Checked {
    let (before, after, seen) = (&case.ws.status, &case.got.status, case.seen);
    let deleted = case.ws.deleted_at.is_some();
    let no_instance = seen.instance.is_gone();
    let home = &after.home;
    must(after.operation != Operation::None, "acts without an operation saved")?;
    must(after.op_moved_at == Some(now()), "acts without starting its deadline")?;
    match action {
        Action::CreateVolume { generation } => {
            must(before.home.truth == Truth::None && home.truth == Truth::None, "provisions over a home")?;
            must(*generation == home.generation && !seen.volume(*generation).is_there(), "reuses a volume")
        }
        Action::PutEmptyArchive { key } => {
            must(home.truth == Truth::None, "an empty archive over a home")?;
            must(Some(*key) == after.op_id.map(|op| ArchiveKey::of(case.ws.id, op)), "not its own archive")
        }
        Action::Restore { from, into, wipe } => {
            must(home.truth == Truth::Archive && after.archive_key == Some(*from), "restores another home")?;
            must(no_instance, "restores beside an instance")?;
            must(*into > before.home.generation && *into == home.generation, "reuses a generation")?;
            let listed = seen.generations().ok_or("wipes what it has not seen")?;
            let fine = listed.iter().all(|generation| generation < into)
                && wipe.iter().all(|generation| *generation <= before.home.generation);
            must(fine, "restores over, or wipes, what it never made")
        }
        Action::StartInstance { generation } => {
            must(home.truth == Truth::Volume && *generation == home.generation, "starts on debris")
        }
        Action::StopInstance => must(!no_instance, "stops what is not there"),
        Action::PutArchive { key, from } => {
            must(no_instance, "packs under a running instance")?;
            must(home.truth == Truth::Volume && *from == home.generation, "packs debris")?;
            must(seen.volume(*from).is_there(), "packs what it has not seen")?;
            must(Some(*key) == case_key(case), "not its own archive")
        }
        Action::DeleteVolumes { generations } => {
            must(no_instance, "deletes under an instance")?;
            must(!generations.is_empty(), "deletes nothing")?;
            if deleted {
                return Ok(());
            }
            must(after.operation == Operation::Archiving, "deletes volumes out of turn")?;
            must(home.truth == Truth::Archive && seen.archive.is_there(), "deletes the true copy")?;
            must(
                after.archive_key == case_key(case) && before.archive_key == after.archive_key,
                "not committed",
            )?;
            must(
                generations.iter().all(|generation| *generation <= home.generation),
                "deletes what it never made",
            )
        }
    }
}

fn case_key(case: &Case<'_>) -> Option<ArchiveKey> {
    case.got.status.op_id.map(|op| ArchiveKey::of(case.ws.id, op))
}

/// Without an action, deciding comes to rest; at rest, deciding once more changes nothing.
fn deciding_again_changes_nothing(case: &Case<'_>) -> Checked {
    let mut ws = saved(case.ws, case.got);
    let mut last = case.got.clone();
    for _ in 0..4 {
        if last.action.is_some() {
            return Ok(());
        }
        let next = step(&ws, case.seen);
        if !last.again {
            let mut status = next.status.clone();
            status.observed_at = last.status.observed_at;
            let same = next.action.is_none() && next.transitions.is_empty() && status == last.status;
            return must(same, "deciding again changes something");
        }
        ws = saved(&ws, &next);
        last = next;
    }
    Err("does not come to rest")
}

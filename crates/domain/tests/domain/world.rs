//! The rules in a closed loop with a toy world: decisions change the world, the world is observed,
//! and people, failures, crashes and a leader that lost its lease get in between. The home is a
//! number that grows while somebody works; it must never be seen to shrink.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use codehub_domain::{
    ArchiveKey, Desired, ErrorReason, Failure, Generation, Operation, Phase, Timestamp, Truth, Workspace,
    decide::{Decision, Inputs, Outcome, decide},
    desired::{Answer, ask},
    gc::{self, GcPolicy, GcRow, Item},
    observed::{Instance, InstanceState, Observed, Seen},
    plan::Action,
    recovery::{Recovery, recover},
    retry::Policy,
};

use crate::support::{archived, at, op, workspace};

/// Small, seeded, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

/// What is on a volume: a home, or what an unpacking that was cut short left.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Content {
    Home(u64),
    Half,
}

struct World {
    ws: Workspace,
    instance: Option<Instance>,
    volumes: BTreeMap<Generation, Content>,
    archives: BTreeMap<ArchiveKey, u64>,
    /// The work somebody was told is safe.
    work: u64,
    /// The action that has just ended, and its report, if anybody heard it.
    report: Option<(Action, Outcome)>,
    /// What a leader decided before it fell asleep.
    asleep: Vec<Action>,
    second: i64,
    ids: u128,
    trace: Vec<String>,
}

impl World {
    fn new(desired: Desired) -> Self {
        let mut ws = workspace();
        ws.desired = desired;
        Self {
            ws,
            instance: None,
            volumes: BTreeMap::new(),
            archives: BTreeMap::new(),
            work: 0,
            report: None,
            asleep: Vec::new(),
            second: 0,
            ids: 0,
            trace: Vec::new(),
        }
    }

    fn now(&self) -> Timestamp {
        at(self.second)
    }

    fn observe(&self) -> Observed {
        let volumes: BTreeSet<Generation> = self.volumes.keys().copied().collect();
        let archive = match self.ws.status.archive_key {
            None => Seen::Unknown,
            Some(key) => self.archives.get(&key).map(|_| ()).into(),
        };
        Observed {
            instance: self.instance.clone().into(),
            volumes: (!volumes.is_empty()).then_some(volumes).into(),
            trouble: Default::default(),
            archive,
        }
    }

    /// One decision, saved.
    fn decide(&mut self, seen: &Observed) -> Decision {
        self.ids += 1;
        let report = self.report.take();
        let policy = Policy::default();
        let decision = decide(&Inputs {
            workspace: &self.ws,
            seen,
            outcome: report.as_ref().map(|(action, outcome)| (action, outcome)),
            policy: &policy,
            now: self.now(),
            op_id: op(self.ids),
            jitter: 1.0,
        });
        self.trace.push(format!(
            "{:>4}: {report:?} {seen:?}\n      {} {} {:?} → {:?} {}",
            self.second,
            decision.status.phase,
            decision.status.operation,
            decision.status.home,
            decision.action,
            decision.why,
        ));
        self.ws.status = decision.status.clone();
        decision
    }

    /// Does it, as every adapter must: idempotent, and a finished archive stays as it is.
    fn perform(&mut self, action: &Action) -> Outcome {
        let failed = |what: &str| Outcome::Failed(Failure::new(ErrorReason::ActionFailed, what));
        match action {
            Action::CreateVolume { generation } => {
                self.volumes.entry(*generation).or_insert(Content::Home(0));
                Outcome::Done
            }
            Action::PutEmptyArchive { key } => {
                self.archives.entry(*key).or_insert(0);
                archived(*key)
            }
            Action::Restore { from, into, wipe } => {
                self.volumes.retain(|generation, _| !wipe.contains(generation));
                let Some(home) = self.archives.get(from) else { return failed("no archive") };
                self.volumes.insert(*into, Content::Home(*home));
                Outcome::Restored { key: *from, generation: *into }
            }
            Action::StartInstance { generation } => {
                if !self.volumes.contains_key(generation) {
                    return failed("no volume");
                }
                if self.instance.as_ref().is_none_or(|instance| instance.state != InstanceState::Ready) {
                    self.instance = Some(Instance { generation: *generation, state: InstanceState::Ready });
                }
                Outcome::Done
            }
            Action::StopInstance => {
                self.instance = None;
                Outcome::Done
            }
            Action::PutArchive { key, from } => match self.volumes.get(from) {
                Some(Content::Home(home)) => {
                    self.archives.entry(*key).or_insert(*home);
                    archived(*key)
                }
                Some(Content::Half) | None => failed("no home to pack"),
            },
            Action::DeleteVolumes { generations } => {
                self.volumes.retain(|generation, _| !generations.contains(generation));
                Outcome::Done
            }
        }
    }

    /// A restore that is cut short leaves half a home.
    fn perform_half(&mut self, action: &Action) {
        if let Action::Restore { into, wipe, .. } = action {
            self.volumes.retain(|generation, _| !wipe.contains(generation));
            self.volumes.insert(*into, Content::Half);
        }
    }

    fn desired(&mut self, desired: Desired) {
        if ask(&self.ws, desired) == Answer::Change {
            self.trace.push(format!("      wish {desired}"));
            self.ws.desired = desired;
            self.ws.deleted_at = (desired == Desired::Deleted).then(|| self.now());
        }
    }

    /// Somebody works in it: the proxy sends traffic while the phase says RUNNING.
    fn work(&mut self) {
        let Some(Instance { generation, state: InstanceState::Ready }) = self.instance else { return };
        if self.ws.status.phase == Phase::Running && self.ws.status.operation == Operation::None {
            self.work += 1;
            assert_eq!(generation, self.ws.status.home.generation, "traffic to another home");
            self.volumes.insert(generation, Content::Home(self.work));
        }
    }

    fn recover(&mut self) {
        if self.ws.status.phase == Phase::Error && self.ws.status.failed() {
            self.trace.push("      recover".into());
            self.ws.status = recover(&self.ws.status, Recovery::default()).expect("nothing is lost");
        }
    }

    /// A collector without patience.
    fn collect(&mut self) {
        let listed: BTreeSet<Item> = self
            .archives
            .keys()
            .map(|key| Item::Archive(*key))
            .chain(
                self.volumes
                    .keys()
                    .map(|generation| Item::Volume { workspace: self.ws.id, generation: *generation }),
            )
            .collect();
        let in_use = self.instance.iter().map(|_| self.ws.id).collect();
        let status = &self.ws.status;
        let row = GcRow {
            id: self.ws.id,
            phase: status.phase,
            operation: status.operation,
            deleted: self.ws.deleted_at.is_some(),
            truth: status.home.truth,
            generation: status.home.generation,
            archive_key: status.archive_key,
            op_id: status.op_id,
        };
        let policy = GcPolicy { orphan_delay: Duration::ZERO, archive_keep: 1, ..GcPolicy::default() };
        let plan = gc::plan(
            &listed,
            &gc::Archived::default(),
            &in_use,
            &[row],
            &BTreeMap::new(),
            &policy,
            true,
            self.now(),
        );
        self.trace.push(format!("      collect {:?}", plan.delete));
        for item in plan.delete {
            match item {
                Item::Archive(key) => drop(self.archives.remove(&key)),
                Item::Volume { generation, .. } => drop(self.volumes.remove(&generation)),
            }
        }
    }

    fn home_is_safe(&self) -> Result<(), String> {
        let status = &self.ws.status;
        if self.ws.deleted_at.is_some() {
            return Ok(());
        }
        if status.error.as_ref().is_some_and(|failure| failure.reason == ErrorReason::DataLost) {
            return Err("DataLost, but nothing was lost".into());
        }
        let copy = match status.home.truth {
            Truth::None => Some(Content::Home(0)),
            Truth::Volume => self.volumes.get(&status.home.generation).copied(),
            Truth::Archive => {
                status.archive_key.and_then(|key| self.archives.get(&key)).map(|home| Content::Home(*home))
            }
        };
        if copy == Some(Content::Home(self.work)) {
            Ok(())
        } else {
            Err(format!("work {} but the true copy ({}) is {copy:?}", self.work, status.home.truth))
        }
    }

    fn check(&self, seed: u64) {
        if let Err(why) = self.home_is_safe() {
            let last = self.trace.len().saturating_sub(40);
            panic!("seed {seed}: {why}\n{}", self.trace[last..].join("\n"));
        }
    }

    /// Undisturbed steps until the wish is fulfilled; how many.
    fn settle(&mut self, seed: u64) -> usize {
        for steps in 0..60 {
            let status = &self.ws.status;
            if status.phase == self.ws.desired.phase() && status.operation == Operation::None {
                return steps;
            }
            self.second += 1;
            let seen = self.observe();
            if let Some(action) = self.decide(&seen).action {
                let outcome = self.perform(&action);
                self.report = Some((action, outcome));
            } else if self.ws.status.next_retry_at.is_some() {
                self.second += 61;
            }
            self.check(seed);
        }
        let last = self.trace.len().saturating_sub(30);
        panic!("seed {seed}: never {}\n{}", self.ws.desired, self.trace[last..].join("\n"));
    }

    /// One step in which anything may go wrong.
    fn stumble(&mut self, dice: &mut Dice) {
        self.second += i64::try_from(dice.roll(30)).unwrap();
        let mut seen = self.observe();
        if dice.one_in(6) {
            seen.instance = Seen::Unknown;
        }
        if dice.one_in(6) {
            seen.volumes = Seen::Unknown;
        }
        if dice.one_in(6) {
            seen.archive = Seen::Unknown;
        }
        let before = self.ws.status.clone();
        let decision = self.decide(&seen);
        if dice.one_in(12) {
            // Ended before it saved: as if nothing had been decided, and the report is lost.
            self.ws.status = before;
            return;
        }
        let Some(action) = decision.action else { return };
        match dice.roll(8) {
            // kill -9: before, in the middle of, and after the deed, with nobody to hear the report.
            0 => {}
            1 => self.perform_half(&action),
            2 => drop(self.perform(&action)),
            // It fails, with and without having done it.
            3 => {
                let reason =
                    if dice.one_in(2) { ErrorReason::Unreachable } else { ErrorReason::ActionFailed };
                if dice.one_in(2) {
                    self.perform(&action);
                }
                self.report = Some((action, Outcome::Failed(Failure::new(reason, "no"))));
            }
            // The leader falls asleep over it and another takes over.
            4 => self.asleep.push(action),
            _ => {
                let outcome = self.perform(&action);
                self.report = Some((action, outcome));
            }
        }
    }

    fn disturb(&mut self, dice: &mut Dice) {
        self.work();
        match dice.roll(24) {
            0..=5 => {
                let wishes = [Desired::Running, Desired::Standby, Desired::Archived];
                self.desired(wishes[usize::try_from(dice.roll(3)).unwrap()]);
            }
            6 => {
                if let Some(instance) = &mut self.instance {
                    instance.state = match dice.roll(2) {
                        0 => InstanceState::died("killed"),
                        _ => InstanceState::evicted("drained"),
                    };
                }
            }
            7 => self.instance = None,
            8..=10 => self.recover(),
            11 | 12 => self.collect(),
            // A leader that was replaced wakes up and does what it had decided.
            13 if !self.asleep.is_empty() => {
                let which = usize::try_from(dice.roll(self.asleep.len() as u64)).unwrap();
                let action = self.asleep.swap_remove(which);
                self.trace.push(format!("      late {action:?}"));
                self.perform(&action);
            }
            _ => {}
        }
    }
}

#[test]
fn every_wish_is_fulfilled_from_everywhere() {
    let wishes = [Desired::Running, Desired::Standby, Desired::Archived];
    for first in wishes {
        for second in wishes {
            for third in [Desired::Running, Desired::Standby, Desired::Archived, Desired::Deleted] {
                let mut world = World::new(first);
                let mut steps = world.settle(0);
                for desired in [second, third] {
                    world.work();
                    world.settle(0);
                    world.desired(desired);
                    steps = steps.max(world.settle(0));
                }
                assert!(steps <= 12, "{first} {second} {third} took {steps} steps");
                if third == Desired::Deleted {
                    assert!(world.instance.is_none() && world.volumes.is_empty());
                }
            }
        }
    }
}

#[test]
fn at_rest_only_what_the_phase_says_exists() {
    let mut world = World::new(Desired::Running);
    for desired in
        [Desired::Running, Desired::Archived, Desired::Running, Desired::Standby, Desired::Archived]
    {
        world.desired(desired);
        world.settle(0);
        world.work();
        let expected = match desired {
            Desired::Running => (true, 1),
            Desired::Standby => (false, 1),
            Desired::Archived | Desired::Deleted => (false, 0),
        };
        assert_eq!((world.instance.is_some(), world.volumes.len()), expected, "{desired}");
    }
}

#[test]
fn whatever_goes_wrong_the_home_survives_and_the_wish_comes_true() {
    let wishes = [Desired::Running, Desired::Standby, Desired::Archived];
    let mut worked = 0;
    for seed in 0..3000 {
        let mut dice = Dice(seed);
        let mut world = World::new(wishes[usize::try_from(dice.roll(3)).unwrap()]);
        for _ in 0..120 {
            world.stumble(&mut dice);
            world.check(seed);
            world.disturb(&mut dice);
            world.check(seed);
        }
        // The world heals, and whoever slept does its last deed.
        for action in std::mem::take(&mut world.asleep) {
            world.perform(&action);
            world.check(seed);
        }
        let seen = world.observe();
        world.decide(&seen);
        world.recover();
        if dice.one_in(4) {
            while ask(&world.ws, Desired::Deleted) != Answer::Change {
                world.settle(seed);
            }
            world.desired(Desired::Deleted);
        }
        world.settle(seed);
        worked += world.work;
    }
    assert!(worked > 10_000, "the test worked too little to lose anything: {worked}");
}

//! One history.

use codehub_store::fake::by;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, atomic::AtomicI64},
    time::Duration,
};

use codehub_coordinator as coordinator;
use codehub_coordinator::{Backends, Context, Settings, chance::Chance, leader::Leadership};
use codehub_domain::{
    Desired, ErrorReason, OpId, Operation, Phase, Truth, UserId, Workspace, WorkspaceId,
    decide::{self, Decision, Inputs},
    event::{Actor, Reason},
    gc::GcPolicy,
    limits::Limits,
    recovery::Recovery,
    retry::Policy,
    ttl::TtlPolicy,
    user::Role,
};
use codehub_runtime::fake::{FakeBackends, Faults, Gate, Mutation, World, short};
use codehub_store::{
    Created, Edit, NewWorkspace, Store, UserChange,
    bus::MemoryBus,
    fake::{FakeClock, FakeStore},
    prelude::*,
};
use codehub_testing::let_time_pass;
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::store::{ProcessStore, Shared};

/// What is different about a run.
#[derive(Clone)]
pub(super) struct Options {
    pub(super) mutation: Option<Mutation>,
    pub(super) ignore_epoch: bool,
    /// Somebody with access to the store of archives puts copies of archives in the places of others.
    pub(super) swaps: bool,
    /// Mutation: see [`Shared`].
    pub(super) trust_archives: bool,
    /// Archives are from before there were records, now and then.
    pub(super) forgets_records: bool,
    pub(super) decide: fn(&Inputs<'_>) -> Decision,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mutation: None,
            ignore_epoch: false,
            swaps: false,
            trust_archives: false,
            forgets_records: false,
            decide: decide::decide,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) complaints: Vec<String>,
    pub(super) trace: Vec<String>,
    pub(super) operations: usize,
    pub(super) killed: usize,
    pub(super) frozen: usize,
    pub(super) writes: usize,
}

impl Report {
    pub(super) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.killed += other.killed;
        self.frozen += other.frozen;
        self.writes += other.writes;
    }

    /// What a person needs to understand a failing seed.
    pub(super) fn story(&self, seed: u64) -> String {
        let shown = self.trace.iter().rev().take(400).rev();
        let trace: String = shown.map(|line| format!("{line}\n")).collect();
        let complaints: String = self.complaints.iter().map(|line| format!("  {line}\n")).collect();
        format!("{trace}\nseed {seed} went wrong:\n{complaints}run it again: make simulate SEED={seed}\n")
    }
}

/// The mutated rule: ARCHIVING is complete when *some* archive of the workspace exists.
pub(super) fn complete_on_any_archive(inputs: &Inputs<'_>) -> Decision {
    let mut workspace = inputs.workspace.clone();
    let status = &mut workspace.status;
    if status.operation == Operation::Archiving
        && let Some(key) = status.archive_key
    {
        status.op_id = Some(key.op);
        status.home.truth = Truth::Archive;
    }
    decide::decide(&Inputs { workspace: &workspace, ..inputs.clone() })
}

/// Chance from the world's dice.
struct Dice(World, Instant);

impl Chance for Dice {
    fn op_id(&self) -> OpId {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&self.0.draw(u64::MAX).to_be_bytes());
        let millis = 1_700_000_000_000 + u64::try_from(self.1.elapsed().as_millis()).unwrap();
        OpId::from_uuid(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    fn jitter(&self) -> f64 {
        0.8 + self.0.draw(400) as f64 / 1000.0
    }
}

struct Process {
    gate: Gate,
    task: JoinHandle<()>,
    frozen: bool,
}

struct Simulation {
    world: World,
    store: Arc<FakeStore>,
    shared: Arc<Shared>,
    bus: Arc<MemoryBus>,
    options: Options,
    owner: UserId,
    workspaces: Vec<WorkspaceId>,
    processes: Vec<Process>,
    began: Instant,
    report: Report,
}

/// Runs the history of one seed.
pub(super) fn simulate(seed: u64, options: Options) -> Report {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut simulation = Simulation::new(seed, options).await;
        simulation.live().await;
        simulation.heal_and_judge().await;
        simulation.finish()
    })
}

impl Simulation {
    async fn new(seed: u64, options: Options) -> Self {
        let faults = Faults {
            refused: 0.06,
            lost_answer: 0.05,
            delayed: 0.05,
            death: 0.01,
            eviction: 0.01,
            waiting: 0.2,
            cut: 0.08,
        };
        let world = World::new(seed, faults, options.mutation);
        let began = Instant::now();
        let clock = FakeClock::new();
        let store = Arc::new(FakeStore::new(clock.clone()));
        let owner = UserId::from_uuid(Uuid::from_u128(1));
        let made = store.user_create(by(), owner, "somebody", "-", Role::User).await.unwrap();
        assert!(matches!(made, UserChange::Done(_)));
        let shared = Arc::new(Shared {
            store: store.clone(),
            clock,
            began,
            world: world.clone(),
            newest_epoch: AtomicI64::new(0),
            trouble: Mutex::new(0.02),
            ignore_epoch: options.ignore_epoch,
            trust_archives: options.trust_archives,
        });
        let mut simulation = Self {
            world,
            store,
            shared,
            bus: Arc::new(MemoryBus::new()),
            options,
            owner,
            workspaces: Vec::new(),
            processes: Vec::new(),
            began,
            report: Report::default(),
        };
        let count = 1 + simulation.world.draw(4);
        for number in 0..count {
            simulation.create(number).await;
        }
        simulation.start_leader();
        simulation
    }

    async fn create(&mut self, number: u64) {
        let id = WorkspaceId::from_uuid(Uuid::from_u128(0x1000 + u128::from(number)));
        let desired = self.pick_desired();
        let new = NewWorkspace {
            id,
            owner: self.owner,
            name: format!("workspace {number}"),
            description: String::new(),
            memo: String::new(),
            image_ref: "fake".into(),
            desired,
            standby_ttl_seconds: None,
            archive_ttl_seconds: None,
            from_archive: None,
            once: None,
            activity_mode: None,
            labels: codehub_domain::labels::Labels::default(),
        };
        let created =
            self.store.workspace_create(by(), new, Limits::NONE, Actor::User(self.owner)).await.unwrap();
        assert!(matches!(created, Created::Created(_)));
        self.world.note(format!("{} is created, wants {desired}", short(id)));
        self.workspaces.push(id);
    }

    fn start_leader(&mut self) {
        let gate = Gate::new();
        let fake = Arc::new(FakeBackends { world: self.world.clone(), gate: gate.clone() });
        let backends = Backends {
            store: ProcessStore { shared: self.shared.clone(), gate: gate.clone() }.composed(),
            bus: self.bus.clone(),
            instances: fake.clone(),
            volumes: fake.clone(),
            archives: fake,
            name: None,
        };
        let context = Context {
            backends,
            settings: Arc::new(settings()),
            chance: Arc::new(Dice(self.world.clone(), self.began)),
            leading: tokio::sync::watch::Sender::new(None),
            health: coordinator::health::Health::default(),
            decide: self.options.decide,
            replica: format!("process {}", self.processes.len()),
            adopted: Arc::default(),
        };
        let leadership = Leadership::Exclusive { holder: format!("process {}", self.processes.len()) };
        let task = tokio::spawn(coordinator::run(context, leadership, CancellationToken::new()));
        self.processes.push(Process { gate, task, frozen: false });
    }

    /// Things happen.
    async fn live(&mut self) {
        for _ in 0..40 + self.world.draw(60) {
            self.wait(Duration::from_millis(self.world.draw(15_000))).await;
            match self.world.draw(100) {
                0..=44 => self.somebody_acts().await,
                45..=69 => self.somebody_writes().await,
                70..=79 => self.kill_the_leader(),
                80..=89 => self.freeze_the_leader(),
                90..=97 => self.wake_a_frozen_one(),
                _ => self.edit().await,
            }
            if self.options.swaps {
                self.swap();
                self.check_nothing_is_anothers().await;
            }
            if self.options.forgets_records && self.world.draw(4) == 0 {
                self.forget_records();
            }
            self.check_nothing_is_lost().await;
            if !self.world.complaints().is_empty() {
                return;
            }
        }
    }

    async fn wait(&self, duration: Duration) {
        let_time_pass(duration).await;
        self.shared.tell_the_time();
    }

    fn pick_desired(&self) -> Desired {
        match self.world.draw(10) {
            0..=4 => Desired::Running,
            5..=6 => Desired::Standby,
            _ => Desired::Archived,
        }
    }

    fn pick(&self) -> WorkspaceId {
        let at = self.world.draw(self.workspaces.len() as u64);
        self.workspaces[usize::try_from(at).unwrap()]
    }

    async fn get(&self, id: WorkspaceId) -> Workspace {
        self.store.workspace_get(id).await.unwrap().unwrap()
    }

    async fn somebody_acts(&mut self) {
        let id = self.pick();
        let workspace = self.get(id).await;
        let actor = Actor::User(self.owner);
        if workspace.status.failed() {
            self.check_error(&workspace);
            self.world.note(format!("{} is recovered", short(id)));
            self.store
                .workspace_recover(by(), id, Recovery::default(), None, Limits::NONE, actor)
                .await
                .unwrap();
            return;
        }
        let wish = if self.world.draw(60) == 0 { Desired::Deleted } else { self.pick_desired() };
        let asked = self
            .store
            .workspace_ask(by(), id, wish, Limits::NONE, actor, &Reason::StateRequested)
            .await
            .unwrap();
        self.world.note(format!("{} is asked to be {wish}: {}", short(id), word(&asked)));
    }

    /// Without anybody destroying anything, a lost home or a corrupt archive is our own doing.
    fn check_error(&self, workspace: &Workspace) {
        let Some(failure) = &workspace.status.error else { return };
        match failure.reason {
            ErrorReason::DataLost | ErrorReason::ArchiveCorrupted if !self.options.swaps => {
                self.world.complain(format!("{}: {failure}", short(workspace.id)));
            }
            ErrorReason::DataLost
            | ErrorReason::ArchiveCorrupted
            | ErrorReason::Timeout
            | ErrorReason::ImagePullFailed
            | ErrorReason::ContainerWithoutVolume
            | ErrorReason::ActionFailed
            | ErrorReason::Unreachable
            | ErrorReason::NoCapacity
            | ErrorReason::RetryExceeded => {}
        }
    }

    /// A person reaches a home only through the proxy, which lets nobody in unless it is RUNNING.
    async fn somebody_writes(&mut self) {
        let id = self.pick();
        if self.get(id).await.status.phase == Phase::Running && self.world.write(id) {
            self.report.writes += 1;
        }
    }

    async fn edit(&mut self) {
        let edit = Edit { memo: Some(format!("memo {}", self.world.draw(1000))), ..Edit::default() };
        self.store.workspace_edit(by(), self.pick(), edit).await.unwrap();
    }

    fn kill_the_leader(&mut self) {
        self.world.note("the leader is killed");
        if let Some(process) = self.processes.last() {
            process.gate.kill();
            process.task.abort();
        }
        self.report.killed += 1;
        self.start_leader();
    }

    fn freeze_the_leader(&mut self) {
        self.world.note("the leader is frozen, another one takes over");
        if let Some(process) = self.processes.last_mut() {
            process.gate.freeze();
            process.frozen = true;
        }
        self.report.frozen += 1;
        self.start_leader();
    }

    fn wake_a_frozen_one(&mut self) {
        let frozen: Vec<usize> = (0..self.processes.len()).filter(|at| self.processes[*at].frozen).collect();
        if frozen.is_empty() {
            return;
        }
        let at = frozen[usize::try_from(self.world.draw(frozen.len() as u64)).unwrap()];
        self.world.note(format!("process {at} wakes up"));
        self.processes[at].gate.wake();
        self.processes[at].frozen = false;
        // A process that was replaced finds out, and would then try to lead again: with a real lock
        // it could not. It gets a moment to do harm, and ends.
        let gate = self.processes[at].gate.clone();
        let task = self.processes[at].task.abort_handle();
        tokio::spawn(async move {
            let_time_pass(Duration::from_secs(4)).await;
            gate.kill();
            task.abort();
        });
    }

    /// A copy of one workspace's archive in the place of another's.
    fn swap(&self) {
        let archives = self.world.finished_archives();
        let pick = || archives[usize::try_from(self.world.draw(archives.len() as u64)).unwrap()];
        if archives.is_empty() || self.world.draw(3) > 0 {
            return;
        }
        let (from, over) = (pick(), pick());
        if from.workspace != over.workspace {
            self.world.note(format!(
                "{} is put in the place of {}",
                short(from.workspace),
                short(over.workspace)
            ));
            self.world.swap_archive(&from, &over);
        }
    }

    /// As a process of an older version leaves them.
    fn forget_records(&mut self) {
        for key in self.world.finished_archives() {
            self.store.forget_archive(key);
        }
        self.world.note("records of archives are forgotten");
        self.kill_the_leader();
    }

    /// No home may hold what somebody wrote into another workspace.
    async fn check_nothing_is_anothers(&self) {
        for id in &self.workspaces {
            let workspace = self.get(*id).await;
            let home = &workspace.status.home;
            if home.truth != Truth::Volume {
                continue;
            }
            let found = self.world.on_volume(&workspace.volume(home.generation)).unwrap_or_default();
            for other in self.workspaces.iter().filter(|other| *other != id) {
                let foreign = &found & &self.world.acknowledged(*other);
                if !foreign.is_empty() {
                    self.world.complain(format!("{} has {foreign:?} of {}", short(*id), short(*other)));
                }
            }
        }
    }

    async fn check_nothing_is_lost(&self) {
        // Whoever can write there can destroy; that is not what is looked for then.
        if self.options.swaps {
            return;
        }
        for id in &self.workspaces {
            if self.get(*id).await.deleted_at.is_some() {
                continue;
            }
            let lost = self.world.lost(*id);
            if !lost.is_empty() {
                self.world.complain(format!("{} lost {lost:?}: no copy of it exists", short(*id)));
            }
        }
    }

    /// Everything works from here on: does it all come true?
    async fn heal_and_judge(&mut self) {
        if !self.world.complaints().is_empty() || self.options.swaps {
            return;
        }
        self.world.heal();
        *self.shared.trouble.lock().unwrap() = 0.0;
        // Late effects of the bad times arrive within 30 s.
        for _ in 0..3 {
            self.wait(Duration::from_secs(60)).await;
            self.recover_all().await;
        }
        // A TTL may be at work just now: give it a moment to finish.
        for _ in 0..120 {
            self.wait(Duration::from_secs(1)).await;
            if self.settled().await {
                break;
            }
        }
        for id in self.workspaces.clone() {
            let workspace = self.get(id).await;
            self.judge(&workspace);
        }
        self.check_nothing_is_lost().await;
    }

    async fn settled(&self) -> bool {
        for id in &self.workspaces {
            let workspace = self.get(*id).await;
            if workspace.status.operation != Operation::None
                || workspace.status.phase != workspace.desired.phase()
            {
                return false;
            }
        }
        true
    }

    async fn recover_all(&self) {
        for id in &self.workspaces {
            let workspace = self.get(*id).await;
            if workspace.status.failed() {
                self.check_error(&workspace);
                let actor = Actor::User(self.owner);
                self.store
                    .workspace_recover(by(), *id, Recovery::default(), None, Limits::NONE, actor)
                    .await
                    .unwrap();
            }
        }
    }

    fn judge(&self, workspace: &Workspace) {
        let id = workspace.id;
        let status = &workspace.status;
        let complain = |what: String| self.world.complain(format!("{}: {what}", short(id)));
        if status.operation != Operation::None || status.phase != workspace.desired.phase() {
            complain(format!(
                "wants {} but is {} with {} ({:?})",
                workspace.desired, status.phase, status.operation, status.error
            ));
        }
        if self.world.has_instance(id) != (status.phase == Phase::Running) {
            complain(format!("an instance {} in {}", self.world.has_instance(id), status.phase));
        }
        if workspace.deleted_at.is_some() {
            return;
        }
        let home: Option<BTreeSet<u64>> = match status.home.truth {
            Truth::None => Some(BTreeSet::new()),
            Truth::Volume => self.world.on_volume(&workspace.volume(status.home.generation)),
            Truth::Archive => status.archive_key.and_then(|key| self.world.in_archive(&key)),
        };
        let kept = self.world.acknowledged(id);
        match home {
            None => complain(format!("its home ({}) does not exist", status.home.truth)),
            Some(home) if !kept.is_subset(&home) => {
                complain(format!("its home ({}) lacks {:?}", status.home.truth, &kept - &home));
            }
            Some(_) => {}
        }
    }

    fn finish(mut self) -> Report {
        for process in &self.processes {
            process.gate.kill();
            process.task.abort();
        }
        self.report.complaints = self.world.complaints();
        self.report.trace = self.world.trace();
        self.report.operations =
            self.report.trace.iter().filter(|line| line.ends_with(" operation_started")).count();
        self.report
    }
}

fn word(asked: &codehub_store::Asked) -> &'static str {
    use codehub_store::Asked;
    match asked {
        Asked::Changed(_) => "yes",
        Asked::Already(_) => "already",
        Asked::NotFound => "not found",
        Asked::Refused(_) => "refused",
        Asked::LimitReached(_) => "limit",
    }
}

fn settings() -> Settings {
    Settings {
        idle_interval: Duration::from_secs(15),
        active_interval: Duration::from_secs(1),
        active_duration: Duration::from_secs(30),
        ttl_interval: Duration::from_secs(60),
        gc_interval: Duration::from_secs(120),
        audit_retention: Duration::from_secs(400 * 24 * 3600),
        instance_concurrency: 4,
        storage_concurrency: 2,
        look_timeout: Duration::from_secs(5),
        retry: Policy { max_deaths: 5, ..Policy::default() },
        ttl: TtlPolicy {
            standby_seconds: 120,
            archive_seconds: 240,
            unseen_activity: Duration::from_secs(10),
        },
        gc: GcPolicy { orphan_delay: Duration::from_secs(300), ..GcPolicy::default() },
        ports: true,
        origins: codehub_domain::origins::Origins::new(
            "http://localhost",
            true,
            codehub_domain::origins::Mode::Path,
        ),
    }
}

//! The world of the simulation: instances, volumes and archives that exist, whoever made them.
//!
//! Homes are lists of tokens: what a person wrote. The world remembers every token that was
//! acknowledged, so that after any history one can ask whether it still exists.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use codehub_domain::{
    ArchiveKey, Generation, VolumeKey, WorkspaceId,
    observed::{EndedBy, Instance, InstanceState, Waiting, WaitingFor},
};
use codehub_upstream::{InstanceTag, Upstream};
use futures::future::BoxFuture;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::{io::DuplexStream, time::Instant};
use tokio_util::sync::CancellationToken;

use super::Gate;
use crate::LineTo;

/// How badly the world behaves. Probabilities, 0 to 1.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// A call fails and nothing happened.
    pub refused: f64,
    /// A call fails although it happened.
    pub lost_answer: f64,
    /// A call fails, and it happens later.
    pub delayed: f64,
    /// An instance dies by itself, per look.
    pub death: f64,
    /// An instance is ended from outside, per look.
    pub eviction: f64,
    /// A start waits for something before it runs.
    pub waiting: f64,
    /// A restore is cut in the middle, an upload before its end.
    pub cut: f64,
}

impl Faults {
    pub const NONE: Self = Self {
        refused: 0.0,
        lost_answer: 0.0,
        delayed: 0.0,
        death: 0.0,
        eviction: 0.0,
        waiting: 0.0,
        cut: 0.0,
    };
}

/// A rule of the world switched off, to show that the simulation notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// All volumes of a workspace have one name.
    NoGenerations,
    /// An archive that is not kept is deleted, whoever has parts in it.
    NoParts,
}

#[derive(Debug, Clone, Default)]
struct Volume {
    tokens: BTreeSet<u64>,
    /// Which generation made it (only interesting without generations).
    label: Generation,
}

#[derive(Debug, Clone)]
struct Running {
    generation: Generation,
    ready_at: Instant,
    /// What it waits for until then.
    waiting: Option<WaitingFor>,
    ended: Option<(EndedBy, String)>,
    /// Started by a call that had been given up: nobody could know of it.
    late: bool,
    /// No other has this number.
    number: u64,
    /// Ends with it.
    lines: CancellationToken,
}

#[derive(Debug, Clone, Default)]
struct Stored {
    /// What is in the object itself.
    tokens: BTreeSet<u64>,
    /// What the archive has in other archives' objects.
    parts: BTreeMap<ArchiveKey, BTreeSet<u64>>,
    /// The commit mark.
    meta: bool,
}

#[derive(Debug)]
struct State {
    rng: StdRng,
    faults: Faults,
    mutation: Option<Mutation>,
    volumes: BTreeMap<VolumeKey, Volume>,
    instances: BTreeMap<WorkspaceId, Running>,
    archives: BTreeMap<ArchiveKey, Stored>,
    acknowledged: BTreeMap<WorkspaceId, BTreeSet<u64>>,
    next_token: u64,
    next_instance: u64,
    /// While an effect happens that was given up.
    late: bool,
    complaints: Vec<String>,
    trace: Vec<String>,
    began: Instant,
    listens_at: Option<SocketAddr>,
    line_server: Option<LineServer>,
    pings: u32,
}

/// What answers on the lines of all instances.
#[derive(Clone)]
pub struct LineServer(Arc<dyn Fn(DuplexStream) -> BoxFuture<'static, ()> + Send + Sync>);

impl LineServer {
    /// Each line is given to it, and served until the future ends.
    pub fn new(serve: impl Fn(DuplexStream) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(serve))
    }
}

impl std::fmt::Debug for LineServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LineServer")
    }
}

/// A handle on the world; clones share it.
#[derive(Debug, Clone)]
pub struct World(Arc<Mutex<State>>);

/// What became of a call.
pub(super) enum Call<T> {
    Answered(T),
    /// Nobody knows whether it happened.
    Failed,
}

impl World {
    pub fn new(seed: u64, faults: Faults, mutation: Option<Mutation>) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng: StdRng::seed_from_u64(seed),
            faults,
            mutation,
            volumes: BTreeMap::new(),
            instances: BTreeMap::new(),
            archives: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            next_token: 1,
            next_instance: 1,
            late: false,
            complaints: Vec::new(),
            trace: Vec::new(),
            began: Instant::now(),
            listens_at: None,
            line_server: None,
            pings: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where every instance is said to listen from now on: something real, for whoever connects.
    pub fn listen_at(&self, addr: SocketAddr) {
        self.lock().listens_at = Some(addr);
    }

    /// Who answers on lines from now on; nobody unless said.
    pub fn answer_lines(&self, server: LineServer) {
        self.lock().line_server = Some(server);
    }

    pub(super) fn line(&self, workspace: WorkspaceId) -> LineTo {
        let state = self.lock();
        let running = state.instances.get(&workspace).filter(|running| running.ended.is_none());
        let Some(running) = running else { return LineTo::NotRunning };
        let Some(LineServer(serve)) = &state.line_server else {
            return LineTo::Nobody("nobody answers lines in this world");
        };
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(running.lines.clone().run_until_cancelled_owned(serve(theirs)));
        LineTo::Open(Box::new(ours))
    }

    /// How often the runtime was asked whether it answers.
    pub fn pings(&self) -> u32 {
        self.lock().pings
    }

    pub(super) fn pinged(&self) {
        self.lock().pings += 1;
    }

    pub(super) fn upstream(&self, workspace: WorkspaceId) -> Option<Upstream> {
        let state = self.lock();
        let running = state.instances.get(&workspace).filter(|running| running.ended.is_none())?;
        Some(Upstream { instance: InstanceTag::of(&running.number), ..Upstream::at(state.listens_at?) })
    }

    /// How badly it behaves from now on.
    pub fn behave(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// From now on everything works.
    pub fn heal(&self) {
        self.lock().faults = Faults::NONE;
        self.note("--- the world heals ---");
    }

    pub fn note(&self, what: impl Into<String>) {
        let mut state = self.lock();
        let at = state.began.elapsed();
        let line = format!("{:>9.3} {}", at.as_secs_f64(), what.into());
        state.trace.push(line);
    }

    pub fn trace(&self) -> Vec<String> {
        self.lock().trace.clone()
    }

    /// What went wrong so far.
    pub fn complaints(&self) -> Vec<String> {
        self.lock().complaints.clone()
    }

    pub fn complain(&self, what: String) {
        self.note(format!("!!! {what}"));
        self.lock().complaints.push(what);
    }

    /// Draws a number below `end`.
    pub fn draw(&self, end: u64) -> u64 {
        self.lock().rng.random_range(0..end)
    }

    pub fn chance(&self, probability: f64) -> bool {
        probability > 0.0 && self.lock().rng.random_bool(probability)
    }

    /// A call of `gate`'s process: takes a while, may fail before, after, or happen only later.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        gate: &Gate,
        what: String,
        effect: impl FnOnce(&World) -> T + Send + 'static,
    ) -> Call<T> {
        gate.pass().await;
        // Whole milliseconds, as the virtual clock ticks: anything finer would not replay.
        tokio::time::sleep(Duration::from_millis(1 + self.draw(20))).await;
        gate.pass().await;
        let faults = self.lock().faults;
        if self.chance(faults.refused) {
            self.note(format!("{what}: refused"));
            return Call::Failed;
        }
        if self.chance(faults.delayed) {
            let (world, delay) = (self.clone(), Duration::from_millis(self.draw(30_000)));
            self.note(format!("{what}: will happen later"));
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                world.note(format!("{what}: happens late"));
                world.lock().late = true;
                effect(&world);
                world.lock().late = false;
            });
            return Call::Failed;
        }
        self.note(what.clone());
        let answer = effect(self);
        let lost = self.chance(faults.lost_answer);
        gate.pass().await;
        if lost {
            self.note(format!("{what}: the answer is lost"));
            return Call::Failed;
        }
        Call::Answered(answer)
    }

    // --- what a person does ---

    /// Writes into the home through the running instance; the token is acknowledged.
    pub fn write(&self, workspace: WorkspaceId) -> bool {
        let mut state = self.lock();
        let Some(running) = state.instances.get(&workspace) else { return false };
        if running.ended.is_some() || running.ready_at > Instant::now() {
            return false;
        }
        let generation = running.generation;
        let Some(key) = state.find(workspace, generation) else { return false };
        let token = state.next_token;
        state.next_token += 1;
        if let Some(volume) = state.volumes.get_mut(&key) {
            volume.tokens.insert(token);
        }
        state.acknowledged.entry(workspace).or_default().insert(token);
        drop(state);
        self.note(format!("{} writes token {token} on generation {generation}", short(workspace)));
        true
    }

    /// Adds something to a home that exists, as if it had been there before.
    pub fn write_on(&self, key: &VolumeKey) {
        let mut state = self.lock();
        let token = state.next_token;
        state.next_token += 1;
        if let Some(key) = state.find(key.workspace, key.generation)
            && let Some(volume) = state.volumes.get_mut(&key)
        {
            volume.tokens.insert(token);
        }
    }

    /// The program of a running instance dies.
    pub fn kill(&self, workspace: WorkspaceId) {
        if let Some(running) = self.lock().instances.get_mut(&workspace) {
            running.ended.get_or_insert_with(|| (EndedBy::Program, "killed by signal 9".into()));
            running.lines.cancel();
        }
    }

    /// Tokens that were acknowledged and exist neither on a volume nor in a finished archive.
    pub fn lost(&self, workspace: WorkspaceId) -> BTreeSet<u64> {
        let state = self.lock();
        let mut missing = state.acknowledged.get(&workspace).cloned().unwrap_or_default();
        for (key, volume) in &state.volumes {
            if key.workspace == workspace {
                missing.retain(|token| !volume.tokens.contains(token));
            }
        }
        for (key, stored) in &state.archives {
            if key.workspace == workspace && stored.meta {
                let whole = state.whole(key).unwrap_or_default();
                missing.retain(|token| !whole.contains(token));
            }
        }
        missing
    }

    pub fn acknowledged(&self, workspace: WorkspaceId) -> BTreeSet<u64> {
        self.lock().acknowledged.get(&workspace).cloned().unwrap_or_default()
    }

    pub fn on_volume(&self, key: &VolumeKey) -> Option<BTreeSet<u64>> {
        let state = self.lock();
        let key = state.find(key.workspace, key.generation)?;
        state.volumes.get(&key).map(|volume| volume.tokens.clone())
    }

    /// What is in a finished archive, if all its parts are there.
    pub fn in_archive(&self, key: &ArchiveKey) -> Option<BTreeSet<u64>> {
        self.lock().whole(key)
    }

    /// The other archives in whose objects a finished one has parts.
    pub fn parts_of(&self, key: &ArchiveKey) -> Vec<ArchiveKey> {
        let state = self.lock();
        state.archives.get(key).map(|stored| stored.parts.keys().copied().collect()).unwrap_or_default()
    }

    /// What of `tokens` need not be stored again, and where it is, after the archive `base`: as the archive engine
    /// does, an object of which less than half is needed is left behind.
    pub(super) fn known_in(
        &self,
        base: &ArchiveKey,
        tokens: &BTreeSet<u64>,
    ) -> BTreeMap<ArchiveKey, BTreeSet<u64>> {
        let state = self.lock();
        let Some(stored) = state.archives.get(base).filter(|_| state.whole(base).is_some()) else {
            return BTreeMap::new();
        };
        let others = stored.parts.keys().filter(|part| {
            let all = state.archives.get(part).map_or(0, |part| part.tokens.len());
            stored.parts.get(part).is_some_and(|needed| needed.len() * 2 >= all)
        });
        let mut known = BTreeMap::new();
        for part in others.chain([base]) {
            let there = state.archives.get(part).map(|part| &part.tokens & tokens).unwrap_or_default();
            if !there.is_empty() {
                known.insert(*part, there);
            }
        }
        known
    }

    pub fn has_instance(&self, workspace: WorkspaceId) -> bool {
        self.lock().instances.contains_key(&workspace)
    }

    // --- what the fakes do ---

    pub(super) fn create_volume(&self, key: VolumeKey) {
        let mut state = self.lock();
        let physical = state.physical(key);
        state
            .volumes
            .entry(physical)
            .and_modify(|volume| volume.label = key.generation)
            .or_insert(Volume { tokens: BTreeSet::new(), label: key.generation });
    }

    pub(super) fn delete_volume(&self, key: VolumeKey) {
        let mut state = self.lock();
        let physical = state.physical(key);
        let used = state
            .instances
            .get(&key.workspace)
            .is_some_and(|it| it.ended.is_none() && !it.late && it.generation == key.generation);
        let existed = state.volumes.remove(&physical).is_some();
        drop(state);
        if used && existed {
            self.complain(format!("{key} was deleted under a running instance"));
        }
    }

    pub(super) fn volumes_of(&self, workspaces: Option<&BTreeSet<WorkspaceId>>) -> Vec<VolumeKey> {
        let state = self.lock();
        state
            .volumes
            .iter()
            .filter(|(key, _)| workspaces.is_none_or(|set| set.contains(&key.workspace)))
            .map(|(key, volume)| VolumeKey { generation: volume.label, ..*key })
            .collect()
    }

    /// Launches it, or adopts what runs. `Err` where the volume does not exist.
    pub(super) fn start(&self, key: VolumeKey) -> Result<(), String> {
        let mut state = self.lock();
        if state.find(key.workspace, key.generation).is_none() {
            return Err(format!("{key} does not exist"));
        }
        if let Some(running) = state.instances.get(&key.workspace)
            && running.ended.is_none()
        {
            return if running.generation == key.generation {
                Ok(())
            } else {
                Err(format!("an instance runs on generation {}", running.generation))
            };
        }
        let ready_at = Instant::now() + Duration::from_millis(state.rng.random_range(10..3_000));
        let waits = state.faults.waiting;
        let waits = waits > 0.0 && state.rng.random_bool(waits);
        let waiting = waits.then(|| WaitingFor::ALL[state.rng.random_range(0..WaitingFor::ALL.len())]);
        let (late, number) = (state.late, state.next_instance);
        state.next_instance += 1;
        state.instances.insert(
            key.workspace,
            Running {
                generation: key.generation,
                ready_at,
                waiting,
                ended: None,
                late,
                number,
                lines: CancellationToken::new(),
            },
        );
        Ok(())
    }

    pub(super) fn stop(&self, workspace: WorkspaceId) {
        if let Some(stopped) = self.lock().instances.remove(&workspace) {
            stopped.lines.cancel();
        }
    }

    pub(super) fn instance(&self, workspace: WorkspaceId, may_die: bool) -> Option<Instance> {
        let Faults { death, eviction, .. } = self.lock().faults;
        let dies = may_die && self.chance(death);
        let evicted = may_die && self.chance(eviction);
        let mut state = self.lock();
        let running = state.instances.get_mut(&workspace)?;
        if dies && running.ended.is_none() {
            running.ended = Some((EndedBy::Program, "killed by signal 9".into()));
        }
        if evicted && running.ended.is_none() {
            running.ended = Some((EndedBy::Platform, "its node was drained".into()));
        }
        let instance_state = match &running.ended {
            Some((by, how)) => InstanceState::Ended { by: *by, how: how.clone() },
            None if running.ready_at <= Instant::now() => InstanceState::Ready,
            None => running.waiting.map_or(InstanceState::Alive, |kind| {
                InstanceState::Waiting(Waiting { kind, words: "the simulated platform is busy".into() })
            }),
        };
        Some(Instance { generation: running.generation, state: instance_state })
    }

    pub(super) fn instances(&self) -> Vec<WorkspaceId> {
        self.lock().instances.keys().copied().collect()
    }

    /// Stores the data of an archive; a finished one is never overwritten.
    pub(super) fn upload(
        &self,
        key: ArchiveKey,
        tokens: BTreeSet<u64>,
        parts: BTreeMap<ArchiveKey, BTreeSet<u64>>,
    ) {
        let mut state = self.lock();
        let stored = state.archives.entry(key).or_default();
        if stored.meta {
            return;
        }
        *stored = Stored { tokens, parts, meta: false };
    }

    pub(super) fn commit(&self, key: ArchiveKey) {
        let mut state = self.lock();
        if let Some(stored) = state.archives.get_mut(&key) {
            stored.meta = true;
        }
    }

    /// Somebody with access to the store of archives puts a copy of one in another's place.
    pub fn swap_archive(&self, from: &ArchiveKey, over: &ArchiveKey) {
        let mut state = self.lock();
        if let Some(copied) = state.archives.get(from).cloned() {
            state.archives.insert(*over, copied);
        }
    }

    /// Every finished archive.
    pub fn finished_archives(&self) -> Vec<ArchiveKey> {
        self.archives().into_iter().filter(|(_, finished)| *finished).map(|(key, _)| key).collect()
    }

    pub(super) fn archives(&self) -> Vec<(ArchiveKey, bool)> {
        self.lock().archives.iter().map(|(key, stored)| (*key, stored.meta)).collect()
    }

    pub(super) fn unpack(&self, tokens: BTreeSet<u64>, into: VolumeKey) -> Result<(), String> {
        let mut state = self.lock();
        let Some(key) = state.find(into.workspace, into.generation) else {
            return Err(format!("{into} does not exist"));
        };
        if let Some(volume) = state.volumes.get_mut(&key) {
            volume.tokens.extend(tokens);
        }
        Ok(())
    }

    pub(super) fn delete_archive(&self, key: ArchiveKey) {
        self.lock().archives.remove(&key);
    }

    pub(super) fn delete_mark(&self, key: ArchiveKey) {
        let mut state = self.lock();
        // Mutation: whatever is no archive any more is thought to be nobody's.
        if state.mutation == Some(Mutation::NoParts) {
            state.archives.remove(&key);
        } else if let Some(stored) = state.archives.get_mut(&key) {
            stored.meta = false;
        }
    }

    pub(super) fn cuts(&self) -> bool {
        let cut = self.lock().faults.cut;
        self.chance(cut)
    }
}

impl State {
    /// What a finished archive holds, if all its parts are there and what they were.
    fn whole(&self, key: &ArchiveKey) -> Option<BTreeSet<u64>> {
        let stored = self.archives.get(key).filter(|stored| stored.meta)?;
        let mut tokens = stored.tokens.clone();
        for (part, needed) in &stored.parts {
            if !needed.is_subset(&self.archives.get(part)?.tokens) {
                return None;
            }
            tokens.extend(needed);
        }
        Some(tokens)
    }

    /// The name under which a volume really exists.
    fn physical(&self, key: VolumeKey) -> VolumeKey {
        match self.mutation {
            None | Some(Mutation::NoParts) => key,
            Some(Mutation::NoGenerations) => VolumeKey { generation: Generation(0), ..key },
        }
    }

    fn find(&self, workspace: WorkspaceId, generation: Generation) -> Option<VolumeKey> {
        let same = |key: &VolumeKey| key.workspace == workspace;
        self.volumes
            .keys()
            .find(|key| {
                same(key) && (self.mutation == Some(Mutation::NoGenerations) || key.generation == generation)
            })
            .copied()
    }
}

/// The end of an id, enough to tell workspaces apart in a trace.
pub fn short(workspace: WorkspaceId) -> String {
    let text = workspace.to_string();
    format!("ws-{}", &text[text.len() - 4..])
}

//! Starting, ending and finding again: the part that must hold when CodeHub is killed between any two
//! lines of it.

use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use codehub_domain::{Generation, Timestamp, WorkspaceId, observed::EndedBy};
use tokio::sync::OwnedMutexGuard;

use super::{
    super::{Fence, InstanceSpec, Result, RuntimeError, ide::Fill},
    Inner, blocking, failed,
    home::{Home, SKEL, older_neighbour, seed},
    proc_scan::{Identity, Process, main_of, members, processes},
    record::{Record, State},
    shim,
    spawn::free_port,
    stop::Ending,
};
use crate::volumes::directory::home_dir;

/// How long a launch may hold its lock.
const LAUNCH_PATIENCE: Duration = Duration::from_secs(10);
/// How long a process that has begun to exit may take, and how often it is looked at meanwhile.
const EXIT_PATIENCE: Duration = Duration::from_secs(1);
const EXIT_STEP: Duration = Duration::from_millis(2);
/// How long a look waits for whoever is at it.
const LOOK_PATIENCE: Duration = Duration::from_millis(200);

/// How what a restart ended is told.
pub(super) const RESTARTED: &str = "the machine or container it ran in was restarted";
/// Without a sandbox, for everybody but the first.
const TOGETHER: &str = "workspaces run without a sandbox here, so its programs could read and change what belongs to \
                        other users. Ask the operator to install bubblewrap (and passt), or to allow it with \
                        PROCESS_UNSANDBOXED_USERS=many";

/// One at a time for each workspace, within this CodeHub.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<WorkspaceId, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    pub(super) async fn take(&self, id: WorkspaceId) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(id).or_default())
        };
        turn.lock_owned().await
    }
}

/// What there is of a workspace.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    Running(Record),
    Ended(Record, EndedBy, String),
    /// Somebody is starting or ending it; this is its record.
    Busy(Option<Record>),
}

/// What the record and the process table say, before anything is written down.
enum Sighting {
    Nothing,
    Running(Record),
    /// The program is gone; something it started may not be.
    Gone(Record),
}

/// Where a program is told to listen. It hears of the port in any case.
struct Listen {
    port: u16,
    socket: bool,
}

impl Inner {
    pub(super) async fn start(self: &Arc<Self>, spec: &InstanceSpec, fence: &Fence) -> Result<()> {
        let id = spec.workspace;
        let _turn = self.turns.take(id).await;
        let lock = self.records.lock(id, LAUNCH_PATIENCE).await.map_err(failed("the start"))?;
        match self.sighting(id).await.map_err(|error| RuntimeError::Unreachable(error.to_string()))? {
            Sighting::Nothing => {}
            Sighting::Running(record) if record.generation == spec.generation() => {
                return self.save(record).await.map_err(failed("adopting the running process"));
            }
            Sighting::Running(record) => {
                return Err(RuntimeError::Failed(format!(
                    "it still runs on generation {} of its home and must be stopped before it can start on \
                     generation {}",
                    record.generation,
                    spec.generation()
                )));
            }
            Sighting::Gone(record) => {
                self.end(id, record.process().cloned(), record.sandboxed)
                    .await
                    .map_err(failed("clearing away what is left of the last run"))?;
            }
        }
        let home = self.prepare_home(spec).await?;
        fence.check().await?;
        let mut record = self.reserve(spec, &home).await.map_err(failed("the start"))?;
        let printed = self.logs.append(id).and_then(|log| log.metadata()).map_or(0, |log| log.len());

        let (child, process) = match self.launch(spec, &record, &home, lock) {
            Ok(launched) => launched,
            Err(error) => {
                record.state = State::Ended {
                    how: format!("did not start: {error}"),
                    by: EndedBy::Program,
                    process: None,
                };
                let _ = self.save(record).await;
                return Err(RuntimeError::Failed(format!("the start failed: {error}")));
            }
        };
        let reaper = Arc::clone(self);
        let ended = process.clone();
        self.children.wait_for(process.clone(), child, move |how| async move {
            reaper.note_ending(id, &ended, how).await;
        });
        record.state = State::Running { process: process.clone() };
        if let Err(error) = self.save(record).await {
            let cleared = self.end(id, Some(process), self.sandbox().is_some()).await;
            cleared.map_err(failed("clearing away a process that could not be recorded"))?;
            return Err(RuntimeError::Failed(format!("the start could not be recorded: {error}")));
        }
        self.launched(id, &process, printed).await
    }

    /// Waits until the shim has become the program, and says so if it could not.
    async fn launched(&self, id: WorkspaceId, process: &Identity, printed: u64) -> Result<()> {
        if let Err(error) = self.records.lock(id, LAUNCH_PATIENCE).await {
            tracing::warn!(workspace = %id, %error, "a workspace's program is slow to launch");
            return Ok(());
        }
        // What could not be run gives the lock back before it is gone.
        let until = Instant::now() + EXIT_PATIENCE;
        while process.is_exiting() && process.alive(&self.boot).unwrap_or(true) && Instant::now() < until {
            tokio::time::sleep(EXIT_STEP).await;
        }
        if process.alive(&self.boot).unwrap_or(true) {
            return Ok(());
        }
        let how = self.children.how_ended(process).await;
        if how.is_some_and(|how| how == format!("exited with code {}", shim::FAILED)) {
            let words = self.logs.last_words(id, printed);
            if let Some(words) = words.as_deref().and_then(|words| words.strip_prefix("codehub: ")) {
                return Err(RuntimeError::Failed(format!("{} did not start: {words}", self.config.ide.name)));
            }
        }
        Ok(())
    }

    pub(super) async fn stop(self: &Arc<Self>, id: WorkspaceId) -> Result<()> {
        let _turn = self.turns.take(id).await;
        let lock = self.records.lock(id, LAUNCH_PATIENCE).await.map_err(failed("the stop"))?;
        match self.sighting(id).await.map_err(|error| RuntimeError::Unreachable(error.to_string()))? {
            Sighting::Nothing => {}
            Sighting::Running(record) | Sighting::Gone(record) => {
                let ended = self.end(id, record.process().cloned(), record.sandboxed).await;
                ended.map_err(failed("the stop"))?;
            }
        }
        self.forget(id).map_err(failed("removing the record"))?;
        lock.remove();
        Ok(())
    }

    /// Removes what lies about for a workspace that does not run. The record goes last: while it is
    /// there, somebody will come to clean up.
    fn forget(&self, id: WorkspaceId) -> io::Result<()> {
        self.answered().remove(&id);
        self.sockets.remove(id)?;
        Home::unlink(&self.config.data_dir, id)?;
        self.records.remove(id)
    }

    async fn end(
        &self,
        workspace: WorkspaceId,
        main: Option<Identity>,
        main_follows: bool,
    ) -> io::Result<()> {
        let ending = Ending {
            deployment: self.config.deployment.clone(),
            boot: self.boot.clone(),
            workspace,
            main,
            main_follows,
            grace: self.config.stop_grace,
        };
        ending.run().await
    }

    async fn prepare_home(self: &Arc<Self>, spec: &InstanceSpec) -> Result<Home> {
        let inner = Arc::clone(self);
        let key = spec.volume;
        let made = blocking(move || {
            let volume = home_dir(&inner.config.data_dir, &key);
            if !volume.symlink_metadata()?.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            let alone = inner.sandbox().is_none() && !inner.config.unsandboxed_users;
            if alone && older_neighbour(&inner.config.data_dir, &key)? {
                return Err(io::Error::other(TOGETHER));
            }
            // A home that will not have them is a home all the same.
            if let Err(error) = seed(&volume, Path::new(SKEL), inner.config.ide.files) {
                tracing::warn!(workspace = %key.workspace, %error, "what a new home starts with is not written");
            }
            let inside = inner.sandbox().map(|_| inner.config.home.as_path());
            Home::link(&inner.config.data_dir, &key, inside)
        });
        made.await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                RuntimeError::Failed(format!("its home, volume {key}, does not exist"))
            }
            _ if error.to_string() == TOGETHER => RuntimeError::Failed(TOGETHER.to_owned()),
            _ => RuntimeError::Failed(format!("its home, volume {key}, cannot be used: {error}")),
        })
    }

    /// Takes a port, makes room for sockets and writes down what is about to be started.
    async fn reserve(self: &Arc<Self>, spec: &InstanceSpec, home: &Home) -> io::Result<Record> {
        let _gate = self.ports.lock().await;
        let inner = Arc::clone(self);
        let id = spec.workspace;
        let port = blocking(move || {
            let mut taken = Vec::new();
            for other in inner.records.all()?.into_iter().filter(|&other| other != id) {
                taken.extend(inner.records.load(other)?.map(|record| record.port));
            }
            inner.sockets.prepare(id)?;
            free_port(&taken)
        });
        let listen = Listen { port: port.await?, socket: self.on_socket };
        let record = self.record(spec.workspace, spec.generation(), listen, &spec.base_path, home);
        self.save(record.clone()).await?;
        Ok(record)
    }

    fn record(
        &self,
        workspace: WorkspaceId,
        generation: Generation,
        Listen { port, socket }: Listen,
        base_path: &str,
        home: &Home,
    ) -> Record {
        let (id, home) = (workspace.to_string(), home.told.to_string_lossy());
        let path = socket.then(|| self.sockets.path(workspace));
        let fill = Fill { port, socket: path.as_deref(), guarded: false, home: &home, id: &id, base_path };
        Record {
            workspace,
            generation,
            port,
            socket,
            ide: self.config.ide.name.clone(),
            health_path: self.config.ide.health_path(&fill),
            sandboxed: self.sandbox().is_some(),
            started_at: Timestamp::now(),
            state: State::Starting,
        }
    }

    /// Writes down what is there, unless somebody else is about to change it.
    pub(super) async fn settle(self: &Arc<Self>, id: WorkspaceId) -> io::Result<Found> {
        let busy = || self.records.load(id).map(Found::Busy);
        let Ok(_turn) = tokio::time::timeout(LOOK_PATIENCE, self.turns.take(id)).await else { return busy() };
        let lock = match self.records.lock(id, LOOK_PATIENCE).await {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return busy(),
            Err(error) => return Err(error),
        };
        match self.sighting(id).await? {
            Sighting::Nothing => {
                // A record that nobody can read and nobody answers to.
                self.forget(id)?;
                lock.remove();
                Ok(Found::Nothing)
            }
            Sighting::Running(record) => {
                self.save(record.clone()).await?;
                Ok(Found::Running(record))
            }
            Sighting::Gone(record) => {
                let (by, how) = match &record.state {
                    State::Starting => (EndedBy::Platform, "its start was cut off".to_owned()),
                    State::Ended { how, by, .. } => (*by, how.clone()),
                    State::Running { process } if !process.is_of(&self.boot) => {
                        (EndedBy::Platform, RESTARTED.to_owned())
                    }
                    State::Running { process } => {
                        let how = self.children.how_ended(process).await;
                        (EndedBy::Program, how.unwrap_or_else(|| "no longer running".to_owned()))
                    }
                };
                let state = State::Ended { how: how.clone(), by, process: record.process().cloned() };
                let record = Record { state, ..record };
                self.save(record.clone()).await?;
                Ok(Found::Ended(record, by, how))
            }
        }
    }

    /// Only under the launch lock: otherwise a process could be on its way and not be seen yet.
    async fn sighting(self: &Arc<Self>, id: WorkspaceId) -> io::Result<Sighting> {
        let inner = Arc::clone(self);
        blocking(move || {
            let record = inner.records.load(id)?;
            if let Some(record @ Record { state: State::Running { process }, .. }) = &record
                && process.alive(&inner.boot)?
            {
                return Ok(Sighting::Running(record.clone()));
            }
            let table = processes(&inner.config.deployment)?;
            if let Some(main) = main_of(&table, id) {
                let process = main.identity(&inner.boot);
                tracing::info!(workspace = %id, pid = process.pid, "found a running workspace again");
                let record = inner.recognised(main, record);
                return Ok(record.map_or(Sighting::Nothing, |record| {
                    Sighting::Running(Record { state: State::Running { process }, ..record })
                }));
            }
            if let Some(record) = record {
                return Ok(Sighting::Gone(record));
            }
            let left = members(&table, id, None, &inner.boot);
            let left = left.first().and_then(|left| table.iter().find(|it| it.stat.pid == left.pid));
            Ok(left.and_then(|left| inner.recognised(left, None)).map_or(Sighting::Nothing, |record| {
                let state =
                    State::Ended { how: "no longer running".to_owned(), by: EndedBy::Program, process: None };
                Sighting::Gone(Record { state, ..record })
            }))
        })
        .await
    }

    /// The record of a process that is known by its marks; the old record knows the rest, if it is
    /// of the same start.
    fn recognised(&self, process: &Process, old: Option<Record>) -> Option<Record> {
        let marks = process.marks?;
        let same = |old: &Record| old.generation == marks.generation && old.port == marks.port;
        Some(old.filter(same).unwrap_or_else(|| {
            let home = Home { volume: Default::default(), told: Default::default(), former: Vec::new() };
            let base_path = format!("/w/{}/", marks.workspace);
            let listen = Listen { port: marks.port, socket: marks.socket };
            self.record(marks.workspace, marks.generation, listen, &base_path, &home)
        }))
    }

    /// Looks for processes of ours that no record speaks of.
    pub(super) async fn search(self: &Arc<Self>) -> io::Result<()> {
        let inner = Arc::clone(self);
        let unknown = blocking(move || {
            let mut unknown = Vec::new();
            for process in processes(&inner.config.deployment)? {
                let Some(marks) = process.marks else { continue };
                let known = match inner.records.load(marks.workspace)? {
                    None => false,
                    Some(record) => {
                        !process.is_main() || record.process() == Some(&process.identity(&inner.boot))
                    }
                };
                if !known && !unknown.contains(&marks.workspace) {
                    unknown.push(marks.workspace);
                }
            }
            Ok(unknown)
        });
        for id in unknown.await? {
            self.settle(id).await?;
        }
        *self.searched.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(())
    }

    /// Writes down how a process of ours ended, if its record is still about it.
    async fn note_ending(self: &Arc<Self>, id: WorkspaceId, process: &Identity, how: String) {
        let _turn = self.turns.take(id).await;
        let noted = async {
            let lock = self.records.lock(id, LAUNCH_PATIENCE).await?;
            match self.records.load(id)? {
                Some(record) if record.state == State::Running { process: process.clone() } => {
                    tracing::info!(workspace = %id, how, "a workspace ended by itself");
                    let state = State::Ended { how, by: EndedBy::Program, process: Some(process.clone()) };
                    self.save(Record { state, ..record }).await?;
                }
                Some(_) => {}
                None => lock.remove(),
            }
            io::Result::Ok(())
        };
        if let Err(error) = noted.await {
            tracing::warn!(workspace = %id, %error, "how a workspace ended could not be written down");
        }
    }

    async fn save(self: &Arc<Self>, record: Record) -> io::Result<()> {
        let inner = Arc::clone(self);
        blocking(move || {
            if inner.records.load(record.workspace)?.as_ref() == Some(&record) {
                return Ok(());
            }
            inner.records.save(&record)
        })
        .await
    }
}

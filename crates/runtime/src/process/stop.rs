//! Ending a workspace's processes, all of them.
//!
//! A program's terminals have sessions of their own, and what runs in them may ignore being asked. So
//! everything that belongs to the workspace (see [`members`]) is asked to end and, when the time is
//! up, made to; the table is read again until nobody is left. Once the program itself is gone, what
//! it left behind gets a moment and not the whole grace. Every signal goes to an [`Identity`]: to
//! exactly that process or to nobody.

use std::{collections::HashSet, io, time::Duration};

use codehub_domain::WorkspaceId;
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::proc_scan::{Identity, members, processes};

/// How long what the program left behind may take.
const AFTERWARDS: Duration = Duration::from_secs(1);
/// How long the kernel may take to remove what was killed.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Ending {
    pub(super) deployment: String,
    pub(super) boot: String,
    pub(super) workspace: WorkspaceId,
    pub(super) main: Option<Identity>,
    /// The program is inside a sandbox that ends with it, and would abandon it if it ended first. So only what is in the
    /// sandbox, whose processes are numbered on their own, is asked to end.
    pub(super) main_follows: bool,
    pub(super) grace: Duration,
}

impl Ending {
    /// Returns when nobody is left.
    pub(super) async fn run(self) -> io::Result<()> {
        let mut known = HashSet::new();
        let mut asked = HashSet::new();
        let mut refused = None;
        let deadline = Instant::now() + self.grace;
        let mut alone_until: Option<Instant> = None;
        loop {
            let living = self.look(&mut known).await?;
            if living.is_empty() {
                return Ok(());
            }
            let main_lives = self.main.as_ref().is_some_and(|main| living.contains(main));
            if !main_lives {
                alone_until.get_or_insert_with(|| Instant::now() + AFTERWARDS.min(self.grace));
            }
            let until = alone_until.map_or(deadline, |alone| alone.min(deadline));
            if Instant::now() >= until {
                break;
            }
            let outside = self.main.as_ref().filter(|_| self.main_follows && main_lives).map(Identity::depth);
            for process in living {
                let inside = outside.is_none_or(|outside| process.depth() > outside);
                if inside && asked.insert(process.clone()) {
                    for signal in [Signal::TERM, Signal::CONT] {
                        refused = process.signal(&self.boot, signal).err().or(refused);
                    }
                }
            }
            self.pause(main_lives, until).await;
        }
        self.kill(&mut known, refused).await
    }

    async fn kill(&self, known: &mut HashSet<Identity>, mut refused: Option<io::Error>) -> io::Result<()> {
        let deadline = Instant::now() + KILL_PATIENCE;
        loop {
            let living = self.look(known).await?;
            if living.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let pids: Vec<String> = living.iter().map(|it| it.pid.to_string()).collect();
                let why = refused.map_or_else(String::new, |error| format!(" ({error})"));
                return Err(io::Error::other(format!(
                    "processes that cannot be ended: {}{why}",
                    pids.join(", ")
                )));
            }
            for process in living {
                refused = process.signal(&self.boot, Signal::KILL).err().or(refused);
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Everybody who is there now. Who was seen once stays known, also when the parent through which
    /// it was found is gone.
    async fn look(&self, known: &mut HashSet<Identity>) -> io::Result<Vec<Identity>> {
        let deployment = self.deployment.clone();
        let table = tokio::task::spawn_blocking(move || processes(&deployment)).await??;
        known.extend(members(&table, self.workspace, self.main.as_ref(), &self.boot));
        let mut living = Vec::new();
        for process in known.iter() {
            if process.alive(&self.boot)? {
                living.push(process.clone());
            }
        }
        Ok(living)
    }

    /// Until it is worth looking again. Watching one process is cheap, reading the table is not.
    async fn pause(&self, main_lives: bool, until: Instant) {
        let mut nap = Duration::from_millis(5);
        let mut slept = Duration::ZERO;
        while slept < Duration::from_millis(250) && Instant::now() < until {
            sleep(nap).await;
            slept += nap;
            nap = (nap * 2).min(Duration::from_millis(40));
            let watched = self.main.as_ref().filter(|_| main_lives);
            if watched.is_none_or(|main| !main.alive(&self.boot).unwrap_or(false)) {
                return;
            }
        }
    }
}

//! The processes this one started, and whoever else became its child: waited for, and signalled while it is sure who
//! they are.
//!
//! A number names a process only until somebody has waited for it. So all waiting is done here, under one lock that is
//! also held while a process is started or signalled.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, wait, waitpid,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By itself, with this status.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl Ending {
    fn of(status: WaitStatus) -> Option<Self> {
        status.exit_status().map(Self::Code).or_else(|| status.terminating_signal().map(Self::Signal))
    }

    /// As one number, the way shells have it.
    pub(crate) fn as_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// Whom to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaps {
    /// Whoever was started here: others of this program wait for their own.
    Own,
    /// Everybody: orphans become children of a first process.
    Everybody,
}

pub(crate) struct Children {
    reaps: Reaps,
    living: Mutex<HashMap<Pid, oneshot::Sender<Ending>>>,
}

impl Children {
    pub(crate) fn new(reaps: Reaps) -> Self {
        Self { reaps, living: Mutex::default() }
    }

    fn living(&self) -> MutexGuard<'_, HashMap<Pid, oneshot::Sender<Ending>>> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process: `start` returns its number and something else of it. Nobody may wait for it but this.
    pub(crate) fn start<T>(
        &self,
        start: impl FnOnce() -> io::Result<(u32, T)>,
    ) -> io::Result<(Pid, oneshot::Receiver<Ending>, T)> {
        let mut living = self.living();
        let (pid, rest) = start()?;
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the new process has no number"))?;
        let (tell, told) = oneshot::channel();
        living.insert(pid, tell);
        Ok((pid, told, rest))
    }

    /// Signals a process that was started here, if it has not ended.
    pub(crate) fn signal(&self, pid: Pid, signal: Signal) {
        if self.living().contains_key(&pid) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Signals a group that a process leads which was started here. What is left of a group whose leader has ended is
    /// still that group: its number is taken for as long as somebody is in it.
    pub(crate) fn signal_group(&self, leader: Pid, signal: Signal) {
        let _lock = self.living();
        let _ = kill_process_group(leader, signal);
    }

    /// Tells of those who have ended.
    fn reap(&self) {
        let mut living = self.living();
        let known: Vec<Pid> = living.keys().copied().collect();
        for pid in known {
            if let Ok(Some((pid, status))) = waitpid(Some(pid), WaitOptions::NOHANG) {
                tell(&mut living, pid, status);
            }
        }
        while self.reaps == Reaps::Everybody
            && let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG)
        {
            tell(&mut living, pid, status);
        }
    }

    /// Waits for everybody, as long as it is polled.
    pub(crate) async fn watch(&self) -> io::Result<()> {
        let mut ended = signal(SignalKind::child())?;
        loop {
            self.reap();
            ended.recv().await;
        }
    }
}

fn tell(living: &mut HashMap<Pid, oneshot::Sender<Ending>>, pid: Pid, status: WaitStatus) {
    if let Some(ending) = Ending::of(status)
        && let Some(tell) = living.remove(&pid)
    {
        let _ = tell.send(ending);
    }
}

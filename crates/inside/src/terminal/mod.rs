//! Terminals: shells on PTYs that live on the server, whoever is watching.
//!
//! A terminal's picture is state, not a stream: the reader thread updates it and
//! wakes the subscribers, each of which sends whatever changed since its own
//! last frame, when it can. So a slow or absent browser costs nothing and a
//! returning one is up to date with its first frame.

mod emulator;
mod encode;
mod pty;

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use portable_pty::MasterPty;
use rustix::process::{Pid, Signal};
use serde::Serialize;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use emulator::Emulator;
pub(crate) use emulator::{History, Snapshot};

/// Enough for anybody, few enough for the threads and scrollback they hold.
const MAX_TERMINALS: usize = 24;
/// Input a program has not read yet; more is refused.
const MAX_PENDING_INPUT: usize = 4 * 1024 * 1024;
const MAX_SIDE: u16 = 1000;
/// Between asking a shell to go (HUP) and making it (KILL).
const GRACE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(25);

/// A lock whose data stays usable even if a holder panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<String>,
}

pub(crate) struct Terminal {
    pub(crate) id: u32,
    /// The shell's name, shown until a program sets a title.
    pub(crate) name: String,
    emulator: Mutex<Emulator>,
    /// Grows with every change of the picture.
    version: AtomicU64,
    picture: Mutex<Option<(u64, Arc<Snapshot>)>>,
    watchers: Mutex<Vec<Weak<Notify>>>,
    master: Mutex<Box<dyn MasterPty + Send>>,
    input: mpsc::UnboundedSender<Vec<u8>>,
    pending_input: AtomicUsize,
    pid: Option<u32>,
    exit: OnceLock<Exit>,
}

impl Terminal {
    fn output(&self, bytes: &[u8]) {
        let replies = lock(&self.emulator).feed(bytes);
        if !replies.is_empty() {
            // A program that asks without reading the answers loses them.
            self.write(replies);
        }
        self.changed();
    }

    /// Queues input. False when the program has stopped reading.
    pub(crate) fn write(&self, bytes: Vec<u8>) -> bool {
        let length = bytes.len();
        if self.pending_input.fetch_add(length, Ordering::Relaxed) + length > MAX_PENDING_INPUT {
            self.pending_input.fetch_sub(length, Ordering::Relaxed);
            return false;
        }
        self.input.send(bytes).is_ok()
    }

    fn input_written(&self, length: usize) {
        self.pending_input.fetch_sub(length, Ordering::Relaxed);
    }

    fn exited(&self, exit: Exit) {
        let _ = self.exit.set(exit);
        self.changed();
    }

    pub(crate) fn exit(&self) -> Option<&Exit> {
        self.exit.get()
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
        lock(&self.watchers).retain(|watcher| match watcher.upgrade() {
            Some(watcher) => {
                watcher.notify_one();
                true
            }
            None => false,
        });
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Wakes `notify` on every change from now on, as long as it lives.
    pub(crate) fn subscribe(&self, notify: &Arc<Notify>) {
        let mut watchers = lock(&self.watchers);
        watchers.retain(|watcher| watcher.strong_count() > 0);
        let known = watchers.iter().any(|watcher| std::ptr::eq(watcher.as_ptr(), Arc::as_ptr(notify)));
        if !known {
            watchers.push(Arc::downgrade(notify));
        }
    }

    pub(crate) fn unsubscribe(&self, notify: &Arc<Notify>) {
        lock(&self.watchers).retain(|watcher| !std::ptr::eq(watcher.as_ptr(), Arc::as_ptr(notify)));
    }

    /// The current picture, drawn once however many browsers look.
    pub(crate) fn picture(&self) -> (u64, Arc<Snapshot>) {
        let mut cached = lock(&self.picture);
        let version = self.version();
        if let Some((at, picture)) = &*cached
            && *at == version
        {
            return (version, picture.clone());
        }
        let picture = Arc::new(lock(&self.emulator).snapshot());
        *cached = Some((version, picture.clone()));
        (version, picture)
    }

    pub(crate) fn history(&self, from: usize, to: usize) -> History {
        lock(&self.emulator).history(from, to)
    }

    pub(crate) fn set_dark(&self, dark: bool) {
        lock(&self.emulator).set_dark(dark);
    }

    pub(crate) fn resize(&self, rows: u16, cols: u16) {
        let (rows, cols) = clamp_size(rows, cols);
        // The emulator first: output printed for the new size must meet it.
        if lock(&self.emulator).resize(rows, cols) {
            if let Err(error) = lock(&self.master).resize(pty::size(rows.get(), cols.get())) {
                tracing::debug!("terminal {}: resize failed: {error}", self.id);
            }
            self.changed();
        }
    }

    /// Where the shell is; what it prints is mostly relative to that.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let pid = self.pid.filter(|_| self.exit().is_none())?;
        std::fs::read_link(format!("/proc/{pid}/cwd")).ok()
    }

    /// The shell's process group, and that of the foreground program, which
    /// under job control has one of its own.
    fn groups(&self) -> Vec<Pid> {
        let shell = self.pid.and_then(|pid| i32::try_from(pid).ok());
        let foreground = lock(&self.master).process_group_leader();
        let mut groups: Vec<Pid> = [shell.filter(|_| self.exit().is_none()), foreground]
            .into_iter()
            .flatten()
            .filter_map(Pid::from_raw)
            .collect();
        groups.dedup();
        groups
    }

    /// Ends what runs here: a hang-up, as when a window closes, then force.
    async fn end(&self) {
        let mut groups = self.groups();
        for group in &groups {
            let _ = rustix::process::kill_process_group(*group, Signal::HUP);
        }
        let deadline = Instant::now() + GRACE;
        loop {
            groups.retain(|group| rustix::process::test_kill_process_group(*group).is_ok());
            if groups.is_empty() {
                return;
            }
            if Instant::now() >= deadline {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        for group in groups {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

/// All terminals of this server.
pub(crate) struct Terminals {
    home: PathBuf,
    state: Mutex<State>,
    /// Connections to wake when the list itself changes.
    listeners: Mutex<Vec<Weak<Notify>>>,
    version: AtomicU64,
}

#[derive(Default)]
struct State {
    next: u32,
    open: BTreeMap<u32, Arc<Terminal>>,
}

impl Terminals {
    pub(crate) fn new(home: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            home,
            state: Mutex::default(),
            listeners: Mutex::default(),
            version: AtomicU64::new(1),
        })
    }

    /// Where shells start.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Starts a shell. Blocking (fork and exec).
    pub(crate) fn open(&self, rows: u16, cols: u16) -> anyhow::Result<Arc<Terminal>> {
        if lock(&self.state).open.len() >= MAX_TERMINALS {
            anyhow::bail!("{MAX_TERMINALS} terminals are open; close one first");
        }
        let (rows, cols) = clamp_size(rows, cols);
        let spawned = pty::spawn(&self.home, rows.get(), cols.get())?;
        let reader = spawned.master.try_clone_reader()?;
        let writer = spawned.master.take_writer()?;
        let (input, pending) = mpsc::unbounded_channel();
        let name = spawned
            .shell
            .file_name()
            .map_or_else(|| "shell".to_owned(), |n| n.to_string_lossy().into_owned());
        let mut state = lock(&self.state);
        state.next += 1;
        let terminal = Arc::new(Terminal {
            id: state.next,
            name,
            emulator: Mutex::new(Emulator::new(rows, cols)),
            version: AtomicU64::new(1),
            picture: Mutex::default(),
            watchers: Mutex::default(),
            pid: spawned.child.process_id(),
            master: Mutex::new(spawned.master),
            input,
            pending_input: AtomicUsize::new(0),
            exit: OnceLock::new(),
        });
        pty::serve(&terminal, reader, writer, spawned.child, pending)?;
        state.open.insert(terminal.id, terminal.clone());
        drop(state);
        self.list_changed();
        Ok(terminal)
    }

    pub(crate) fn get(&self, id: u32) -> Option<Arc<Terminal>> {
        lock(&self.state).open.get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Terminal>> {
        lock(&self.state).open.values().cloned().collect()
    }

    /// Takes the terminal off the list and ends its shell in the background.
    pub(crate) fn close(&self, id: u32) {
        let removed = lock(&self.state).open.remove(&id);
        if let Some(terminal) = removed {
            tokio::spawn(async move { terminal.end().await });
            self.list_changed();
        }
    }

    /// Ends every shell and waits for them, at most the grace time.
    pub(crate) async fn end_all(&self) {
        let all = std::mem::take(&mut lock(&self.state).open);
        futures::future::join_all(all.values().map(|terminal| terminal.end())).await;
    }

    pub(crate) fn listen(&self, notify: &Arc<Notify>) {
        let mut listeners = lock(&self.listeners);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(notify));
    }

    /// Grows whenever a terminal is opened or closed.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn list_changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
        for listener in lock(&self.listeners).iter().filter_map(Weak::upgrade) {
            listener.notify_one();
        }
    }
}

fn clamp_size(rows: u16, cols: u16) -> (NonZeroU16, NonZeroU16) {
    let side = |n: u16, least: u16| NonZeroU16::new(n.clamp(least, MAX_SIDE)).unwrap_or(NonZeroU16::MIN);
    (side(rows, 1), side(cols, 2))
}

//! Noticing changes on disk without asking again and again.
//!
//! One inotify instance watches exactly the directories some open page shows.
//! A page names them (and the files it has open in them); in return it hears of
//! names that come and go, and of its open files being rewritten. What changed
//! is kept per connection as a set, so a storm of events is one message, and a
//! log file growing in a visible folder is no message at all.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::error::Result;
use crate::home::{Home, proc_path};
use crate::path::{RelPath, encode_name, is_temp};

/// Directories one page may watch; a tree with more open simply is not live.
const MAX_WATCHES: usize = 1_000;

const MASK: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// What a page asks to hear about: a directory (encoded path) and, in it, the
/// encoded names of files it has open.
#[derive(serde::Deserialize, Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) dir: String,
    #[serde(default)]
    pub(crate) files: Vec<String>,
    /// False when only the files matter, not the listing.
    #[serde(default)]
    pub(crate) list: bool,
}

/// Encoded paths that changed since they were last taken.
#[derive(Default, Debug)]
pub(crate) struct Changes {
    pub(crate) dirs: BTreeSet<String>,
    pub(crate) files: BTreeSet<String>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.dirs.is_empty() && self.files.is_empty()
    }
}

/// Where one connection's changes collect.
pub(crate) struct Inbox {
    id: u64,
    changes: Mutex<Changes>,
    notify: Arc<Notify>,
}

impl Inbox {
    pub(crate) fn new(notify: Arc<Notify>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self { id: NEXT.fetch_add(1, Ordering::Relaxed), changes: Mutex::default(), notify })
    }

    pub(crate) fn take(&self) -> Changes {
        std::mem::take(&mut *lock(&self.changes))
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.changes).is_empty()
    }

    fn add(&self, wanted: &Wanted, name: Option<&[u8]>, listing: bool) {
        let mut changes = lock(&self.changes);
        let before = changes.dirs.len() + changes.files.len();
        if listing && wanted.list {
            changes.dirs.insert(wanted.dir.clone());
        }
        match name {
            Some(name) => {
                let name = encode_name(name);
                if wanted.files.contains(&name) {
                    changes.files.insert(join(&wanted.dir, &name));
                }
            }
            None => {
                let files = wanted.files.iter().map(|name| join(&wanted.dir, name));
                changes.files.extend(files);
            }
        }
        if changes.dirs.len() + changes.files.len() != before {
            self.notify.notify_one();
        }
    }
}

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(deprecated, reason = "its replacement is unsafe for descriptors nobody owns; an OwnedFd is owned")]
fn register(fd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(fd)
}

struct Interest {
    inbox: Weak<Inbox>,
    inbox_id: u64,
    wanted: Wanted,
}

pub(crate) struct Watcher {
    home: Home,
    inotify: AsyncFd<OwnedFd>,
    /// By watch descriptor; the kernel gives one per directory, so several
    /// pages, or two names of one directory, share it.
    interests: Mutex<HashMap<i32, Vec<Interest>>>,
}

impl Watcher {
    /// Must be called inside the runtime. Watches until `stop`.
    pub(crate) fn start(home: Home, stop: CancellationToken) -> std::io::Result<Arc<Self>> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let watcher = Arc::new(Self { home, inotify: register(fd)?, interests: Mutex::default() });
        let task = Arc::clone(&watcher);
        tokio::spawn(async move { stop.run_until_cancelled(task.run()).await });
        Ok(watcher)
    }

    /// Replaces what `inbox` watches. Everything newly watched counts as
    /// changed, so that nothing that happened just before is missed. Blocking.
    pub(crate) fn set(&self, inbox: &Arc<Inbox>, wanted: Vec<Wanted>) {
        let mut interests = lock(&self.interests);
        let mut old = HashSet::new();
        for list in interests.values_mut() {
            list.retain(|interest| {
                let mine = interest.inbox_id == inbox.id;
                if mine {
                    old.insert((interest.wanted.dir.clone(), interest.wanted.clone().files));
                }
                !mine && interest.inbox.strong_count() > 0
            });
        }
        for wanted in wanted.into_iter().take(MAX_WATCHES) {
            match self.add(&wanted) {
                Ok(wd) => {
                    let fresh = !old.contains(&(wanted.dir.clone(), wanted.files.clone()));
                    if fresh {
                        inbox.add(&wanted, None, true);
                    }
                    interests.entry(wd).or_default().push(Interest {
                        inbox: Arc::downgrade(inbox),
                        inbox_id: inbox.id,
                        wanted,
                    });
                }
                // Gone, or out of reach: the page finds out when it looks.
                Err(_) => inbox.add(&wanted, None, true),
            }
        }
        self.sweep(&mut interests);
    }

    /// Forgets a connection that ended.
    pub(crate) fn forget(&self, inbox: &Inbox) {
        let mut interests = lock(&self.interests);
        for list in interests.values_mut() {
            list.retain(|interest| interest.inbox_id != inbox.id);
        }
        self.sweep(&mut interests);
    }

    fn add(&self, wanted: &Wanted) -> Result<i32> {
        let path = RelPath::decode(&wanted.dir)?;
        let dir = self.home.open_dir(&path)?;
        // inotify takes paths only; this one cannot be redirected.
        inotify::add_watch(self.inotify.get_ref(), proc_path(&dir), MASK).map_err(|errno| {
            tracing::debug!("{} cannot be watched: {errno}", path.shown());
            crate::error::ApiError::from_errno(errno, &path.shown())
        })
    }

    fn sweep(&self, interests: &mut HashMap<i32, Vec<Interest>>) {
        interests.retain(|wd, list| {
            if list.is_empty() {
                // Fails when the directory is gone, and its watch with it.
                let _ = inotify::remove_watch(self.inotify.get_ref(), *wd);
            }
            !list.is_empty()
        });
    }

    async fn run(&self) {
        loop {
            let mut ready = match self.inotify.readable().await {
                Ok(ready) => ready,
                Err(error) => {
                    tracing::warn!("watching for changes on disk stopped: {error}");
                    return;
                }
            };
            match self.drain() {
                Ok(()) | Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(errno) => {
                    tracing::warn!("watching for changes on disk stopped: {errno}");
                    return;
                }
            }
        }
    }

    fn drain(&self) -> rustix::io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(self.inotify.get_ref(), &mut buffer);
        loop {
            let event = reader.next()?;
            let flags = event.events();
            let name = event.file_name().map(std::ffi::CStr::to_bytes);
            self.dispatch(event.wd(), flags, name);
        }
    }

    fn dispatch(&self, wd: i32, flags: ReadFlags, name: Option<&[u8]>) {
        let mut interests = lock(&self.interests);
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            // Events were lost: anything may have changed.
            for interest in interests.values().flatten() {
                interest.tell(None, true);
            }
            return;
        }
        let listing = !flags.contains(ReadFlags::CLOSE_WRITE);
        if name.is_none_or(|name| !is_temp(name)) {
            for interest in interests.get(&wd).into_iter().flatten() {
                interest.tell(name, listing);
            }
        }
        if flags.contains(ReadFlags::IGNORED) {
            interests.remove(&wd);
        }
    }
}

impl Interest {
    fn tell(&self, name: Option<&[u8]>, listing: bool) {
        if let Some(inbox) = self.inbox.upgrade() {
            inbox.add(&self.wanted, name, listing);
        }
    }
}

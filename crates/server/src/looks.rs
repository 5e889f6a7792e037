//! Looking into workspaces again and again for those who watch one: each look is for all of them, and nobody looks once
//! nobody watches.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use codehub_domain::WorkspaceId;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

/// Who stops watching is expected back for so long: a page that was drawn is about to follow what it shows.
const LINGER: Duration = Duration::from_secs(10);

/// What the program inside a workspace answered, if there is one to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inside<T> {
    /// The workspace does not run.
    NotRunning,
    /// It runs without a program of ours: an older CodeHub started it, or its runtime cannot have one.
    Nobody,
    /// Whoever is there does not answer now.
    Silent,
    Says(T),
}

impl<T> Inside<T> {
    /// The same with something else said.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Inside<U> {
        match self {
            Self::NotRunning => Inside::NotRunning,
            Self::Nobody => Inside::Nobody,
            Self::Silent => Inside::Silent,
            Self::Says(said) => Inside::Says(change(said)),
        }
    }

    /// What was said.
    pub fn said(&self) -> Option<&T> {
        match self {
            Self::Says(said) => Some(said),
            Self::NotRunning | Self::Nobody | Self::Silent => None,
        }
    }
}

/// What was last seen of the workspaces that somebody watches.
pub struct Looks<T>(Arc<Mutex<Watched<T>>>);

type Watched<T> = HashMap<WorkspaceId, watch::Sender<Option<T>>>;

impl<T> Default for Looks<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone + PartialEq + Send + Sync + 'static> Looks<T> {
    /// Follows what `look` sees of a workspace, so often; `None` until it has seen something. Where it sees nothing, what
    /// was seen before stays. Whoever comes later joins.
    pub fn follow<F>(
        &self,
        id: WorkspaceId,
        every: Duration,
        until: CancellationToken,
        look: impl Fn() -> F + Send + Sync + 'static,
    ) -> watch::Receiver<Option<T>>
    where
        F: Future<Output = Option<T>> + Send,
    {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = watched.get(&id) {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(None);
        watched.insert(id, sender.clone());
        drop(watched);
        let all = Arc::clone(&self.0);
        tokio::spawn(async move {
            let looking = async {
                loop {
                    let seen = look().await;
                    sender.send_if_modified(|last| {
                        let news = seen.is_some() && *last != seen;
                        if news {
                            *last = seen;
                        }
                        news
                    });
                    sleep(every).await;
                }
            };
            tokio::select! {
                () = looking => {}
                () = unwatched(&all, id, &sender) => {}
                () = until.cancelled() => drop(all.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)),
            }
        });
        receiver
    }
}

/// Resolves when nobody has watched for a while; nobody can join any more then.
async fn unwatched<T>(all: &Mutex<Watched<T>>, id: WorkspaceId, sender: &watch::Sender<Option<T>>) {
    loop {
        sender.closed().await;
        sleep(LINGER).await;
        // Whoever joins does so while holding the lock.
        let mut watched = all.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.receiver_count() == 0 {
            watched.remove(&id);
            return;
        }
    }
}

/// What is seen now, or within that time; `None` where it takes longer.
pub async fn first<T: Clone>(mut seen: watch::Receiver<Option<T>>, within: Duration) -> Option<T> {
    let first = tokio::time::timeout(within, seen.wait_for(Option::is_some)).await;
    first.ok()?.ok()?.clone()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use codehub_testing::{eventually, let_time_pass};

    use super::*;

    const EVERY: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn one_look_serves_all_who_watch_and_none_is_taken_for_nobody() {
        let (looks, id) = (Looks::<u32>::default(), WorkspaceId::from_uuid(uuid::Uuid::now_v7()));
        let (taken, shows) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(7)));
        let follow = || {
            let (taken, shows) = (Arc::clone(&taken), Arc::clone(&shows));
            looks.follow(id, EVERY, CancellationToken::new(), move || {
                taken.fetch_add(1, SeqCst);
                std::future::ready(Some(shows.load(SeqCst)).filter(|shows| *shows != 0))
            })
        };
        let (mut one, two) = (follow(), follow());
        assert_eq!(first(two.clone(), EVERY).await, Some(7));
        one.mark_unchanged();
        let_time_pass(EVERY * 5).await;
        assert!((5..=7).contains(&taken.load(SeqCst)), "one look for both");
        assert!(!one.has_changed().unwrap(), "nothing is news that is as it was");
        shows.store(8, SeqCst);
        one.changed().await.unwrap();
        assert_eq!(*one.borrow(), Some(8));
        shows.store(0, SeqCst);
        let_time_pass(EVERY * 2).await;
        assert!(!one.has_changed().unwrap() && one.borrow().is_some(), "not to see is no news");

        drop((one, two));
        let_time_pass(LINGER / 2).await;
        let again = follow();
        assert_eq!(*again.borrow(), Some(8), "it is still looked at");
        drop(again);
        let_time_pass(LINGER * 2).await;
        eventually("nobody looks", async || looks.0.lock().unwrap().is_empty()).await;
        let before = taken.load(SeqCst);
        let_time_pass(EVERY * 5).await;
        assert_eq!(taken.load(SeqCst), before);
        assert_eq!(*follow().borrow(), None, "and begins anew");
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_too_long_is_not_waited_for() {
        let (looks, id) = (Looks::<u32>::default(), WorkspaceId::from_uuid(uuid::Uuid::now_v7()));
        let seen = looks.follow(id, EVERY, CancellationToken::new(), std::future::pending);
        assert_eq!(first(seen, EVERY).await, None);
    }
}

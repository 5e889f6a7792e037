//! Waking a sleeping workspace because a person opened it: asked once however many wait, held for a
//! few seconds, then the loading page takes over.

use std::{sync::Arc, time::Instant};

use codehub_domain::{UserId, limits::LimitHit};
use tokio::time::timeout_at;

use crate::{
    Proxy,
    error::ProxyError,
    gate::{Woken, WorkspaceView},
    routes::Entry,
};

pub(crate) mod resolve;

use resolve::{Answer, Closed, Visit, Waiting, decide};

/// Why a request is not answered by the workspace itself.
#[derive(Debug)]
pub(crate) enum NotReady {
    Loading(Waiting, Arc<WorkspaceView>),
    Closed(Closed, Arc<WorkspaceView>),
    Limit(LimitHit, Arc<WorkspaceView>),
    /// A request that does not wake came to a workspace that sleeps.
    Asleep,
    Error(ProxyError),
}

impl From<ProxyError> for NotReady {
    fn from(error: ProxyError) -> Self {
        Self::Error(error)
    }
}

/// Waits until the workspace can be reached, waking it where the policy says so, for at most the
/// configured hold.
///
/// # Errors
/// What the person sees instead.
pub(crate) async fn hold(proxy: &Proxy, entry: &Entry, user: UserId) -> Result<Arc<WorkspaceView>, NotReady> {
    let began = Instant::now();
    let deadline = tokio::time::Instant::from_std(began) + proxy.settings.wake_hold;
    // Subscribed before reading: whatever changes after the reading is heard.
    let mut changed = entry.subscribe();
    loop {
        changed.mark_unchanged();
        let looked = Instant::now();
        let view = proxy.routes.view(entry).await?;
        let waiting = match decide(&view, Visit::Navigation) {
            Answer::Forward => {
                proxy.metrics.woken(began.elapsed());
                return Ok(view);
            }
            Answer::Wake => match ask_once(proxy, entry, user, looked).await? {
                Woken::Asked => Waiting::Starting,
                Woken::Busy => Waiting::Stopping,
                Woken::NeedsRecovery => return Err(NotReady::Closed(Closed::Broken, view)),
                Woken::NotFound => return Err(ProxyError::NotFound.into()),
                Woken::Limit(hit) => return Err(NotReady::Limit(hit, view)),
            },
            Answer::Wait(waiting) => waiting,
            Answer::Close(closed) => return Err(NotReady::Closed(closed, view)),
            Answer::Gone | Answer::Asleep => return Err(ProxyError::NotFound.into()),
        };
        let news = async {
            tokio::select! {
                _ = changed.changed() => true,
                () = proxy.shutdown.cancelled() => false,
            }
        };
        if !matches!(timeout_at(deadline, news).await, Ok(true)) {
            return Err(NotReady::Loading(waiting, view));
        }
    }
}

/// One question for everybody who saw it asleep before that was answered.
async fn ask_once(proxy: &Proxy, entry: &Entry, user: UserId, since: Instant) -> Result<Woken, ProxyError> {
    let mut last = entry.woken.lock().await;
    if let Some((at, answer)) = &*last
        && *at >= since
    {
        return Ok(answer.clone());
    }
    let answer =
        proxy.gate.wake(entry.id, user).await.map_err(|error| ProxyError::Store(error.to_string()))?;
    // What was cached is from before the wish.
    entry.invalidate();
    *last = Some((Instant::now(), answer.clone()));
    Ok(answer)
}

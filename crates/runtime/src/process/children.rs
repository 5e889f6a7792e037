//! Waiting for the processes this CodeHub started, so that none stays a zombie and how each ended is
//! known. Those that an earlier CodeHub started are waited for by init; of them only "gone" is known.

use std::{
    collections::HashMap,
    future::Future,
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{process::Child, sync::watch};

use super::proc_scan::Identity;

#[derive(Debug, Default)]
pub(super) struct Children {
    waited_for: Mutex<HashMap<Identity, watch::Receiver<Option<String>>>>,
}

impl Children {
    fn map(&self) -> MutexGuard<'_, HashMap<Identity, watch::Receiver<Option<String>>>> {
        self.waited_for.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for it in the background; `then` learns how it ended.
    pub(super) fn wait_for<F>(
        self: &Arc<Self>,
        process: Identity,
        mut child: Child,
        then: impl FnOnce(String) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        let (tell, told) = watch::channel(None);
        self.map().insert(process.clone(), told);
        let children = Arc::clone(self);
        tokio::spawn(async move {
            let how = match child.wait().await {
                Ok(status) => describe(status),
                Err(error) => format!("ended for an unknown reason ({error})"),
            };
            tell.send_replace(Some(how.clone()));
            then(how).await;
            children.map().remove(&process);
        });
    }

    /// How a process that is not alive any more ended, if it was ours.
    pub(super) async fn how_ended(&self, process: &Identity) -> Option<String> {
        let mut told = self.map().get(process)?.clone();
        let told = told.wait_for(Option::is_some);
        tokio::time::timeout(Duration::from_secs(1), told).await.ok()?.ok()?.clone()
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

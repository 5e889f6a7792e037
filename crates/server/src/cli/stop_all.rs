//! `codehub stop-all`: stops every workspace that runs, with or without a server. Homes stay.
//!
//! Where a server runs, its coordinator does the work. Where none does, this process is the coordinator for as long as it
//! takes: the same code, the same fences. So a `kill -9` in between leaves what a server that dies leaves.

use std::{sync::Arc, time::Duration};

use anyhow::bail;
use codehub_domain::{
    Desired, Workspace, WorkspaceId,
    desired::Refusal,
    event::{Actor, Reason},
    limits::takes_a_place,
    recovery::Recovery,
};
use codehub_store::{Asked, ListFilter, Recovered, Store, StoreError};
use tokio_util::sync::CancellationToken;

use super::admin;
use crate::{
    app::App,
    auth::act,
    backends,
    config::Config,
    serve::{self, DataDir, DataDirError},
    service::Denied,
};

const LOOK_EVERY: Duration = Duration::from_millis(200);
const PAGE: u32 = 200;

#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Give up waiting after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
}

pub(super) async fn run(options: Options, config: Config) -> anyhow::Result<()> {
    let store = admin::store(&config).await?;
    let mut left = running(&*store).await?;
    if left.is_empty() {
        println!("No workspace is running.");
        return Ok(());
    }
    println!("Stopping {}.", counted(left.len()));
    let coordinator = Coordinator::begin(config.clone()).await?;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(options.timeout);
    let mut refused = Vec::new();
    loop {
        let found = store.workspaces_get(&left).await?;
        refused.clear();
        left.clear();
        for workspace in found.iter().filter(|found| found.deleted_at.is_none() && takes_a_place(found)) {
            left.push(workspace.id);
            if let Some(why) = stop(&config, &*store, workspace).await? {
                refused.push(format!("{} ({}): {why}", workspace.name, workspace.id));
            }
        }
        if left.is_empty() || tokio::time::Instant::now() >= deadline {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    coordinator.end().await;
    if left.is_empty() {
        println!("Stopped. Home directories are kept; opening a workspace starts it again.");
        return Ok(());
    }
    for line in &refused {
        eprintln!("{line}");
    }
    bail!(
        "{} still running after {} seconds: `codehub doctor` says what is wrong",
        counted(left.len()),
        options.timeout
    )
}

fn counted(count: usize) -> String {
    if count == 1 { "1 workspace".to_owned() } else { format!("{count} workspaces") }
}

/// All that run or are to run.
async fn running(store: &dyn Store) -> Result<Vec<WorkspaceId>, StoreError> {
    let mut ids = Vec::new();
    let mut filter = ListFilter { limit: PAGE, ..ListFilter::default() };
    loop {
        let page = store.workspace_list(&filter).await?;
        ids.extend(page.items.iter().filter(|found| takes_a_place(found)).map(|found| found.id));
        filter.before = page.items.last().map(|found| found.id);
        if !page.more {
            return Ok(ids);
        }
    }
}

/// Asks for it, where that was not done. Why not, where waiting alone does not help.
async fn stop(config: &Config, store: &dyn Store, workspace: &Workspace) -> anyhow::Result<Option<String>> {
    if workspace.desired != Desired::Running {
        return Ok(None);
    }
    let (by, id) = (act::operator(), workspace.id);
    let asked = store.workspace_ask(
        &by,
        id,
        Desired::Standby,
        config.limits,
        Actor::Operator,
        &Reason::StopRequested,
    );
    match asked.await? {
        Asked::Refused(Refusal::NeedsRecovery) => {
            let recovery = Recovery::default();
            let recovered = store.workspace_recover(
                &by,
                id,
                recovery,
                Some(Desired::Standby),
                config.limits,
                Actor::Operator,
            );
            Ok(match recovered.await? {
                Recovered::Refused(refusal) => Some(Denied::Recovery(refusal).to_string()),
                Recovered::Recovered(_) | Recovered::NotFound | Recovered::LimitReached(_) => None,
            })
        }
        // What is under way ends by itself.
        Asked::Changed(_)
        | Asked::Already(_)
        | Asked::NotFound
        | Asked::Refused(_)
        | Asked::LimitReached(_) => Ok(None),
    }
}

/// This process in the server's place, unless there is one.
struct Coordinator {
    until: CancellationToken,
    leading: Option<(tokio::task::JoinHandle<()>, Arc<App>, DataDir)>,
}

impl Coordinator {
    async fn begin(config: Config) -> anyhow::Result<Self> {
        let until = CancellationToken::new();
        let data_dir = match config.database.url {
            Some(_) => DataDir::share(&config.data_dir)?,
            None => match DataDir::lock(&config.data_dir) {
                Err(DataDirError::InUse { .. }) => return Ok(Self { until, leading: None }),
                locked => locked?,
            },
        };
        let backends = backends::build_backends(&config).await?;
        let app = Arc::new(App::new(config, backends));
        let task = tokio::spawn(serve::coordinate(&app, until.clone()));
        Ok(Self { until, leading: Some((task, app, data_dir)) })
    }

    async fn end(self) {
        self.until.cancel();
        if let Some((task, app, _data_dir)) = self.leading {
            // One that panicked has been logged.
            let _ = task.await;
            app.store().close().await;
        }
    }
}

//! Changes, as the triggers tell them. One connection listens for the whole process.
//!
//! Notifications are not kept for whoever is away. So after every new connection the readers are told
//! [`Change::Resync`]: what was missed is read again. A connection that has died silently is noticed by
//! asking it now and then.

use std::time::Duration;

use codehub_domain::{UserId, WorkspaceId};
use sqlx::{
    PgConnection,
    postgres::{PgConnectOptions, PgListener, PgNotification, PgPoolOptions},
};
use tokio::{sync::broadcast, task::AbortHandle, time::timeout};

use super::{Result, StoreError, prepare};
use crate::Change;

const CHANNELS: [&str; 4] = ["ws_sse", "ws_deleted", "ws_wake", "user_access"];
/// A quiet connection is asked this often whether it is still there…
const QUIET: Duration = Duration::from_secs(5);
/// … and has this long to answer.
const ANSWER: Duration = Duration::from_secs(3);
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(1);

/// Connects, then listens until the task is aborted.
pub(super) async fn start(
    options: PgConnectOptions,
    changes: broadcast::Sender<Change>,
) -> Result<AbortHandle> {
    let listener = connect(&options).await?;
    Ok(tokio::spawn(run(options, listener, changes)).abort_handle())
}

async fn run(options: PgConnectOptions, mut listener: PgListener, changes: broadcast::Sender<Change>) {
    loop {
        let why = follow(&mut listener, &changes).await;
        metrics::counter!(crate::metric::LISTENER_RECONNECTS).increment(1);
        tracing::warn!(error = %why, "the database's notifications are interrupted; connecting again");
        let mut pause = RETRY_FIRST;
        listener = loop {
            match timeout(ANSWER, connect(&options)).await {
                Ok(Ok(listener)) => break listener,
                Ok(Err(error)) => tracing::debug!(%error, "cannot listen yet"),
                Err(_) => tracing::debug!("cannot listen yet: no answer"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_LONGEST);
        };
        tracing::info!("the database's notifications are heard again");
        // Nobody listening is fine.
        let _ = changes.send(Change::Resync);
    }
}

/// A pool of one, because that is what the driver's listener wants.
async fn connect(options: &PgConnectOptions) -> Result<PgListener> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .max_lifetime(None)
        .idle_timeout(None)
        .acquire_timeout(ANSWER)
        .after_connect(|connection, _| Box::pin(prepare(connection)))
        .connect_with(options.clone())
        .await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    listener.listen_all(CHANNELS).await?;
    Ok(listener)
}

/// Passes on what is heard until the connection is lost; why.
async fn follow(listener: &mut PgListener, changes: &broadcast::Sender<Change>) -> StoreError {
    loop {
        match timeout(QUIET, listener.try_recv()).await {
            Ok(Ok(Some(notification))) => match read(&notification) {
                Some(change) => drop(changes.send(change)),
                None => tracing::warn!(
                    channel = notification.channel(),
                    "a notification that nobody of ours would send"
                ),
            },
            Ok(Ok(None)) => return StoreError::Unreachable("the connection was closed".into()),
            Ok(Err(error)) => return error.into(),
            Err(_) => match timeout(ANSWER, still_there(listener)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error,
                Err(_) => return StoreError::Unreachable("the connection does not answer".into()),
            },
        }
    }
}

async fn still_there(listener: &mut PgListener) -> Result<()> {
    sqlx::query("SELECT 1").execute(&mut *listener).await?;
    Ok(())
}

fn read(notification: &PgNotification) -> Option<Change> {
    let pair = || {
        let (workspace, owner) = notification.payload().split_once(' ')?;
        Some((workspace.parse::<WorkspaceId>().ok()?, owner.parse::<UserId>().ok()?))
    };
    match notification.channel() {
        "ws_wake" => Some(Change::Wake),
        "ws_sse" => pair().map(|(workspace, owner)| Change::Updated { workspace, owner }),
        "ws_deleted" => pair().map(|(workspace, owner)| Change::Deleted { workspace, owner }),
        "user_access" => Some(Change::Access { user: notification.payload().parse().ok()? }),
        _ => None,
    }
}

/// A connection that belongs to no pool, with the settings of those that do.
pub(super) async fn own_connection(options: &PgConnectOptions) -> Result<PgConnection> {
    use sqlx::Connection;
    let mut connection = PgConnection::connect_with(options).await?;
    prepare(&mut connection).await?;
    Ok(connection)
}

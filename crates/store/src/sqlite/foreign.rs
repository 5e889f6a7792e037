//! What other processes write: the command line beside a running server. Nobody announces it here, so it
//! is looked for.
//!
//! SQLite counts, for each connection, the commits of all others. Ours all come from the one writer, so
//! what that connection has not done itself was somebody else. Asking reads shared memory, no file.

use std::{sync::Arc, time::Duration};

use sqlx::SqlitePool;
use tokio::sync::{Mutex, broadcast};
use tokio_util::task::AbortOnDropHandle;

use super::{Change, Result};

/// How soon somebody whom the command line disabled is noticed.
const EVERY: Duration = Duration::from_secs(2);

/// Announces [`Change::Resync`] after another process has written, until it is dropped.
pub(super) async fn watch(
    writer: SqlitePool,
    turn: Arc<Mutex<()>>,
    changes: broadcast::Sender<Change>,
) -> Result<AbortOnDropHandle<()>> {
    let mut seen = version(&writer).await?;
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        let mut tick = tokio::time::interval(EVERY);
        loop {
            tick.tick().await;
            if changes.receiver_count() == 0 {
                continue;
            }
            let _turn = turn.lock().await;
            match version(&writer).await {
                Ok(now) if now != seen => {
                    seen = now;
                    tracing::debug!("another process has written to the database");
                    let _ = changes.send(Change::Resync);
                }
                Ok(_) => {}
                Err(_) if writer.is_closed() => return,
                Err(error) => tracing::debug!(%error, "the database does not say who wrote to it"),
            }
        }
    })))
}

async fn version(writer: &SqlitePool) -> Result<i64> {
    Ok(sqlx::query_scalar("PRAGMA data_version").fetch_one(writer).await?)
}

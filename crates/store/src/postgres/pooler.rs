//! A transaction pooler between us and the server hands each statement to whatever connection is free:
//! session locks and LISTEN get lost without a word. So it is looked for, and refused.

use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};

use super::{Result, StoreError};

/// How often to look: a pooler that is otherwise idle gives itself away at the first, a busy one needs luck.
const LOOKS: usize = 3;

/// # Errors
/// There is one, or the server cannot be reached.
pub(super) async fn refuse(options: &PgConnectOptions) -> Result<()> {
    // Statements prepared on one connection and missing on the next would be an error of their own.
    let options = options.clone().statement_cache_capacity(0);
    let mut first = PgConnection::connect_with(&options).await?;
    let mut second = PgConnection::connect_with(&options).await?;
    for _ in 0..LOOKS {
        let before = backend(&mut first).await?;
        // Holding a transaction open takes the connection that `first` just used, if it can be taken.
        let mut holding = second.begin().await?;
        let other = backend(&mut holding).await?;
        let after = backend(&mut first).await?;
        holding.rollback().await?;
        if before == other || before != after {
            return Err(StoreError::Failed(
                "there is a transaction pooler in between (such as PgBouncer in transaction mode), which \
                 loses session locks and notifications: connect to PostgreSQL directly, or use a session pool"
                    .into(),
            ));
        }
    }
    // Ended politely; a server that does not answer that has answered what matters.
    let _ = tokio::join!(first.close(), second.close());
    Ok(())
}

async fn backend(connection: &mut PgConnection) -> Result<i32> {
    Ok(sqlx::query_scalar("SELECT pg_backend_pid()").persistent(false).fetch_one(connection).await?)
}

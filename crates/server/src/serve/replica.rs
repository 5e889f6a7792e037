//! This process among others: it says that it lives, and that it may be beside them.

use std::{sync::Arc, time::Duration};

use anyhow::bail;
use codehub_store::{Company, Presence, ReplicaNote, Store};

use crate::app::{self, App};

/// How often a replica says that it lives.
const NOTE_EVERY: Duration = Duration::from_secs(5);
/// A process that is being replaced may take this long to end.
const PATIENCE: Duration = Duration::from_secs(12);
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// One serving process.
pub(super) struct Replica {
    note: ReplicaNote,
    company: Company,
    presence: Option<Presence>,
}

impl Replica {
    /// Takes its place among the replicas.
    ///
    /// # Errors
    /// Somebody is there who does not fit; the message says what to do.
    pub(super) async fn join(app: &App) -> anyhow::Result<Self> {
        let company = if app.config.redis.url.is_some() { Company::Welcome } else { Company::Alone };
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let presence = loop {
            match app.store().presence_enter(company).await? {
                Some(presence) => break presence,
                None if tokio::time::Instant::now() < deadline => tokio::time::sleep(ASK_AGAIN).await,
                None => bail!(refusal(company)),
            }
        };
        let note = ReplicaNote {
            name: app::replica_name(),
            version: env!("CARGO_PKG_VERSION").into(),
            role: app.config.role.as_str().into(),
        };
        app.store().replica_note(&note).await?;
        Ok(Self { note, company, presence: Some(presence) })
    }

    /// Says so until the server stops.
    pub(super) async fn run(mut self, app: Arc<App>) {
        let mut tick = tokio::time::interval(NOTE_EVERY);
        loop {
            tokio::select! {
                () = app.shutdown.cancelled() => break,
                _ = tick.tick() => self.tick(app.store()).await,
            }
        }
        if let Err(error) = app.store().replica_leave(&self.note.name).await {
            tracing::debug!(%error, "could not say goodbye");
        }
    }

    async fn tick(&mut self, store: &dyn Store) {
        if let Err(error) = store.replica_note(&self.note).await {
            tracing::debug!(%error, "could not say that this replica lives");
        }
        let lost = match &mut self.presence {
            Some(presence) => presence.check().await.is_err(),
            None => true,
        };
        if !lost {
            return;
        }
        self.presence = None;
        match store.presence_enter(self.company).await {
            Ok(Some(presence)) => self.presence = Some(presence),
            Ok(None) => tracing::error!("{}", refusal(self.company)),
            Err(error) => tracing::debug!(%error, "the database is away"),
        }
    }
}

fn refusal(company: Company) -> &'static str {
    match company {
        Company::Alone => {
            "another CodeHub server uses this database, and without Redis there may be only one: set REDIS_URL for all of them, or stop the other"
        }
        Company::Welcome => {
            "another CodeHub server uses this database without Redis, and would not hear this one: set REDIS_URL for it, too"
        }
    }
}

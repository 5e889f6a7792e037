//! A store put together from parts, for tests that replace some of them.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    ArchiveRecords, Audit, Clock, Credentials, Garbage, Holds, Leadership, People, Ports, Reconciling,
    Settings, Workspaces,
};
use crate::{Changes, Company, LeaseSeat, Presence, Result, Store};

/// Every theme is answered by its part; `Composed { people, ..Composed::over(store) }` replaces one.
#[derive(Clone)]
pub struct Composed {
    /// For what is no theme: its kind, its changes, its replicas.
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub leadership: Arc<dyn Leadership>,
    pub workspaces: Arc<dyn Workspaces>,
    pub holds: Arc<dyn Holds>,
    pub ports: Arc<dyn Ports>,
    pub reconciling: Arc<dyn Reconciling>,
    pub garbage: Arc<dyn Garbage>,
    pub people: Arc<dyn People>,
    pub credentials: Arc<dyn Credentials>,
    pub settings: Arc<dyn Settings>,
    pub audit: Arc<dyn Audit>,
    pub archive_records: Arc<dyn ArchiveRecords>,
}

impl Composed {
    /// One store in every part.
    pub fn over(store: Arc<dyn Store>) -> Self {
        Self {
            clock: store.clone(),
            leadership: store.clone(),
            workspaces: store.clone(),
            holds: store.clone(),
            ports: store.clone(),
            reconciling: store.clone(),
            garbage: store.clone(),
            people: store.clone(),
            credentials: store.clone(),
            settings: store.clone(),
            audit: store.clone(),
            archive_records: store.clone(),
            store,
        }
    }
}

#[async_trait]
impl Store for Composed {
    fn kind(&self) -> &'static str {
        self.store.kind()
    }

    fn changes(&self) -> Changes {
        self.store.changes()
    }

    async fn close(&self) {
        self.store.close().await;
    }

    fn lease_seat(&self, holder: &str) -> Option<LeaseSeat> {
        self.store.lease_seat(holder)
    }

    async fn presence_enter(&self, company: Company) -> Result<Option<Presence>> {
        self.store.presence_enter(company).await
    }
}

//! Who opened which workspace, or which port of somebody else's: once an hour per session (or token) and origin, off the
//! way of the request.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use codehub_domain::{
    audit::{AuditAction, AuditEntry, AuditObject, OPENED_SECONDS},
    origins::WorkspaceOrigin,
};
use codehub_proxy::gate::Credential;
use http::HeaderMap;
use sha2::{Digest as _, Sha256};

use crate::{app::App, auth::act};

/// So many are remembered: more only ask the store, which counts them together, too.
const CAPACITY: usize = 4096;

type Key = ([u8; 32], WorkspaceOrigin);

/// What this process has written down within the hour.
#[derive(Default)]
pub(super) struct Opened(Mutex<HashMap<Key, Instant>>);

impl Opened {
    /// Somebody who may has opened it with these headers.
    pub(super) fn note(
        &self,
        app: Arc<App>,
        at: WorkspaceOrigin,
        credential: Credential<'_>,
        headers: &HeaderMap,
        address: IpAddr,
    ) {
        if !self.is_new((hash(credential), at), Instant::now()) {
            return;
        }
        let (headers, kept) = (headers.clone(), Kept::of(credential));
        tokio::spawn(async move {
            let found = super::identify(&app, kept.credential(), &headers, Some(address)).await;
            // Whoever has signed out meanwhile was let in a moment ago; there is nobody to name.
            let Ok(identity) = found else { return };
            let Ok(Some(workspace)) = app.store().workspace_get(at.workspace).await else { return };
            let object = AuditObject::workspace(at.workspace, &workspace.name);
            let entry = match at.port {
                None => AuditEntry::ok(AuditAction::WorkspaceOpened, object),
                Some(port) => {
                    AuditEntry::ok(AuditAction::PortOpened, object).with_code(&format!("port {port}"))
                }
            };
            act::note(&app, &identity.act, AuditEntry { folded: Some(OPENED_SECONDS), ..entry }).await;
        });
    }

    fn is_new(&self, key: Key, now: Instant) -> bool {
        let hour = Duration::from_secs(OPENED_SECONDS.into());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(&key).is_some_and(|at| now.duration_since(*at) < hour) {
            return false;
        }
        if known.len() >= CAPACITY {
            known.retain(|_, at| now.duration_since(*at) < hour);
        }
        if known.len() >= CAPACITY {
            known.clear();
        }
        known.insert(key, now);
        true
    }
}

/// A credential that outlives its request for a moment.
enum Kept {
    Session(Vec<u8>),
    Workspace(WorkspaceOrigin, Vec<u8>),
    Bearer(Vec<u8>),
}

impl Kept {
    fn of(credential: Credential<'_>) -> Self {
        match credential {
            Credential::Session(secret) => Self::Session(secret.into()),
            Credential::Workspace(origin, secret) => Self::Workspace(origin, secret.into()),
            Credential::Bearer(secret) => Self::Bearer(secret.into()),
        }
    }

    fn credential(&self) -> Credential<'_> {
        match self {
            Self::Session(secret) => Credential::Session(secret),
            Self::Workspace(origin, secret) => Credential::Workspace(*origin, secret),
            Self::Bearer(secret) => Credential::Bearer(secret),
        }
    }
}

/// Secrets are not kept, only what they hash to.
fn hash(credential: Credential<'_>) -> [u8; 32] {
    let (Credential::Session(secret) | Credential::Workspace(_, secret) | Credential::Bearer(secret)) =
        credential;
    Sha256::digest(secret).into()
}

#[cfg(test)]
mod tests {
    use codehub_domain::WorkspaceId;

    use super::*;

    #[test]
    fn once_an_hour_for_each() {
        let (opened, now) = (Opened::default(), Instant::now());
        let id =
            |n| WorkspaceOrigin { workspace: WorkspaceId::from_uuid(uuid::Uuid::from_u128(n)), port: None };
        let with = |secret: &str| hash(Credential::Session(secret.as_bytes()));
        let (ann, bob) = (with("a"), with("b"));
        assert!(opened.is_new((ann, id(1)), now));
        assert!(!opened.is_new((ann, id(1)), now + Duration::from_secs(3599)));
        let again = hash(Credential::Workspace(id(1), b"a"));
        assert!(!opened.is_new((again, id(1)), now), "the same secret is the same session");
        assert!(
            opened.is_new((ann, WorkspaceOrigin { port: Some(3000), ..id(1) }), now),
            "a port is another"
        );
        assert!(opened.is_new((ann, id(2)), now) && opened.is_new((bob, id(1)), now));
        assert!(opened.is_new((ann, id(1)), now + Duration::from_secs(3600)));
        for n in 0..2 * CAPACITY as u128 {
            opened.is_new((ann, id(n)), now);
        }
        assert!(opened.0.lock().unwrap().len() <= CAPACITY);
    }
}

//! Who opened which workspace: once an hour per session (or token) and workspace, off the way of the request.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use codehub_domain::{
    WorkspaceId,
    audit::{AuditAction, AuditEntry, AuditObject, OPENED_SECONDS},
};
use http::{HeaderMap, header::AUTHORIZATION};
use sha2::{Digest as _, Sha256};

use crate::{
    app::App,
    auth::{self, act},
};

/// So many are remembered: more only ask the store, which counts them together, too.
const CAPACITY: usize = 4096;

type Key = ([u8; 32], WorkspaceId);

/// What this process has written down within the hour.
#[derive(Default)]
pub(super) struct Opened(Mutex<HashMap<Key, Instant>>);

impl Opened {
    /// Somebody who may has opened it with these headers.
    pub(super) fn note(&self, app: Arc<App>, id: WorkspaceId, headers: &HeaderMap, address: IpAddr) {
        if !self.is_new((credentials(headers, app.config.is_https()), id), Instant::now()) {
            return;
        }
        let headers = headers.clone();
        tokio::spawn(async move {
            // Whoever has signed out meanwhile was let in a moment ago; there is nobody to name.
            let Ok(identity) = auth::identify_from(&app, &headers, Some(address)).await else { return };
            let Ok(Some(workspace)) = app.store().workspace_get(id).await else { return };
            let object = AuditObject::workspace(id, &workspace.name);
            let entry = AuditEntry::ok(AuditAction::WorkspaceOpened, object);
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

/// Secrets are not kept, only what they hash to.
fn credentials(headers: &HeaderMap, https: bool) -> [u8; 32] {
    let mut digest = Sha256::new();
    for secret in auth::cookie::session_secrets(headers, https) {
        digest.update(secret);
        digest.update([0]);
    }
    for value in headers.get_all(AUTHORIZATION) {
        digest.update(value.as_bytes());
        digest.update([0]);
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use http::header::COOKIE;

    use super::*;

    #[test]
    fn once_an_hour_for_each() {
        let (opened, now) = (Opened::default(), Instant::now());
        let id = |n| WorkspaceId::from_uuid(uuid::Uuid::from_u128(n));
        let with =
            |cookie: &str| credentials(&HeaderMap::from_iter([(COOKIE, cookie.parse().unwrap())]), false);
        let (ann, bob) = (with("session=a; x=1"), with("session=b"));
        assert!(opened.is_new((ann, id(1)), now));
        assert!(!opened.is_new((ann, id(1)), now + Duration::from_secs(3599)));
        assert!(!opened.is_new((with("x=2; session=a"), id(1)), now), "another cookie is no other session");
        assert!(opened.is_new((ann, id(2)), now) && opened.is_new((bob, id(1)), now));
        assert!(opened.is_new((ann, id(1)), now + Duration::from_secs(3600)));
        for n in 0..2 * CAPACITY as u128 {
            opened.is_new((ann, id(n)), now);
        }
        assert!(opened.0.lock().unwrap().len() <= CAPACITY);
    }
}

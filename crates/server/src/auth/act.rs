//! Who acts, as the audit trail names them; and the writing down of what is refused.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::LazyLock,
};

use axum::{extract::ConnectInfo, http::request::Parts};
use codehub_domain::{
    audit::{Act, AuditAction, AuditEntry, AuditObject},
    user::User,
};
use codehub_proxy::{client, request_id::REQUEST_ID};
use http::{HeaderMap, Method, header::USER_AGENT};

use crate::app::{self, App};

static REPLICA: LazyLock<String> = LazyLock::new(app::replica_name);

/// CodeHub itself, in this process.
pub fn system() -> Act {
    Act::system(&REPLICA)
}

/// The command line, in this process.
pub fn operator() -> Act {
    Act::operator(&REPLICA)
}

/// A request of somebody who has not said yet who they are. Its id is the one in the log: the first layer puts it
/// into the headers.
pub fn of_request(headers: &HeaderMap, address: Option<IpAddr>) -> Act {
    let text = |name| {
        let value = headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        value.unwrap_or_default().into_owned()
    };
    let address = address.map(|address| address.to_canonical().to_string()).unwrap_or_default();
    Act::anonymous(address, &text(USER_AGENT), &text(REQUEST_ID), &REPLICA)
}

/// From where a request comes, through trusted proxies only.
pub fn client_address(app: &App, parts: &Parts) -> IpAddr {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip());
    client::address(peer, &parts.headers, &app.config.trusted_proxies)
}

/// Writes down what was not an act of the store's: a refusal, a failure, a look. Whatever it is about goes on without
/// it, should the store not answer.
pub async fn note(app: &App, by: &Act, entry: AuditEntry) {
    if let Err(error) = app.store().audit_write(by, &entry).await {
        tracing::warn!(%error, action = %entry.action, outcome = %entry.outcome, "the audit trail could not be written");
    }
}

/// Somebody may not do this.
pub async fn note_denied(app: &App, by: &Act, action: AuditAction, object: Option<AuditObject>) {
    note(app, by, AuditEntry::denied(action, object, "FORBIDDEN")).await;
}

/// A sign-in that failed. The account is named only where there is one: what else is typed into that field may be a
/// password.
pub async fn note_failed_sign_in(app: &App, by: &Act, user: Option<&User>) {
    let object = user.map(AuditObject::user);
    note(app, by, AuditEntry::failed(AuditAction::LoginFailed, object, "WRONG_PASSWORD")).await;
}

/// A sign-in that was not even looked at: too many have failed.
pub async fn note_blocked_sign_in(app: &App, by: &Act) {
    note(app, by, AuditEntry::denied(AuditAction::LoginBlocked, None, "TOO_MANY_ATTEMPTS")).await;
}

/// What somebody who is no administrator was about to do, where that is written down.
pub fn of_administrators(method: &Method, path: &str) -> Option<AuditAction> {
    let path = path.strip_prefix("/api/v1").unwrap_or(path);
    let mut parts = path.strip_prefix("/users")?.split('/').filter(|part| !part.is_empty());
    let (user, what, token, last) = (parts.next(), parts.next(), parts.next(), parts.next());
    match (method.as_str(), user, what, token, last) {
        ("POST", None, ..) => Some(AuditAction::UserCreated),
        ("PATCH", Some(_), None, ..)
        | ("POST", Some(_), Some("role" | "disabled" | "password"), None, ..) => {
            Some(AuditAction::UserEdited)
        }
        ("DELETE", Some(_), None, ..) | ("POST", Some(_), Some("delete"), None, ..) => {
            Some(AuditAction::UserDeleted)
        }
        ("DELETE", Some(_), Some("tokens"), Some(_), None)
        | ("POST", Some(_), Some("tokens"), Some(_), Some("delete")) => Some(AuditAction::TokenDeleted),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrators_acts_have_names() {
        for (method, path, action) in [
            ("POST", "/api/v1/users", Some(AuditAction::UserCreated)),
            ("POST", "/users", Some(AuditAction::UserCreated)),
            ("PATCH", "/api/v1/users/1", Some(AuditAction::UserEdited)),
            ("POST", "/users/1/role", Some(AuditAction::UserEdited)),
            ("DELETE", "/api/v1/users/1", Some(AuditAction::UserDeleted)),
            ("POST", "/users/1/delete", Some(AuditAction::UserDeleted)),
            ("DELETE", "/api/v1/users/1/tokens/2", Some(AuditAction::TokenDeleted)),
            ("POST", "/users/1/tokens/2/delete", Some(AuditAction::TokenDeleted)),
            ("GET", "/api/v1/users", None),
            ("GET", "/api/v1/audit", None),
        ] {
            assert_eq!(of_administrators(&method.parse().unwrap(), path), action, "{method} {path}");
        }
    }
}

//! Who may read more than whether the server is ready: programs on this machine, those that the operator named, and
//! administrators. To everybody else its insides are nobody's business.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{ConnectInfo, FromRequestParts},
    http::request::Parts,
};
use codehub_proxy::{client, hosts};
use http::{HeaderMap, header::HOST};
use ipnet::IpNet;

use crate::{app::App, auth};

/// Whether this one may.
pub(super) struct Insider(pub(super) bool);

impl FromRequestParts<Arc<App>> for Insider {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Self::Rejection> {
        let config = &app.config;
        let peer = parts.extensions.get::<ConnectInfo<std::net::SocketAddr>>();
        if let Some(ConnectInfo(peer)) = peer
            && is_inside(peer.ip(), &parts.headers, &config.trusted_proxies, &config.metrics.allow)
        {
            // A workspace may have this machine's address, too.
            let loopback = peer.ip().to_canonical().is_loopback();
            if !loopback || !app.backends.instances.comes_from_instance(*peer).await {
                return Ok(Self(true));
            }
        }
        let identity = auth::identify_sender(app, parts).await;
        Ok(Self(identity.is_ok_and(|identity| identity.is_admin())))
    }
}

/// Whether an address says enough: it is allowed, or it is this machine's and nobody stands between.
pub(crate) fn is_inside(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet], allowed: &[IpNet]) -> bool {
    client::is_trusted(client::address(peer, headers, trusted), allowed)
        || (peer.to_canonical().is_loopback() && came_straight(headers))
}

/// Whether a request came through no proxy: none has left its mark, and it was sent to this machine by name. One that
/// passes on the name it was asked for shows by that, even where it says nothing else.
fn came_straight(headers: &HeaderMap) -> bool {
    let marked = headers.keys().any(|name| {
        let name = name.as_str();
        name.starts_with("x-forwarded") || matches!(name, "forwarded" | "via" | "x-real-ip")
    });
    let host = headers.get(HOST).map(http::HeaderValue::as_bytes);
    let name = host.and_then(hosts::without_port);
    !marked && (host.is_none() || name.is_some_and(hosts::is_loopback))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From where, with which headers, and whether that is inside.
    type Row = (&'static str, &'static [(&'static str, &'static str)], bool);

    #[test]
    fn this_machine_and_those_that_are_named() {
        let networks = |all: &[&str]| all.iter().map(|one| one.parse().unwrap()).collect::<Vec<IpNet>>();
        let (trusted, allowed) = (networks(&["10.0.0.1/32", "127.0.0.1/32"]), networks(&["10.1.0.0/16"]));
        let table: &[Row] = &[
            ("127.0.0.1", &[("host", "127.0.0.1:8080")], true),
            ("::1", &[("host", "[::1]:8080")], true),
            ("127.0.0.1", &[("host", "localhost")], true),
            ("127.0.0.1", &[], true),
            // Through a proxy on this machine, which says so or passes on a name.
            ("127.0.0.1", &[("host", "localhost"), ("x-forwarded-for", "192.0.2.1")], false),
            ("127.0.0.1", &[("host", "localhost"), ("x-forwarded-for", "127.0.0.1")], false),
            ("127.0.0.1", &[("host", "localhost"), ("forwarded", "for=192.0.2.1")], false),
            ("127.0.0.1", &[("host", "localhost"), ("via", "1.1 x")], false),
            ("127.0.0.1", &[("host", "code.example.com")], false),
            ("192.0.2.1", &[("host", "localhost")], false),
            ("10.1.2.3", &[("host", "10.0.0.5")], true),
            ("10.2.2.3", &[("host", "10.0.0.5")], false),
            // What a proxy says counts where it is trusted.
            ("10.0.0.1", &[("x-forwarded-for", "10.1.2.3")], true),
            ("10.0.0.2", &[("x-forwarded-for", "10.1.2.3")], false),
            ("10.1.0.1", &[("x-forwarded-for", "192.0.2.1")], true),
        ];
        for (peer, pairs, expected) in table {
            let mut headers = HeaderMap::new();
            for (name, value) in *pairs {
                headers.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
            }
            let found = is_inside(peer.parse().unwrap(), &headers, &trusted, &allowed);
            assert_eq!(found, *expected, "{peer} {pairs:?}");
        }
    }
}

//! From which address somebody comes. What a client writes into `X-Forwarded-For` is a claim; it
//! counts only as far back as trusted proxies wrote it.

use std::net::{IpAddr, Ipv6Addr};

use http::HeaderMap;
use ipnet::IpNet;

/// Whether this is one of the proxies whose word counts.
pub fn is_trusted(ip: IpAddr, trusted: &[IpNet]) -> bool {
    let ip = ip.to_canonical();
    trusted.iter().any(|network| network.contains(&ip))
}

/// The client's address, seen from a connection that comes from `peer`.
pub fn address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |ip| is_trusted(ip, trusted);
    let mut client = peer.to_canonical();
    if !is_trusted(client) {
        return client;
    }
    let hops: Vec<&str> = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    for hop in hops.into_iter().rev() {
        let Ok(ip) = hop.parse::<IpAddr>() else { break };
        client = ip.to_canonical();
        if !is_trusted(client) {
            break;
        }
    }
    client
}

/// The part of an address by which guessing is counted: whoever has one IPv6 address has a whole /64.
pub fn counted_as(ip: IpAddr) -> String {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            format!("{}/64", Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarded_addresses_count_only_behind_trusted_proxies() {
        let table: &[(&str, &[&str], &str)] = &[
            ("203.0.113.5", &["198.51.100.1"], "203.0.113.5"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("::ffff:10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["1.1.1.1, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["1.1.1.1", "198.51.100.1, 10.0.0.2"], "198.51.100.1"),
            ("10.0.0.1", &["nonsense"], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.1, nonsense"], "10.0.0.1"),
            ("10.1.2.3", &["198.51.100.1"], "198.51.100.1"),
            ("10.2.2.3", &["198.51.100.1"], "10.2.2.3"),
        ];
        let trusted = ["10.0.0.1/32", "10.0.0.2/32", "10.1.0.0/16"].map(|network| network.parse().unwrap());
        for (peer, forwarded, expected) in table {
            let mut headers = HeaderMap::new();
            for value in *forwarded {
                headers.append("x-forwarded-for", value.parse().unwrap());
            }
            let found = address(peer.parse().unwrap(), &headers, &trusted);
            assert_eq!(found.to_string(), *expected, "{peer} {forwarded:?}");
        }
    }

    #[test]
    fn an_ipv6_neighbourhood_counts_as_one() {
        assert_eq!(counted_as("2001:db8::1:2".parse().unwrap()), "2001:db8::/64");
        assert_eq!(counted_as("::ffff:192.0.2.1".parse().unwrap()), "192.0.2.1");
    }
}

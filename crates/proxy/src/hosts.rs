//! The host names that this server answers for. A page of a foreign name that was made to resolve to this server's
//! address (DNS rebinding) is same-origin with whatever answers there: so nothing does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use codehub_domain::{
    WorkspaceId,
    origins::{Label, Origins},
};
use http::{HeaderMap, Uri, Version, header};

use crate::{
    error::ProxyError,
    policy::{self, FORWARDED_HOST},
};

/// What is compared with the host of every request: whole, in whatever case, without its port.
#[derive(Debug, Clone)]
pub struct Hosts {
    origins: Origins,
    names: Vec<Box<str>>,
    /// Names of the machine itself: `localhost`, 127.0.0.0/8, `[::1]`.
    loopback: bool,
    /// Any address, as long as it is one and no name: nobody can make a name out of it.
    addresses: bool,
}

impl Hosts {
    /// The host of the dashboard, and those that are allowed beside it. Where that was not chosen by anybody, every bare
    /// address is as good; where it is the machine itself, all names of that are.
    pub fn new(origins: Origins, allowed: &[String]) -> Self {
        let base_url = origins.base_url();
        let authority = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
        let base = without_port(authority.as_bytes()).and_then(|name| std::str::from_utf8(name).ok());
        let loopback = !origins.base_is_set() || base.is_some_and(|name| is_loopback(name.as_bytes()));
        let names = base.into_iter().chain(allowed.iter().map(String::as_str)).map(Box::from).collect();
        let addresses = !origins.base_is_set();
        Self { origins, names, loopback, addresses }
    }

    /// Where the dashboard and workspaces are.
    pub fn origins(&self) -> &Origins {
        &self.origins
    }

    /// What the value of a `Host` header names. `None`: nothing of ours. Allocates nothing: it is asked for every request.
    pub fn site(&self, host: &[u8]) -> Option<Site> {
        let name = without_port(host)?;
        match self.origins.label(name) {
            Some(Label::Workspace(id)) => Some(Site::Workspace(id)),
            Some(Label::Port(port, id)) => Some(Site::Port(id, port)),
            Some(Label::OldPort(port, id)) => Some(Site::OldPort(id, port)),
            None => self.is_dashboards(name).then_some(Site::Dashboard),
        }
    }

    fn is_dashboards(&self, name: &[u8]) -> bool {
        self.names.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
            || (self.loopback && is_loopback(name))
            || (self.addresses && address(name).is_some())
    }

    /// What a request is meant for, and whether it may be answered at all.
    ///
    /// # Errors
    /// It is meant for another host, or says two different ones.
    pub(crate) fn screen(
        &self,
        uri: &Uri,
        version: Version,
        headers: &HeaderMap,
        trusted: bool,
    ) -> Result<Site, ProxyError> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next();
        if hosts.next().is_some() || (host.is_none() && version == Version::HTTP_11) {
            return Err(ProxyError::BadRequest("exactly one Host is needed"));
        }
        let authority = uri.authority().map(|authority| authority.as_str().as_bytes());
        if let (Some(authority), Some(host)) = (authority, host)
            && !authority.eq_ignore_ascii_case(host.as_bytes())
        {
            return Err(ProxyError::BadRequest("the address that is asked for and Host differ"));
        }
        let asked = self.asked(uri, headers, trusted);
        if asked.is_some_and(|asked| !policy::is_host(asked)) {
            // What is no host at all is not another's.
            return Err(ProxyError::BadRequest("Host names no host"));
        }
        match asked.map(|asked| self.site(asked)) {
            Some(Some(site)) => Ok(site),
            // Balancers ask by whatever name or address they have.
            Some(None) if matches!(uri.path(), "/healthz" | "/readyz") => Ok(Site::Dashboard),
            Some(None) => Err(ProxyError::Misdirected),
            // HTTP/1.0 need not say it, and no browser speaks that.
            None => Ok(Site::Dashboard),
        }
    }

    /// The host that was asked for: by the word of a trusted proxy, else in the request line, else in the header.
    pub(crate) fn asked<'r>(&self, uri: &'r Uri, headers: &'r HeaderMap, trusted: bool) -> Option<&'r [u8]> {
        let claimed = trusted.then(|| headers.get(FORWARDED_HOST)).flatten();
        let authority = uri.authority().map(|authority| authority.as_str().as_bytes());
        let host = || headers.get(header::HOST).map(http::HeaderValue::as_bytes);
        claimed.map(http::HeaderValue::as_bytes).or(authority).or_else(host)
    }
}

/// What a host names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// The dashboard and the API.
    Dashboard,
    /// A workspace's own origin.
    Workspace(WorkspaceId),
    /// The origin that all workspaces share, apart from the dashboard: another port of the same host.
    Workspaces,
    /// A port in a workspace.
    Port(WorkspaceId, u16),
    /// The same by a name that leads there.
    OldPort(WorkspaceId, u16),
}

/// The host in the value of a `Host` header. `None` where what follows it is no port.
pub fn without_port(host: &[u8]) -> Option<&[u8]> {
    let bracketed = host.first() == Some(&b'[');
    let end = if bracketed {
        host.iter().position(|b| *b == b']')? + 1
    } else {
        host.iter().position(|b| *b == b':').unwrap_or(host.len())
    };
    let (name, port) = host.split_at(end);
    let is_port = port.is_empty() || (port[0] == b':' && port[1..].iter().all(u8::is_ascii_digit));
    (is_port && !name.is_empty()).then_some(name)
}

/// The address, where a host is one.
fn address(name: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(name).ok()?;
    match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// Whether a host, without its port, is the machine itself.
pub fn is_loopback(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"localhost") || address(name).is_some_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use codehub_domain::origins::Mode;

    use super::*;

    fn at(base_url: &str, base_is_set: bool, allowed: &[String]) -> Hosts {
        Hosts::new(Origins::new(base_url, base_is_set, Mode::Path), allowed)
    }

    #[track_caller]
    fn answers(hosts: &Hosts, yes: &[&str], no: &[&str]) {
        for host in yes {
            assert_eq!(hosts.site(host.as_bytes()), Some(Site::Dashboard), "{host}");
        }
        for host in no {
            assert_eq!(hosts.site(host.as_bytes()), None, "{host}");
        }
    }

    #[test]
    fn a_chosen_base_is_the_only_host_beside_those_that_are_allowed() {
        let hosts = at("https://Code.example.com:8443", true, &["box.lan".into(), "10.0.0.5".into()]);
        answers(
            &hosts,
            &[
                "code.example.com",
                "CODE.example.com:8443",
                "code.example.com:1",
                "box.lan:80",
                "10.0.0.5:8080",
            ],
            &[
                "",
                ":80",
                "evil.example",
                "code.example.com.",
                "code.example.com.evil.example",
                "x.code.example.com",
                "example.com",
                "code.example.com:80:90",
                "code.example.com:x",
                "127.0.0.1",
                "localhost",
                "[::1]",
                "10.0.0.6",
            ],
        );
    }

    #[test]
    fn without_one_every_bare_address_and_the_machines_own_names_are_answered() {
        let hosts = at("http://127.0.0.1:8080", false, &[]);
        answers(
            &hosts,
            &[
                "127.0.0.1:8080",
                "localhost:9",
                "LOCALHOST",
                "[::1]:8080",
                "192.0.2.7:80",
                "[2001:db8::1]",
                "127.9.9.9",
            ],
            &[
                "localhost.",
                "evil.example:8080",
                "127.0.0.1.nip.io",
                "127.1",
                "0x7f.0.0.1",
                "[::1",
                "[::1]x",
                "::1",
                "a.localhost",
            ],
        );
    }

    #[test]
    fn a_base_on_this_machine_is_every_name_of_it_on_any_port() {
        let hosts = at("http://localhost:8080", true, &[]);
        answers(
            &hosts,
            &["localhost:9000", "127.0.0.1:22", "[::1]"],
            &["192.0.2.7", "localhost.evil.example"],
        );
    }

    #[test]
    fn a_workspaces_name_is_no_name_of_the_dashboard() {
        const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
        let mode = Mode::Domain { name: "localhost".into() };
        let hosts = Hosts::new(Origins::new("http://localhost:8080", false, mode), &[]);
        let site = |host: String| hosts.site(host.as_bytes());
        assert_eq!(site("localhost:8080".into()), Some(Site::Dashboard));
        assert_eq!(site(format!("{ID}.localhost:8080")), Some(Site::Workspace(ID.parse().unwrap())));
        assert_eq!(site(format!("3000-{ID}.LOCALHOST")), Some(Site::Port(ID.parse().unwrap(), 3000)));
        assert_eq!(site(format!("3000--{ID}.localhost")), Some(Site::OldPort(ID.parse().unwrap(), 3000)));
        for foreign in ["x.localhost", "localhost.evil.example", "xlocalhost", "a.b.localhost"] {
            assert_eq!(site(foreign.into()), None, "{foreign}");
        }
        assert_eq!(site(format!("{ID}.localhost.")), None);
        assert_eq!(site(format!("{ID}.localhost.evil.example")), None);
    }
}

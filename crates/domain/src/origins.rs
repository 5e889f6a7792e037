//! Where people find the dashboard and each workspace: one origin for all, one for all workspaces, or one for each.
//! Nothing here asks a resolver or opens a port.

use crate::WorkspaceId;

/// What keeps the pages of workspaces apart from the dashboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// A name each, `{id}.{name}`: everything is apart.
    Domain { name: String },
    /// Another port of the dashboard's host: the dashboard is apart from workspaces, they are not from each other.
    Port { port: u16 },
    /// Paths of the dashboard's own origin: nothing is apart.
    Path,
}

/// The name below which browsers need no DNS.
pub const LOCALHOST: &str = "localhost";

/// What the first label of a host below the workspaces' domain names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    Workspace(WorkspaceId),
    /// A port within a workspace.
    Port(u16, WorkspaceId),
    /// The same, as it was written once: a label with `--` there is reserved.
    OldPort(u16, WorkspaceId),
}

/// An origin that is not the dashboard's: a workspace's, or that of a port in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkspaceOrigin {
    pub workspace: WorkspaceId,
    /// `None`: the workspace itself.
    pub port: Option<u16>,
}

/// The addresses of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origins {
    base_url: String,
    base_is_set: bool,
    mode: Mode,
}

impl Origins {
    /// `base_url` is the dashboard's: scheme, host and maybe a port, without a slash at its end. Where nobody chose it,
    /// addresses follow the name by which a request came.
    pub fn new(base_url: impl Into<String>, base_is_set: bool, mode: Mode) -> Self {
        Self { base_url: base_url.into(), base_is_set, mode }
    }

    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// The dashboard, as configured.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Whether somebody chose the dashboard's address.
    pub fn base_is_set(&self) -> bool {
        self.base_is_set
    }

    /// Whether people come by https.
    pub fn is_https(&self) -> bool {
        self.scheme() == "https"
    }

    /// Whether workspaces are on other origins than the dashboard.
    pub fn are_apart(&self) -> bool {
        self.mode != Mode::Path
    }

    /// Whether every workspace has an origin of its own.
    pub fn are_own(&self) -> bool {
        matches!(self.mode, Mode::Domain { .. })
    }

    /// Whether the workspaces are `{id}.localhost`.
    pub fn is_localhost(&self) -> bool {
        matches!(&self.mode, Mode::Domain { name } if name == LOCALHOST)
    }

    /// What all paths of a workspace begin with on its origin: `/` or `/w/{id}/`.
    pub fn base_path(&self, id: WorkspaceId) -> String {
        if self.are_own() { "/".into() } else { format!("/w/{id}/") }
    }

    /// Where a workspace is, as far as the configuration knows.
    pub fn url(&self, id: WorkspaceId) -> String {
        self.url_seen_from(id, authority(&self.base_url))
    }

    /// Where a workspace is for somebody whose request had this `Host`, wherever of ours it was sent.
    pub fn url_seen_from(&self, id: WorkspaceId, host: &str) -> String {
        let scheme = self.scheme();
        match &self.mode {
            Mode::Path => format!("{}/w/{id}/", self.base_url),
            Mode::Domain { name } => {
                let port =
                    if self.is_localhost() { port_of(host) } else { port_of(authority(&self.base_url)) };
                format!("{scheme}://{id}.{name}{port}/")
            }
            Mode::Port { port } => {
                let known = if self.base_is_set { authority(&self.base_url) } else { host };
                format!("{scheme}://{}:{port}/w/{id}/", name_of(known))
            }
        }
    }

    /// Where a port of a workspace is, as far as the configuration knows; `None` where ports have no origins.
    pub fn port_url(&self, id: WorkspaceId, port: u16) -> Option<String> {
        self.port_url_seen_from(id, port, authority(&self.base_url))
    }

    /// The same for somebody whose request had this `Host`.
    pub fn port_url_seen_from(&self, id: WorkspaceId, port: u16, host: &str) -> Option<String> {
        let url = self.are_own().then(|| self.url_seen_from(id, host))?;
        let (scheme, rest) = url.split_once("://")?;
        Some(format!("{scheme}://{port}-{rest}"))
    }

    /// Where the ports of a workspace are, with `{port}` for the number; `None` where they have no origins.
    pub fn port_url_pattern(&self, id: WorkspaceId) -> Option<String> {
        let url = self.port_url(id, 0)?;
        Some(url.replacen("://0-", "://{port}-", 1))
    }

    /// The dashboard for somebody whose request had this `Host`, wherever of ours it was sent.
    pub fn dashboard_seen_from(&self, host: &str) -> String {
        match &self.mode {
            Mode::Domain { .. } if self.is_localhost() => {
                format!("{}://{LOCALHOST}{}", self.scheme(), port_of(host))
            }
            Mode::Port { .. } if !self.base_is_set => {
                format!("{}://{}{}", self.scheme(), name_of(host), port_of(authority(&self.base_url)))
            }
            _ => self.base_url.clone(),
        }
    }

    /// What a host, without its port, names below the workspaces' domain. Compared whole and whatever the case.
    pub fn label(&self, host: &[u8]) -> Option<Label> {
        let Mode::Domain { name } = &self.mode else { return None };
        let (label, below) = host.split_at_checked(host.len().checked_sub(name.len() + 1)?)?;
        let (dot, domain) = below.split_first()?;
        if *dot != b'.' || !domain.eq_ignore_ascii_case(name.as_bytes()) {
            return None;
        }
        let (port, id) = label.split_at_checked(label.len().checked_sub(ID_LEN)?)?;
        let id = id_of(id)?;
        match port.strip_suffix(b"-") {
            None if port.is_empty() => Some(Label::Workspace(id)),
            None => None,
            Some(port) => {
                let old = port.strip_suffix(b"-");
                let port = old.unwrap_or(port);
                let digits =
                    (1..=5).contains(&port.len()) && port[0] != b'0' && port.iter().all(u8::is_ascii_digit);
                let port = std::str::from_utf8(port).ok().filter(|_| digits)?.parse().ok()?;
                Some(if old.is_some() { Label::OldPort(port, id) } else { Label::Port(port, id) })
            }
        }
    }

    /// Whether an `Origin` is that of a workspace, or of one of its ports.
    pub fn is_workspaces(&self, origin: &str) -> bool {
        let Some((_, authority)) = origin.split_once("://") else { return false };
        match &self.mode {
            Mode::Path => false,
            Mode::Domain { .. } => self.label(name_of(authority).as_bytes()).is_some(),
            Mode::Port { port } => {
                // Whatever the name: nothing else of ours is at that port.
                port_of(authority).strip_prefix(':').and_then(|found| found.parse().ok()) == Some(*port)
            }
        }
    }

    fn scheme(&self) -> &str {
        self.base_url.split_once("://").map_or("http", |(scheme, _)| scheme)
    }
}

/// A hyphenated UUID.
const ID_LEN: usize = 36;

fn id_of(label: &[u8]) -> Option<WorkspaceId> {
    let mut lower = [0; ID_LEN];
    lower.copy_from_slice(label);
    lower.make_ascii_lowercase();
    std::str::from_utf8(&lower).ok()?.parse().ok()
}

fn authority(base_url: &str) -> &str {
    base_url.split_once("://").map_or(base_url, |(_, rest)| rest)
}

/// Host without port.
fn name_of(host: &str) -> &str {
    &host[..host.len() - port_of(host).len()]
}

/// `:8080`, or nothing.
fn port_of(host: &str) -> &str {
    let after_address = host.rfind(']').map_or(0, |at| at + 1);
    host[after_address..].find(':').map_or("", |at| &host[after_address + at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    fn id() -> WorkspaceId {
        ID.parse().unwrap()
    }

    fn domain(base: &str, name: &str) -> Origins {
        Origins::new(base, true, Mode::Domain { name: name.into() })
    }

    #[test]
    fn every_mode_has_its_addresses() {
        let localhost = domain("http://localhost:8080", LOCALHOST);
        assert_eq!(localhost.url(id()), format!("http://{ID}.localhost:8080/"));
        assert_eq!(localhost.url_seen_from(id(), "localhost:3000"), format!("http://{ID}.localhost:3000/"));
        assert_eq!(localhost.dashboard_seen_from(&format!("{ID}.localhost:3000")), "http://localhost:3000");
        assert_eq!(localhost.base_path(id()), "/");
        assert_eq!(localhost.port_url(id(), 3000).unwrap(), format!("http://3000-{ID}.localhost:8080/"));

        let wide = domain("https://code.example.com:8443", "apps.example");
        assert_eq!(wide.url(id()), format!("https://{ID}.apps.example:8443/"));
        assert_eq!(wide.url_seen_from(id(), "other:1"), wide.url(id()));
        assert_eq!(wide.dashboard_seen_from("x:1"), "https://code.example.com:8443");

        let port = |set| Origins::new("http://10.0.0.5:8080", set, Mode::Port { port: 8081 });
        assert_eq!(port(true).url_seen_from(id(), "box:8080"), format!("http://10.0.0.5:8081/w/{ID}/"));
        assert_eq!(port(false).url_seen_from(id(), "[::1]:8080"), format!("http://[::1]:8081/w/{ID}/"));
        assert_eq!(port(false).dashboard_seen_from("box.lan:8081"), "http://box.lan:8080");
        assert_eq!(port(true).base_path(id()), format!("/w/{ID}/"));
        assert_eq!(port(true).port_url(id(), 3000), None);

        let path = Origins::new("http://code.example.com", true, Mode::Path);
        assert_eq!(path.url(id()), format!("http://code.example.com/w/{ID}/"));
        assert!(!path.are_apart() && port(true).are_apart() && !port(true).are_own() && wide.are_own());
    }

    #[test]
    fn a_host_is_compared_whole() {
        let origins = domain("https://code.example.com", "apps.example");
        let workspace = Some(Label::Workspace(id()));
        for (host, expected) in [
            (format!("{ID}.apps.example"), workspace),
            (format!("{}.APPS.example", ID.to_uppercase()), workspace),
            (format!("3000-{ID}.apps.example"), Some(Label::Port(3000, id()))),
            (format!("65536-{ID}.apps.example"), None),
            (format!("0-{ID}.apps.example"), None),
            (format!("-{ID}.apps.example"), None),
            (format!("x{ID}.apps.example"), None),
            (format!("{ID}x.apps.example"), None),
            (format!("a.{ID}.apps.example"), None),
            (format!("{ID}.apps.example."), None),
            (format!("{ID}.apps.example.evil.example"), None),
            (format!("{ID}.evilapps.example"), None),
            (format!("{ID}.appsxexample"), None),
            ("apps.example".into(), None),
            (".apps.example".into(), None),
            (ID.into(), None),
            (String::new(), None),
        ] {
            assert_eq!(origins.label(host.as_bytes()), expected, "{host}");
        }
        assert_eq!(Origins::new("http://x", true, Mode::Path).label(format!("{ID}.x").as_bytes()), None);
    }

    #[test]
    fn the_origins_of_workspaces_are_known() {
        let localhost = domain("http://localhost:8080", LOCALHOST);
        assert!(localhost.is_workspaces(&format!("http://{ID}.localhost:8080")));
        assert!(localhost.is_workspaces(&format!("http://3000-{ID}.localhost:9")));
        assert!(!localhost.is_workspaces("http://localhost:8080") && !localhost.is_workspaces("null"));
        let port = Origins::new("http://box:8080", true, Mode::Port { port: 8081 });
        assert!(port.is_workspaces("http://box:8081") && !port.is_workspaces("http://box:8080"));
    }
}

//! Ports of workspaces: how the programs behind them are spoken to, and which requests a person is behind.
//!
//! Development servers compare `Host`, `Origin` and what proxies say with each other and with `localhost`; half a rewrite
//! breaks them. So there are two whole worlds: by default everything names `localhost` and the port, and nothing tells of
//! a proxy; or everything names what the browser shows.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use codehub_domain::{
    WorkspaceId,
    origins::Origins,
    ports::{PortActivity, PortHost, PortRefusal, PortScheme, PortSettings, PortsPolicy},
};
use codehub_upstream::{NotDialled, Upstream};
use http::Method;

use crate::{
    Context, Proxy,
    error::{ProxyError, Silent},
    forward,
    gate::{Listening, WorkspaceView},
    policy::{Local, location::PortPlace},
    routes::Entry,
    wake::resolve::Visit,
};

/// Of how many paths of a port it is known when they were asked for.
const PATHS: usize = 256;

/// Whether ports with origins exist, and this one may be opened, whoever asks.
///
/// # Errors
/// They do not, or it may not.
pub(crate) fn check(origins: &Origins, policy: &PortsPolicy, port: u16) -> Result<(), ProxyError> {
    match policy.refuses(port) {
        Some(PortRefusal::Off) => Err(ProxyError::PortsOff),
        _ if !origins.are_own() => Err(ProxyError::NoPorts),
        Some(PortRefusal::Denied) => Err(ProxyError::PortDenied(port)),
        None => Ok(()),
    }
}

/// What a port is called, in the browser and inside.
pub(crate) struct Names {
    /// The origin that the browser shows.
    shown: String,
    /// The origin inside.
    inside: String,
    /// What the browser shows of the workspace itself, without the slash at its end.
    workspace: String,
    host: PortHost,
}

impl Names {
    /// For a request whose browser shows this origin, and which was sent to this host.
    pub(crate) fn of(
        origins: &Origins,
        id: WorkspaceId,
        settings: &PortSettings,
        shown: String,
        asked: &str,
    ) -> Self {
        let workspace = origins.url_seen_from(id, asked);
        Self {
            shown,
            inside: format!("{}://localhost:{}", settings.scheme, settings.port),
            workspace: workspace.trim_end_matches('/').to_owned(),
            host: settings.host,
        }
    }

    /// How addresses are to be called inside; `None`: as in the browser.
    pub(crate) fn local(&self) -> Option<Local<'_>> {
        (self.host == PortHost::Local).then_some(Local { shown: &self.shown, inside: &self.inside })
    }

    /// `Host`, where it is not the browser's.
    pub(crate) fn host(&self) -> Option<&[u8]> {
        self.local()?.inside.split_once("://").map(|(_, host)| host.as_bytes())
    }

    /// What follows the number of a port in the hosts of this workspace.
    pub(crate) fn below(&self) -> String {
        format!("-{}", self.workspace.split_once("://").map_or("", |(_, host)| host))
    }

    pub(crate) fn place<'a>(&'a self, below: &'a str) -> PortPlace<'a> {
        let scheme = self.workspace.split_once("://").map_or("http", |(scheme, _)| scheme);
        PortPlace { scheme, below, workspace: &self.workspace }
    }
}

/// What somebody is told who cannot get to a port.
pub(crate) fn explained(error: ProxyError, port: u16) -> ProxyError {
    let ProxyError::Connect(within) = &error else { return error };
    match within.get_ref().and_then(|within| within.downcast_ref::<NotDialled>()) {
        Some(NotDialled::NothingListens) => ProxyError::Silent(Box::new(Silent { port, others: Vec::new() })),
        Some(NotDialled::TooMany) => ProxyError::PortBusy(port),
        Some(NotDialled::Nobody(why)) => ProxyError::NobodyInside(why.clone()),
        Some(NotDialled::Unreachable(_)) | None => error,
    }
}

impl Proxy {
    /// What listens on the port that is meant.
    ///
    /// # Errors
    /// It is the IDE's own, or nobody knows which that is.
    pub(crate) async fn port(
        &self,
        context: &Context,
        entry: &Entry,
        port: u16,
        scheme: PortScheme,
    ) -> Result<Upstream, ProxyError> {
        let ide = forward::upstream(self, entry).await?;
        if ide.address.port().is_some_and(|address| address.port() == port) {
            return Err(ProxyError::IdePort);
        }
        Ok(self.gate.port(context.id, port, scheme))
    }

    /// Those ports that could be opened instead, for the owner.
    pub(crate) async fn others(&self, context: &Context, port: u16) -> Vec<(u16, String, String)> {
        let mut found = self.gate.listening(context.id).await;
        found.retain(|other| other.port != port);
        let addressed = |other: Listening| {
            let url = self.port_url(context.id, other.port, &context.asked)?;
            Some((other.port, other.process, url))
        };
        found.into_iter().filter_map(addressed).collect()
    }

    /// Whether this deployment opens ports in the browser.
    pub(crate) fn opens_ports(&self) -> bool {
        self.settings.ports.on && self.settings.hosts.origins().are_own()
    }

    /// Where a port is for somebody who asked for this host; `None` where it is not opened.
    pub(crate) fn port_url(&self, id: WorkspaceId, port: u16, asked: &str) -> Option<String> {
        let opened = self.settings.ports.refuses(port).is_none();
        opened.then(|| self.settings.hosts.origins().port_url_seen_from(id, port, asked)).flatten()
    }

    /// How far somebody is behind a request to a port.
    pub(crate) fn port_work(
        &self,
        context: &Context,
        view: &WorkspaceView,
        settings: &PortSettings,
        method: &Method,
        path: &str,
    ) -> Work {
        if settings.activity == PortActivity::Never {
            return Work::No;
        }
        let ttl = view
            .standby_ttl_seconds
            .map_or(self.settings.standby_ttl, |seconds| Duration::from_secs(seconds.into()));
        let navigation = context.visit == Visit::Navigation;
        self.recent.judge((context.id, settings.port), navigation, method, path, ttl)
    }
}

/// How far a request to a port is somebody's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    No,
    /// That it was sent.
    Once,
    /// For as long as it takes, too.
    Lasting,
}

/// When which paths of which ports were asked for: what repeats is a poll.
#[derive(Default)]
pub(crate) struct Recent {
    ports: Mutex<HashMap<(WorkspaceId, u16), Paths>>,
    hasher: RandomState,
}

#[derive(Default)]
struct Paths {
    asked: HashMap<u64, Instant>,
    forgotten_after: Duration,
}

impl Recent {
    /// Navigations and whatever writes are work; another request is, when nobody asked for its path within that time.
    pub(crate) fn judge(
        &self,
        at: (WorkspaceId, u16),
        navigation: bool,
        method: &Method,
        path: &str,
        within: Duration,
    ) -> Work {
        let new = self.is_new(at, path, within, Instant::now());
        if navigation || !method.is_safe() {
            Work::Lasting
        } else if new {
            Work::Once
        } else {
            Work::No
        }
    }

    fn is_new(&self, at: (WorkspaceId, u16), path: &str, within: Duration, now: Instant) -> bool {
        let path = self.hasher.hash_one(path);
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let Paths { asked, forgotten_after } = ports.entry(at).or_default();
        *forgotten_after = within;
        if asked.len() >= PATHS
            && !asked.contains_key(&path)
            && let Some(oldest) = asked.iter().min_by_key(|(_, at)| **at).map(|(path, _)| *path)
        {
            asked.remove(&oldest);
        }
        asked.insert(path, now).is_none_or(|last| now.saturating_duration_since(last) >= within)
    }

    /// Forgets what is of no use any more.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.retain(|_, Paths { asked, forgotten_after }| {
            asked.values().any(|at| now.saturating_duration_since(*at) < *forgotten_after)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_is_a_poll() {
        let (recent, now, ttl) = (Recent::default(), Instant::now(), Duration::from_secs(600));
        let at = ("01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap(), 3000);
        let asked =
            |port, path, seconds| recent.is_new((at.0, port), path, ttl, now + Duration::from_secs(seconds));
        assert!(asked(3000, "/status", 0) && asked(3000, "/other", 1) && asked(3001, "/status", 1));
        for seconds in [5, 500, 1000, 1599] {
            assert!(!asked(3000, "/status", seconds), "{seconds}");
        }
        assert!(asked(3000, "/status", 2200), "ten minutes later it is new again");
        for n in 0..2 * PATHS {
            recent.is_new(at, &format!("/{n}"), ttl, now + Duration::from_secs(2201));
        }
        assert_eq!(recent.ports.lock().unwrap()[&at].asked.len(), PATHS);
        recent.sweep();
        assert_eq!(recent.ports.lock().unwrap().len(), 2);
    }

    #[test]
    fn who_navigates_or_writes_works() {
        let (recent, ttl) = (Recent::default(), Duration::from_secs(600));
        let at = ("01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap(), 3000);
        for _ in 0..2 {
            assert_eq!(recent.judge(at, true, &Method::GET, "/", ttl), Work::Lasting);
            assert_eq!(recent.judge(at, false, &Method::POST, "/", ttl), Work::Lasting);
        }
        assert_eq!(recent.judge(at, false, &Method::GET, "/", ttl), Work::No, "it was asked for before");
        assert_eq!(recent.judge(at, false, &Method::GET, "/a.js", ttl), Work::Once);
        assert_eq!(recent.judge(at, false, &Method::GET, "/a.js", ttl), Work::No);
    }
}

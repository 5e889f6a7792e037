//! What listens in a workspace and may be opened in a browser: which ports, for whom, and how its program is spoken to.

use std::ops::RangeInclusive;

use crate::named::named_enum;

named_enum! {
    /// Who may open a port. The later, the more people.
    Visibility, "visibility" {
        /// The workspace's owner.
        Owner => "owner",
        /// Everybody who is signed in.
        SignedIn => "signed-in",
    }
}

named_enum! {
    /// Which address a program is told it was asked for by.
    PortHost, "host" {
        /// `localhost` and its port, as if its browser were on the same machine: what development servers expect.
        Local => "local",
        /// The address that the browser shows, for programs that make absolute addresses of it.
        Public => "public",
    }
}

named_enum! {
    /// How the program at a port is spoken to.
    PortScheme, "scheme" {
        Http => "http",
        /// By TLS, whatever certificate it shows: nobody but its workspace is at the other end.
        Https => "https",
    }
}

named_enum! {
    /// Whether requests to a port keep its workspace awake.
    PortActivity, "activity" {
        /// As far as a person is behind them.
        Requests => "requests",
        Never => "never",
    }
}

/// The longest label, in characters.
pub const LONGEST_LABEL: usize = 60;
/// How many ports of a workspace have settings of their own, at most.
pub const MOST_PORTS: usize = 64;

/// What the owner of a workspace wants of one of its ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSettings {
    pub port: u16,
    /// The owner's own words; may be empty.
    pub label: String,
    pub scheme: PortScheme,
    pub host: PortHost,
    pub visibility: Visibility,
    pub activity: PortActivity,
}

impl PortSettings {
    /// What holds for a port that nobody has said anything about.
    pub const fn of(port: u16) -> Self {
        Self {
            port,
            label: String::new(),
            scheme: PortScheme::Http,
            host: PortHost::Local,
            visibility: Visibility::Owner,
            activity: PortActivity::Requests,
        }
    }

    /// What holds for this port, where these were said something about.
    pub fn among(all: &[Self], port: u16) -> Self {
        all.iter().find(|settings| settings.port == port).cloned().unwrap_or(Self::of(port))
    }
}

/// Why a port is never opened in a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortRefusal {
    /// None is, on this server.
    Off,
    /// This one is not.
    Denied,
}

/// What a deployment allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortsPolicy {
    /// Whether ports are opened in browsers at all.
    pub on: bool,
    /// Those that never are.
    pub denied: Vec<RangeInclusive<u16>>,
    /// The most people that may open one, whatever its owner wants.
    pub share_max: Visibility,
}

impl Default for PortsPolicy {
    fn default() -> Self {
        Self { on: true, denied: Vec::new(), share_max: Visibility::SignedIn }
    }
}

impl PortsPolicy {
    /// Why this port is not opened, whoever asks. `None`: nothing is against it.
    pub fn refuses(&self, port: u16) -> Option<PortRefusal> {
        if !self.on { Some(PortRefusal::Off) } else { self.denies(port).then_some(PortRefusal::Denied) }
    }

    /// Whether nobody may connect to this port, in whatever way.
    pub fn denies(&self, port: u16) -> bool {
        self.denied.iter().any(|range| range.contains(&port))
    }

    /// Who may open a port whose owner wants this. Asked at every request: the deployment may have changed its mind.
    pub fn visible_to(&self, wanted: Visibility) -> Visibility {
        wanted.min(self.share_max)
    }
}

/// Ports and ranges of them: `22, 5432, 6000-6010`. `None` where something else is among them.
pub fn parse_ranges(text: &str) -> Option<Vec<RangeInclusive<u16>>> {
    let port = |text: &str| {
        let text = text.trim();
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|port| digits && *port != 0)
    };
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| match item.split_once('-') {
            None => port(item).map(|port| port..=port),
            Some((first, last)) => {
                let (first, last) = (port(first)?, port(last)?);
                (first <= last).then_some(first..=last)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_nonsense_is_not() {
        assert_eq!(parse_ranges(""), Some(Vec::new()));
        assert_eq!(parse_ranges("22, 6000-6010,"), Some(vec![22..=22, 6000..=6010]));
        for wrong in ["x", "0", "65536", "+22", "22-", "-22", "9-8", "22 23", "1-2-3"] {
            assert_eq!(parse_ranges(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_deployment_has_the_last_word() {
        let policy = PortsPolicy { denied: vec![22..=22, 6000..=6010], ..PortsPolicy::default() };
        assert_eq!(policy.refuses(3000), None);
        for denied in [22, 6000, 6005, 6010] {
            assert_eq!(policy.refuses(denied), Some(PortRefusal::Denied));
        }
        assert_eq!(PortsPolicy { on: false, ..policy.clone() }.refuses(3000), Some(PortRefusal::Off));
        assert_eq!(policy.visible_to(Visibility::SignedIn), Visibility::SignedIn);
        assert_eq!(policy.visible_to(Visibility::Owner), Visibility::Owner);
        let strict = PortsPolicy { share_max: Visibility::Owner, ..policy };
        assert_eq!(strict.visible_to(Visibility::SignedIn), Visibility::Owner);
    }

    #[test]
    fn a_port_nobody_spoke_of_is_its_owners() {
        let shared = PortSettings { visibility: Visibility::SignedIn, ..PortSettings::of(3000) };
        assert_eq!(PortSettings::among(std::slice::from_ref(&shared), 3000), shared);
        assert_eq!(PortSettings::among(&[shared], 3001).visibility, Visibility::Owner);
    }
}

//! What can go wrong on the way through the proxy, on whose side, and whether trying again is safe.

use http::StatusCode;

/// Whose fault it is. Decides the log level and the metric, never the answer's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Upstream,
    Ourselves,
}

/// Whether the same request may be sent once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Nothing of it has left: always.
    Unsent,
    /// It may have been worked on: only what may be repeated, and only if nothing came back.
    MaybeSent,
    Never,
}

/// Why a request is not answered by its workspace.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("{0}")]
    BadRequest(&'static str),
    /// The client did not send what it announced. Where it left, nobody is told.
    #[error("the request broke off")]
    RequestBrokeOff,
    #[error("{0} cannot be proxied")]
    Method(http::Method),
    #[error("authentication required")]
    SignIn,
    #[error(
        "the request carries several session cookies; open this server's page in the browser, which removes them, and sign in again"
    )]
    TwoSessions,
    #[error("this workspace belongs to another user")]
    NotYours,
    /// A port that its owner keeps, asked for by somebody who is signed in; whether they had been let in before.
    #[error("this port is not shared{}: only the workspace's owner can open it", if *.0 { " any more" } else { "" })]
    NotShared(bool),
    #[error("the page that sent this is not part of CodeHub, or is that of a workspace")]
    ForeignOrigin,
    /// By its own word, the request was sent by a page of another site that does not lead here but loads or frames it.
    #[error("another site's page may link here, but neither load nor embed this")]
    Embedded,
    #[error(
        "this server does not answer under this host name: use its own address (PUBLIC_BASE_URL); its operator can allow more names (HOSTS_ALLOWED), and a proxy in front must pass on Host, or send X-Forwarded-Host and be one of TRUSTED_PROXIES"
    )]
    Misdirected,
    /// Workspaces have no names of their own, so their ports have none.
    #[error(
        "ports are opened in the browser only where every workspace has a name of its own (PROXY_DOMAIN)"
    )]
    NoPorts,
    #[error("ports are not opened in the browser on this server (PORTS)")]
    PortsOff,
    #[error("port {0} is not opened in the browser on this server (PORTS_DENIED)")]
    PortDenied(u16),
    /// Whoever got there would have a shell.
    #[error("this is the port of the workspace's IDE: open the workspace")]
    IdePort,
    #[error("nothing in the workspace listens on port {}", .0.port)]
    Silent(Box<Silent>),
    #[error("port {0} has as many connections as it may have; try again in a moment")]
    PortBusy(u16),
    /// There is no program of ours in the workspace, for this reason.
    #[error("ports of this workspace cannot be opened: {0}")]
    NobodyInside(String),
    /// Somebody else's, at whose port this is.
    #[error("the workspace is asleep; its owner can wake it")]
    OwnerWakes,
    /// A page that nobody has asked for yet would hand somebody over.
    #[error("this cannot be loaded before somebody opens it")]
    Prefetch,
    /// The client sent nothing of its body for too long.
    #[error("the body of the request did not come in time")]
    TooSlow,
    /// All places are taken but those that are kept for others.
    #[error("the server has no free places for people who are not signed in; try again in a moment")]
    Busy,
    #[error("there is no such workspace")]
    NotFound,
    #[error("{0}")]
    Store(String),
    #[error("the workspace has no address")]
    NoUpstream,
    #[error("the workspace refused the connection: {0}")]
    Connect(std::io::Error),
    #[error("the workspace ended the connection: {0}")]
    Died(std::io::Error),
    #[error("the workspace answered something that is not HTTP: {0}")]
    BadResponse(String),
}

/// A port that nothing listens on, and those that something does.
#[derive(Debug)]
pub struct Silent {
    pub port: u16,
    /// Their addresses, and what the programs call themselves.
    pub others: Vec<(u16, String, String)>,
}

impl From<Malformed> for ProxyError {
    fn from(error: Malformed) -> Self {
        Self::BadResponse(error.to_string())
    }
}

impl ProxyError {
    /// What it means that the body of a request cannot be read on.
    pub(crate) fn of_request_body(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Self {
        let within = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let slow = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        match within.and_then(|error| error.downcast_ref::<Malformed>()) {
            Some(malformed) => Self::BadRequest(malformed.reason),
            None if slow == Some(std::io::ErrorKind::TimedOut) => Self::TooSlow,
            None => Self::RequestBrokeOff,
        }
    }

    /// Who is to blame: decides what is logged and counted.
    pub fn side(&self) -> Side {
        match self {
            Self::BadRequest(_)
            | Self::RequestBrokeOff
            | Self::Method(_)
            | Self::SignIn
            | Self::TwoSessions
            | Self::NotYours
            | Self::NotShared(_)
            | Self::ForeignOrigin
            | Self::Embedded
            | Self::Misdirected
            | Self::NoPorts
            | Self::PortsOff
            | Self::PortDenied(_)
            | Self::IdePort
            | Self::Silent(_)
            | Self::PortBusy(_)
            | Self::NobodyInside(_)
            | Self::OwnerWakes
            | Self::Prefetch
            | Self::TooSlow
            | Self::Busy
            | Self::NotFound => Side::Client,
            Self::Store(_) => Side::Ourselves,
            Self::NoUpstream | Self::Connect(_) | Self::Died(_) | Self::BadResponse(_) => Side::Upstream,
        }
    }

    /// Whether the same request may be sent once more.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Connect(_) | Self::NoUpstream => Retry::Unsent,
            Self::Died(error) if is_broken_off(error) => Retry::MaybeSent,
            _ => Retry::Never,
        }
    }

    /// The status that answers it.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) | Self::RequestBrokeOff => StatusCode::BAD_REQUEST,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::SignIn | Self::TwoSessions => StatusCode::UNAUTHORIZED,
            Self::NotYours
            | Self::NotShared(_)
            | Self::ForeignOrigin
            | Self::Embedded
            | Self::PortDenied(_)
            | Self::IdePort => StatusCode::FORBIDDEN,
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::NotFound | Self::NoPorts | Self::PortsOff => StatusCode::NOT_FOUND,
            Self::NobodyInside(_) => StatusCode::CONFLICT,
            Self::Prefetch | Self::Busy | Self::PortBusy(_) | Self::OwnerWakes | Self::Store(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Silent(_) | Self::NoUpstream | Self::Connect(_) | Self::Died(_) | Self::BadResponse(_) => {
                StatusCode::BAD_GATEWAY
            }
        }
    }

    /// The machine-readable code of the API's error table.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadRequest(_) | Self::RequestBrokeOff | Self::Method(_) => "INVALID_REQUEST",
            Self::SignIn => "UNAUTHORIZED",
            Self::TwoSessions => "SEVERAL_SESSIONS",
            Self::NotYours
            | Self::NotShared(_)
            | Self::ForeignOrigin
            | Self::Embedded
            | Self::PortDenied(_)
            | Self::IdePort => "FORBIDDEN",
            Self::Misdirected => "MISDIRECTED",
            Self::TooSlow => "REQUEST_TIMEOUT",
            Self::Busy | Self::Prefetch => "BUSY",
            Self::PortBusy(_) => "LIMIT_EXCEEDED",
            Self::NobodyInside(_) => "INVALID_STATE",
            Self::OwnerWakes => "WORKSPACE_STANDBY",
            Self::NotFound | Self::NoPorts | Self::PortsOff => "NOT_FOUND",
            Self::Silent(_)
            | Self::Store(_)
            | Self::NoUpstream
            | Self::Connect(_)
            | Self::Died(_)
            | Self::BadResponse(_) => "UPSTREAM_UNAVAILABLE",
        }
    }

    /// What a person is told. The details of our side and the workspace's stay in the log.
    pub fn public_message(&self) -> String {
        match self.side() {
            Side::Client => self.to_string(),
            Side::Upstream => "the workspace does not answer; try again in a moment".into(),
            Side::Ourselves => "CodeHub cannot reach its database; try again in a moment".into(),
        }
    }
}

/// Closed before an answer; where a reset beats the end of the stream, it says so in other words.
fn is_broken_off(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

/// It is not HTTP, or could be read in two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Malformed {
    pub reason: &'static str,
    /// It is merely more than we take.
    pub too_large: bool,
}

impl Malformed {
    pub(crate) const fn new(reason: &'static str) -> Self {
        Self { reason, too_large: false }
    }

    pub(crate) const fn too_large(reason: &'static str) -> Self {
        Self { reason, too_large: true }
    }
}

impl From<httparse::Error> for Malformed {
    fn from(error: httparse::Error) -> Self {
        match error {
            httparse::Error::TooManyHeaders => Self::too_large("too many headers"),
            httparse::Error::HeaderName => Self::new("an invalid header name"),
            httparse::Error::HeaderValue => Self::new("an invalid header value"),
            httparse::Error::Status => Self::new("an invalid status"),
            httparse::Error::Version => Self::new("an invalid version"),
            _ => Self::new("invalid bytes in a head"),
        }
    }
}

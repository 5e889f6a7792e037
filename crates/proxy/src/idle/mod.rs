//! What an IDE does by itself, as data: the rules that tell work from the chatter of an idle tab.
//!
//! A tab nobody touches is not silent. code-server sends some hundred messages a minute, JupyterLab
//! forty requests; counted as work they would keep a workspace awake for ever. So every IDE has a file
//! in `rules/`: requests that are polls, and messages that are keep-alives, pings and their replies.
//! Whatever no rule knows is work, because stopping somebody's work is worse than an hour too much.
//!
//! Rules look at the first [`LOOK`] bytes of a message and at nothing after them. An operator may add
//! rules with a file of the same form (`ACTIVITY_RULES`), which are asked before ours.

mod glob;
mod vscode;
mod watch;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, bail};
use http::Method;
use serde::Deserialize;

use crate::activity::ActivityKind;

use glob::Glob;

pub use watch::{Piece, Watch};

/// The form of the files. Grows when an older server would misread a newer file.
const VERSION: u32 = 1;
/// How much of a message the rules may see.
pub const LOOK: usize = 512;

const BUILT_IN: &[(&str, &str)] = &[
    ("code-server", include_str!("rules/code-server.toml")),
    ("jupyterlab", include_str!("rules/jupyterlab.toml")),
];

/// What is known of one IDE. The default knows nothing: everything is work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    version: u32,
    /// Compression would hide what the rules look at, so it is not offered to the workspace.
    #[serde(default)]
    pub plain_websockets: bool,
    #[serde(default)]
    http: Vec<HttpRule>,
    #[serde(default)]
    socket: Vec<SocketRules>,
}

/// Requests that an open tab makes by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpRule {
    /// Any, unless said.
    method: Option<String>,
    /// Below `/w/{id}`: `*` is anything but a slash, `**` is anything.
    path: Glob,
    /// What the query begins with; any, unless said.
    query: Option<String>,
}

/// The rules of the WebSockets at one path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketRules {
    path: Glob,
    #[serde(default)]
    framing: Framing,
    /// Text in the query by which a reconnection is known that nobody asked for.
    reconnection: Option<String>,
    #[serde(default)]
    message: Vec<MessageRule>,
}

/// What a message is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Framing {
    /// One WebSocket message.
    #[default]
    Websocket,
    /// VS Code's own messages, which WebSocket messages carry as a stream of bytes.
    Vscode,
}

/// One rule: the first whose conditions all hold decides.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageRule {
    is: Verdict,
    /// Either, unless said.
    from: Option<From>,
    /// Types of VS Code's framing.
    #[serde(default)]
    types: Vec<u8>,
    /// `channel.command` of a request, or `$method` of the extension host; a final `*` is anything.
    #[serde(default)]
    calls: Vec<String>,
    /// All of these texts are among the first bytes.
    #[serde(default)]
    contains: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Idle,
    Typing,
    TerminalOutput,
    /// Work of no particular kind.
    Work,
}

/// Who sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum From {
    Browser,
    Workspace,
}

impl From {
    /// A message of which no rule says what it is.
    pub const fn other_work(self) -> ActivityKind {
        match self {
            Self::Browser => ActivityKind::FromClient,
            Self::Workspace => ActivityKind::FromWorkspace,
        }
    }
}

impl Verdict {
    /// `None`: nobody's work.
    const fn kind(self, from: From) -> Option<ActivityKind> {
        match self {
            Self::Idle => None,
            Self::Typing => Some(ActivityKind::Typing),
            Self::TerminalOutput => Some(ActivityKind::TerminalOutput),
            Self::Work => Some(from.other_work()),
        }
    }
}

/// What a rule may ask about a message.
struct Facts<'a> {
    from: From,
    message_type: Option<u8>,
    call: Option<(&'a [u8], &'a [u8])>,
    first_bytes: &'a [u8],
}

impl MessageRule {
    fn holds(&self, facts: &Facts<'_>) -> bool {
        self.from.is_none_or(|from| from == facts.from)
            && (self.types.is_empty() || facts.message_type.is_some_and(|found| self.types.contains(&found)))
            && (self.calls.is_empty()
                || facts.call.is_some_and(|call| self.calls.iter().any(|name| vscode::is_call(name, call))))
            && self.contains.iter().all(|text| contains(facts.first_bytes, text.as_bytes()))
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    text.is_empty() || bytes.windows(text.len()).any(|window| window == text)
}

impl SocketRules {
    /// Whether a WebSocket with this query was opened by nobody.
    pub fn is_reconnection(&self, query: Option<&str>) -> bool {
        self.reconnection.as_deref().is_some_and(|text| query.is_some_and(|query| query.contains(text)))
    }

    fn judge(&self, facts: &Facts<'_>) -> Option<ActivityKind> {
        let found = self.message.iter().find(|rule| rule.holds(facts));
        found.map_or(Verdict::Work, |rule| rule.is).kind(facts.from)
    }
}

impl Rules {
    /// The rules of an IDE, by the name of its preset; with those of the operator's file in front.
    ///
    /// # Errors
    /// The file cannot be read or understood; the message says what.
    pub fn load(ide: &str, file: Option<&Path>) -> anyhow::Result<Self> {
        let mut rules = match BUILT_IN.iter().find(|(name, _)| *name == ide) {
            Some((name, text)) => Self::parse(text).with_context(|| format!("the rules of {name}"))?,
            None => Self::default(),
        };
        if let Some(file) = file {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("ACTIVITY_RULES: {} cannot be read", file.display()))?;
            let extra =
                Self::extra(&text, ide).with_context(|| format!("ACTIVITY_RULES: {}", file.display()))?;
            rules.prepend(extra.unwrap_or_default());
        }
        Ok(rules)
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        toml::from_str::<Self>(text)?.checked()
    }

    /// What an operator's file (one table per IDE) says about this IDE.
    fn extra(text: &str, ide: &str) -> anyhow::Result<Option<Self>> {
        let tables: BTreeMap<String, Self> = toml::from_str(text)?;
        let mut found = None;
        for (name, rules) in tables {
            let rules = rules.checked().with_context(|| format!("[{name}]"))?;
            if name == ide {
                found = Some(rules);
            }
        }
        Ok(found)
    }

    fn checked(self) -> anyhow::Result<Self> {
        if self.version != VERSION {
            bail!("version is {}, this server reads version {VERSION}", self.version);
        }
        for rule in &self.http {
            if !rule.path.as_str().starts_with('/') {
                bail!("http: the path {:?} must start with `/`", rule.path);
            }
        }
        for socket in &self.socket {
            if !socket.path.as_str().starts_with('/') {
                bail!("socket: the path {:?} must start with `/`", socket.path);
            }
            let asks_vscode = socket.message.iter().any(|m| !m.types.is_empty() || !m.calls.is_empty());
            if asks_vscode && socket.framing != Framing::Vscode {
                bail!("socket {:?}: types and calls need framing = \"vscode\"", socket.path);
            }
            let blank = |m: &MessageRule| {
                m.types.is_empty() && m.calls.is_empty() && m.contains.iter().all(String::is_empty)
            };
            if socket.message.iter().any(|m| m.is == Verdict::Idle && m.from.is_none() && blank(m)) {
                bail!("socket {:?}: a rule that calls every message idle", socket.path);
            }
        }
        Ok(self)
    }

    fn prepend(&mut self, extra: Self) {
        self.plain_websockets |= extra.plain_websockets;
        self.http.splice(0..0, extra.http);
        for added in extra.socket {
            match self.socket.iter_mut().find(|known| known.path == added.path) {
                Some(known) => {
                    known.message.splice(0..0, added.message);
                    known.reconnection = added.reconnection.or(known.reconnection.take());
                }
                None => self.socket.insert(0, added),
            }
        }
    }

    /// Whether an open tab makes this request by itself. `path` is below `/w/{id}`.
    pub fn is_poll(&self, method: &Method, path: &str, query: Option<&str>) -> bool {
        self.http.iter().any(|rule| {
            rule.method.as_deref().is_none_or(|name| name == method.as_str())
                && rule.path.matches(path)
                && rule
                    .query
                    .as_deref()
                    .is_none_or(|start| query.is_some_and(|query| query.starts_with(start)))
        })
    }

    /// The number of the rules for a WebSocket at this path (below `/w/{id}`), if there are any.
    fn socket_at(&self, path: &str) -> Option<usize> {
        self.socket.iter().position(|rules| rules.path.matches(path))
    }

    /// For logs and people.
    pub fn is_empty(&self) -> bool {
        self.http.is_empty() && self.socket.is_empty()
    }
}

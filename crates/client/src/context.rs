//! Where one is signed in: a file of contexts, and what the environment says instead.

use std::{
    collections::BTreeMap,
    env, fs,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Kind, Result};

/// A server, and who one is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    pub url: String,
    pub token: String,
    /// Of a token that `login` made, which `logout` therefore deletes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_id: Option<String>,
    pub user: String,
    /// Certificates to trust besides the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    #[serde(default)]
    pub contexts: BTreeMap<String, Context>,
}

/// Where the file is.
fn path() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let below = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let below = below.or_else(|| Some(set("HOME")?.join(".config")));
    let nowhere = || Failure::new(Kind::Failed, "there is no place for the client's file: HOME is not set");
    Ok(below.ok_or_else(nowhere)?.join("codehub/client.toml"))
}

impl Contexts {
    /// What is in the file; nothing where there is none.
    ///
    /// # Errors
    /// Others can read it, or it is not understood.
    pub fn load() -> Result<Self> {
        Self::load_from(&path()?)
    }

    fn load_from(path: &Path) -> Result<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(Failure::local(path.display(), error)),
        };
        let mode = fs::metadata(path).map_err(|error| Failure::local(path.display(), error))?.permissions();
        if mode.mode() & 0o077 != 0 {
            let message = format!("{} holds tokens, and others on this machine can read it", path.display());
            return Err(Failure::new(Kind::Failed, message)
                .or_next(format!("keep it to yourself with `chmod 600 {}`", path.display())));
        }
        toml::from_str(&text).map_err(|error| Failure::local(path.display(), error))
    }

    /// Replaces the file, as a whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self) -> Result<()> {
        self.save_to(&path()?)
    }

    fn save_to(&self, path: &Path) -> Result<()> {
        let failed = |error: std::io::Error| Failure::local(path.display(), error);
        let text = toml::to_string(self).map_err(|error| Failure::local(path.display(), error))?;
        let directory = path.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let new = path.with_extension(format!("toml.{}", std::process::id()));
        let _ = fs::remove_file(&new);
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&new, path).map_err(failed)
    }

    /// The context of this name.
    ///
    /// # Errors
    /// There is none; those that are there are named.
    pub fn named(&self, name: &str) -> Result<&Context> {
        self.contexts.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Failure::new(Kind::NotFound, format!("there is no context {name:?}; there are: {known}"))
                .or_next("`codehub login URL` makes one")
        })
    }
}

/// The server a command speaks to, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub url: String,
    pub token: Option<String>,
    pub ca_file: Option<PathBuf>,
    /// The context it comes from, if it is one.
    pub context: Option<String>,
}

/// What the environment says.
#[derive(Debug, Default)]
pub struct Environment {
    pub url: Option<String>,
    pub token: Option<String>,
    pub context: Option<String>,
    pub ca_file: Option<PathBuf>,
}

impl Environment {
    /// Of this process.
    pub fn of_process() -> Self {
        let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            // In a workspace CODEHUB_URL is its own.
            url: set("CODEHUB_API_URL").or_else(|| set("CODEHUB_URL")),
            token: set("CODEHUB_TOKEN"),
            context: set("CODEHUB_CONTEXT"),
            ca_file: set("CODEHUB_CA_FILE").map(PathBuf::from),
        }
    }
}

/// Which server is meant: a context that was named, else what the environment says, else the current context. A token of a
/// context is never sent to another server than its own.
///
/// # Errors
/// Nothing says where the server is.
pub fn target(named: Option<&str>, said: &Environment, contexts: &Contexts) -> Result<Target> {
    let of = |name: &str, context: &Context| Target {
        url: context.url.clone(),
        token: Some(context.token.clone()),
        ca_file: said.ca_file.clone().or_else(|| context.ca_file.clone()),
        context: Some(name.to_owned()),
    };
    if let Some(name) = named {
        return Ok(of(name, contexts.named(name)?));
    }
    if let Some(url) = &said.url {
        let url = server_url(url)?;
        let known = contexts.contexts.iter().find(|(_, context)| context.url == url);
        return Ok(match (known, &said.token) {
            (Some((name, context)), None) => of(name, context),
            (known, token) => {
                let ca_file = known.and_then(|(_, context)| context.ca_file.clone());
                let ca_file = said.ca_file.clone().or(ca_file);
                Target { url, token: token.clone(), ca_file, context: None }
            }
        });
    }
    let not_signed_in = || {
        Failure::new(Kind::Denied, "you are not signed in anywhere")
            .or_next("sign in with `codehub login URL`, or set CODEHUB_URL and CODEHUB_TOKEN")
    };
    let name = said.context.as_ref().or(contexts.current.as_ref()).ok_or_else(not_signed_in)?;
    let mut found = of(name, contexts.named(name)?);
    if let Some(token) = &said.token {
        found.token = Some(token.clone());
    }
    Ok(found)
}

/// The address of a server as it is kept: with a scheme, without a path.
///
/// # Errors
/// It is no address of a server.
pub fn server_url(text: &str) -> Result<String> {
    let wrong = |why: &str| {
        Failure::new(Kind::Usage, format!("{text:?} is no address of a server: {why}"))
            .or_next("write https://code.example.com, or http://localhost:8080")
    };
    let (scheme, rest) = match text.trim().split_once("://") {
        Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
        None if is_loopback(text.trim()) => ("http".to_owned(), text.trim()),
        None => ("https".to_owned(), text.trim()),
    };
    if scheme != "http" && scheme != "https" {
        return Err(wrong("only http and https are spoken"));
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let parsed = host.parse::<http::uri::Authority>();
    if parsed.is_err() || host.contains('@') {
        return Err(wrong("there is no host in it"));
    }
    Ok(format!("{scheme}://{host}"))
}

/// Whether an address names this very machine.
pub fn is_loopback(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What a context for this address is called unless something else is said.
pub fn default_name(url: &str) -> String {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    host.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contexts() -> Contexts {
        let context = |url: &str, token: &str| Context {
            url: url.into(),
            token: token.into(),
            user: "ann".into(),
            ..Context::default()
        };
        Contexts {
            current: Some("one".into()),
            contexts: BTreeMap::from([
                ("one".into(), context("https://one.test", "t1")),
                ("two".into(), context("https://two.test", "t2")),
            ]),
        }
    }

    /// Name, CODEHUB_API_URL or CODEHUB_URL, CODEHUB_TOKEN, CODEHUB_CONTEXT; then address and token.
    type Row = ([Option<&'static str>; 4], &'static str, Option<&'static str>);

    #[test]
    fn what_is_said_wins_over_what_is_kept() {
        let table: &[Row] = &[
            ([None, None, None, None], "https://one.test", Some("t1")),
            ([Some("two"), None, None, None], "https://two.test", Some("t2")),
            ([Some("two"), Some("https://x.test"), Some("e"), None], "https://two.test", Some("t2")),
            ([None, Some("https://x.test/w/1/"), Some("e"), None], "https://x.test", Some("e")),
            ([None, Some("https://two.test/"), None, None], "https://two.test", Some("t2")),
            ([None, Some("https://two.test"), Some("e"), None], "https://two.test", Some("e")),
            // No token of another server's.
            ([None, Some("https://x.test"), None, None], "https://x.test", None),
            ([None, None, Some("e"), None], "https://one.test", Some("e")),
            ([None, None, None, Some("two")], "https://two.test", Some("t2")),
            ([None, Some("https://x.test"), None, Some("two")], "https://x.test", None),
        ];
        for (said, url, token) in table {
            let own = |text: Option<&str>| text.map(str::to_owned);
            let environment = Environment {
                url: own(said[1]),
                token: own(said[2]),
                context: own(said[3]),
                ..Environment::default()
            };
            let found = target(said[0], &environment, &contexts()).unwrap();
            assert_eq!((&found.url[..], found.token.as_deref()), (*url, *token), "{said:?}");
        }
        let nothing = target(None, &Environment::default(), &Contexts::default()).unwrap_err();
        assert_eq!(nothing.kind, Kind::Denied);
        let unknown = target(Some("three"), &Environment::default(), &contexts()).unwrap_err();
        assert_eq!(unknown.kind, Kind::NotFound);
        assert!(unknown.message.contains("one, two"), "{unknown}");
    }

    #[test]
    fn addresses_are_kept_without_their_path() {
        for (typed, kept) in [
            ("https://Code.Example.com/", "https://code.example.com"),
            ("code.example.com", "https://code.example.com"),
            ("localhost:8080", "http://localhost:8080"),
            ("127.0.0.1:8080/workspaces?x", "http://127.0.0.1:8080"),
            ("[::1]:8080", "http://[::1]:8080"),
            ("http://10.0.0.1:1/w/2/", "http://10.0.0.1:1"),
        ] {
            assert_eq!(server_url(typed).unwrap(), kept);
        }
        for wrong in ["", "ftp://x", "https://", "http://a b/", "https://u@h/", "file:///etc"] {
            assert_eq!(server_url(wrong).unwrap_err().kind, Kind::Usage, "{wrong}");
        }
        assert_eq!(default_name("http://localhost:8080"), "localhost-8080");
    }

    #[test]
    fn the_file_is_its_owners_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/client.toml");
        assert_eq!(Contexts::load_from(&path).unwrap(), Contexts::default());
        contexts().save_to(&path).unwrap();
        contexts().save_to(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Contexts::load_from(&path).unwrap(), contexts());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left there");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Contexts::load_from(&path).unwrap_err().to_string().contains("chmod 600"));
    }
}

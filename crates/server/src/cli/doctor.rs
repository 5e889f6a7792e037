//! `codehub doctor`: looks at everything the server needs and says what to fix. Changes nothing that a
//! start would not change.

use std::{
    fmt::Display,
    io::{ErrorKind, Write as _},
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    time::Duration,
};

use codehub_domain::origins::{LOCALHOST, Mode};
use codehub_proxy::hosts::is_loopback;
use codehub_runtime::{IdeChoice, Safeguard, SafeguardState};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::reached::{Address, Reached, roots};
use crate::{
    backends,
    certificate::Loaded,
    config::{Config, RuntimeKind, TlsFiles},
    serve::{DataDir, DataDirError, OpenFiles},
};
use codehub_coordinator::{Backends, gc};

/// What came of a check.
enum Finding {
    Good(String),
    /// Works, but somebody should know.
    Note(String),
    Bad(String),
}

use Finding::{Bad, Good, Note};

pub(super) async fn run(config: &Config) -> ExitCode {
    let mut report = Report::default();
    report.add("configuration", Good("valid".into()));
    for sentence in &config.unknown_env {
        report.add("configuration", Note(sentence.clone()));
    }
    let (free, finding) = data_dir(&config.data_dir);
    report.add("data directory", finding);
    if free {
        report.add("listen address", listen(config.listen, "CODEHUB_LISTEN").await);
        if let Some(address) = config.metrics.listen {
            report.add("metrics address", listen(address, "METRICS_LISTEN").await);
        }
        if let Some(address) = config.proxy.listen {
            report.add("workspaces' address", listen(address, "PROXY_LISTEN").await);
        }
    }
    report.add("public address", public_address(config));
    report.add("host names", host_names(config));
    if let Some(files) = &config.tls {
        report.add("certificate", certificate(files, config));
    }
    report.add("origins", origins(config).await);
    report.add("open files", open_files());
    let schema = schema(config).await;
    let usable = !matches!(schema, Bad(_));
    report.add("database", schema);
    let process = config.runtime.kind == RuntimeKind::Process;
    if process && config.runtime.ide == IdeChoice::Command {
        let command = config.runtime.ide_command.first().map_or("", String::as_str);
        report.add(
            "ide command",
            match find_program(command) {
                Some(path) => Good(path),
                None => Bad(format!("{command:?} is not on the PATH: change IDE_COMMAND")),
            },
        );
    }
    if usable {
        match backends::build_backends(config).await {
            Ok(backends) => {
                pings(&mut report, &backends).await;
                public_names(&mut report, config, &backends).await;
            }
            Err(error) => report.add("backends", Bad(format!("{error:#}"))),
        }
    }
    if report.bad == 0 {
        say("\neverything is in order");
        ExitCode::SUCCESS
    } else {
        say(&format!("\n{} to fix", report.bad));
        ExitCode::FAILURE
    }
}

/// Prints a line. Whoever reads only the first of them (`| head`) has seen enough.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn open_files() -> Finding {
    let OpenFiles { files, connections } = OpenFiles::raise();
    let text = format!("{files}: enough for {connections} connections at once");
    if connections < OpenFiles::FEW {
        Note(format!("{text}; more are closed: raise it (ulimit -n, LimitNOFILE=)"))
    } else {
        Good(text)
    }
}

#[derive(Default)]
struct Report {
    bad: usize,
}

impl Report {
    fn add(&mut self, what: &str, finding: Finding) {
        match finding {
            Good(text) => say(&format!("ok    {what}: {text}")),
            Note(text) => say(&format!("note  {what}: {text}")),
            Bad(text) => {
                self.bad += 1;
                say(&format!("FIX   {what}: {text}"));
            }
        }
    }
}

/// Whether no server runs on it, and what to say.
fn data_dir(path: &Path) -> (bool, Finding) {
    match DataDir::lock(path) {
        Ok(_) => (true, Good(path.display().to_string())),
        Err(DataDirError::InUse { path, holder }) => {
            (false, Note(format!("{path} is in use by a running server ({holder})")))
        }
        Err(error @ DataDirError::Unusable { .. }) => (true, Bad(error.to_string())),
    }
}

/// With PostgreSQL the data directory does not tell whether a server runs here: whoever listens does.
async fn listen(address: SocketAddr, setting: &str) -> Finding {
    match TcpListener::bind(address).await {
        Ok(_) => Good(address.to_string()),
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_ours(address).await => {
            Note(format!("a running server answers on {address}"))
        }
        Err(error) => Bad(format!("{address} cannot be listened on: {error}; change {setting}")),
    }
}

/// Whether what listens there is a CodeHub that is alive.
async fn is_ours(address: SocketAddr) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.take(64 * 1024).read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nok\n"))
    };
    matches!(tokio::time::timeout(Duration::from_secs(3), ask).await, Ok(Ok(true)))
}

fn public_address(config: &Config) -> Finding {
    let base = &config.public_base_url;
    if config.listen.ip().is_loopback() || config.is_https() {
        Good(base.clone())
    } else {
        Note(format!(
            "{base} is plain http: put TLS in front, or set TLS_CERT and TLS_KEY, and set PUBLIC_BASE_URL to the https:// address"
        ))
    }
}

/// What keeps workspaces from acting as their owners, and whether its names lead anywhere.
async fn origins(config: &Config) -> Finding {
    let base = &config.public_base_url;
    match &config.proxy.origins {
        Mode::Path => Note(format!(
            "path: workspaces are below {base}/w/, so any page that one serves can act as its owner: set PROXY_DOMAIN, or PROXY_ORIGINS=port, unless everything in them is trusted"
        )),
        Mode::Port { port } => Note(format!(
            "port: workspaces are at port {port}, apart from the dashboard but not from each other; PROXY_DOMAIN keeps them apart, too"
        )),
        Mode::Domain { name } if name == LOCALHOST => Good(
            "{id}.localhost: browsers resolve it themselves (Safari since macOS 26; else PROXY_ORIGINS=port)"
                .into(),
        ),
        Mode::Domain { name } => {
            // Nobody has named this before, so only a wildcard answers.
            let label = any_workspace(name);
            let found = tokio::net::lookup_host((label.as_str(), 443)).await;
            match found.is_ok_and(|mut found| found.next().is_some()) {
                true => {
                    let host = Address::of(base).map_or("", |address| address.host);
                    match shared(host, name) {
                        Some(above) => Note(format!(
                            "{{id}}.{name}: the dashboard is below {above}, too, so workspaces can set cookies that are sent to it, unless {above} is a public suffix; a domain of its own is better"
                        )),
                        None => Good(format!("{{id}}.{name}")),
                    }
                }
                false => Bad(format!("{label} does not resolve: *.{name} must lead to this server (DNS)")),
            }
        }
    }
}

/// What both names are below, where that is a domain that somebody can have: two labels at least.
fn shared<'a>(dashboard: &str, workspaces: &'a str) -> Option<&'a str> {
    let at = workspaces.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
    let above = &workspaces[at..];
    let below = dashboard.strip_suffix(above)?;
    (above.contains('.') && (below.is_empty() || below.ends_with('.'))).then_some(above)
}

/// A name below the domain of workspaces that nobody has used before.
fn any_workspace(domain: &str) -> String {
    format!("{}.{domain}", uuid::Uuid::new_v4())
}

/// The certificate of our own: whether a start would take it, for which names it is, and how long.
fn certificate(files: &TlsFiles, config: &Config) -> Finding {
    let loaded = match Loaded::read(files) {
        Ok(loaded) => loaded,
        Err(error) => return Bad(error.to_string()),
    };
    let mut names = Vec::new();
    if let Some(address) = Address::of(&config.public_base_url) {
        names.push((address.host.to_owned(), address.host.to_owned()));
    }
    if let Mode::Domain { name } = &config.proxy.origins {
        names.push((format!("*.{name}"), any_workspace(name)));
    }
    let missing: Vec<&str> =
        names.iter().filter(|(_, asked)| !loaded.is_for(asked)).map(|(name, _)| name.as_str()).collect();
    let expires = loaded.expires;
    if !missing.is_empty() {
        let cert = files.cert.display();
        return Bad(format!(
            "{cert} (TLS_CERT) is not for {}: browsers refuse it there",
            missing.join(" and ")
        ));
    }
    let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    if loaded.ends_soon() {
        Note(format!("for {}, and ends soon: {expires}", names.join(" and ")))
    } else {
        Good(format!("for {}, until {expires}", names.join(" and ")))
    }
}

/// Whether the public names of dashboard and workspaces lead to this deployment.
async fn public_names(report: &mut Report, config: &Config, backends: &Backends) {
    let Some(base) = Address::of(&config.public_base_url).filter(|_| config.public_base_url_is_set) else {
        return;
    };
    if is_loopback(base.host.as_bytes()) {
        return;
    }
    let Ok(deployment) = backends::deployment(&*backends.store).await else { return };
    let (running, roots) = (is_ours(config.listen).await, roots());
    let found = base.ask(&deployment, &roots).await;
    report.add("dashboard's name", reached(&base, &found, running, base.host));
    let (name, port) = match &config.proxy.origins {
        Mode::Domain { name } => (any_workspace(name), base.port),
        Mode::Port { port } => (base.host.to_owned(), *port),
        Mode::Path => return,
    };
    let wanted = match &config.proxy.origins {
        Mode::Domain { name } => format!("*.{name}"),
        Mode::Port { .. } | Mode::Path => name.clone(),
    };
    let address = Address { host: &name, port, ..base };
    let found = address.ask(&deployment, &roots).await;
    report.add("workspaces' names", reached(&address, &found, running, &wanted));
}

/// What is missing on the way there. `wanted` is the name for which DNS and certificate must be.
fn reached(address: &Address<'_>, reached: &Reached, running: bool, wanted: &str) -> Finding {
    let Address { host, port, https } = address;
    let scheme = if *https { "https" } else { "http" };
    let at = format!("{scheme}://{host}:{port}");
    match reached {
        Reached::Ours => Good(format!("{at} leads here")),
        Reached::NoName => Bad(format!("{host} does not resolve: {wanted} must lead to this server (DNS)")),
        Reached::BadCertificate(why) => {
            Bad(format!("the certificate at {at} is wrong: {why}; it must be for {wanted}"))
        }
        Reached::UnknownIssuer => Note(format!(
            "the certificate at {at} is signed by somebody whom this machine does not know; where it is a CA of your own, browsers must know it (here: SSL_CERT_FILE)"
        )),
        Reached::Nobody(why) | Reached::Elsewhere(why) if !running => Note(format!(
            "not reached at {at} ({why}), and no server runs at CODEHUB_LISTEN: ask again when it does"
        )),
        Reached::Nobody(why) => Bad(format!("nobody answers at {at}: {why}")),
        Reached::Elsewhere(why) => Bad(format!(
            "{at} leads elsewhere, not to this deployment: it answered {why:?} to /.codehub/ping; the proxy in front must pass {wanted} on, with Host"
        )),
    }
}

/// Under which names it answers: whoever uses another one is told "421".
fn host_names(config: &Config) -> Finding {
    let mut names = vec![config.public_base_url.clone()];
    names.extend(config.hosts_allowed.iter().cloned());
    if !config.public_base_url_is_set {
        names.push("every bare address".into());
        if !config.listen.ip().is_loopback() {
            return Note(format!(
                "answers under {} and no other name: set PUBLIC_BASE_URL or HOSTS_ALLOWED where people use one",
                names.join(", ")
            ));
        }
    }
    Good(names.join(", "))
}

async fn schema(config: &Config) -> Finding {
    match backends::migration_status(config).await {
        Err(error) => {
            let kind = if config.database.url.is_some() { "postgres" } else { "sqlite" };
            Bad(format!("{error:#}{}", where_to_look(kind)))
        }
        Ok((_, status)) if !status.unknown.is_empty() => {
            Bad("was written by a newer CodeHub: use that version, or restore a backup".into())
        }
        Ok((_, status)) if !status.pending.is_empty() => {
            Note(format!("{} pending migration(s); applied at next start", status.pending.len()))
        }
        Ok((_, status)) => Good(format!("schema is up to date ({} migrations)", status.applied.len())),
    }
}

async fn pings(report: &mut Report, backends: &Backends) {
    fn finding<T, E: Display>(kind: &str, answer: Result<T, E>) -> Finding {
        match answer {
            Ok(_) => Good(kind.into()),
            Err(error) => Bad(format!("{kind}: {error}{}", where_to_look(kind))),
        }
    }
    report.add("store", finding(backends.store.kind(), backends.store.now().await));
    report.add("bus", finding(backends.bus.kind(), backends.bus.ping().await));
    for neighbour in backends.bus.neighbours().await.unwrap_or_default() {
        report.add("bus", Note(format!("this Redis is shared: {neighbour}")));
    }
    report.add("instances", finding(backends.instances.kind(), backends.instances.ping().await));
    for Safeguard { name, state, text } in backends.instances.safeguards().await {
        let finding = match state {
            SafeguardState::Good => Good(text),
            SafeguardState::Note => Note(text),
            SafeguardState::Bad => Bad(text),
        };
        report.add(name, finding);
    }
    report.add("volumes", finding(backends.volumes.kind(), backends.volumes.ping().await));
    report.add("archives", finding(backends.archives.kind(), backends.archives.ping().await));
    if let Ok(Some(brake)) = backends.store.setting_get(gc::BRAKE_SETTING).await {
        report.add(
            "garbage",
            Bad(format!(
                "the collector braked before deleting {brake}: is this the right database? then `codehub admin gc approve`"
            )),
        );
    }
}

/// For what is reached by an address: whose setting that is.
fn where_to_look(kind: &str) -> &'static str {
    match kind {
        "docker" => "; is the engine running, and may this user use it? (DOCKER_HOST)",
        "redis" => "; is it running, and is its address right? (REDIS_URL)",
        "postgres" => "; is it running, and is its address right? (DATABASE_URL)",
        _ => "",
    }
}

fn find_program(name: &str) -> Option<String> {
    let path = Path::new(name);
    if path.components().count() > 1 {
        return path.is_file().then(|| name.to_owned());
    }
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths)
        .map(|dir| dir.join(name))
        .find(|candidate| candidate.is_file())
        .map(|candidate| candidate.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody who listens, and gives everyone this answer.
    async fn answering(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 512];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        address
    }

    #[test]
    fn one_domain_for_dashboard_and_workspaces_is_noticed() {
        for (dashboard, workspaces, expected) in [
            ("code.example.com", "apps.example.com", Some("example.com")),
            ("example.com", "apps.example.com", Some("example.com")),
            ("code.example.com", "example.com", Some("example.com")),
            ("code.example.com", "a.b.example.com", Some("example.com")),
            ("code.example.com", "example-apps.com", None),
            ("code.badexample.com", "example.com", None),
            ("code.lan", "lan", None),
        ] {
            assert_eq!(shared(dashboard, workspaces), expected, "{dashboard} {workspaces}");
        }
    }

    #[tokio::test]
    async fn a_port_that_our_own_server_has_is_no_mistake() {
        let ours = answering("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n").await;
        assert!(matches!(listen(ours, "X").await, Note(_)));
        for other in ["HTTP/1.1 200 OK\r\n\r\n<html>", "HTTP/1.1 404 Not Found\r\n\r\n", "SSH-2.0-x\r\n"] {
            assert!(matches!(listen(answering(other).await, "X").await, Bad(_)), "{other}");
        }
        assert!(matches!(listen("127.0.0.1:0".parse().unwrap(), "X").await, Good(_)));
    }
}

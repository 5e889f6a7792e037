//! From checked texts to the typed configuration, and the rules that span several settings.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use codehub_archive::Verify;
use codehub_domain::{
    gc::GcPolicy,
    limits::Limits,
    origins::{LOCALHOST, Mode},
    ports::{self, PortsPolicy, Visibility},
    retry::Policy,
};
use codehub_proxy::hosts::{is_loopback, without_port};
use codehub_runtime::{
    IdeChoice, SandboxChoice,
    docker::{FirewallChoice, PullPolicy, Reach},
    process::NetworkChoice,
};
use codehub_store::bus::Prefixes;

use super::{
    ActivityConfig, ActivityMode, ArchiveConfig, AuthConfig, Config, ConfigError, ConfigErrors,
    CoordinatorConfig, DatabaseConfig, DockerSettings, GcConfig, LogConfig, LogFormat, MetricsConfig,
    ProxyConfig, RedisConfig, Role, RuntimeConfig, RuntimeKind, S3Settings, Secret, TlsFiles, TtlConfig,
    load::Value, value,
};

/// How long a workspace's processes get between TERM and KILL.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// How long requests get to end when the server does.
const SHUTDOWN_DRAIN: Duration = Duration::from_secs(10);
/// How long the controller stays quick after somebody asked for something.
const ACTIVE_DURATION: Duration = Duration::from_secs(30);
const SESSION_LIFETIME: Duration = Duration::from_secs(24 * 3600);
const ARCHIVE_PREFIX: &str = "archives";

/// Reads values by key. Every text was checked against its kind before, so a value that still does
/// not parse is a mistake in the table; it is reported like any other instead of ending the process.
struct Reader<'a> {
    values: &'a [Value],
    errors: Vec<ConfigError>,
}

impl Reader<'_> {
    fn value(&self, key: &str) -> Option<&Value> {
        self.values.iter().find(|value| value.setting.key == key)
    }

    fn read<T: Default>(&mut self, key: &str, parse: impl FnOnce(&str) -> Option<T>) -> T {
        if let Some(parsed) = self.value(key).and_then(|value| parse(&value.text)) {
            return parsed;
        }
        let error = match self.value(key) {
            Some(value) => value.error(format!("expected: {}", value.setting.kind.allowed())),
            None => ConfigError::Cross(format!("there is no setting {key}")),
        };
        self.errors.push(error);
        T::default()
    }

    fn text(&mut self, key: &str) -> String {
        self.read(key, |text| Some(text.to_owned()))
    }

    /// `None` where it is empty.
    fn secret(&mut self, key: &str) -> Option<Secret> {
        Some(self.text(key)).filter(|text| !text.is_empty()).map(Secret::new)
    }

    fn duration(&mut self, key: &str) -> Duration {
        self.read(key, value::duration)
    }

    fn seconds(&mut self, key: &str) -> u32 {
        self.read(key, |text| u32::try_from(value::duration(text)?.as_secs()).ok())
    }

    fn number<T: Default + std::str::FromStr>(&mut self, key: &str) -> T {
        self.read(key, |text| text.parse().ok())
    }

    /// One of a fixed set of words.
    fn word<T: Copy>(&mut self, key: &str, words: &[(&str, T)], otherwise: T) -> T {
        self.read(key, |text| words.iter().find(|(word, _)| *word == text).map(|(_, t)| Some(*t)))
            .unwrap_or(otherwise)
    }

    fn is_set(&mut self, key: &str) -> bool {
        !self.text(key).is_empty()
    }

    fn complain(&mut self, message: impl Into<String>) {
        self.errors.push(ConfigError::Cross(message.into()));
    }
}

pub(super) fn config(values: &[Value], home: Option<&Path>) -> Result<Config, ConfigErrors> {
    let mut r = Reader { values, errors: Vec::new() };
    let listen = r
        .read("listen", |text| text.parse::<SocketAddr>().ok().map(Some))
        .unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)));
    let tls = tls(&mut r);
    let (public_base_url, public_base_url_is_set) =
        (public_base_url(&mut r, listen, tls.is_some()), r.is_set("public_base_url"));
    let origins = origins(&mut r, listen, public_base_url_is_set.then_some(public_base_url.as_str()));
    let proxy_listen = proxy_listen(&mut r, listen, &origins);
    let origins = match (origins, proxy_listen) {
        (Mode::Port { .. }, Some(address)) => Mode::Port { port: address.port() },
        (origins, _) => origins,
    };
    let config = Config {
        file: None,
        secrets_in_file: false,
        fingerprints: BTreeMap::new(),
        unknown_env: Vec::new(),
        role: r.word(
            "role",
            &[("all", Role::All), ("api", Role::Api), ("coordinator", Role::Coordinator)],
            Role::All,
        ),
        listen,
        data_dir: data_dir(&mut r, home),
        public_base_url: on_localhost(public_base_url, &origins),
        public_base_url_is_set,
        tls,
        exec: r.read("exec", |word| Some(word == "on")),
        ports: PortsPolicy {
            on: r.read("ports.browser", |word| Some(word == "on")),
            denied: r.read("ports.denied", ports::parse_ranges),
            share_max: r
                .read("ports.share_max", |word| word.parse().ok().map(Some))
                .unwrap_or(Visibility::Owner),
        },
        hosts_allowed: r.read("hosts_allowed", value::hosts),
        metrics: MetricsConfig {
            listen: r.read("metrics.listen", value::maybe_address),
            allow: r.read("metrics.allow", value::networks),
        },
        connections_per_address: r.number("limits.connections_per_address"),
        trusted_proxies: r.read("trusted_proxies", value::networks),
        database: DatabaseConfig {
            url: r.secret("database.url"),
            max_connections: r.number("database.max_connections"),
        },
        redis: RedisConfig {
            url: r.secret("redis.url"),
            prefixes: Prefixes {
                events: r.text("redis.channel_sse_prefix"),
                wakes: r.text("redis.channel_wake_prefix"),
                activity: r.text("redis.activity_key"),
            },
        },
        coordinator: CoordinatorConfig {
            idle_interval: r.duration("coordinator.idle_interval"),
            active_interval: r.duration("coordinator.active_interval"),
            active_duration: ACTIVE_DURATION,
            ttl_interval: r.duration("coordinator.ttl_interval"),
            gc_interval: r.duration("coordinator.gc_interval"),
            concurrency: r.number("coordinator.concurrency"),
        },
        ttl: TtlConfig {
            standby_seconds: r.seconds("ttl.standby_seconds"),
            archive_seconds: r.seconds("ttl.archive_seconds"),
            standby_min: r.seconds("ttl.standby_min"),
            standby_max: r.seconds("ttl.standby_max"),
            archive_min: r.seconds("ttl.archive_min"),
            archive_max: r.seconds("ttl.archive_max"),
        },
        gc: GcConfig {
            policy: GcPolicy {
                orphan_delay: r.duration("gc.orphan_delay"),
                archive_keep: r.number("archive.keep"),
                ..GcPolicy::default()
            },
        },
        audit_retention: r.duration("audit.retention"),
        limits: Limits {
            running_per_user: r.number("limits.max_running_per_user"),
            running_global: r.number("limits.max_running_global"),
        },
        retry: Policy {
            start_deadline: r.duration("operation.start_timeout"),
            storage_deadline: r.duration("operation.storage_timeout"),
            ..Policy::default()
        },
        activity: ActivityConfig {
            mode: r.word(
                "activity.mode",
                &[("traffic", ActivityMode::Traffic), ("connections", ActivityMode::Connections)],
                ActivityMode::Traffic,
            ),
            flush_interval: r.duration("activity.flush_interval"),
            max_hold: r.duration("activity.max_hold"),
            rules: Some(r.text("activity.rules")).filter(|path| !path.is_empty()).map(PathBuf::from),
        },
        proxy: ProxyConfig { wake_hold: r.duration("proxy.wake_hold"), origins, listen: proxy_listen },
        runtime: runtime(&mut r),
        archive: archive(&mut r),
        auth: AuthConfig {
            session_lifetime: SESSION_LIFETIME,
            admin_username: Some(r.text("admin.username")).filter(|name| !name.is_empty()),
            admin_password: r.secret("admin.password"),
        },
        log: LogConfig {
            filter: r.text("log.filter"),
            format: r.word(
                "log.format",
                &[("auto", LogFormat::Auto), ("human", LogFormat::Human), ("json", LogFormat::Json)],
                LogFormat::Auto,
            ),
        },
        sse_heartbeat: r.duration("events.heartbeat_interval"),
        shutdown_drain: SHUTDOWN_DRAIN,
    };
    cross_check(&mut r, &config);
    if r.errors.is_empty() { Ok(config) } else { Err(ConfigErrors(r.errors)) }
}

fn runtime(r: &mut Reader<'_>) -> RuntimeConfig {
    RuntimeConfig {
        kind: r.word(
            "runtime.kind",
            &[("process", RuntimeKind::Process), ("docker", RuntimeKind::Docker)],
            RuntimeKind::Process,
        ),
        ide: r.word(
            "ide.kind",
            &[
                ("auto", IdeChoice::Auto),
                ("builtin", IdeChoice::Builtin),
                ("code-server", IdeChoice::CodeServer),
                ("jupyterlab", IdeChoice::JupyterLab),
                ("command", IdeChoice::Command),
            ],
            IdeChoice::Auto,
        ),
        ide_command: r.read("ide.command", value::words),
        ide_health_path: r.text("ide.health_path"),
        sandbox: r.word(
            "runtime.sandbox",
            &[
                ("auto", SandboxChoice::Auto),
                ("always", SandboxChoice::Always),
                ("never", SandboxChoice::Never),
            ],
            SandboxChoice::Auto,
        ),
        process_network: r.word(
            "runtime.process_network",
            &[("auto", NetworkChoice::Auto), ("own", NetworkChoice::Own), ("host", NetworkChoice::Host)],
            NetworkChoice::Auto,
        ),
        process_show: r.read("runtime.process_show", value::paths),
        unsandboxed_users: r.read("runtime.unsandboxed_users", |word| Some(word == "many")),
        name: Some(r.text("runtime.name")).filter(|name| !name.is_empty()),
        image: r.text("runtime.image"),
        images_allowed: r.read("runtime.images_allowed", |text| {
            Some(text.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect())
        }),
        docker: docker(r),
        stop_grace: STOP_GRACE,
    }
}

fn docker(r: &mut Reader<'_>) -> DockerSettings {
    DockerSettings {
        host: r.text("docker.host"),
        port: r.number("runtime.container_port"),
        home: r.text("runtime.home"),
        uid: r.read("runtime.uid", value::auto_or_count),
        gid: r.number("runtime.gid"),
        memory: r.read("runtime.memory", value::memory),
        milli_cpus: r.read("runtime.cpus", value::milli_cpus),
        pids: r.number("runtime.pids"),
        read_only: r.read("runtime.read_only", |word| Some(word == "true")),
        pull: r.word(
            "runtime.pull",
            &[("missing", PullPolicy::Missing), ("always", PullPolicy::Always), ("never", PullPolicy::Never)],
            PullPolicy::Missing,
        ),
        reach: r.word(
            "runtime.reach",
            &[
                ("auto", None),
                ("socket", Some(Reach::Socket)),
                ("address", Some(Reach::Address)),
                ("port", Some(Reach::Port)),
            ],
            None,
        ),
        network: r.text("runtime.network"),
        firewall: r.word(
            "runtime.firewall",
            &[
                ("auto", FirewallChoice::Auto),
                ("always", FirewallChoice::Always),
                ("never", FirewallChoice::Never),
            ],
            FirewallChoice::Always,
        ),
        dns: r.read("runtime.dns", value::addresses),
    }
}

fn archive(r: &mut Reader<'_>) -> ArchiveConfig {
    ArchiveConfig {
        prefix: ARCHIVE_PREFIX.into(),
        level: r.number("archive.level"),
        incremental: r.word("archive.format", &[("2", false), ("3", true)], false),
        verify: r.word(
            "archive.verify",
            &[("content", Verify::Content), ("size", Verify::Size)],
            Verify::Content,
        ),
        s3: s3(r),
    }
}

fn s3(r: &mut Reader<'_>) -> Option<S3Settings> {
    let others = ["s3.endpoint", "s3.access_key", "s3.secret_key", "s3.prefix"];
    if !r.is_set("s3.bucket") {
        for key in others {
            if r.is_set(key) {
                r.complain(format!("{key} is set, but s3.bucket (S3_BUCKET) is not"));
            }
        }
        return None;
    }
    for (key, env) in [("s3.access_key", "S3_ACCESS_KEY"), ("s3.secret_key", "S3_SECRET_KEY")] {
        if !r.is_set(key) {
            r.complain(format!("s3.bucket is set, but {key} ({env}) is not"));
        }
    }
    Some(S3Settings {
        endpoint: if r.is_set("s3.endpoint") {
            r.read("s3.endpoint", value::base_url)
        } else {
            String::new()
        },
        bucket: r.text("s3.bucket"),
        region: r.text("s3.region"),
        access_key: r.text("s3.access_key"),
        secret_key: Secret::new(r.text("s3.secret_key")),
        prefix: r.text("s3.prefix"),
        allow_http: r.read("s3.allow_http", |word| Some(word == "true")),
    })
}

fn data_dir(r: &mut Reader<'_>, home: Option<&Path>) -> PathBuf {
    let text = r.text("data_dir");
    let below_home = match text.strip_prefix('~') {
        Some("") => Some(""),
        Some(rest) => rest.strip_prefix('/'),
        None => None,
    };
    let path = match (below_home, home) {
        (Some(rest), Some(home)) => home.join(rest),
        (Some(_), None) => {
            r.complain(format!(
                "data_dir: {text:?} is below your home directory, but HOME is not set; set CODEHUB_DATA_DIR"
            ));
            PathBuf::from(text)
        }
        (None, _) => PathBuf::from(text),
    };
    std::path::absolute(&path).unwrap_or(path)
}

/// An address that means "every interface" is no address to go to.
fn public_base_url(r: &mut Reader<'_>, listen: SocketAddr, tls: bool) -> String {
    if r.is_set("public_base_url") {
        let set: String = r.read("public_base_url", value::base_url);
        if tls && set.starts_with("http://") {
            r.complain(format!(
                "tls.cert (TLS_CERT) is set, but public_base_url is {set:?}: people come by https:// then"
            ));
        }
        return set;
    }
    let host = match listen.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{}", SocketAddr::new(host, listen.port()))
}

/// Both files or none.
fn tls(r: &mut Reader<'_>) -> Option<TlsFiles> {
    let (cert, key) = (r.text("tls.cert"), r.text("tls.key"));
    match (cert.is_empty(), key.is_empty()) {
        (true, true) => None,
        (false, false) => Some(TlsFiles { cert: PathBuf::from(cert), key: PathBuf::from(key) }),
        (false, true) => {
            r.complain("tls.cert (TLS_CERT) is set, but tls.key (TLS_KEY) is not");
            None
        }
        (true, false) => {
            r.complain("tls.key (TLS_KEY) is set, but tls.cert (TLS_CERT) is not");
            None
        }
    }
}

/// The host in a base address.
fn host_of(base_url: &str) -> &str {
    let authority = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    without_port(authority.as_bytes()).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or(authority)
}

/// What keeps workspaces apart; `base` is the dashboard's address where somebody chose it.
fn origins(r: &mut Reader<'_>, listen: SocketAddr, base: Option<&str>) -> Mode {
    let domains: Vec<String> = r.read("proxy.domain", value::hosts);
    let choice = r.text("proxy.origins");
    if domains.len() > 1
        || domains.iter().any(|domain| domain.parse::<IpAddr>().is_ok() || domain.starts_with('['))
    {
        r.complain("proxy.domain (PROXY_DOMAIN) must be one domain name, such as apps.example.com");
    }
    let domain = domains.into_iter().next();
    let is_local = match base {
        Some(base) => is_loopback(host_of(base).as_bytes()),
        None => [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&listen.ip()),
    };
    let port = Mode::Port { port: listen.port().wrapping_add(1) };
    match (choice.as_str(), domain) {
        ("auto" | "domain", Some(name)) => {
            if name == LOCALHOST && !is_local {
                r.complain("proxy.domain is localhost, but public_base_url or listen is not on this machine");
            } else if name != LOCALHOST && base.is_none() {
                r.complain(format!(
                    "proxy.domain is {name:?}, but public_base_url (PUBLIC_BASE_URL) does not say where the dashboard is: people are sent there to sign in"
                ));
            }
            Mode::Domain { name }
        }
        ("auto" | "domain", None) if is_local => Mode::Domain { name: LOCALHOST.into() },
        ("auto", None) if base.is_none() => port,
        ("auto", None) => {
            r.complain(format!(
                "public_base_url is {:?}, but nothing says how workspaces are kept apart from it. Choose one: \
                 PROXY_DOMAIN=apps.example.com gives every workspace a name of its own (needs DNS and a certificate for *.apps.example.com); \
                 PROXY_ORIGINS=port serves workspaces at a second port (PROXY_LISTEN, {} unless set), apart from the dashboard but not from each other; \
                 PROXY_ORIGINS=path keeps them below {}/w/ and nothing apart: only where you trust everything that runs in workspaces",
                base.unwrap_or_default(),
                SocketAddr::new(listen.ip(), listen.port().wrapping_add(1)),
                base.unwrap_or_default(),
            ));
            Mode::Path
        }
        ("domain", None) => {
            r.complain("proxy.origins is \"domain\", but proxy.domain (PROXY_DOMAIN) does not say which");
            Mode::Path
        }
        (choice, domain) => {
            if domain.is_some() {
                r.complain(format!(
                    "proxy.domain (PROXY_DOMAIN) is set, but proxy.origins is {choice:?}: only \"domain\" uses it"
                ));
            }
            if choice == "port" { port } else { Mode::Path }
        }
    }
}

/// Where workspaces are served apart, for a second port.
fn proxy_listen(r: &mut Reader<'_>, listen: SocketAddr, origins: &Mode) -> Option<SocketAddr> {
    let set: Option<SocketAddr> = r.read("proxy.listen", value::maybe_address);
    match origins {
        Mode::Port { .. } => {
            let next = if listen.port() == 0 { 0 } else { listen.port().wrapping_add(1) };
            let address = set.unwrap_or(SocketAddr::new(listen.ip(), next));
            if address == listen && listen.port() != 0 {
                r.complain("proxy.listen must not be the same as listen: it keeps workspaces apart from the dashboard");
            }
            Some(address)
        }
        Mode::Domain { .. } | Mode::Path => {
            if set.is_some() {
                r.complain("proxy.listen (PROXY_LISTEN) is set, but only proxy.origins = \"port\" uses it");
            }
            None
        }
    }
}

/// The dashboard's address, by the one name of this machine below which workspaces can have names.
fn on_localhost(base_url: String, origins: &Mode) -> String {
    match (origins, base_url.split_once("://")) {
        (Mode::Domain { name }, Some((scheme, authority))) if name == LOCALHOST => {
            let host = host_of(&base_url);
            format!("{scheme}://{LOCALHOST}{}", &authority[host.len()..])
        }
        _ => base_url,
    }
}

fn cross_check(r: &mut Reader<'_>, config: &Config) {
    let ttl = &config.ttl;
    for (name, min, default, max, bounds) in [
        ("standby", ttl.standby_min, ttl.standby_seconds, ttl.standby_max, ttl.standby_bounds()),
        ("archive", ttl.archive_min, ttl.archive_seconds, ttl.archive_max, ttl.archive_bounds()),
    ] {
        if max != 0 && min > max {
            r.complain(format!("ttl.{name}_min ({min}) must not be larger than ttl.{name}_max ({max})"));
        } else if !bounds.allow(default) {
            r.complain(format!(
                "ttl.{name}_seconds ({default}) is outside its own bounds; ttl.{name}_min and ttl.{name}_max allow {bounds}"
            ));
        }
    }
    if config.role != Role::All && config.database.url.is_none() {
        r.complain(format!(
            "role is {:?}, but with SQLite one process does everything: set DATABASE_URL (and REDIS_URL), or leave role at \"all\"",
            config.role.as_str()
        ));
    }
    for (key, text) in [
        ("redis.channel_sse_prefix", &config.redis.prefixes.events),
        ("redis.channel_wake_prefix", &config.redis.prefixes.wakes),
        ("redis.activity_key", &config.redis.prefixes.activity),
    ] {
        if text.is_empty() {
            r.complain(format!("{key} must not be empty"));
        }
    }
    if config.metrics.listen == Some(config.listen) {
        r.complain("metrics.listen must not be the same as listen: it is an address of its own");
    }
    if config.redis.prefixes.events == config.redis.prefixes.wakes {
        r.complain("redis.channel_sse_prefix and redis.channel_wake_prefix must not be the same");
    }
    let coordinator = &config.coordinator;
    if coordinator.active_interval > coordinator.idle_interval {
        r.complain(format!(
            "coordinator.active_interval ({}s) must not be longer than coordinator.idle_interval ({}s)",
            coordinator.active_interval.as_secs(),
            coordinator.idle_interval.as_secs()
        ));
    }
    let is_command = config.runtime.ide == IdeChoice::Command;
    if is_command && config.runtime.ide_command.is_empty() {
        r.complain("ide.kind is \"command\", but ide.command (IDE_COMMAND) does not say which");
    }
    if !is_command && r.is_set("ide.command") {
        r.complain("ide.command (IDE_COMMAND) is set, but only ide.kind = \"command\" (IDE=command) uses it");
    }
    match (&config.auth.admin_username, &config.auth.admin_password) {
        (Some(_), None) => {
            r.complain("admin.username is set, but admin.password (CODEHUB_ADMIN_PASSWORD) is not");
        }
        (None, Some(_)) => {
            r.complain("admin.password is set, but admin.username (CODEHUB_ADMIN_USERNAME) is not");
        }
        (Some(username), Some(password)) => {
            if let Err(why) = codehub_domain::fields::username(username) {
                r.complain(format!("admin.username: {why}"));
            }
            if let Err(why) = codehub_domain::fields::password(password.reveal()) {
                r.complain(format!("admin.password: {why}"));
            }
        }
        (None, None) => {}
    }
}

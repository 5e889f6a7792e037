//! The effective configuration: every value typed, validated and explained once.
//!
//! Flags win over the environment, which wins over `codehub.toml`, which wins over the defaults. What
//! settings there are is data ([`table`]); this file is what the rest of the server reads.

use std::{collections::BTreeMap, fmt, net::SocketAddr, path::PathBuf, time::Duration};

use codehub_domain::{
    gc::GcPolicy,
    limits::Limits,
    origins::{Mode, Origins},
    ports::PortsPolicy,
    retry::Policy,
    ttl::TtlPolicy,
};

mod build;
mod images;
mod load;
mod setting;
mod show;
pub mod table;
mod unknown_env;
mod value;

pub use load::{ConfigError, ConfigErrors, Effective, Origin, Overrides, Sources};
pub use show::{default_file, effective_json, effective_toml};
pub use value::duration as parse_duration;

/// Everything that can be configured.
#[derive(Debug, Clone)]
pub struct Config {
    pub role: Role,
    /// The file it was read from. It may hold secrets.
    pub file: Option<PathBuf>,
    /// Whether it does hold one.
    pub secrets_in_file: bool,
    /// What every setting is, so that the next start can tell which have changed: by key, never the text of a secret.
    pub fingerprints: BTreeMap<&'static str, String>,
    /// What somebody may have meant as a setting, a sentence each.
    pub unknown_env: Vec<String>,
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    /// `http://localhost:8080` unless set: no trailing slash.
    pub public_base_url: String,
    /// Whether somebody chose it.
    pub public_base_url_is_set: bool,
    /// Whether programs, files and ports of workspaces can be reached by the API.
    pub exec: bool,
    /// Which ports of workspaces may be opened in browsers, and by whom.
    pub ports: PortsPolicy,
    /// More hosts under which this server answers.
    pub hosts_allowed: Vec<String>,
    /// Where machines ask how it is, apart from everybody else.
    pub metrics: MetricsConfig,
    /// On which nobody has signed in, from one address; 0: any number.
    pub connections_per_address: usize,
    /// Proxies in front of us whose `X-Forwarded-*` may be believed.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    pub database: DatabaseConfig,
    pub redis: RedisConfig,

    /// `None`: it ends in a proxy in front, or nowhere.
    pub tls: Option<TlsFiles>,
    pub coordinator: CoordinatorConfig,
    pub ttl: TtlConfig,
    pub gc: GcConfig,
    /// Zero: for ever.
    pub audit_retention: Duration,
    pub limits: Limits,
    pub retry: Policy,
    pub activity: ActivityConfig,
    pub proxy: ProxyConfig,
    pub runtime: RuntimeConfig,
    pub archive: ArchiveConfig,
    pub auth: AuthConfig,
    pub log: LogConfig,
    pub sse_heartbeat: Duration,
    pub shutdown_drain: Duration,
}

/// What this process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    All,
    Api,
    Coordinator,
}

impl Role {
    /// As the setting has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Api => "api",
            Self::Coordinator => "coordinator",
        }
    }

    /// Whether this process may lead.
    pub const fn coordinates(self) -> bool {
        matches!(self, Self::All | Self::Coordinator)
    }

    /// Whether this process serves people.
    pub const fn answers(self) -> bool {
        matches!(self, Self::All | Self::Api)
    }
}

/// Files in PEM, where TLS ends in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those it is signed by.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

#[derive(Debug, Clone)]
pub struct MetricsConfig {
    /// A listener of their own.
    pub listen: Option<SocketAddr>,
    /// Who may read more than whether it is ready, besides this machine and administrators.
    pub allow: Vec<ipnet::IpNet>,
}

/// Where the truth is kept.
#[derive(Debug, Clone)]
pub struct DatabaseConfig {
    /// PostgreSQL; `None` is SQLite in the data directory.
    pub url: Option<Secret>,
    pub max_connections: u32,
}

/// The bus between replicas.
#[derive(Debug, Clone)]
pub struct RedisConfig {
    /// `None` is a bus within this process.
    pub url: Option<Secret>,
    pub prefixes: codehub_store::bus::Prefixes,
}

/// How the leader works.
#[derive(Debug, Clone)]
pub struct CoordinatorConfig {
    pub idle_interval: Duration,
    pub active_interval: Duration,
    /// Stays active for this long after a wake.
    pub active_duration: Duration,
    pub ttl_interval: Duration,
    pub gc_interval: Duration,
    /// How many actions run at once.
    pub concurrency: usize,
}

/// 0 is "never" for a TTL and "no bound" for a maximum.
#[derive(Debug, Clone)]
pub struct TtlConfig {
    pub standby_seconds: u32,
    pub archive_seconds: u32,
    pub standby_min: u32,
    pub standby_max: u32,
    pub archive_min: u32,
    pub archive_max: u32,
}

impl TtlConfig {
    /// What a workspace may choose for itself.
    pub fn standby_bounds(&self) -> TtlBounds {
        TtlBounds { min: self.standby_min, max: self.standby_max }
    }

    /// What a workspace may choose as the time until it is archived.
    pub fn archive_bounds(&self) -> TtlBounds {
        TtlBounds { min: self.archive_min, max: self.archive_max }
    }
}

/// When what nobody needs any more is deleted.
#[derive(Debug, Clone)]
pub struct GcConfig {
    pub policy: GcPolicy,
}

pub use codehub_domain::{activity::ActivityMode, ttl::TtlBounds};

/// What counts as being in use.
#[derive(Debug, Clone)]
pub struct ActivityConfig {
    pub mode: ActivityMode,
    pub flush_interval: Duration,
    /// A file with more rules about what an IDE's tabs do by themselves.
    pub rules: Option<PathBuf>,
    /// The longest keep-awake lease somebody may take.
    pub max_hold: Duration,
}

/// How people are led into workspaces.
#[derive(Debug, Clone)]
pub struct ProxyConfig {
    pub wake_hold: Duration,
    /// What keeps workspaces apart from the dashboard.
    pub origins: Mode,
    /// Where workspaces alone are served, for [`Mode::Port`].
    pub listen: Option<SocketAddr>,
}

/// Where and as what workspaces run.
#[derive(Debug, Clone)]
pub struct RuntimeConfig {
    pub kind: RuntimeKind,
    pub ide: codehub_runtime::IdeChoice,
    /// `IDE_COMMAND`, split into words; placeholders not filled in.
    pub ide_command: Vec<String>,
    pub ide_health_path: String,
    pub sandbox: codehub_runtime::SandboxChoice,
    pub process_network: codehub_runtime::process::NetworkChoice,
    /// What else of the machine a sandbox shows.
    pub process_show: Vec<PathBuf>,
    /// Whether several users may have workspaces where there is no sandbox.
    pub unsandboxed_users: bool,
    /// What the database calls the backend; `None`: like its kind.
    pub name: Option<String>,
    pub image: String,
    /// Patterns of other images people may choose.
    pub images_allowed: Vec<String>,
    pub docker: DockerSettings,
    /// How long a process gets between TERM and KILL.
    pub stop_grace: Duration,
}

/// The kinds of places in which workspaces run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    Process,
    Docker,
}

/// For [`RuntimeKind::Docker`].
#[derive(Debug, Clone)]
pub struct DockerSettings {
    pub host: String,
    pub port: u16,
    pub home: String,
    /// `None`: each workspace its own.
    pub uid: Option<u32>,
    pub gid: u32,
    /// Bytes.
    pub memory: u64,
    pub milli_cpus: u64,
    pub pids: u64,
    pub read_only: bool,
    pub pull: codehub_runtime::docker::PullPolicy,
    /// `None`: as engine and program allow.
    pub reach: Option<codehub_runtime::docker::Reach>,
    pub network: String,
    pub firewall: codehub_runtime::docker::FirewallChoice,
    /// Empty: the machine's own.
    pub dns: Vec<std::net::Ipv4Addr>,
}

/// Where archives are kept, and how they are made.
#[derive(Debug, Clone)]
pub struct ArchiveConfig {
    pub prefix: String,
    pub level: i32,
    /// Whether new archives store only what has changed since the last one (format 3), or everything (format 2).
    pub incremental: bool,
    pub verify: codehub_archive::Verify,
    /// `None`: in the data directory.
    pub s3: Option<S3Settings>,
}

/// A bucket for archives.
#[derive(Debug, Clone)]
pub struct S3Settings {
    /// Empty: Amazon's.
    pub endpoint: String,
    pub bucket: String,
    pub region: String,
    pub access_key: String,
    pub secret_key: Secret,
    /// Empty: named after the deployment.
    pub prefix: String,
    pub allow_http: bool,
}

/// Sessions and the first administrator.
#[derive(Debug, Clone)]
pub struct AuthConfig {
    pub session_lifetime: Duration,
    pub admin_username: Option<String>,
    pub admin_password: Option<Secret>,
}

/// What is logged, and how.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// A level, or target=level pairs.
    pub filter: String,
    pub format: LogFormat,
}

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people on a terminal, JSON otherwise.
    Auto,
    Human,
    Json,
}

/// A value that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text from logs and error messages.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The one way to read it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Config {
    /// The defaults, with a few settings (by key) replaced. For tests and tools; nothing is read from
    /// the environment or from a file.
    ///
    /// # Errors
    /// A value that is not allowed, as at start.
    pub fn with(settings: &[(&str, &str)]) -> Result<Self, ConfigErrors> {
        let set = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Effective::load(&Sources { flags: Overrides { config: None, set }, ..Sources::default() })
            .map(|effective| effective.config)
    }

    /// The deployment's TTLs, with the activity the database may not have seen yet.
    pub fn ttl_policy(&self) -> TtlPolicy {
        TtlPolicy {
            standby_seconds: self.ttl.standby_seconds,
            archive_seconds: self.ttl.archive_seconds,
            unseen_activity: self.activity.flush_interval + self.coordinator.ttl_interval,
        }
    }

    /// Under which host names this server answers.
    pub fn hosts(&self) -> codehub_proxy::hosts::Hosts {
        codehub_proxy::hosts::Hosts::new(self.origins(), &self.hosts_allowed)
    }

    /// Where people find the dashboard and workspaces.
    pub fn origins(&self) -> Origins {
        Origins::new(&self.public_base_url, self.public_base_url_is_set, self.proxy.origins.clone())
    }

    /// Whether people reach us by https, so that cookies may be `Secure`.
    pub fn is_https(&self) -> bool {
        self.public_base_url.starts_with("https://")
    }
}

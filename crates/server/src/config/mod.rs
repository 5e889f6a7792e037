//! The effective configuration: every value typed, validated and explained once.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use codehub_domain::{gc::GcPolicy, limits::Limits, retry::Policy, ttl::TtlPolicy};

/// Everything that can be configured.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    /// `http://127.0.0.1:8080` unless set: no trailing slash.
    pub public_base_url: String,
    /// Proxies in front of us whose `X-Forwarded-*` may be believed.
    pub trusted_proxies: Vec<std::net::IpAddr>,

    pub coordinator: CoordinatorConfig,
    pub ttl: TtlConfig,
    pub gc: GcConfig,
    pub limits: Limits,
    pub retry: Policy,
    pub activity: ActivityConfig,
    pub proxy: ProxyConfig,
    pub runtime: RuntimeConfig,
    pub archive: ArchiveConfig,
    pub auth: AuthConfig,
    pub sse_heartbeat: Duration,
    pub shutdown_drain: Duration,
}

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

#[derive(Debug, Clone)]
pub struct TtlConfig {
    pub standby_seconds: u32,
    pub archive_seconds: u32,
    pub standby_min: u32,
    pub standby_max: u32,
    pub archive_min: u32,
    pub archive_max: u32,
}

#[derive(Debug, Clone)]
pub struct GcConfig {
    pub policy: GcPolicy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivityMode {
    Traffic,
    Connections,
}

#[derive(Debug, Clone)]
pub struct ActivityConfig {
    pub mode: ActivityMode,
    pub flush_interval: Duration,
}

#[derive(Debug, Clone)]
pub struct ProxyConfig {
    pub wake_hold: Duration,
}

#[derive(Debug, Clone)]
pub struct RuntimeConfig {
    pub ide: codehub_adapters::runtime::IdeChoice,
    /// `IDE_COMMAND`, split into words; placeholders not filled in.
    pub ide_command: Vec<String>,
    pub ide_health_path: String,
    pub sandbox: codehub_adapters::runtime::SandboxChoice,
    pub image: String,
    /// How long a process gets between TERM and KILL.
    pub stop_grace: Duration,
}

#[derive(Debug, Clone)]
pub struct ArchiveConfig {
    pub prefix: String,
    pub level: i32,
}

#[derive(Debug, Clone)]
pub struct AuthConfig {
    pub session_lifetime: Duration,
    pub admin_username: Option<String>,
    pub admin_password: Option<String>,
}

impl Config {
    /// The deployment's TTLs, with the activity the database may not have seen yet.
    pub fn ttl_policy(&self) -> TtlPolicy {
        TtlPolicy {
            standby_seconds: self.ttl.standby_seconds,
            archive_seconds: self.ttl.archive_seconds,
            unseen_activity: self.activity.flush_interval + self.coordinator.ttl_interval,
        }
    }
}

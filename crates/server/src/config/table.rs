//! Every setting, as data. The file, the environment, the flags, `codehub config`, the error messages
//! and `codehub.default.toml` are all read off this one table, so none of them can forget a setting.

use super::value::Kind;

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Where it is in `codehub.toml`, dotted.
    pub key: &'static str,
    /// The environment variable.
    pub env: &'static str,
    /// As it would be written; empty where there is none.
    pub default: &'static str,
    pub kind: Kind,
    /// For people: what it does, and what follows from it.
    pub help: &'static str,
    /// Masked wherever it is shown, and never taken from the command line (other people can read that).
    pub secret: bool,
}

impl Setting {
    /// `--ttl-standby-seconds`, without the dashes in front.
    pub fn flag(&self) -> String {
        self.key.replace(['.', '_'], "-")
    }
}

const fn setting(
    key: &'static str,
    env: &'static str,
    default: &'static str,
    kind: Kind,
    help: &'static str,
) -> Setting {
    Setting { key, env, default, kind, help, secret: false }
}

const DAY: u64 = 24 * 3600;
const YEAR: u64 = 366 * DAY;

/// A TTL or a bound of one, in seconds.
const TTL: Kind = Kind::Seconds { min: 0, max: YEAR };

/// Masked, and not a flag: it may hold a password.
const fn secret(key: &'static str, env: &'static str, kind: Kind, help: &'static str) -> Setting {
    Setting { key, env, default: "", kind, help, secret: true }
}

pub static SETTINGS: &[Setting] = &[
    setting(
        "role",
        "CODEHUB_ROLE",
        "all",
        Kind::OneOf(&["all", "api", "coordinator"]),
        "What this process does: everything, only answer requests, or only coordinate (and answer /healthz, /readyz and /metrics). Several processes need PostgreSQL and Redis.",
    ),
    setting(
        "listen",
        "CODEHUB_LISTEN",
        "127.0.0.1:8080",
        Kind::Address,
        "Where to listen: address and port.",
    ),
    setting(
        "data_dir",
        "CODEHUB_DATA_DIR",
        "~/.local/share/codehub",
        Kind::Path,
        "Database, homes and archives. One server per directory, except with PostgreSQL.",
    ),
    setting(
        "public_base_url",
        "PUBLIC_BASE_URL",
        "",
        Kind::BaseUrl,
        "Where people reach this server, for links and cookies: https://code.example.com. Empty: http:// and the listen address.",
    ),
    setting(
        "trusted_proxies",
        "TRUSTED_PROXIES",
        "",
        Kind::Addresses,
        "Addresses of proxies in front of this server whose X-Forwarded-* headers are believed, separated by commas.",
    ),
    secret(
        "database.url",
        "DATABASE_URL",
        Kind::Url(&["postgres", "postgresql"]),
        "PostgreSQL, for a deployment with replicas: postgres://user:password@host:5432/database. Empty: SQLite in the data directory.",
    ),
    setting(
        "database.max_connections",
        "DATABASE_MAX_CONNECTIONS",
        "10",
        Kind::Count { min: 2, max: 1000 },
        "How many connections this process keeps to PostgreSQL for its requests (three more listen, lead and mark its presence).",
    ),
    secret(
        "redis.url",
        "REDIS_URL",
        Kind::Url(&["redis", "rediss", "redis+unix", "unix"]),
        "Redis, for events and activity between replicas: redis://:password@host:6379/0. Empty: in this process, and then there may be only one.",
    ),
    setting(
        "redis.channel_sse_prefix",
        "REDIS_CHANNEL_SSE_PREFIX",
        "codehub:sse:",
        Kind::Text,
        "What the channels of event streams begin with; the user's id follows.",
    ),
    setting(
        "redis.channel_wake_prefix",
        "REDIS_CHANNEL_WAKE_PREFIX",
        "codehub:wake:",
        Kind::Text,
        "What the channels that wake the coordinator begin with.",
    ),
    setting(
        "redis.activity_key",
        "REDIS_ACTIVITY_KEY",
        "codehub:activity",
        Kind::Text,
        "Where activity waits until it is written to the database.",
    ),
    setting(
        "admin.username",
        "CODEHUB_ADMIN_USERNAME",
        "",
        Kind::Text,
        "For unattended installs: the first administrator, created at start while there is no user. Needs admin.password.",
    ),
    Setting {
        secret: true,
        ..setting(
            "admin.password",
            "CODEHUB_ADMIN_PASSWORD",
            "",
            Kind::Text,
            "The first administrator's password.",
        )
    },
    setting(
        "ttl.standby_seconds",
        "TTL_STANDBY_SECONDS",
        "600",
        TTL,
        "A running workspace nobody uses for this long is stopped. 0: never.",
    ),
    setting(
        "ttl.archive_seconds",
        "TTL_ARCHIVE_SECONDS",
        "1800",
        TTL,
        "A stopped workspace is archived after this long. 0: never.",
    ),
    setting(
        "ttl.standby_min",
        "TTL_STANDBY_MIN",
        "0",
        TTL,
        "The shortest standby TTL a workspace may choose for itself.",
    ),
    setting(
        "ttl.standby_max",
        "TTL_STANDBY_MAX",
        "0",
        TTL,
        "The longest standby TTL a workspace may choose for itself. 0: no bound, and \"never\" may be chosen.",
    ),
    setting(
        "ttl.archive_min",
        "TTL_ARCHIVE_MIN",
        "0",
        TTL,
        "The shortest archive TTL a workspace may choose for itself.",
    ),
    setting(
        "ttl.archive_max",
        "TTL_ARCHIVE_MAX",
        "0",
        TTL,
        "The longest archive TTL a workspace may choose for itself. 0: no bound, and \"never\" may be chosen.",
    ),
    setting(
        "limits.max_running_per_user",
        "LIMITS_MAX_RUNNING_PER_USER",
        "2",
        Kind::Count { min: 0, max: 100_000 },
        "How many workspaces one person may have running. 0: no limit.",
    ),
    setting(
        "limits.max_running_global",
        "LIMITS_MAX_RUNNING_GLOBAL",
        "100",
        Kind::Count { min: 0, max: 1_000_000 },
        "How many workspaces may run in all. 0: no limit.",
    ),
    setting(
        "runtime.kind",
        "RUNTIME",
        "process",
        Kind::OneOf(&["process", "docker"]),
        "What workspaces run in. `process`: local processes, for one trusted person on one machine. `docker`: containers.",
    ),
    setting(
        "runtime.image",
        "RUNTIME_IMAGE",
        "codercom/code-server:latest",
        Kind::Text,
        "The image a workspace is created with. Kept with the workspace; `process` runs the IDE below whatever it says.",
    ),
    setting(
        "runtime.images_allowed",
        "RUNTIME_IMAGES_ALLOWED",
        "",
        Kind::Text,
        "Other images people may choose for a new workspace, separated by commas; * stands for anything.",
    ),
    setting(
        "runtime.container_port",
        "RUNTIME_CONTAINER_PORT",
        "8080",
        Kind::Count { min: 1, max: 65_535 },
        "The port the IDE listens on inside its container.",
    ),
    setting(
        "runtime.home",
        "RUNTIME_HOME",
        "/home/coder",
        Kind::UrlPath,
        "Where the home is mounted in a container.",
    ),
    setting(
        "runtime.uid",
        "RUNTIME_UID",
        "1000",
        Kind::Count { min: 1, max: 4_000_000_000 },
        "The user containers run as and homes belong to. Never root.",
    ),
    setting("runtime.gid", "RUNTIME_GID", "1000", Kind::Count { min: 1, max: 4_000_000_000 }, "Their group."),
    setting(
        "runtime.memory",
        "RUNTIME_MEMORY",
        "2g",
        Kind::Memory,
        "Memory a container may use, without swap: 512m, 2g. A number alone is MiB. 0: no limit.",
    ),
    setting(
        "runtime.cpus",
        "RUNTIME_CPUS",
        "2",
        Kind::Cpus,
        "CPUs a container may use: 2, 1.5. 0: no limit.",
    ),
    setting(
        "runtime.pids",
        "RUNTIME_PIDS",
        "1024",
        Kind::Count { min: 0, max: 4_194_304 },
        "Processes and threads a container may have. 0: no limit.",
    ),
    setting(
        "runtime.read_only",
        "RUNTIME_READ_ONLY",
        "true",
        Kind::OneOf(&["true", "false"]),
        "Containers write to their home and to temporary file systems only.",
    ),
    setting(
        "runtime.pull",
        "RUNTIME_PULL",
        "missing",
        Kind::OneOf(&["missing", "always", "never"]),
        "When images are pulled: when the engine lacks them, before every start, or never.",
    ),
    setting(
        "runtime.reach",
        "RUNTIME_REACH",
        "port",
        Kind::OneOf(&["port", "address"]),
        "How CodeHub reaches a container: by a port on 127.0.0.1, or by its own address (CodeHub on the engine's machine, or on the same network).",
    ),
    setting(
        "runtime.network",
        "RUNTIME_NETWORK",
        "",
        Kind::Text,
        "An existing network for workspaces. Empty: one of the deployment's own, where they cannot reach each other.",
    ),
    setting(
        "runtime.firewall",
        "RUNTIME_FIREWALL",
        "auto",
        Kind::OneOf(&["auto", "always", "never"]),
        "Keep workspaces from this machine and private networks by packet rules: where CodeHub may make them (auto), always (refuse to start without), or never.",
    ),
    setting(
        "runtime.sandbox",
        "PROCESS_SANDBOX",
        "auto",
        Kind::OneOf(&["auto", "always", "never"]),
        "Shut workspaces in with bubblewrap: where it is installed (auto), always (refuse to start without), or never.",
    ),
    setting(
        "docker.host",
        "DOCKER_HOST",
        "unix:///var/run/docker.sock",
        Kind::Text,
        "The engine's address: unix:// or tcp:// (with DOCKER_TLS_VERIFY and DOCKER_CERT_PATH as for docker itself).",
    ),
    setting(
        "ide.kind",
        "IDE",
        "auto",
        Kind::OneOf(&["auto", "builtin", "code-server", "jupyterlab", "command"]),
        "The web program a workspace runs. `auto` takes what is installed, and the built-in editor if nothing is.",
    ),
    setting(
        "ide.command",
        "IDE_COMMAND",
        "",
        Kind::Words,
        "For ide.kind = \"command\": the program and its arguments, run without a shell. {port}, {home}, {id} and {base_path} are filled in.",
    ),
    setting(
        "ide.health_path",
        "IDE_HEALTH_PATH",
        "/healthz",
        Kind::UrlPath,
        "For ide.kind = \"command\": any status below 500 here means it is up.",
    ),
    setting(
        "operation.start_timeout",
        "OPERATION_START_TIMEOUT",
        "120s",
        Kind::Duration { min: 1, max: DAY },
        "A start or stop that gets no further for this long has failed.",
    ),
    setting(
        "operation.storage_timeout",
        "OPERATION_STORAGE_TIMEOUT",
        "10m",
        Kind::Duration { min: 1, max: DAY },
        "An operation that moves bytes and has moved none for this long has failed.",
    ),
    setting(
        "coordinator.idle_interval",
        "COORDINATOR_IDLE_INTERVAL",
        "15s",
        Kind::Duration { min: 1, max: 3600 },
        "How often everything is looked at while nothing happens.",
    ),
    setting(
        "coordinator.active_interval",
        "COORDINATOR_ACTIVE_INTERVAL",
        "1s",
        Kind::Duration { min: 1, max: 3600 },
        "How often while an operation is under way or somebody just asked for something.",
    ),
    setting(
        "coordinator.ttl_interval",
        "COORDINATOR_TTL_INTERVAL",
        "60s",
        Kind::Duration { min: 1, max: 3600 },
        "How often activity is written down and TTLs are checked.",
    ),
    setting(
        "coordinator.gc_interval",
        "COORDINATOR_GC_INTERVAL",
        "4h",
        Kind::Duration { min: 1, max: 30 * DAY },
        "How often archives and volumes that nothing refers to are looked for.",
    ),
    setting(
        "coordinator.concurrency",
        "COORDINATOR_CONCURRENCY",
        "8",
        Kind::Count { min: 1, max: 1024 },
        "How many starts, stops, archivings and restores run at once.",
    ),
    setting(
        "gc.orphan_delay",
        "GC_ORPHAN_DELAY",
        "2h",
        Kind::Duration { min: 0, max: YEAR },
        "What nothing refers to is deleted this long after it was first seen.",
    ),
    setting(
        "archive.keep",
        "ARCHIVE_KEEP",
        "3",
        Kind::Count { min: 1, max: 1000 },
        "How many archives of a workspace are kept, the current one included.",
    ),
    setting(
        "archive.verify",
        "ARCHIVE_VERIFY",
        "content",
        Kind::OneOf(&["content", "size"]),
        "Before a home is taken off its volume, its archive is read back and its checksum compared (content), or only its size (trusting the store).",
    ),
    setting(
        "s3.bucket",
        "S3_BUCKET",
        "",
        Kind::Text,
        "Keep archives in this bucket of an S3-compatible store. Empty: in the data directory.",
    ),
    setting(
        "s3.endpoint",
        "S3_ENDPOINT",
        "",
        Kind::BaseUrl,
        "The store's address, such as https://s3.example.com. Empty: Amazon's, of that region.",
    ),
    setting("s3.region", "S3_REGION", "us-east-1", Kind::Text, "The bucket's region, as its store calls it."),
    setting("s3.access_key", "S3_ACCESS_KEY", "", Kind::Text, "Who CodeHub is to the store."),
    Setting {
        secret: true,
        ..setting(
            "s3.secret_key",
            "S3_SECRET_KEY",
            "",
            Kind::Text,
            "The secret that belongs to the access key.",
        )
    },
    setting(
        "s3.prefix",
        "S3_PREFIX",
        "",
        Kind::Text,
        "Archives are kept below this. Empty: codehub/ and the deployment's own id, so that several can share a bucket.",
    ),
    setting(
        "s3.allow_http",
        "S3_ALLOW_HTTP",
        "false",
        Kind::OneOf(&["true", "false"]),
        "Allow plain http to a store that is not on this machine.",
    ),
    setting(
        "activity.mode",
        "ACTIVITY_MODE",
        "traffic",
        Kind::OneOf(&["traffic", "connections"]),
        "A workspace is in use while somebody works in it (traffic), or while a WebSocket is open (connections).",
    ),
    setting(
        "activity.flush_interval",
        "ACTIVITY_FLUSH_INTERVAL",
        "30s",
        Kind::Duration { min: 1, max: 3600 },
        "How often seen activity is handed on.",
    ),
    setting(
        "activity.max_hold",
        "ACTIVITY_MAX_HOLD",
        "12h",
        Kind::Duration { min: 0, max: 30 * DAY },
        "The longest keep-awake lease somebody may take for a workspace. 0: none.",
    ),
    setting(
        "activity.rules",
        "ACTIVITY_RULES",
        "",
        Kind::Text,
        "A file with more rules about what an IDE's tab does by itself, in the form docs/ACTIVITY.md describes; asked before the built-in ones.",
    ),
    setting(
        "proxy.wake_hold",
        "PROXY_WAKE_HOLD",
        "3s",
        Kind::Duration { min: 0, max: 60 },
        "Opening a sleeping workspace is held this long before a waiting page is shown.",
    ),
    setting(
        "events.heartbeat_interval",
        "SSE_HEARTBEAT_INTERVAL",
        "30s",
        Kind::Duration { min: 1, max: 3600 },
        "How often event streams say that they are alive.",
    ),
    setting(
        "log.filter",
        "LOG",
        "info",
        Kind::LogFilter,
        "What is logged: a level, or target=level pairs separated by commas.",
    ),
    setting(
        "log.format",
        "LOG_FORMAT",
        "auto",
        Kind::OneOf(&["auto", "human", "json"]),
        "How it is written. `auto`: for people on a terminal, JSON otherwise.",
    ),
];

/// Names that mean something to CodeHub but not to this version. To take one and do nothing would be
/// worse than to refuse it.
pub static NOT_OFFERED: &[(&str, &str)] =
    &[("PROXY_DOMAIN", "this version serves workspaces below /w/{id}/ only")];

pub fn by_key(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

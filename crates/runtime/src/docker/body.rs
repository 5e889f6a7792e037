//! What a workspace's container is made of, and what it may not do. The whole hardening list is here.

use std::{collections::HashMap, path::Path};

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount, MountType,
    MountVolumeOptions, PortBinding, ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};
use sha2::{Digest as _, Sha256};

use super::{
    DockerConfig, Reach,
    engine::{LABEL_CONFIG, LABEL_ETC, LABEL_GENERATION, LABEL_INSTANCE, LABEL_WORKSPACE},
    sockets::{IO, SOCKET},
    users::{ETC, Owner},
};
use crate::{InstanceSpec, ide::Fill};
use codehub_archive::hex;

/// Room for temporary files; in memory, and counted as such.
const TMPFS: &str = "rw,exec,nosuid,nodev,mode=1777,size=512m";

/// Per process: many for an editor and its language servers, and not what the engine was started with.
const OPEN_FILES: i64 = 16_384;

/// What is found out about one container only when it is made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Made<'a> {
    /// The directory in which it listens, where it does.
    pub(super) sockets: Option<&'a Path>,
    /// The volume with its list of users, where it has one of its own.
    pub(super) etc: Option<&'a str>,
    /// What its program asks for, where it does.
    pub(super) secret: Option<&'a str>,
}

/// The container of this workspace, which runs as this user. Its label `codehub.config` changes whenever
/// anything does that matters to what runs; what is different in every container does not.
pub(super) fn workspace(
    config: &DockerConfig,
    network: &str,
    spec: &InstanceSpec,
    (uid, gid): Owner,
    made: Made<'_>,
) -> ContainerCreateBody {
    let id = spec.workspace.to_string();
    let on_socket = config.reach == Reach::Socket;
    let fill = Fill {
        port: config.port,
        socket: on_socket.then_some(SOCKET),
        guarded: !on_socket,
        home: &config.home,
        id: &id,
        base_path: &spec.base_path,
    };
    let words = config.ide.command_line(&fill);
    let (entrypoint, cmd) = match words.split_first() {
        Some((program, arguments)) => (Some(vec![program.clone()]), Some(arguments.to_vec())),
        // The image knows what to run.
        None => (None, None),
    };
    let port = format!("{}/tcp", config.port);
    let mut env = vec![
        format!("HOME={}", config.home),
        format!("PORT={}", config.port),
        format!("CODEHUB_WORKSPACE_ID={id}"),
        format!("CODEHUB_URL={}", spec.url),
        format!("CODEHUB_API_URL={}", spec.api_url),
    ];
    env.extend(config.ide.env.iter().map(|(name, value)| format!("{name}={value}")));
    let ports = config.ide.port_env(spec.port_url.as_deref());
    env.extend(ports.map(|(name, value)| format!("{name}={value}")));
    if on_socket {
        env.push(format!("CODEHUB_SOCKET={SOCKET}"));
    }
    let mut body = ContainerCreateBody {
        hostname: Some("workspace".to_owned()),
        user: Some(format!("{uid}:{gid}")),
        exposed_ports: (!on_socket).then(|| vec![port.clone()]),
        env: Some(env),
        entrypoint,
        cmd,
        image: Some(spec.image_ref.clone()),
        working_dir: Some(config.home.clone()),
        stop_timeout: i64::try_from(config.stop_grace.as_secs()).ok(),
        host_config: Some(HostConfig {
            mounts: Some(vec![volume_mount(&spec.volume.to_string(), &config.home, false)]),
            port_bindings: (config.reach == Reach::Port).then(|| {
                let binding =
                    PortBinding { host_ip: Some("127.0.0.1".to_owned()), host_port: Some(String::new()) };
                HashMap::from([(port, Some(vec![binding]))])
            }),
            network_mode: Some(network.to_owned()),
            dns: (!config.dns.is_empty()).then(|| config.dns.iter().map(ToString::to_string).collect()),
            init: Some(true),
            ..hardened(config)
        }),
        ..ContainerCreateBody::default()
    };
    let made_with = fingerprint(&body);
    // Another name is no reason to end what runs: it comes with the next container.
    let env = body.env.get_or_insert_default();
    env.push(format!("CODEHUB_WORKSPACE_NAME={}", spec.name));
    if let (Some(guard), Some(secret)) = (&config.ide.guard, made.secret) {
        env.push(format!("{}={secret}", guard.env));
    }
    if let Some(host) = &mut body.host_config {
        let mounts = host.mounts.get_or_insert_default();
        mounts.extend(made.etc.map(|volume| etc_mount(volume, &config.deployment, &id)));
        mounts.extend(made.sockets.map(socket_mount));
    }
    let labels = HashMap::from([
        (LABEL_INSTANCE.to_owned(), config.deployment.clone()),
        (LABEL_WORKSPACE.to_owned(), id),
        (LABEL_GENERATION.to_owned(), spec.generation().to_string()),
        (LABEL_CONFIG.to_owned(), made_with),
    ]);
    body.labels = Some(labels);
    body
}

/// Nothing that an editor and its terminals do not need.
fn hardened(config: &DockerConfig) -> HostConfig {
    let limit = |value: u64| (value > 0).then(|| i64::try_from(value).unwrap_or(i64::MAX));
    let mut tmpfs = HashMap::from([("/tmp".to_owned(), TMPFS.to_owned())]);
    if config.read_only {
        for path in ["/run", "/var/tmp"] {
            tmpfs.insert(path.to_owned(), TMPFS.to_owned());
        }
    }
    HostConfig {
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges:true".to_owned()]),
        readonly_rootfs: Some(config.read_only),
        tmpfs: Some(tmpfs),
        memory: limit(config.memory),
        // The same: no swap on top.
        memory_swap: limit(config.memory),
        nano_cpus: limit(config.milli_cpus.saturating_mul(1_000_000)),
        pids_limit: limit(config.pids),
        ulimits: Some(vec![ulimit("core", 0), ulimit("nofile", OPEN_FILES)]),
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(HashMap::from([
                ("max-size".to_owned(), "10m".to_owned()),
                ("max-file".to_owned(), "2".to_owned()),
            ])),
        }),
        ..HostConfig::default()
    }
}

fn ulimit(name: &str, most: i64) -> ResourcesUlimits {
    ResourcesUlimits { name: Some(name.to_owned()), soft: Some(most), hard: Some(most) }
}

pub(super) fn volume_mount(volume: &str, target: &str, read_only: bool) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        source: Some(volume.to_owned()),
        target: Some(target.to_owned()),
        read_only: Some(read_only),
        // What is in the image at that place must not change the home's owner.
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
        ..Mount::default()
    }
}

/// The image's own, in a volume that the engine fills from it: the user's name can be put there although the container's root is
/// read-only. It is root's, as in the image.
fn etc_mount(volume: &str, deployment: &str, id: &str) -> Mount {
    let labels = HashMap::from([
        (LABEL_INSTANCE.to_owned(), deployment.to_owned()),
        (LABEL_ETC.to_owned(), id.to_owned()),
    ]);
    Mount {
        typ: Some(MountType::VOLUME),
        source: Some(volume.to_owned()),
        target: Some(ETC.to_owned()),
        volume_options: Some(MountVolumeOptions { labels: Some(labels), ..MountVolumeOptions::default() }),
        ..Mount::default()
    }
}

/// The directory in which it listens. The engine refuses one that is not on its own machine.
fn socket_mount(place: &Path) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(place.to_string_lossy().into_owned()),
        target: Some(IO.to_owned()),
        read_only: Some(false),
        ..Mount::default()
    }
}

fn fingerprint(body: &ContainerCreateBody) -> String {
    // Maps have no order of their own; a JSON value has.
    let value = serde_json::to_value(body).unwrap_or_default();
    let digest = Sha256::digest(value.to_string().as_bytes());
    hex(&digest[..8])
}

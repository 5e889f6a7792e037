//! The connection to the engine, and what its errors mean.

use std::{
    collections::HashMap,
    fmt::Display,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bollard::{Docker, errors::Error, query_parameters::ListContainersOptionsBuilder};
use codehub_domain::{Generation, WorkspaceId};
use tokio::sync::OnceCell;

use crate::{Result, RuntimeError};

pub(super) const LABEL_INSTANCE: &str = "codehub.instance";
pub(super) const LABEL_WORKSPACE: &str = "codehub.workspace";
pub(super) const LABEL_GENERATION: &str = "codehub.generation";
pub(super) const LABEL_OWNER: &str = "codehub.owner";
pub(super) const LABEL_CONFIG: &str = "codehub.config";
/// On volumes with a workspace's `/etc`: whose.
pub(super) const LABEL_ETC: &str = "codehub.etc";
/// On helper containers: which job.
pub(super) const LABEL_JOB: &str = "codehub.job";

/// Long enough for the slowest single answer (stopping a container waits for its program).
const ANSWER: Duration = Duration::from_secs(90);

pub(super) type Labels = HashMap<String, String>;

/// One engine. Connects when it is first needed, so that an engine that is down now may be up then.
#[derive(Debug)]
pub struct Engine {
    host: String,
    client: OnceCell<Docker>,
    maps_users: OnceCell<bool>,
    outages: AtomicU64,
}

impl Engine {
    /// `unix:///var/run/docker.sock`, `tcp://…`; TLS as Docker's own client does it.
    pub fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            client: OnceCell::new(),
            maps_users: OnceCell::new(),
            outages: AtomicU64::new(0),
        }
    }

    /// Where the engine is, for messages.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether it is on this machine, as far as its address says.
    pub fn is_local(&self) -> bool {
        self.host.starts_with("unix://")
    }

    /// How often it has been away, as far as was noticed: whatever ended meanwhile may have ended with it.
    pub(super) fn outages(&self) -> u64 {
        self.outages.load(Ordering::Acquire)
    }

    /// It did not answer, or broke off.
    pub(super) fn was_away(&self) {
        self.outages.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) async fn client(&self) -> Result<&Docker> {
        let connect = || async {
            // One TLS provider for the whole program; somebody else may have chosen it already.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let docker = Docker::connect_with_host(&self.host).map_err(|error| {
                RuntimeError::Unreachable(format!("the engine at {} cannot be used: {error}", self.host))
            })?;
            let docker = docker.with_timeout(ANSWER);
            docker.negotiate_version().await.map_err(|error| self.failed("be asked")(error))
        };
        self.client.get_or_try_init(connect).await
    }

    /// Whether users in its containers are others outside (rootless, or with `userns-remap`): then it has few of them.
    /// An engine that changes that has other volumes, too, and is another one.
    pub(super) async fn maps_users(&self) -> Result<bool> {
        let ask = || async {
            let info = self.client().await?.info().await.map_err(self.failed("tell about itself"))?;
            let options = info.security_options.unwrap_or_default();
            Ok(options.iter().any(|it| it.contains("name=userns") || it.contains("name=rootless")))
        };
        self.maps_users.get_or_try_init(ask).await.copied()
    }

    /// Sorts an error into "does not answer" and "says no".
    pub(super) fn failed<'a>(&'a self, what: impl Display + 'a) -> impl FnOnce(Error) -> RuntimeError + 'a {
        move |error| match &error {
            Error::DockerResponseServerError { status_code, message }
                if !is_going_down(*status_code, message) =>
            {
                let text = format!("the engine could not {what}: {message}");
                if is_full(message) { RuntimeError::NoCapacity(text) } else { RuntimeError::Failed(text) }
            }
            Error::DockerContainerWaitError { .. } | Error::DockerStreamError { .. } => {
                RuntimeError::Failed(format!("the engine could not {what}: {error}"))
            }
            _ => {
                self.was_away();
                RuntimeError::Unreachable(format!(
                    "the engine at {} does not answer (to {what}): {}",
                    self.host,
                    chain(&error)
                ))
            }
        }
    }

    /// All containers with these labels (`name` or `name=value`), stopped ones too.
    pub(super) async fn containers(
        &self,
        filters: HashMap<&str, Vec<String>>,
    ) -> Result<Vec<bollard::models::ContainerSummary>> {
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let listed = self.client().await?.list_containers(Some(options)).await;
        listed.map_err(self.failed("list containers"))
    }

    pub(super) async fn ping(&self) -> Result<()> {
        self.client().await?.ping().await.map(|_| ()).map_err(self.failed("answer"))
    }
}

/// An engine that is shutting down, or whose other half is gone, answers with an error of its own.
fn is_going_down(status: u16, message: &str) -> bool {
    status == 503
        || [
            "shutting down",
            "connection refused",
            "connection error",
            "context canceled",
            "is closing",
            "ttrpc: closed",
        ]
        .iter()
        .any(|sign| message.contains(sign))
}

/// Whether it says that it has no room: trying again later may help, and nothing is wrong with the workspace.
fn is_full(message: &str) -> bool {
    [
        "no space left on device",
        "no available IPv4 addresses",
        "no available ipv4 addresses",
        "fully subnetted",
    ]
    .iter()
    .any(|sign| message.contains(sign))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

pub(super) fn is_status(error: &Error, status: u16) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code, .. } if *status_code == status)
}

pub(super) fn is_missing(error: &Error) -> bool {
    is_status(error, 404)
}

/// A thing that is not there is `None`.
pub(super) fn found<T>(outcome: std::result::Result<T, Error>) -> std::result::Result<Option<T>, Error> {
    match outcome {
        Ok(it) => Ok(Some(it)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn label_filter(labels: &[(&str, &str)]) -> HashMap<&'static str, Vec<String>> {
    let wanted = labels.iter().map(|(name, value)| match *value {
        "" => (*name).to_owned(),
        value => format!("{name}={value}"),
    });
    HashMap::from([("label", wanted.collect())])
}

/// What the labels say, if they are of this deployment.
pub(super) fn read_labels(labels: Option<&Labels>, deployment: &str) -> Option<(WorkspaceId, Generation)> {
    let labels = labels?;
    if labels.get(LABEL_INSTANCE)? != deployment {
        return None;
    }
    let generation = labels.get(LABEL_GENERATION)?.parse().ok()?;
    Some((labels.get(LABEL_WORKSPACE)?.parse().ok()?, Generation(generation)))
}

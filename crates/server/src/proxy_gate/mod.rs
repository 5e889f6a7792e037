//! The gate of a running server: store, bus, instances and archives behind the proxy's seam.

use std::{
    net::IpAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use async_trait::async_trait;
use codehub_domain::{
    ArchiveKey, Desired, Timestamp, UserId, WorkspaceId,
    audit::AuditActor,
    desired::Refusal,
    event::{Actor, Reason},
    ports::{PortScheme, PortSettings},
};
use codehub_inside::line::protocol::ListeningPort;
use codehub_proxy::{
    Proxy, Settings,
    activity::Sink,
    appearance::{Lang, Theme},
    credential::CookieNames,
    idle::Rules,
};
use codehub_runtime::Upstream;
use codehub_store::{Asked, Changes, Handover, Redeemed, Store, WorkspaceOrigin, bus::Bus};
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use http::{HeaderMap, HeaderValue, header};

use self::{dial::Connections, opened::Opened};
use crate::{
    app::App,
    auth::{self, AuthError, Identity, Via, act, secret},
    backends,
    config::Config,
    service::{self, Denied},
};
use codehub_proxy::gate::{
    ArchiveFacts, Caller, Credential, Entered, Gate, GateError, HandoverState, Listening, ProxyIde, Sleep,
    Woken, WorkspaceView,
};

/// Holds the app weakly, so that the app may own the proxy.
pub struct AppGate {
    app: Weak<App>,
    store: Arc<dyn Store>,
    ide: ProxyIde,
    opened: Opened,
    connections: Connections,
    deployment: tokio::sync::OnceCell<String>,
}

impl AppGate {
    /// Answers from `app`'s store; `ide` is what workspaces run.
    pub fn new(app: &Arc<App>, ide: ProxyIde) -> Self {
        Self {
            app: Arc::downgrade(app),
            store: app.backends.store.clone(),
            ide,
            opened: Opened::default(),
            connections: Connections::default(),
            deployment: tokio::sync::OnceCell::new(),
        }
    }

    fn app(&self) -> Result<Arc<App>, GateError> {
        self.app.upgrade().ok_or_else(|| GateError("the server is shutting down".into()))
    }
}

fn unreachable(error: impl std::fmt::Display) -> GateError {
    GateError(error.to_string())
}

/// How long a code leads somewhere.
const CODE_SECONDS: u32 = 60;
/// How long a page waits for the list of what else listens.
const LISTENING_WITHIN: Duration = Duration::from_secs(2);

/// Whose credential this is, with what the headers say of where it came from.
async fn identify(
    app: &App,
    credential: Credential<'_>,
    headers: &HeaderMap,
    address: Option<IpAddr>,
) -> Result<Identity, AuthError> {
    let (name, prefix, secret) = match credential {
        Credential::Workspace(origin, secret) => {
            let secret = std::str::from_utf8(secret).unwrap_or_default();
            return auth::identify_entered(app, secret, origin, headers, address).await;
        }
        Credential::Session(secret) => {
            (header::COOKIE, format!("{}=", CookieNames::of(app.config.is_https()).session), secret)
        }
        Credential::Bearer(secret) => (header::AUTHORIZATION, "Bearer ".into(), secret),
    };
    // The headers as they would look if this credential were all that was sent.
    let mut headers = headers.clone();
    headers.remove(header::COOKIE);
    headers.remove(header::AUTHORIZATION);
    let value = HeaderValue::from_bytes(&[prefix.as_bytes(), secret].concat());
    headers.insert(name, value.map_err(|_| AuthError::Unauthorized("this is no credential"))?);
    auth::identify_from(app, &headers, address).await
}

#[async_trait]
impl Gate for AppGate {
    async fn identify(&self, credential: Credential<'_>) -> Result<Option<Caller>, GateError> {
        let app = self.app()?;
        match identify(&app, credential, &HeaderMap::new(), None).await {
            Ok(identity) => Ok(Some(Caller {
                user: identity.user.id,
                by_cookie: match identity.via {
                    Via::Session(_) => true,
                    Via::Token(_) => false,
                },
                until: identity.until,
            })),
            Err(AuthError::Unauthorized(_) | AuthError::SeveralSessions) => Ok(None),
            Err(AuthError::Store(error)) => Err(unreachable(error)),
        }
    }

    async fn workspace(&self, id: WorkspaceId, ports: bool) -> Result<Option<WorkspaceView>, GateError> {
        let workspace = self.store.workspace_get(id).await.map_err(unreachable)?;
        let Some(workspace) = workspace else { return Ok(None) };
        let mut view = WorkspaceView::new(&workspace, self.ide);
        if ports {
            view.ports = self.store.workspace_ports(id).await.map_err(unreachable)?;
        }
        Ok(Some(view))
    }

    fn port(&self, id: WorkspaceId, port: u16, scheme: PortScheme) -> Upstream {
        self.connections.to(&self.app, id, port, scheme)
    }

    async fn listening(&self, id: WorkspaceId) -> Vec<Listening> {
        let Ok(app) = self.app() else { return Vec::new() };
        let found = tokio::time::timeout(LISTENING_WITHIN, service::ports::listening(&app, id)).await;
        let found = found.ok().and_then(Result::ok).unwrap_or_default();
        let unnamed = |found: ListeningPort| Listening {
            port: found.port,
            process: found.process,
            label: String::new(),
        };
        found.into_iter().map(unnamed).collect()
    }

    fn follow_listening(&self, id: WorkspaceId) -> BoxStream<'static, Vec<Listening>> {
        let Ok(app) = self.app() else { return stream::pending().boxed() };
        let mut followed = service::ports::follow(&app, id);
        followed.mark_changed();
        let news = async |mut followed: service::ports::Followed| loop {
            followed.changed().await.ok()?;
            let Some((listening, said)) = followed.borrow_and_update().clone() else { continue };
            let named = |found: ListeningPort| Listening {
                label: PortSettings::among(&said, found.port).label,
                port: found.port,
                process: found.process,
            };
            let listening = listening.said().cloned().unwrap_or_default();
            return Some((listening.into_iter().map(named).collect(), followed));
        };
        stream::unfold(followed, news).boxed()
    }

    async fn upstream(&self, id: WorkspaceId) -> Result<Option<Upstream>, GateError> {
        self.app()?.backends.instances.upstream(id).await.map_err(unreachable)
    }

    async fn wake(&self, id: WorkspaceId, by: UserId) -> Result<Woken, GateError> {
        let app = self.app()?;
        let Some(user) = self.store.user_get(by).await.map_err(unreachable)? else {
            return Ok(Woken::NotFound);
        };
        // Which session it was is written down with the opening.
        let act = act::system().by(AuditActor::of_user(&user));
        let (actor, reason) = (Actor::Wake(by), &Reason::OpenedInBrowser);
        let asked = self
            .store
            .workspace_ask(&act, id, Desired::Running, app.config.limits, actor, reason)
            .await
            .map_err(unreachable)?;
        Ok(match asked {
            Asked::Changed(_) | Asked::Already(_) => {
                self.look(id).await;
                Woken::Asked
            }
            Asked::NotFound | Asked::Refused(Refusal::Gone) => Woken::NotFound,
            Asked::Refused(Refusal::Busy(_)) => Woken::Busy,
            Asked::Refused(Refusal::NeedsRecovery) => Woken::NeedsRecovery,
            Asked::LimitReached(hit) => Woken::Limit(hit),
        })
    }

    async fn sleep(&self, id: WorkspaceId) -> Result<Option<Sleep>, GateError> {
        let app = self.app()?;
        let Some(workspace) = self.store.workspace_get(id).await.map_err(unreachable)? else {
            return Ok(None);
        };
        let expiry = app.expiry(&workspace).filter(|expiry| expiry.to == Desired::Standby);
        Ok(Some(Sleep {
            now: app.activity.now(),
            stops_at: expiry.map(|expiry| expiry.acts_at),
            ttl_seconds: workspace.standby_ttl_seconds.unwrap_or(app.config.ttl_policy().standby_seconds),
        }))
    }

    async fn keep_awake(&self, id: WorkspaceId, by: UserId) -> Result<Result<(), String>, GateError> {
        let app = self.app()?;
        let Some(user) = self.store.user_get(by).await.map_err(unreachable)? else {
            return Ok(Err("there is no such user".into()));
        };
        match service::snooze(&app, &user, id).await {
            Ok(_) => Ok(Ok(())),
            Err(Denied::Store(error)) => Err(unreachable(error)),
            Err(denied) => Ok(Err(denied.to_string())),
        }
    }

    async fn appearance(&self, user: UserId) -> Result<(Option<Lang>, Option<Theme>), GateError> {
        let user = self.store.user_get(user).await.map_err(unreachable)?;
        Ok(user.map_or((None, None), |user| (Lang::of_account(user.language), Theme::of_account(user.theme))))
    }

    async fn deployment(&self) -> Result<String, GateError> {
        let ask = || async { backends::deployment(&*self.store).await.map_err(unreachable) };
        Ok(self.deployment.get_or_try_init(ask).await?.clone())
    }

    async fn look(&self, id: WorkspaceId) {
        if let Ok(app) = self.app()
            && let Err(error) = app.bus().look(id).await
        {
            // The next tick looks anyway.
            tracing::debug!(%error, "the controller could not be told to look");
        }
    }

    async fn hand_over(
        &self,
        session: Credential<'_>,
        to: WorkspaceOrigin,
        state: &HandoverState,
        target: &str,
    ) -> Result<Option<String>, GateError> {
        let app = self.app()?;
        let identity = match identify(&app, session, &HeaderMap::new(), None).await {
            Ok(identity) => identity,
            Err(AuthError::Unauthorized(_) | AuthError::SeveralSessions) => return Ok(None),
            Err(AuthError::Store(error)) => return Err(unreachable(error)),
        };
        let Via::Session(session) = identity.via else { return Ok(None) };
        let code = secret::new_secret();
        let handover = Handover { session, origin: to, state: state.to_vec(), target: target.to_owned() };
        let saved = self.store.handover_create(&secret::hash(&code), &handover, CODE_SECONDS).await;
        Ok(saved.map_err(unreachable)?.then_some(code))
    }

    async fn enter(
        &self,
        at: WorkspaceOrigin,
        code: &str,
        states: &[HandoverState],
    ) -> Result<Entered, GateError> {
        let cookie = secret::new_secret();
        let (code, hash) = (secret::hash(code), secret::hash(&cookie));
        let mut redeemed = Redeemed::AnotherState;
        for state in states {
            redeemed = self.store.handover_redeem(&code, at, state, &hash).await.map_err(unreachable)?;
            if redeemed != Redeemed::AnotherState {
                break;
            }
        }
        Ok(match redeemed {
            Redeemed::Entered { target } => Entered::Session { secret: cookie, target },
            Redeemed::Unknown => Entered::Used,
            Redeemed::Late => Entered::Late,
            Redeemed::AnotherState => Entered::AnotherBrowser,
        })
    }

    fn opened(&self, at: WorkspaceOrigin, credential: Credential<'_>, headers: &HeaderMap, address: IpAddr) {
        if let Ok(app) = self.app() {
            self.opened.note(app, at, credential, headers, address);
        }
    }

    async fn archive(&self, key: ArchiveKey) -> Option<ArchiveFacts> {
        let info = self.app().ok()?.backends.archives.head(&key).await.ok()??;
        Some(ArchiveFacts { size_bytes: info.size, created_at: info.created_at })
    }

    fn changes(&self) -> Changes {
        self.store.changes()
    }
}

/// Where this replica tells what it saw of workspaces' activity.
pub struct ActivitySink {
    pub replica: String,
    pub store: Arc<dyn Store>,
    pub bus: Arc<dyn Bus>,
}

#[async_trait]
impl Sink for ActivitySink {
    async fn now(&self) -> anyhow::Result<Timestamp> {
        Ok(self.store.now().await?)
    }

    async fn forgot(&self) -> anyhow::Result<bool> {
        Ok(self.bus.forgot().await?)
    }

    async fn add(&self, seen: &[(WorkspaceId, Timestamp)]) -> anyhow::Result<()> {
        Ok(self.bus.activity_add(seen).await?)
    }

    async fn flushed(&self, ago: Duration) -> anyhow::Result<()> {
        Ok(self.store.replica_flushed(&self.replica, ago).await?)
    }
}

/// What the proxy is configured with.
fn settings(config: &Config, rules: Arc<Rules>) -> Settings {
    Settings {
        wake_hold: config.proxy.wake_hold,
        hosts: config.hosts(),
        trusted_proxies: config.trusted_proxies.clone(),
        rules,
        ports: config.ports.clone(),
        standby_ttl: Duration::from_secs(config.ttl.standby_seconds.into()),
    }
}

/// The proxy of a running server. Spawn [`Proxy::run`] beside it.
pub fn of_app(app: &Arc<App>, ide: ProxyIde) -> Arc<Proxy> {
    let gate = Arc::new(AppGate::new(app, ide));
    Proxy::new(gate, settings(&app.config, app.idle.clone()), app.activity.clone(), app.shutdown.clone())
}

mod dial;
mod opened;

#[cfg(test)]
mod tests;

//! A proxy on loopback with everything around it faked.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use codehub_domain::change::Change;
use codehub_domain::{
    ArchiveKey, Desired, Operation, Phase, Timestamp, UserId, WorkspaceId,
    activity::ActivityMode,
    origins::{Mode, Origins, WorkspaceOrigin},
    ports::{PortScheme, PortsPolicy},
};
pub(super) use codehub_testing::{eventually, let_time_pass, poll_every};
use codehub_upstream::{Carried, Dial, Dialling, Inside, NotDialled};
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{broadcast, watch},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Proxy, Settings,
    activity::Activity,
    appearance::{Lang, Theme},
    front,
    gate::{
        ArchiveFacts, Caller, Credential, Entered, Gate, GateError, HandoverState, Listening, ProxyIde,
        Sleep, Woken, WorkspaceView,
    },
    hosts::Hosts,
    tls::Tls,
};

pub(super) const SESSION: &str = "owner-secret";
pub(super) const COOKIE: &str = "session=owner-secret";
pub(super) const TOKEN: &str = "chub_owner";

pub(super) fn owner() -> UserId {
    "01890a5d-ac96-774b-bcce-b302099a8001".parse().unwrap()
}

pub(super) fn stranger() -> UserId {
    "01890a5d-ac96-774b-bcce-b302099a8002".parse().unwrap()
}

pub(super) fn workspace() -> WorkspaceId {
    "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap()
}

/// The rest of the server, as a few fields.
pub(super) struct FakeGate {
    pub(super) views: Mutex<HashMap<WorkspaceId, WorkspaceView>>,
    pub(super) upstream: Mutex<Option<codehub_upstream::Upstream>>,
    /// When all credentials run out.
    pub(super) until: Mutex<Option<Instant>>,
    /// By how much they are prolonged when they are used.
    pub(super) slides: Mutex<Option<Duration>>,
    pub(super) sessions: Mutex<HashMap<Vec<u8>, UserId>>,
    /// Sessions of workspaces' own origins, and what codes are good for.
    pub(super) entered: Mutex<HashMap<(WorkspaceOrigin, Vec<u8>), UserId>>,
    pub(super) codes: Mutex<HashMap<String, (WorkspaceOrigin, HandoverState, String, UserId)>>,
    /// What listens in the workspace, and how connections to it fail that nothing listens for.
    pub(super) ports: Mutex<HashMap<u16, SocketAddr>>,
    pub(super) not_dialled: Mutex<NotDialled>,
    /// What is told of it to whoever follows.
    pub(super) listening: watch::Sender<Vec<Listening>>,
    pub(super) wakes: AtomicU32,
    pub(super) looks: AtomicU32,
    pub(super) reads: AtomicU32,
    pub(super) identifications: AtomicU32,
    pub(super) woken: Mutex<Woken>,
    pub(super) archive: Mutex<Option<ArchiveFacts>>,
    pub(super) sleep: Mutex<Sleep>,
    pub(super) appearance: Mutex<(Option<Lang>, Option<Theme>)>,
    pub(super) sleep_reads: AtomicU32,
    pub(super) kept_awake: Mutex<Result<u32, String>>,
    changes: broadcast::Sender<Change>,
}

impl FakeGate {
    /// Waits until somebody has asked for it to be woken; a test's own timeout ends it.
    pub(super) async fn woken_once(&self) {
        while self.wakes.load(SeqCst) == 0 {
            poll_every(Duration::from_millis(5)).await;
        }
    }

    fn new() -> Arc<Self> {
        let view = WorkspaceView {
            id: workspace(),
            owner: owner(),
            name: "my <workspace>".into(),
            phase: Phase::Running,
            operation: Operation::None,
            desired: Desired::Running,
            deleted: false,
            error: None,
            archive_key: None,
            progress: None,
            ide: ProxyIde::default(),
            activity_mode: None,
            standby_ttl_seconds: None,
            held_until: None,
            ports: Vec::new(),
        };
        let sessions = HashMap::from([(SESSION.into(), owner()), (b"stranger-secret".to_vec(), stranger())]);
        Arc::new(Self {
            views: Mutex::new(HashMap::from([(workspace(), view)])),
            upstream: Mutex::default(),
            until: Mutex::default(),
            slides: Mutex::default(),
            sessions: Mutex::new(sessions),
            entered: Mutex::new(HashMap::from([((origin(None), SESSION.into()), owner())])),
            codes: Mutex::default(),
            ports: Mutex::default(),
            not_dialled: Mutex::new(NotDialled::NothingListens),
            listening: watch::Sender::new(Vec::new()),
            wakes: AtomicU32::new(0),
            looks: AtomicU32::new(0),
            reads: AtomicU32::new(0),
            identifications: AtomicU32::new(0),
            woken: Mutex::new(Woken::Asked),
            archive: Mutex::default(),
            sleep: Mutex::new(Sleep { now: Timestamp::now(), stops_at: None, ttl_seconds: 600 }),
            appearance: Mutex::default(),
            sleep_reads: AtomicU32::new(0),
            kept_awake: Mutex::new(Ok(0)),
            changes: broadcast::Sender::new(4096),
        })
    }

    /// Changes the workspace and says so, as the store would.
    pub(super) fn change(&self, edit: impl FnOnce(&mut WorkspaceView)) {
        edit(self.views.lock().unwrap().get_mut(&workspace()).unwrap());
        self.tell(Change::Updated { workspace: workspace(), owner: owner() });
    }

    fn until(&self) -> Option<Instant> {
        *self.until.lock().unwrap()
    }

    pub(super) fn tell(&self, change: Change) {
        let _ = self.changes.send(change);
    }
}

#[async_trait]
impl Gate for FakeGate {
    async fn identify(&self, credential: Credential<'_>) -> Result<Option<Caller>, GateError> {
        self.identifications.fetch_add(1, SeqCst);
        if self.until().is_some_and(|until| until <= Instant::now()) {
            return Ok(None);
        }
        if let Some(more) = *self.slides.lock().unwrap() {
            *self.until.lock().unwrap() = Some(Instant::now() + more);
        }
        Ok(match credential {
            Credential::Session(secret) => {
                let user = self.sessions.lock().unwrap().get(secret).copied();
                user.map(|user| Caller { user, by_cookie: true, until: self.until() })
            }
            Credential::Workspace(origin, secret) => {
                let user = self.entered.lock().unwrap().get(&(origin, secret.to_vec())).copied();
                user.map(|user| Caller { user, by_cookie: true, until: self.until() })
            }
            Credential::Bearer(token) => {
                let caller = || Caller { user: owner(), by_cookie: false, until: self.until() };
                (token == TOKEN.as_bytes()).then(caller)
            }
        })
    }

    async fn workspace(&self, id: WorkspaceId, ports: bool) -> Result<Option<WorkspaceView>, GateError> {
        self.reads.fetch_add(1, SeqCst);
        let mut found = self.views.lock().unwrap().get(&id).cloned();
        if let Some(view) = found.as_mut().filter(|_| !ports) {
            view.ports.clear();
        }
        Ok(found)
    }

    async fn upstream(&self, _: WorkspaceId) -> Result<Option<codehub_upstream::Upstream>, GateError> {
        Ok(self.upstream.lock().unwrap().clone())
    }

    fn port(&self, _: WorkspaceId, port: u16, _: PortScheme) -> codehub_upstream::Upstream {
        let found = self.ports.lock().unwrap().get(&port).copied();
        let dial = FakeDial(found.ok_or_else(|| self.not_dialled.lock().unwrap().clone()));
        codehub_upstream::Upstream::at(Inside::new(format!("port {port}"), Arc::new(dial)))
    }

    async fn listening(&self, _: WorkspaceId) -> Vec<Listening> {
        let ports = self.ports.lock().unwrap();
        ports
            .keys()
            .map(|port| Listening { port: *port, process: "node <x>".into(), label: String::new() })
            .collect()
    }

    fn follow_listening(&self, _: WorkspaceId) -> BoxStream<'static, Vec<Listening>> {
        let mut followed = self.listening.subscribe();
        followed.mark_changed();
        let news = async |mut followed: watch::Receiver<Vec<Listening>>| {
            followed.changed().await.ok()?;
            let listening = followed.borrow_and_update().clone();
            Some((listening, followed))
        };
        stream::unfold(followed, news).boxed()
    }

    async fn wake(&self, id: WorkspaceId, _: UserId) -> Result<Woken, GateError> {
        self.wakes.fetch_add(1, SeqCst);
        // A database takes its time.
        let_time_pass(Duration::from_millis(20)).await;
        let answer = self.woken.lock().unwrap().clone();
        if answer == Woken::Asked {
            self.views.lock().unwrap().get_mut(&id).unwrap().desired = Desired::Running;
            self.tell(Change::Updated { workspace: id, owner: owner() });
        }
        Ok(answer)
    }

    async fn appearance(&self, _: UserId) -> Result<(Option<Lang>, Option<Theme>), GateError> {
        Ok(*self.appearance.lock().unwrap())
    }

    async fn sleep(&self, _: WorkspaceId) -> Result<Option<Sleep>, GateError> {
        self.sleep_reads.fetch_add(1, SeqCst);
        Ok(Some(Sleep { now: Timestamp::now(), ..*self.sleep.lock().unwrap() }))
    }

    async fn keep_awake(&self, _: WorkspaceId, _: UserId) -> Result<Result<(), String>, GateError> {
        Ok(self.kept_awake.lock().unwrap().as_mut().map(|times| *times += 1).map_err(|why| why.clone()))
    }

    async fn hand_over(
        &self,
        session: Credential<'_>,
        to: WorkspaceOrigin,
        state: &HandoverState,
        target: &str,
    ) -> Result<Option<String>, GateError> {
        let Some(caller) = self.identify(session).await? else { return Ok(None) };
        let mut codes = self.codes.lock().unwrap();
        let code = format!("code-{}", codes.len());
        codes.insert(code.clone(), (to, *state, target.into(), caller.user));
        Ok(Some(code))
    }

    async fn enter(
        &self,
        at: WorkspaceOrigin,
        code: &str,
        states: &[HandoverState],
    ) -> Result<Entered, GateError> {
        let mut codes = self.codes.lock().unwrap();
        match codes.get(code) {
            Some((to, ..)) if *to != at => Ok(Entered::Used),
            Some((_, wanted, ..)) if !states.contains(wanted) => Ok(Entered::AnotherBrowser),
            None => Ok(Entered::Used),
            Some((_, _, target, user)) => {
                let (target, secret) = (target.clone(), format!("entered-by-{code}"));
                self.entered.lock().unwrap().insert((at, secret.clone().into()), *user);
                codes.remove(code);
                Ok(Entered::Session { secret, target })
            }
        }
    }

    async fn deployment(&self) -> Result<String, GateError> {
        Ok("this deployment".into())
    }

    async fn look(&self, _: WorkspaceId) {
        self.looks.fetch_add(1, SeqCst);
    }

    async fn archive(&self, _: ArchiveKey) -> Option<ArchiveFacts> {
        *self.archive.lock().unwrap()
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }
}

/// The way to a port, or why there is none.
struct FakeDial(Result<SocketAddr, NotDialled>);

impl Dial for FakeDial {
    fn dial(&self) -> Dialling<'_> {
        Box::pin(async move {
            let stream = TcpStream::connect(self.0.clone()?).await;
            let stream = stream.map_err(|_| NotDialled::NothingListens)?;
            Ok(Box::new(stream) as Carried)
        })
    }
}

/// The workspace's own origin, or one of its ports'.
pub(super) fn origin(port: Option<u16>) -> WorkspaceOrigin {
    WorkspaceOrigin { workspace: workspace(), port }
}

/// A proxy that listens.
pub(super) struct Rig {
    pub(super) gate: Arc<FakeGate>,
    pub(super) proxy: Arc<Proxy>,
    pub(super) activity: Activity,
    pub(super) addr: SocketAddr,
    pub(super) shutdown: CancellationToken,
}

pub(super) struct Options {
    pub(super) hold: Duration,
    pub(super) mode: ActivityMode,
    pub(super) trusted: Vec<ipnet::IpNet>,
    pub(super) rules: crate::idle::Rules,
    pub(super) origins: Mode,
    pub(super) ports: PortsPolicy,
    pub(super) tls: Option<Arc<Tls>>,
    /// What is not the proxy's.
    pub(super) application: axum::Router,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hold: Duration::from_secs(3),
            mode: ActivityMode::Traffic,
            trusted: Vec::new(),
            rules: crate::idle::Rules::default(),
            origins: Mode::Path,
            ports: PortsPolicy::default(),
            tls: None,
            application: axum::Router::new().fallback(|| async { "the application" }),
        }
    }
}

impl Rig {
    pub(super) async fn new() -> Self {
        Self::with(Options::default()).await
    }

    pub(super) async fn with(options: Options) -> Self {
        let gate = FakeGate::new();
        let activity = Activity::new(options.mode);
        let shutdown = CancellationToken::new();
        let settings = Settings {
            wake_hold: options.hold,
            hosts: hosts(options.origins),
            trusted_proxies: options.trusted,
            rules: Arc::new(options.rules),
            ports: options.ports,
            standby_ttl: Duration::from_secs(600),
        };
        let proxy = Proxy::new(gate.clone(), settings, activity.clone(), shutdown.clone());
        tokio::spawn(proxy.clone().run());
        let addr = listen(Some(proxy.clone()), options.application, shutdown.clone(), options.tls).await;
        Self { gate, proxy, activity, addr, shutdown }
    }

    /// A rig whose workspace is this.
    pub(super) async fn before(upstream: &Upstream) -> Self {
        let rig = Self::new().await;
        rig.lead_to(upstream);
        rig
    }

    pub(super) fn lead_to(&self, upstream: &Upstream) {
        *self.gate.upstream.lock().unwrap() = Some(codehub_upstream::Upstream::at(upstream.addr));
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.addr).await.unwrap()
    }

    /// Sends raw bytes and reads until the other side closes.
    pub(super) async fn raw(&self, bytes: impl AsRef<[u8]>) -> String {
        exchange(self.addr, bytes).await
    }

    /// A request with these header lines, on a connection of its own.
    pub(super) async fn send(&self, method: &str, rest: &str, lines: &[&str]) -> String {
        let mut lines: Vec<&str> = lines.to_vec();
        lines.push("Connection: close");
        self.raw(head(method, rest, &lines)).await
    }

    /// The same, as the signed-in owner.
    pub(super) async fn get(&self, rest: &str, lines: &[&str]) -> String {
        let cookie = format!("Cookie: {COOKIE}");
        let mut lines: Vec<&str> = lines.to_vec();
        lines.push(&cookie);
        self.send("GET", rest, &lines).await
    }

    /// Waits until the owner gets this status: the news of a change take a moment.
    pub(super) async fn soon_answers(&self, status: u16) {
        eventually(&format!("it answers {status}"), async || status_of(&self.get("/", &[]).await) == status)
            .await;
    }

    /// Opened in a browser by the owner.
    pub(super) async fn navigate(&self, lines: &[&str]) -> String {
        let mut lines: Vec<&str> = lines.to_vec();
        lines.push("Sec-Fetch-Mode: navigate");
        self.get("/", &lines).await
    }
}

/// What the rig answers for: its base, bare addresses, and a name that old tests use.
fn hosts(mode: Mode) -> Hosts {
    let origins = Origins::new("http://code.example.com", false, mode);
    Hosts::new(origins, &["a".into(), "public.example".into()])
}

/// Serves a proxy on a port of its own, with an application beside it.
pub(super) async fn listen(
    proxy: Option<Arc<Proxy>>,
    router: axum::Router,
    shutdown: CancellationToken,
    tls: Option<Arc<Tls>>,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let application = front::Application::here(router);
    let hosts = proxy.as_ref().map_or_else(|| hosts(Mode::Path), |proxy| proxy.settings.hosts.clone());
    let front = Arc::new(front::Front {
        workspaces_only: matches!(hosts.origins().mode(), Mode::Port { .. }),
        hosts,
        trusted_proxies: proxy
            .as_ref()
            .map(|proxy| proxy.settings.trusted_proxies.clone())
            .unwrap_or_default(),
        proxy,
        application,
        heads_within: Duration::from_secs(60),
        tls,
    });
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            let (front, shutdown) = (front.clone(), shutdown.clone());
            tokio::spawn(
                async move { front.serve(stream, peer, &front::Place::anywhere(), &shutdown).await },
            );
        }
    });
    addr
}

/// Sends raw bytes and reads until the other side closes.
pub(super) async fn exchange(addr: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    // A refusal may come, and close, before everything is sent.
    let _ = stream.write_all(bytes.as_ref()).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

pub(super) fn head(method: &str, rest: &str, lines: &[&str]) -> String {
    let mut head = format!("{method} /w/{}{rest} HTTP/1.1\r\nHost: code.example.com\r\n", workspace());
    for line in lines {
        head.push_str(line);
        head.push_str("\r\n");
    }
    head + "\r\n"
}

/// The body of a raw answer.
pub(super) fn body_of(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

pub(super) fn status_of(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

pub(super) fn header_of<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next()?;
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Reads one message head from a stream, leaving what follows.
pub(super) async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// A workspace: every connection is given to a few lines of test.
pub(super) struct Upstream {
    pub(super) addr: SocketAddr,
    pub(super) connections: Arc<AtomicU32>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Upstream {
    pub(super) async fn new<F>(handle: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicU32::new(0));
        let count = connections.clone();
        let accepting = tokio::spawn(async move {
            // Dropped with the upstream: then its connections break off too.
            let mut handling = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, SeqCst);
                handling.spawn(handle(stream));
            }
        });
        Self { addr, connections, accepting }
    }

    /// Answers every request with its own head as the body.
    pub(super) async fn echoing_heads() -> Self {
        Self::answering("").await
    }

    /// The same, with more header lines in the answer.
    pub(super) async fn answering(lines: &'static str) -> Self {
        Self::new(move |mut stream| async move {
            while let Some(head) = read_head(&mut stream).await {
                let answer =
                    format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: {}\r\n\r\n{head}", head.len());
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        })
        .await
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

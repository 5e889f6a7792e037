//! Who is asking, and may they: session cookie or bearer token, remembered for seconds and forgotten
//! at once when the store says that somebody's access changed.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use codehub_domain::{
    UserId,
    origins::{Origins, WorkspaceOrigin},
    ports::{PortSettings, PortsPolicy, Visibility},
};
use http::{HeaderMap, header};
use sha2::{Digest, Sha256};

use crate::{
    credential::CookieNames,
    error::ProxyError,
    gate::{Caller, Credential, Gate, WorkspaceView},
    origin,
    policy::cookies,
};

/// How long an answer is believed without news.
const FRESH_FOR: Duration = Duration::from_secs(2);
/// The least time between two questions about the same credential.
const ASK_AGAIN: Duration = Duration::from_secs(1);
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// More than this many people and tokens within [`FRESH_FOR`] only cost look-ups.
const CAPACITY: usize = 16 * 1024;

/// Secrets are not kept, only what they hash to.
type Key = [u8; 32];

#[derive(Clone, Copy)]
struct CachedCaller {
    /// `None`: this credential is not ours.
    caller: Option<Caller>,
    until: Instant,
}

/// Remembers who a credential belongs to.
pub struct Callers {
    gate: Arc<dyn Gate>,
    names: CookieNames,
    /// Workspaces share an origin, so their cookies need names of their own.
    shared: bool,
    /// Who may open ports, at most.
    ports: PortsPolicy,
    known: RwLock<HashMap<Key, CachedCaller>>,
    /// Grows whenever something is forgotten: an answer asked for before that is not remembered.
    forgotten: AtomicU64,
}

/// Whose cookie speaks for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// The dashboard's.
    Dashboard,
    /// That of this origin.
    Workspace(WorkspaceOrigin),
}

impl Keeper {
    fn credential(self, secret: &[u8]) -> Credential<'_> {
        match self {
            Self::Dashboard => Credential::Session(secret),
            Self::Workspace(origin) => Credential::Workspace(origin, secret),
        }
    }
}

/// What let somebody in, kept by a connection that outlives its request.
pub struct Pass {
    user: UserId,
    by_cookie: bool,
    keeper: Keeper,
    secret: Box<[u8]>,
    /// Since when this is known, and until when it is.
    since: Instant,
    until: Option<Instant>,
    /// It was looked at shortly before its end, and nobody had worked.
    looked_early: bool,
}

impl Pass {
    pub(super) fn of(
        bearer: Option<&[u8]>,
        session: cookies::Session<'_>,
        keeper: Keeper,
        identified: Identified,
    ) -> Option<Self> {
        let Caller { user, by_cookie, until } = identified.caller;
        let secret = match session {
            cookies::Session::One(secret) if by_cookie => secret,
            _ => bearer.filter(|_| !by_cookie)?,
        };
        Some(Self {
            user,
            by_cookie,
            keeper,
            secret: secret.into(),
            since: Instant::now(),
            until,
            looked_early: false,
        })
    }

    /// A session is prolonged by being used, and work on the connection is use of it: so it is looked at shortly
    /// before its end, too.
    fn early(&self) -> Option<Instant> {
        let until = self.until.filter(|_| self.by_cookie && !self.looked_early)?;
        Some(self.since + until.saturating_duration_since(self.since) * 9 / 10)
    }

    /// When it runs out. Clocks differ: whoever asks too early asks again, but not in a frenzy.
    pub(crate) fn end(&self) -> Option<Instant> {
        self.until.map(|until| until.max(self.since + ASK_AGAIN))
    }

    /// When [`is_due`](Self::is_due) should be asked next.
    pub(crate) fn look_at(&self) -> Option<Instant> {
        self.early().or_else(|| self.end())
    }

    /// Whether it is time to ask for it again: it has run out, or is about to and somebody worked meanwhile.
    pub(crate) fn is_due(&mut self, now: Instant, last_work: impl Fn() -> Option<Duration>) -> bool {
        if self.early().is_some_and(|early| early <= now) {
            self.looked_early = true;
            if last_work().is_some_and(|ago| ago < self.since.elapsed()) {
                return true;
            }
        }
        self.end().is_some_and(|end| end <= now)
    }

    /// What proves it.
    pub(crate) fn credential(&self) -> Credential<'_> {
        if self.by_cookie { self.keeper.credential(&self.secret) } else { Credential::Bearer(&self.secret) }
    }
}

/// The outcome of [`Callers::identify`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identified {
    pub caller: Caller,
    /// The `Authorization` header is what proves it.
    pub our_authorization: bool,
}

/// An [`Identified`] that nobody had to be asked about, and for how long that holds.
pub(super) struct Recognized {
    pub identified: Identified,
    until: Instant,
    forgotten: u64,
}

impl Identified {
    fn new(caller: Caller) -> Self {
        Self { caller, our_authorization: !caller.by_cookie }
    }
}

impl Callers {
    /// Remembers nothing yet; asks `gate`. Cookies have other names by https.
    pub fn new(gate: Arc<dyn Gate>, origins: &Origins, ports: PortsPolicy) -> Self {
        let names = CookieNames::of(origins.is_https());
        let shared = origins.are_apart() && !origins.are_own();
        Self { gate, names, shared, ports, known: RwLock::default(), forgotten: AtomicU64::new(0) }
    }

    /// The credential that identified this caller, out of the headers it came in.
    pub fn pass(&self, headers: &HeaderMap, keeper: Keeper, identified: Identified) -> Option<Pass> {
        let session = cookies::session(headers, &self.cookie(keeper));
        Pass::of(bearer(headers), session, keeper, identified)
    }

    /// What the cookie is called.
    pub fn cookie(&self, keeper: Keeper) -> Cow<'static, str> {
        match keeper {
            Keeper::Dashboard => self.names.session.into(),
            Keeper::Workspace(origin) => self.of_origin(self.names.workspace, origin),
        }
    }

    /// What the cookie of a hand-over to this origin is called.
    pub fn nonce_cookie(&self, origin: WorkspaceOrigin) -> Cow<'static, str> {
        self.of_origin(self.names.nonce, origin)
    }

    fn of_origin(&self, name: &'static str, origin: WorkspaceOrigin) -> Cow<'static, str> {
        if self.shared { format!("{name}-{}", origin.workspace).into() } else { name.into() }
    }

    /// Whether this caller may be here: the owner, or at a port that others may open somebody with a session of theirs.
    ///
    /// # Errors
    /// Somebody else's, or deleted.
    pub fn admit(&self, view: &WorkspaceView, caller: Caller, port: Option<u16>) -> Result<(), ProxyError> {
        let shared = || {
            port.is_some_and(|port| {
                let wanted = PortSettings::among(&view.ports, port).visibility;
                self.ports.visible_to(wanted) == Visibility::SignedIn && caller.by_cookie
            })
        };
        if view.owner != caller.user && !shared() {
            return Err(ProxyError::NotYours);
        }
        if view.deleted { Err(ProxyError::NotFound) } else { Ok(()) }
    }

    /// Whether what let somebody in would still do so, as the workspace is now.
    pub(crate) fn still_admits(&self, view: &WorkspaceView, pass: &Pass) -> bool {
        let port = match pass.keeper {
            Keeper::Dashboard => None,
            Keeper::Workspace(origin) => origin.port,
        };
        let caller = Caller { user: pass.user, by_cookie: pass.by_cookie, until: pass.until };
        !matches!(self.admit(view, caller, port), Err(ProxyError::NotYours))
    }

    /// The session among the cookies of a `Cookie` header.
    pub(super) fn session_in<'c>(&self, cookie: Option<&'c [u8]>, keeper: Keeper) -> cookies::Session<'c> {
        cookies::session_in(cookie.into_iter(), &self.cookie(keeper))
    }

    /// Who sent these headers. A token is explicit, so it wins over a cookie; a token that is not
    /// ours belongs to the workspace's own program, and the cookie decides.
    ///
    /// # Errors
    /// Nobody valid, two sessions at once, or the store does not answer.
    pub async fn identify(&self, headers: &HeaderMap, keeper: Keeper) -> Result<Identified, ProxyError> {
        let bearer = bearer(headers);
        let name = self.cookie(keeper);
        for credential in in_order(bearer, cookies::session(headers, &name), keeper)? {
            if let Some(caller) = self.ask(credential).await? {
                return Ok(Identified::new(caller));
            }
        }
        Err(ProxyError::SignIn)
    }

    /// [`Self::identify`] from memory alone. `None` where that does not suffice.
    pub(super) fn recognize(
        &self,
        bearer: Option<&[u8]>,
        session: cookies::Session<'_>,
        keeper: Keeper,
    ) -> Option<Recognized> {
        // Before what it guards.
        let forgotten = self.forgotten.load(Ordering::Acquire);
        let mut until = None::<Instant>;
        for credential in in_order(bearer, session, keeper).ok()? {
            let known = self.known(&key(credential))?;
            let until = *until.insert(until.map_or(known.until, |until| until.min(known.until)));
            if let Some(caller) = known.caller {
                return Some(Recognized { identified: Identified::new(caller), until, forgotten });
            }
        }
        None
    }

    /// Whether this would be found out again.
    pub(super) fn still_recognizes(&self, recognized: &Recognized, now: Instant) -> bool {
        now < recognized.until && self.forgotten.load(Ordering::Acquire) == recognized.forgotten
    }

    /// Whether this still lets the same user in, and how long. Asks until there is an answer.
    pub async fn still_valid(&self, pass: &mut Pass) -> bool {
        loop {
            match self.ask(pass.credential()).await {
                Ok(Some(caller)) if caller.user == pass.user => {
                    (pass.since, pass.until, pass.looked_early) = (Instant::now(), caller.until, false);
                    return true;
                }
                Ok(_) => return false,
                Err(_) => tokio::time::sleep(RETRY_AFTER).await,
            }
        }
    }

    fn known(&self, key: &Key) -> Option<CachedCaller> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|known| Instant::now() < known.until).copied()
    }

    async fn ask(&self, credential: Credential<'_>) -> Result<Option<Caller>, ProxyError> {
        let key = key(credential);
        if let Some(known) = self.known(&key) {
            return Ok(known.caller);
        }
        let forgotten = self.forgotten.load(Ordering::Acquire);
        let caller =
            self.gate.identify(credential).await.map_err(|error| ProxyError::Store(error.to_string()))?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if self.forgotten.load(Ordering::Acquire) == forgotten {
            if known.len() >= CAPACITY {
                known.clear();
            }
            let fresh = Instant::now() + FRESH_FOR;
            let until = caller.and_then(|caller| caller.until).map_or(fresh, |until| until.min(fresh));
            known.insert(key, CachedCaller { caller, until });
        }
        Ok(caller)
    }

    /// This user's access changed.
    pub fn forget(&self, user: UserId) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        known.retain(|_, known| known.caller.is_none_or(|caller| caller.user != user));
    }

    /// Forgets every answer, because some change may have been missed.
    pub fn forget_all(&self) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        known.clear();
    }

    /// Forgets what is too old to be used, so that memory stays bounded.
    pub fn forget_expired(&self) {
        let now = Instant::now();
        self.known.write().unwrap_or_else(PoisonError::into_inner).retain(|_, known| now < known.until);
    }
}

fn key(credential: Credential<'_>) -> Key {
    let hash = Sha256::new();
    let hash = match credential {
        Credential::Session(secret) => hash.chain_update(b"s").chain_update(secret),
        Credential::Bearer(secret) => hash.chain_update(b"b").chain_update(secret),
        Credential::Workspace(WorkspaceOrigin { workspace, port }, secret) => hash
            .chain_update(b"w")
            .chain_update(workspace.as_uuid().as_bytes())
            .chain_update(port.unwrap_or(0).to_be_bytes())
            .chain_update(secret),
    };
    hash.finalize().into()
}

/// The credentials of a request, in the order in which they speak for it.
fn in_order<'a>(
    bearer: Option<&'a [u8]>,
    session: cookies::Session<'a>,
    keeper: Keeper,
) -> Result<impl Iterator<Item = Credential<'a>>, ProxyError> {
    let session = match session {
        cookies::Session::None => None,
        cookies::Session::One(secret) => Some(secret),
        cookies::Session::Several => return Err(ProxyError::TwoSessions),
    };
    Ok(bearer.map(Credential::Bearer).into_iter().chain(session.map(move |secret| keeper.credential(secret))))
}

/// What follows `Bearer` in the only `Authorization` header.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return None };
    bearer_in(value.as_bytes())
}

/// What follows `Bearer` in the value of an `Authorization` header.
pub(super) fn bearer_in(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Owner only, admins included; then: does it exist.
///
/// # Errors
/// Somebody else's, or deleted.
pub fn owner_only(view: &WorkspaceView, caller: Caller) -> Result<(), ProxyError> {
    if view.owner != caller.user {
        return Err(ProxyError::NotYours);
    }
    if view.deleted {
        return Err(ProxyError::NotFound);
    }
    Ok(())
}

/// A browser attaches the cookie to a WebSocket whoever opens it, so the page must be ours.
///
/// # Errors
/// The origin is missing or foreign, and only a cookie spoke for the caller.
pub fn same_origin(
    headers: &HeaderMap,
    caller: Caller,
    base_url: &str,
    asked: origin::Asked<'_>,
) -> Result<(), ProxyError> {
    if !caller.by_cookie {
        return Ok(());
    }
    let mut all = headers.get_all(header::ORIGIN).iter();
    let (Some(origin), None) = (all.next(), all.next()) else { return Err(ProxyError::ForeignOrigin) };
    let ours = origin.to_str().is_ok_and(|origin| origin::is_ours(origin, base_url, asked));
    if ours { Ok(()) } else { Err(ProxyError::ForeignOrigin) }
}

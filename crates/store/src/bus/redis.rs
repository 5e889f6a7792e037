//! The bus between replicas: Redis.
//!
//! - Events and wakes are published, and heard by one connection per process with a pattern. What this
//!   process publishes it also hears at once, without Redis: the leader wakes itself even when Redis is
//!   away. Published messages carry their origin, so that nothing is heard twice.
//! - Publishing waits for nobody ([`outgoing`]): a Redis that hangs must not hold up the next event.
//! - Nothing published is kept for whoever is away. After every new connection, and after every lost one,
//!   each reader is told [`Event::Resync`], and the controller is woken. What could not be published is
//!   made up for by one resync for everybody.
//! - Activity is a sorted set: added with `GT`, removed by a script that compares. Next to it lies a mark.
//!   Where the mark is missing, Redis has lost what it was told (flushed, restarted): everybody tells it
//!   again ([`Bus::forgot`]), and until all have had the time to, nothing can be read.
//!
//! - Every name carries the deployment's identity. Who else uses this Redis is noticed, and said
//!   ([`neighbours`]).
//!
//! Every call gives up quickly; callers keep what they could not hand over.

mod neighbours;
mod outgoing;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use codehub_domain::{Timestamp, UserId, WorkspaceId};
use futures::StreamExt;
use redis::{
    Client, Msg, RedisError, Script,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use tokio::{
    sync::{broadcast, mpsc},
    task::AbortHandle,
    time::timeout,
};
use uuid::Uuid;

use self::outgoing::Outgoing;
use super::{
    Bus, BusError, Event, Result,
    readers::{Readers, lock},
};

const ANSWER: Duration = Duration::from_secs(2);
/// A quiet connection is asked this often whether it is still there.
const QUIET: Duration = Duration::from_secs(2);
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(1);

/// In the place of a user: every user.
const ALL: &str = "all";

/// What names in Redis begin with, as configured. The deployment's identity follows in all of them, so that
/// deployments which share a Redis do not hear each other, nor take each other's activity.
#[derive(Debug, Clone)]
pub struct Prefixes {
    /// `codehub:sse:`
    pub events: String,
    /// `codehub:wake:`
    pub wakes: String,
    /// `codehub:activity`
    pub activity: String,
}

/// Where the things of one deployment are in Redis.
#[derive(Debug, Clone)]
struct Names {
    deployment: String,
    /// `codehub:sse:{deployment}:`, followed by the user.
    events: String,
    /// `codehub:wake:{deployment}:`, followed by who is woken.
    wakes: String,
    /// `codehub:activity:{deployment}`
    activity: String,
    /// Where every deployment notes that it is here.
    deployments: String,
    /// Where versions kept activity that did not put the deployment into their names.
    unnamed_activity: String,
}

impl Names {
    fn new(prefixes: &Prefixes, deployment: &str) -> Self {
        let Prefixes { events, wakes, activity } = prefixes;
        Self {
            deployment: deployment.to_owned(),
            events: format!("{events}{deployment}:"),
            wakes: format!("{wakes}{deployment}:"),
            activity: format!("{activity}:{deployment}"),
            deployments: format!("{activity}:deployments"),
            unnamed_activity: activity.clone(),
        }
    }

    fn wake_channel(&self) -> String {
        format!("{}wc", self.wakes)
    }

    fn look_channel(&self) -> String {
        format!("{}ob", self.wakes)
    }

    fn channel_of(&self, user: UserId) -> String {
        format!("{}{user}", self.events)
    }

    /// For every user's streams.
    fn channel_of_all(&self) -> String {
        format!("{}{ALL}", self.events)
    }

    fn mark(&self) -> String {
        format!("{}:since", self.activity)
    }
}

/// The bus of a deployment with replicas.
pub struct RedisBus {
    commands: ConnectionManager,
    shared: Arc<Shared>,
    scripts: Scripts,
    /// How long every process needs to tell its activity again.
    settle: Duration,
    /// The mark when it was last looked at by this process.
    known_mark: Mutex<Option<String>>,
    outgoing: mpsc::Sender<Outgoing>,
    tasks: [AbortHandle; 3],
}

/// What the listener feeds and the readers hold.
struct Shared {
    names: Names,
    /// Tells this process's messages from others'.
    origin: String,
    readers: Readers,
    /// Whether the listener is connected. While it is not, nothing is published: whoever would hear it
    /// reads everything again afterwards.
    connected: AtomicBool,
    /// Something was not published: everybody has to read again.
    lost: AtomicBool,
}

struct Scripts {
    mark: Script,
    read: Script,
    remove: Script,
}

fn unreachable(error: &RedisError) -> BusError {
    BusError(error.to_string())
}

impl Drop for RedisBus {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl RedisBus {
    /// Connects in the background: a Redis that is away at the start is like one that goes away later.
    /// `settle` is how long every process needs to tell its activity again; `deployment` goes into every name.
    ///
    /// # Errors
    /// The address is none.
    pub fn open(url: &str, prefixes: &Prefixes, deployment: &str, settle: Duration) -> Result<Self> {
        // The driver's message may quote the address, and with it the password.
        let client = Client::open(url).map_err(|_| {
            BusError("REDIS_URL is not a Redis address: redis://:password@host:6379/0".into())
        })?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(ANSWER))
            .set_response_timeout(Some(ANSWER))
            .set_number_of_retries(1)
            .set_max_delay(RETRY_LONGEST);
        let commands =
            ConnectionManager::new_lazy_with_config(client.clone(), config).map_err(|e| unreachable(&e))?;
        let shared = Arc::new(Shared {
            names: Names::new(prefixes, deployment),
            origin: Uuid::new_v4().simple().to_string(),
            readers: Readers::default(),
            connected: AtomicBool::new(false),
            lost: AtomicBool::new(false),
        });
        let (outgoing, queue) = mpsc::channel(outgoing::MOST);
        let tasks = [
            tokio::spawn(listen(client, shared.clone())).abort_handle(),
            tokio::spawn(outgoing::run(queue, commands.clone(), shared.clone())).abort_handle(),
            tokio::spawn(neighbours::watch(commands.clone(), shared.clone())).abort_handle(),
        ];
        let scripts = Scripts {
            mark: Script::new(MARK),
            read: Script::new(&format!("{MARK_IS}\n{READ}")),
            remove: Script::new(REMOVE),
        };
        Ok(Self { commands, shared, scripts, settle, known_mark: Mutex::default(), outgoing, tasks })
    }

    /// Hands it over for publishing.
    fn say(&self, channel: String, text: &str) -> Result<()> {
        let text = format!("{} {text}", self.shared.origin);
        let said = if self.hears() {
            self.outgoing.try_send(Outgoing { channel, text }).map_err(|_| "Redis does not keep up")
        } else {
            Err("Redis is away")
        };
        said.map_err(|why| {
            self.shared.lost.store(true, Relaxed);
            BusError(why.into())
        })
    }

    async fn answer<T>(work: impl Future<Output = redis::RedisResult<T>>) -> Result<T> {
        match timeout(ANSWER, work).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(unreachable(&error)),
            Err(_) => Err(BusError("no answer".into())),
        }
    }
}

/// The mark's value, made where it is missing: Redis's own time, in microseconds.
const MARK_IS: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local mark = redis.call('GET', KEYS[1])
    if not mark then
        mark = string.format('%.0f', now)
        redis.call('SET', KEYS[1], mark)
    end";
const MARK: &str = "
    local time = redis.call('TIME')
    redis.call('SET', KEYS[1], string.format('%.0f', time[1] * 1000000 + time[2]), 'NX')
    return redis.call('GET', KEYS[1])";
/// The mark's age in microseconds, then what there is.
const READ: &str = "
    return { string.format('%.0f', now - tonumber(mark)),
             redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES') }";
/// A time that has grown since it was read stays.
const REMOVE: &str = "
    for i = 1, #ARGV, 2 do
        local now = redis.call('ZSCORE', KEYS[1], ARGV[i])
        if now and tonumber(now) <= tonumber(ARGV[i + 1]) then
            redis.call('ZREM', KEYS[1], ARGV[i])
        end
    end
    return true";

#[async_trait]
impl Bus for RedisBus {
    fn kind(&self) -> &'static str {
        "redis"
    }

    async fn ping(&self) -> Result<()> {
        let mut commands = self.commands.clone();
        Self::answer(async { redis::cmd("PING").query_async::<String>(&mut commands).await }).await?;
        Ok(())
    }

    async fn publish(&self, user: UserId, event: Event) -> Result<()> {
        let text = encode(&event);
        self.tell(user, event);
        self.say(self.shared.names.channel_of(user), &text)
    }

    async fn resync(&self) -> Result<()> {
        self.shared.readers.resync();
        self.say(self.shared.names.channel_of_all(), &encode(&Event::Resync))
    }

    fn tell(&self, user: UserId, event: Event) {
        self.shared.readers.tell(user, event);
    }

    fn hears(&self) -> bool {
        self.shared.connected.load(Relaxed)
    }

    fn subscribe(&self, user: UserId) -> broadcast::Receiver<Event> {
        self.shared.readers.subscribe(user)
    }

    async fn wake(&self) -> Result<()> {
        self.shared.readers.wake();
        self.say(self.shared.names.wake_channel(), "")
    }

    fn wakes(&self) -> broadcast::Receiver<()> {
        self.shared.readers.wakes()
    }

    async fn look(&self, workspace: WorkspaceId) -> Result<()> {
        self.shared.readers.look(workspace);
        self.say(self.shared.names.look_channel(), &workspace.to_string())
    }

    fn looks(&self) -> broadcast::Receiver<WorkspaceId> {
        self.shared.readers.looks()
    }

    async fn activity_add(&self, seen: &[(WorkspaceId, Timestamp)]) -> Result<()> {
        if seen.is_empty() {
            return Ok(());
        }
        let mut add = redis::cmd("ZADD");
        add.arg(&self.shared.names.activity).arg("GT");
        for (id, at) in seen {
            add.arg(at.as_microsecond()).arg(id.to_string());
        }
        let mut commands = self.commands.clone();
        Self::answer(async { add.query_async::<()>(&mut commands).await }).await
    }

    async fn activity_read(&self) -> Result<Vec<(WorkspaceId, Timestamp)>> {
        let mut commands = self.commands.clone();
        let names = &self.shared.names;
        let mut read = self.scripts.read.prepare_invoke();
        read.key(names.mark()).key(&names.activity);
        let (age, found): (String, Vec<(String, f64)>) =
            Self::answer(read.invoke_async(&mut commands)).await?;
        let age = Duration::from_micros(age.parse().unwrap_or_default());
        if age < self.settle {
            return Err(BusError(format!(
                "Redis has only known activity for {} s; everybody tells it again first",
                age.as_secs()
            )));
        }
        // What nobody of ours would write is nobody's activity.
        let read =
            |(id, at): (String, f64)| Some((id.parse().ok()?, Timestamp::from_microsecond(at as i64).ok()?));
        Ok(found.into_iter().filter_map(read).collect())
    }

    async fn activity_remove(&self, seen: &[(WorkspaceId, Timestamp)]) -> Result<()> {
        let mut commands = self.commands.clone();
        let mut remove = self.scripts.remove.prepare_invoke();
        remove.key(&self.shared.names.activity);
        for (id, at) in seen {
            remove.arg(id.to_string()).arg(at.as_microsecond());
        }
        Self::answer(remove.invoke_async::<()>(&mut commands)).await
    }

    async fn neighbours(&self) -> Result<Vec<String>> {
        neighbours::look(&self.commands, &self.shared.names).await
    }

    async fn forgot(&self) -> Result<bool> {
        let mut commands = self.commands.clone();
        let mut ask = self.scripts.mark.prepare_invoke();
        ask.key(self.shared.names.mark());
        let mark: String = Self::answer(ask.invoke_async(&mut commands)).await?;
        let before = lock(&self.known_mark).replace(mark.clone());
        Ok(before.is_some_and(|before| before != mark))
    }
}

impl Shared {
    /// Something may have been missed by everybody here.
    fn resync(&self) {
        self.readers.resync();
        self.readers.wake();
    }

    fn heard(&self, message: &Msg) {
        let Ok(payload) = message.get_payload::<String>() else { return };
        let (origin, rest) = payload.split_once(' ').unwrap_or((&payload, ""));
        if origin == self.origin {
            return;
        }
        let channel = message.get_channel_name();
        if channel == self.names.wake_channel() {
            self.readers.wake();
        } else if channel == self.names.look_channel() {
            if let Ok(workspace) = rest.parse() {
                self.readers.look(workspace);
            }
        } else if channel == self.names.channel_of_all() {
            self.readers.resync();
        } else if let Some(user) = channel.strip_prefix(&self.names.events)
            && let (Ok(user), Some(event)) = (user.parse(), decode(rest))
        {
            self.readers.tell(user, event);
        } else {
            tracing::debug!(channel, "a message that nobody of ours would send");
        }
    }
}

fn encode(event: &Event) -> String {
    match event {
        Event::Updated { workspace } => format!("updated {workspace}"),
        Event::Deleted { workspace } => format!("deleted {workspace}"),
        Event::Resync => "resync".into(),
    }
}

fn decode(text: &str) -> Option<Event> {
    match text.split_once(' ') {
        Some(("updated", id)) => Some(Event::Updated { workspace: id.parse().ok()? }),
        Some(("deleted", id)) => Some(Event::Deleted { workspace: id.parse().ok()? }),
        None if text == "resync" => Some(Event::Resync),
        _ => None,
    }
}

/// Listens for ever.
async fn listen(client: Client, shared: Arc<Shared>) {
    let mut pause = RETRY_FIRST;
    let mut said = false;
    loop {
        let why = follow(&client, &shared, &mut pause).await;
        let was_connected = shared.connected.swap(false, Relaxed);
        metrics::counter!(crate::metric::BUS_RECONNECTS).increment(1);
        if was_connected {
            // What was said since it went away was not heard.
            shared.resync();
        }
        if was_connected || !said {
            tracing::warn!(error = %why, "Redis is away: TTLs wait, and events come straight from the database");
            said = true;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_LONGEST);
    }
}

/// One connection, until it is lost; why.
async fn follow(client: &Client, shared: &Shared, pause: &mut Duration) -> BusError {
    let connect = async {
        let mut connection = client.get_async_pubsub().await?;
        connection.psubscribe(format!("{}*", escape(&shared.names.events))).await?;
        connection.subscribe(&[shared.names.wake_channel(), shared.names.look_channel()]).await?;
        Ok(connection)
    };
    let (mut sink, mut messages) = match RedisBus::answer(connect).await {
        Ok(connection) => connection.split(),
        Err(error) => return error,
    };
    *pause = RETRY_FIRST;
    tracing::info!("listening to Redis");
    shared.connected.store(true, Relaxed);
    shared.resync();
    loop {
        match timeout(QUIET, messages.next()).await {
            Ok(Some(message)) => shared.heard(&message),
            Ok(None) => return BusError("the connection was closed".into()),
            Err(_) => {
                if let Err(error) = RedisBus::answer(sink.ping::<redis::Value>()).await {
                    return error;
                }
            }
        }
    }
}

/// A prefix is a prefix, whatever characters it has.
fn escape(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len());
    for c in prefix.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests;

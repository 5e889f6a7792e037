//! Where the web program of a workspace listens, and how to get there safely: what a runtime hands to the
//! proxy.

use std::{
    error::Error,
    fmt,
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    net::SocketAddr,
    os::fd::{AsRawFd as _, OwnedFd},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};
use tokio_util::either::Either;

/// A connection to a workspace's program.
pub type Connection = Either<Either<TcpStream, UnixStream>, Carried>;

/// Bytes both ways that something else than a socket of ours carries.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl fmt::Debug for dyn Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

/// A connection that is carried to the program by whoever is inside the workspace.
pub type Carried = Box<dyn Stream>;

/// A connection that is being made.
pub type Dialling<'a> = Pin<Box<dyn Future<Output = Result<Carried, NotDialled>> + Send + 'a>>;

/// Connects to a program that no address of ours leads to.
pub trait Dial: Send + Sync {
    /// Makes a new connection.
    fn dial(&self) -> Dialling<'_>;
}

/// Why there is no connection to a program inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotDialled {
    /// Nothing listens there.
    NothingListens,
    /// Too many are open.
    TooMany,
    /// There is nobody inside who could carry it, for this reason.
    Nobody(String),
    /// Whoever could does not answer.
    Unreachable(String),
}

impl fmt::Display for NotDialled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingListens => f.write_str("nothing listens there"),
            Self::TooMany => f.write_str("too many connections are open"),
            Self::Nobody(why) | Self::Unreachable(why) => f.write_str(why),
        }
    }
}

impl Error for NotDialled {}

/// A program that is reached from inside its workspace. Two of the same name are the same.
#[derive(Clone)]
pub struct Inside {
    name: Arc<str>,
    dial: Arc<dyn Dial>,
}

impl Inside {
    /// By this way, which no other has the name of.
    pub fn new(name: impl Into<Arc<str>>, dial: Arc<dyn Dial>) -> Self {
        Self { name: name.into(), dial }
    }
}

impl PartialEq for Inside {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Inside {}

impl Hash for Inside {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Inside").field(&self.name).finish()
    }
}

/// Where a program listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP port that the proxy can connect to.
    Port(SocketAddr),
    /// The path of a Unix socket.
    Socket(Arc<str>),
    /// Somewhere inside the workspace.
    Inside(Inside),
}

/// Tells one instance from the next one of the same workspace, which may listen at the same address. Means
/// something within one process only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InstanceTag(u64);

impl InstanceTag {
    /// Of what is never the same for two instances: a container's id, a process and when it began.
    pub fn of(identity: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        identity.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The header by which a program knows the proxy, where whoever reaches its address could be anybody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// A header of this name.
    pub fn header(name: &str, value: &str) -> Self {
        Self(format!("{}: {value}", name.to_ascii_lowercase()).into())
    }

    /// `name: value`, without a line end.
    pub fn line(&self) -> &str {
        &self.0
    }

    /// A client's own header of that name would stand in its way.
    pub fn is_authorization(&self) -> bool {
        self.0.starts_with("authorization:")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A running web program: where it listens, which instance that is, and how it wants to be spoken to. Cheap to
/// clone: the proxy does for every request.
///
/// Two are equal when both address and instance are: a connection to one instance, or what is remembered of
/// it, is never used for another.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// Where it listens.
    pub address: Address,
    /// Which instance that is.
    pub instance: InstanceTag,
    /// The name of the program, by which the rules about its idle chatter are found; empty where nothing is
    /// known about it.
    pub ide: Arc<str>,
    /// Whether it wants to see `/w/{id}` in front of its paths.
    pub keeps_prefix: bool,
    /// What every request has to carry; `None` where nobody but us gets to the address.
    pub secret: Option<Secret>,
}

impl PartialEq for Upstream {
    fn eq(&self, other: &Self) -> bool {
        self.instance == other.instance && self.address == other.address
    }
}

impl Eq for Upstream {}

impl Hash for Upstream {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.instance.hash(state);
        self.address.hash(state);
    }
}

impl Upstream {
    /// A program of which nothing else is known, behind an address that is its own.
    pub fn at(address: impl Into<Address>) -> Self {
        let address = address.into();
        let instance = InstanceTag::of(&address);
        Self { address, instance, ide: Arc::from(""), keeps_prefix: false, secret: None }
    }

    /// Connects to its address.
    ///
    /// # Errors
    /// As [`Address::connect`].
    pub async fn connect(&self) -> io::Result<Connection> {
        self.address.connect().await
    }
}

impl Address {
    /// The network address, where it has one.
    pub fn port(&self) -> Option<SocketAddr> {
        match self {
            Self::Port(address) => Some(*address),
            Self::Socket(_) | Self::Inside(_) => None,
        }
    }

    /// Whether it is reached from inside the workspace.
    pub fn is_inside(&self) -> bool {
        matches!(self, Self::Inside(_))
    }

    /// Connects. Waits while the program has too many waiting already: whoever is in a hurry sets a limit.
    ///
    /// # Errors
    /// Nothing listens there. From inside, there is a [`NotDialled`] within.
    pub async fn connect(&self) -> io::Result<Connection> {
        match self {
            Self::Port(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Either::Left(Either::Left(stream)))
            }
            Self::Socket(path) => {
                connect_to_socket(path).await.map(|stream| Either::Left(Either::Right(stream)))
            }
            Self::Inside(inside) => inside.dial.dial().await.map(Either::Right).map_err(io::Error::other),
        }
    }
}

impl From<Inside> for Address {
    fn from(inside: Inside) -> Self {
        Self::Inside(inside)
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Port(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(address) => address.fmt(f),
            Self::Socket(path) => path.fmt(f),
            Self::Inside(inside) => inside.name.fmt(f),
        }
    }
}

async fn connect_to_socket(path: &str) -> io::Result<UnixStream> {
    const LONGEST_PAUSE: Duration = Duration::from_millis(20);
    let socket = hold_socket(path)?;
    let held = format!("/proc/self/fd/{}", socket.as_raw_fd());
    let mut pause = Duration::from_millis(1);
    loop {
        match UnixStream::connect(&held).await {
            // Its queue is full. Unlike with a port, nobody is kept waiting in the kernel.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            connected => return connected,
        }
    }
}

/// The socket itself, whatever its name leads to from now on. A workspace may put a link where its socket
/// was, and whoever connects by name would follow it with CodeHub's rights: to another workspace's
/// socket, or to the container engine's.
fn hold_socket(path: &str) -> io::Result<OwnedFd> {
    let held = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&held)?.st_mode).is_socket() {
        Ok(held)
    } else {
        Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("{path} is not a socket")))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixListener,
    };

    use super::*;

    fn at(dir: &tempfile::TempDir, name: &str) -> Address {
        Address::Socket(dir.path().join(name).to_str().unwrap().into())
    }

    #[tokio::test]
    async fn a_socket_is_reached_and_a_link_to_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("real")).unwrap();
        let (mut ours, (mut theirs, _)) =
            tokio::try_join!(async { at(&dir, "real").connect().await }, listener.accept()).unwrap();
        ours.write_all(b"hi").await.unwrap();
        let mut read = [0; 2];
        theirs.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"hi");

        symlink("real", dir.path().join("link")).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        for name in ["link", "file"] {
            let error = at(&dir, name).connect().await.map(drop).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{name}: {error}");
        }
        let error = at(&dir, "nothing").connect().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        drop(listener);
        let error = at(&dir, "real").connect().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn another_instance_at_the_same_address_is_another_upstream() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let of = |instance| Upstream { instance: InstanceTag::of(&instance), ..Upstream::at(address) };
        assert_eq!(of("one"), of("one"));
        assert_ne!(of("one"), of("two"));
        assert_ne!(
            of("one"),
            Upstream { address: SocketAddr::from(([127, 0, 0, 1], 81)).into(), ..of("one") }
        );
    }

    #[tokio::test]
    async fn a_full_queue_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let socket =
            rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None)
                .unwrap();
        let path = dir.path().join("busy");
        rustix::net::bind(&socket, &rustix::net::SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&socket, 1).unwrap();
        let upstream = at(&dir, "busy");
        // As many as there is room for, and then somebody who waits.
        let mut waiting = Vec::new();
        while let Ok(connected) = tokio::time::timeout(Duration::from_millis(100), upstream.connect()).await {
            waiting.push(connected.unwrap());
            assert!(waiting.len() < 100, "the queue never fills");
        }
        let late = tokio::spawn(async move { upstream.connect().await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!late.is_finished());
        let _accepted = rustix::net::accept(&socket).unwrap();
        tokio::time::timeout(Duration::from_secs(5), late).await.unwrap().unwrap().unwrap();
    }
}

//! A loopback link to an HTTP server that can be told to misbehave: for tests of what happens when a
//! dependency answers nonsense, hangs, or does as it was told and then does not say so.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// How the link treats the requests of new connections. Changing it ends the old ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Everything passes.
    None,
    /// Nobody is there.
    Refuse,
    /// Every request is answered with 500.
    Error,
    /// Requests are taken and never answered.
    Hang,
    /// The connection breaks in the middle of the request.
    CutRequest,
    /// The request is carried out; its answer never arrives.
    LoseAnswer,
    /// The answer breaks off in the middle.
    CutAnswer,
    /// Each of these in turn, with requests between them that work.
    Mixed,
}

/// A link that listens on a port of its own until it is dropped.
#[derive(Debug)]
pub struct FlakyLink {
    address: SocketAddr,
    trouble: watch::Sender<Trouble>,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Seen {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl FlakyLink {
    /// # Errors
    /// No port is free.
    pub async fn to(upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (trouble, watched) = watch::channel(Trouble::None);
        let seen = Arc::default();
        let task = tokio::spawn(accept(listener, upstream, watched, Arc::clone(&seen)));
        Ok(Self { address, trouble, seen, task })
    }

    /// Where to connect instead of to the upstream.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the trouble, and ends the connections that are open.
    pub fn set(&self, trouble: Trouble) {
        self.trouble.send_replace(trouble);
    }

    /// Requests seen so far.
    pub fn requests(&self) -> u64 {
        self.seen.requests.load(Ordering::Relaxed)
    }

    /// Bytes of request bodies announced so far.
    pub fn uploaded(&self) -> u64 {
        self.seen.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for FlakyLink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    upstream: SocketAddr,
    trouble: watch::Receiver<Trouble>,
    seen: Arc<Seen>,
) {
    let mut number = 0_u64;
    while let Ok((client, _)) = listener.accept().await {
        number += 1;
        let mut changed = trouble.clone();
        let now = match *changed.borrow_and_update() {
            Trouble::Mixed => in_turn(number),
            other => other,
        };
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            tokio::select! {
                _ = serve(client, upstream, now, &seen) => {}
                _ = changed.changed() => {}
            }
        });
    }
}

fn in_turn(number: u64) -> Trouble {
    match number % 8 {
        1 => Trouble::Error,
        3 => Trouble::CutRequest,
        5 => Trouble::LoseAnswer,
        7 => Trouble::CutAnswer,
        _ => Trouble::None,
    }
}

/// One request per connection, so that each meets its own trouble.
async fn serve(mut client: TcpStream, upstream: SocketAddr, trouble: Trouble, seen: &Seen) -> io::Result<()> {
    if trouble == Trouble::Refuse {
        client.set_zero_linger()?;
        return Ok(());
    }
    let Some((head, body)) = read_head(&mut client).await? else { return Ok(()) };
    seen.requests.fetch_add(1, Ordering::Relaxed);
    let length = content_length(&head);
    seen.bytes.fetch_add(length, Ordering::Relaxed);
    if trouble == Trouble::Hang {
        std::future::pending::<()>().await;
    }
    let mut server = TcpStream::connect(upstream).await?;
    let mut left = length.saturating_sub(body.len() as u64);
    if trouble == Trouble::Error {
        // Taken whole, as a server does that then fails.
        copy(&mut client, &mut tokio::io::sink(), left).await?;
        client.write_all(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await?;
        return client.shutdown().await;
    }
    if trouble == Trouble::CutRequest && length > 0 {
        left /= 2;
    }
    server.write_all(&with_close(&head)).await?;
    server.write_all(&body).await?;
    // A client that asks to be told before it sends its body.
    copy(&mut client, &mut server, left).await?;
    if trouble == Trouble::CutRequest {
        return client.set_zero_linger();
    }
    let mut first = vec![0; 16 * 1024];
    let got = server.read(&mut first).await?;
    match trouble {
        Trouble::LoseAnswer => {
            // Let the server finish; then nobody hears of it.
            let mut nobody = tokio::io::sink();
            let rest = copy(&mut server, &mut nobody, u64::MAX);
            let _ = tokio::time::timeout(Duration::from_secs(2), rest).await;
            client.set_zero_linger()
        }
        Trouble::CutAnswer => {
            client.write_all(&first[..got / 2]).await?;
            client.shutdown().await
        }
        _ => {
            client.write_all(&first[..got]).await?;
            copy(&mut server, &mut client, u64::MAX).await?;
            client.shutdown().await
        }
    }
}

/// Up to the empty line, and what came with it of the body.
async fn read_head(client: &mut TcpStream) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut read = Vec::with_capacity(4096);
    loop {
        if let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            let body = read.split_off(end + 4);
            return Ok(Some((read, body)));
        }
        if read.len() > 64 * 1024 || client.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
    }
}

fn content_length(head: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let line =
        text.lines().find_map(|line| line.strip_prefix("content-length:").map(str::trim).map(str::to_owned));
    line.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The request, asking the server to close afterwards.
fn with_close(head: &[u8]) -> Vec<u8> {
    let mut changed = head[..head.len() - 2].to_vec();
    changed.extend_from_slice(b"connection: close\r\n\r\n");
    changed
}

async fn copy(
    from: &mut TcpStream,
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    most: u64,
) -> io::Result<u64> {
    let mut taken = from.take(most);
    tokio::io::copy(&mut taken, to).await
}

//! The upstream and the load of `bench/proxy` and `bench/replicas.py`. It speaks just enough of the protocols
//! to be cheaper than anything between its two ends.
//!
//!     codehub-load serve PORT…                      1 KiB at any path, 1 MiB at …/big, WebSocket echo
//!     codehub-load ping URL CONNECTIONS SECONDS     64-byte ping-pong; prints round trips per second
//!     codehub-load idle URL CONNECTIONS SECONDS     opens them, prints "open", and waits
//!     codehub-load events TOKENS STREAMS ROWS ROUNDS URL…   event streams; prints how late they heard, in ms
//!
//! TOKENS is a file of API tokens whose owners have ROWS workspaces each. `CODEHUB_TOKEN` is sent as a bearer token where it is set.

mod events;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

const PAYLOAD: usize = 64;
const SWITCH: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match words[..] {
            ["serve", ref ports @ ..] if !ports.is_empty() => serve(ports).await,
            [what @ ("ping" | "idle"), url, connections, seconds] => {
                load(what == "ping", url, connections.parse()?, Duration::from_secs_f64(seconds.parse()?))
                    .await
            }
            ["events", tokens, streams, rows, rounds, ref servers @ ..] if !servers.is_empty() => {
                let tokens: Vec<String> =
                    std::fs::read_to_string(tokens)?.lines().map(str::to_owned).collect();
                let (streams, rows, rounds) = (streams.parse()?, rows.parse()?, rounds.parse()?);
                events::run(events::Plan { tokens, streams, rows, rounds, servers }).await
            }
            _ => bail!("see the head of bench/load/src/main.rs"),
        }
    })
}

async fn serve(ports: &[&str]) -> anyhow::Result<()> {
    let answer = |length: usize| {
        let mut bytes =
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n")
                .into_bytes();
        bytes.resize(bytes.len() + length, b'x');
        Arc::<[u8]>::from(bytes)
    };
    let (small, big) = (answer(1024), answer(1024 * 1024));
    let mut accepting = tokio::task::JoinSet::new();
    for port in ports {
        let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await.context("listen")?;
        let (small, big) = (small.clone(), big.clone());
        accepting.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                tokio::spawn(answer_all(stream, small.clone(), big.clone()));
            }
        });
    }
    accepting.join_next().await;
    Ok(())
}

async fn answer_all(mut stream: TcpStream, small: Arc<[u8]>, big: Arc<[u8]>) -> std::io::Result<()> {
    let mut head = Vec::new();
    loop {
        let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") else {
            if stream.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let lower = head[..end].to_ascii_lowercase();
        let line = lower.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let is_big = line.windows(5).any(|part| part == b"/big ");
        if lower.windows(9).any(|part| part == b"websocket") {
            drop(head);
            stream.write_all(SWITCH).await?;
            return echo(stream).await;
        }
        stream.write_all(if is_big { &big } else { &small }).await?;
        head.drain(..end + 4);
    }
}

/// Masked frames of [`PAYLOAD`] bytes come, unmasked ones go.
async fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        stream.readable().await?;
        let mut frame = [0u8; PAYLOAD + 6];
        stream.read_exact(&mut frame).await?;
        let mut answer = [0u8; PAYLOAD + 2];
        answer[..2].copy_from_slice(&[0x82, PAYLOAD as u8]);
        answer[2..].copy_from_slice(&frame[6..]);
        stream.write_all(&answer).await?;
    }
}

async fn load(ping: bool, url: &str, connections: usize, time: Duration) -> anyhow::Result<()> {
    let rest = url.strip_prefix("http://").context("http:// only")?;
    let (host, path) = rest.split_once('/').context("a path")?;
    let authorization = std::env::var("CODEHUB_TOKEN")
        .map(|token| format!("Authorization: Bearer {token}\r\n"))
        .unwrap_or_default();
    let handshake = format!(
        "GET /{path} HTTP/1.1\r\nHost: {host}\r\n{authorization}Connection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections {
        open.push(connect(host, &handshake).await?);
    }
    if !ping {
        println!("open");
        tokio::time::sleep(time).await;
        return Ok(());
    }
    let (rounds, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let began = Instant::now();
    let mut pinging = tokio::task::JoinSet::new();
    for stream in open {
        let (rounds, stop) = (rounds.clone(), stop.clone());
        pinging.spawn(async move { ping_pong(stream, &rounds, &stop).await });
    }
    tokio::time::sleep(time).await;
    stop.store(true, Relaxed);
    let count = rounds.load(Relaxed);
    println!("{:.0}", count as f64 / began.elapsed().as_secs_f64());
    Ok(())
}

async fn ping_pong(mut stream: TcpStream, rounds: &AtomicU64, stop: &AtomicBool) -> std::io::Result<()> {
    // A mask of zeros: the payload is what it is.
    let mut frame = [b'p'; PAYLOAD + 6];
    frame[..6].copy_from_slice(&[0x82, 0x80 | PAYLOAD as u8, 0, 0, 0, 0]);
    let mut answer = [0u8; PAYLOAD + 2];
    while !stop.load(Relaxed) {
        stream.write_all(&frame).await?;
        stream.read_exact(&mut answer).await?;
        rounds.fetch_add(1, Relaxed);
    }
    Ok(())
}

async fn connect(host: &str, handshake: &str) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(host).await?;
    stream.set_nodelay(true)?;
    stream.write_all(handshake.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    if !head.starts_with(b"HTTP/1.1 101") {
        bail!("no upgrade: {}", String::from_utf8_lossy(&head));
    }
    Ok(stream)
}

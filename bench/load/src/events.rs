//! Event streams: opens many, changes workspaces, and notes how long each stream takes to hear of it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};

/// A stream that takes longer than this has missed the event.
const LATEST: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// What to do: stream `n` belongs to the token `n` modulo their number and is open at the server `n` modulo
/// theirs.
pub(crate) struct Plan<'a> {
    pub(crate) tokens: Vec<String>,
    pub(crate) streams: usize,
    /// Workspaces of each token's owner: a stream is open when it has told as many.
    pub(crate) rows: usize,
    pub(crate) rounds: usize,
    pub(crate) servers: &'a [&'a str],
}

/// A stream heard of round `.0`, at `.1`.
type Heard = (usize, Instant);

pub(crate) async fn run(plan: Plan<'_>) -> anyhow::Result<()> {
    let (heard, mut hearing) = mpsc::unbounded_channel::<Heard>();
    let ids = Arc::new(Mutex::new(vec![String::new(); plan.tokens.len()]));
    let (opened, mut opening) = mpsc::unbounded_channel();
    for n in 0..plan.streams {
        let token = n % plan.tokens.len();
        let server = plan.servers[n % plan.servers.len()];
        let stream = open(server, &plan.tokens[token]).await?;
        let (ids, heard, opened, rows) = (ids.clone(), heard.clone(), opened.clone(), plan.rows);
        tokio::spawn(async move {
            let told = follow(stream, rows, &heard, |id| {
                ids.lock().unwrap_or_else(PoisonError::into_inner)[token] = id;
                let _ = opened.send(());
            });
            if let Err(error) = told.await {
                eprintln!("a stream ended: {error}");
            }
        });
    }
    for _ in 0..plan.streams {
        opening.recv().await.context("a stream did not open")?;
    }
    println!("open");
    let ids = ids.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (mut took, mut missed) = (Vec::new(), 0);
    for round in 0..plan.rounds {
        let token = round % plan.tokens.len();
        let listening = (plan.streams - token).div_ceil(plan.tokens.len());
        // At another server than the first of its streams is open at.
        let server = plan.servers[(token + 1) % plan.servers.len()];
        let began = Instant::now();
        patch(server, &plan.tokens[token], &ids[token], round).await?;
        for told in 0..listening {
            match tokio::time::timeout(LATEST, hearing.recv()).await {
                Ok(Some((of, at))) if of == round => took.push(at - began),
                Ok(_) => bail!("a stream heard of another round"),
                Err(_) => {
                    missed += listening - told;
                    break;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    report(took, missed);
    Ok(())
}

fn report(mut took: Vec<Duration>, missed: usize) {
    took.sort();
    let at = |share: f64| {
        let index = ((took.len() as f64 * share).ceil() as usize).clamp(1, took.len().max(1)) - 1;
        took.get(index).map_or(0.0, |it| it.as_secs_f64() * 1000.0)
    };
    println!(
        "{{\"events\": {}, \"missed\": {missed}, \"p50\": {:.1}, \"p99\": {:.1}, \"max\": {:.1}}}",
        took.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

fn address(server: &str) -> anyhow::Result<&str> {
    server.strip_prefix("http://").context("http:// only")
}

async fn open(server: &str, token: &str) -> anyhow::Result<TcpStream> {
    let host = address(server)?;
    let mut stream = TcpStream::connect(host).await?;
    let request =
        format!("GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

/// Reads for ever. `opened` is called once, with the id of one of the workspaces.
async fn follow(
    mut stream: TcpStream,
    rows: usize,
    heard: &mpsc::UnboundedSender<Heard>,
    opened: impl FnOnce(String),
) -> anyhow::Result<()> {
    let (mut opened, mut seen, mut id) = (Some(opened), 0, String::new());
    let mut text = Vec::new();
    loop {
        if stream.read_buf(&mut text).await? == 0 {
            bail!("closed");
        }
        // Whole lines only.
        while let Some(end) = text.iter().position(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(&text[..end]).into_owned();
            text.drain(..=end);
            if let Some(data) = line.strip_prefix("data: {\"id\":\"") {
                seen += 1;
                id = data.split('"').next().unwrap_or_default().to_owned();
            }
            if let Some(round) =
                line.split("\"memo\":\"round ").nth(1).and_then(|rest| rest.split('"').next())
                && opened.is_none()
            {
                heard.send((round.parse()?, Instant::now()))?;
            }
            if seen == rows
                && let Some(opened) = opened.take()
            {
                opened(std::mem::take(&mut id));
            }
        }
    }
}

async fn patch(server: &str, token: &str, id: &str, round: usize) -> anyhow::Result<()> {
    let host = address(server)?;
    let body = format!("{{\"memo\":\"round {round}\"}}");
    let request = format!(
        "PATCH /api/v1/workspaces/{id} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    if !answer.starts_with(b"HTTP/1.1 200") {
        bail!("{}", String::from_utf8_lossy(&answer));
    }
    Ok(())
}

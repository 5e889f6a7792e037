//! Asking a program whether it is well: one GET, of which only the first line is read.

use std::{io, time::Duration};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::{Address, Secret};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// Any status below 500.
    Well,
    /// Nobody listens yet, or it says itself that it is not well.
    NotYet,
    /// It listens and says nothing: nobody can tell.
    Silent,
}

pub(crate) async fn ask(
    upstream: &Address,
    secret: Option<&Secret>,
    path: &str,
    patience: Duration,
) -> Health {
    match tokio::time::timeout(patience, status(upstream, secret, path)).await {
        Err(_) => Health::Silent,
        Ok(Ok(Some(status))) if status < 500 => Health::Well,
        Ok(_) => Health::NotYet,
    }
}

pub(crate) async fn status(
    upstream: &Address,
    secret: Option<&Secret>,
    path: &str,
) -> io::Result<Option<u16>> {
    let mut stream = upstream.connect().await?;
    let host = upstream.port().map_or_else(|| "localhost".to_owned(), |address| address.to_string());
    let secret = secret.map(|secret| format!("{}\r\n", secret.line())).unwrap_or_default();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: codehub-health\r\nAccept: */*\r\n{secret}Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut line = Vec::with_capacity(64);
    // "HTTP/1.1 200" is twelve bytes.
    while line.len() < 12 {
        if stream.read_buf(&mut line).await? == 0 {
            return Ok(None);
        }
    }
    Ok(parse(&line))
}

fn parse(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    std::str::from_utf8(rest).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn answer(reply: Option<&'static [u8]>) -> Health {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = listener.local_addr().unwrap().into();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).await.unwrap();
            assert!(request[..read].starts_with(b"GET /ok HTTP/1.1\r\n"));
            match reply {
                Some(reply) => stream.write_all(reply).await.unwrap(),
                None => std::future::pending().await,
            }
        });
        let health = ask(&upstream, None, "/ok", Duration::from_millis(300)).await;
        server.abort();
        health
    }

    #[tokio::test]
    async fn every_answer_means_something() {
        assert_eq!(answer(Some(b"HTTP/1.1 200 OK\r\n\r\n")).await, Health::Well);
        assert_eq!(answer(Some(b"HTTP/1.0 404 Not Found\r\n\r\n")).await, Health::Well);
        assert_eq!(answer(Some(b"HTTP/1.1 302 \r\n\r\n")).await, Health::Well);
        assert_eq!(answer(Some(b"HTTP/1.1 503 Busy\r\n\r\n")).await, Health::NotYet);
        assert_eq!(answer(Some(b"SSH-2.0-OpenSSH_9\r\n")).await, Health::NotYet);
        assert_eq!(answer(Some(b"")).await, Health::NotYet);
        assert_eq!(answer(None).await, Health::Silent);
    }

    #[tokio::test]
    async fn nobody_there_is_not_yet() {
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        for upstream in [address.into(), Address::Socket("/no/such/socket".into())] {
            assert_eq!(ask(&upstream, None, "/", Duration::from_secs(1)).await, Health::NotYet);
        }
    }
}

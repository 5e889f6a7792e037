//! Ports of a workspace: which there are, and how they get to this machine.

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{Instant, MissedTickBehavior, interval_at},
};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    api::{Api, LONGEST_MESSAGE},
    failure::{Failure, Kind, Result},
    output,
    workspace::{self, Workspace},
};

const PROTOCOL: &str = "codehub.tcp.v1";
/// Who says nothing for long is taken for gone.
const STILL_HERE: Duration = Duration::from_secs(25);

/// `codehub port-forward`.
#[derive(Debug, clap::Args)]
pub struct Forward {
    /// The address to listen on here
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    address: IpAddr,
    /// The workspace
    #[arg(value_name = "WORKSPACE")]
    workspace: String,
    /// A port in it, or LOCAL:PORT for another one here; LOCAL 0 is any free one
    #[arg(value_name = "[LOCAL:]PORT", required = true, value_parser = ports_of)]
    ports: Vec<(u16, u16)>,
}

/// Here, and there.
fn ports_of(text: &str) -> std::result::Result<(u16, u16), String> {
    let number =
        |text: &str| text.parse::<u16>().map_err(|_| "write PORT or LOCAL:PORT, from 1 to 65535".to_owned());
    let (here, there) = text.split_once(':').unwrap_or((text, text));
    match (number(here)?, number(there)?) {
        (_, 0) => Err("there is no port 0".into()),
        ports => Ok(ports),
    }
}

pub(crate) async fn forward(api: Api, options: Forward) -> Result<()> {
    let found = workspace::find(&api, &options.workspace).await?;
    if found.phase() != "RUNNING" {
        let message = format!("{} does not run (it is {})", found.slug(), found.phase());
        let next = format!("start it with `codehub start {} --wait`", found.slug());
        return Err(Failure::new(Kind::State, message).or_next(next));
    }
    let api = Arc::new(api);
    let mut listening = Vec::new();
    for (here, there) in options.ports {
        let listener = TcpListener::bind((options.address, here)).await.map_err(|error| {
            Failure::local(format_args!("port {here} here"), error)
                .or_next(format!("choose another one: 0:{there} takes any that is free"))
        })?;
        let at = listener.local_addr().map_err(|error| Failure::local("a port", error))?;
        output::line(format_args!("{at} -> {}:{there}", found.slug()));
        listening.push(tokio::spawn(accept(Arc::clone(&api), found.clone(), listener, there)));
    }
    let ended = futures::future::select_all(listening);
    tokio::select! {
        (ended, ..) = ended => ended.unwrap_or_else(|error| Err(Failure::local("port-forward", error))),
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn accept(api: Arc<Api>, workspace: Workspace, listener: TcpListener, port: u16) -> Result<()> {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // Too many open files, or who came has gone again.
            Err(error) => {
                output::note(format_args!("a connection could not be accepted: {error}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (api, path) = (Arc::clone(&api), workspace.path(&format!("/tcp/{port}")));
        tokio::spawn(async move {
            if let Err(failure) = pass(&api, &path, stream).await {
                output::note(format_args!("port {port}: {failure}"));
            }
        });
    }
}

async fn pass(api: &Api, path: &str, stream: TcpStream) -> Result<()> {
    let _ = stream.set_nodelay(true);
    let (mut sink, mut source) = api.websocket(path, PROTOCOL).await?.split();
    let (mut read, mut write) = stream.into_split();
    let up = async {
        let mut still_here = interval_at(Instant::now() + STILL_HERE, STILL_HERE);
        still_here.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut buffer = vec![0; LONGEST_MESSAGE];
        let mut open = true;
        loop {
            let message = tokio::select! {
                length = read.read(&mut buffer), if open => match length {
                    Ok(0) => {
                        open = false;
                        Message::Binary(Bytes::new())
                    }
                    Ok(length) => Message::Binary(Bytes::copy_from_slice(&buffer[..length])),
                    Err(_) => return,
                },
                _ = still_here.tick() => Message::Pong(Bytes::new()),
            };
            if sink.send(message).await.is_err() {
                return;
            }
        }
    };
    let down = async {
        while let Some(Ok(message)) = source.next().await {
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Close(_) => break,
                _ => continue,
            };
            if write.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = write.shutdown().await;
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
    Ok(())
}

/// `codehub ports`.
#[derive(Debug, clap::Args)]
pub struct Ports {
    /// The workspace
    #[arg(value_name = "WORKSPACE")]
    workspace: String,
}

pub(crate) async fn ports(api: &Api, options: Ports, json: bool) -> Result<()> {
    let found = workspace::find(api, &options.workspace).await?;
    let ports = api.get(&found.path("/ports")).await?;
    if json {
        output::json(&ports);
        return Ok(());
    }
    let rows: Vec<Vec<String>> = ports["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| {
            let text = |key: &str| output::clean(port[key].as_str().unwrap_or("-"));
            let listening = port["listening"].as_bool().unwrap_or_default();
            vec![
                port["port"].to_string(),
                if listening { text("process") } else { "(nothing listens)".into() },
                text("visibility"),
                text("label"),
                text("url"),
            ]
        })
        .collect();
    if rows.is_empty() {
        output::note(format_args!("nothing listens in {}", found.slug()));
    } else {
        output::table(&["PORT", "PROCESS", "VISIBLE TO", "LABEL", "ADDRESS"], &rows);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_named_alone_or_in_pairs() {
        assert_eq!(ports_of("3000"), Ok((3000, 3000)));
        assert_eq!(ports_of("8080:3000"), Ok((8080, 3000)));
        assert_eq!(ports_of("0:3000"), Ok((0, 3000)));
        for wrong in ["", "x", "0", "3000:0", "1:2:3", "70000"] {
            assert!(ports_of(wrong).is_err(), "{wrong}");
        }
    }
}

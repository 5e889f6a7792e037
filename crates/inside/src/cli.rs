//! The command line, for `codehub ide` and for the program of its own alike.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::{Options, Server};
use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: ide [--host ADDRESS] [--port PORT] [--home DIRECTORY] [--base-path /PREFIX]
       ide --socket FILE [--socket-mode OCTAL] [--home DIRECTORY] [--base-path /PREFIX]

Serves a file tree, an editor and terminals for one home directory.
Defaults: 127.0.0.1, $PORT or 8080, $HOME, no prefix.
Whoever can reach the port can use it, unless CODEHUB_SECRET is set: then requests need the header
X-Codehub-Secret. A socket only its owner can use (mode 0600), or whom --socket-mode allows.
";

/// Runs the IDE with these arguments (without the program's name) until a signal ends it.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match run(arguments.into_iter()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ide: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let Some(options) = options(arguments)? else {
        print!("{USAGE}");
        return Ok(());
    };
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let server = Server::bind(options).await?;
        println!("the IDE listens on {}", server.place());
        server
            .run(async move {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            })
            .await
    })
}

/// `None` when help was asked for.
fn options(mut arguments: impl Iterator<Item = OsString>) -> Result<Option<Options>> {
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let mut options = Options::new(home).described_by_env();
    options.port = match std::env::var("PORT") {
        Ok(port) => parse_port(&port).context("PORT")?,
        Err(_) => 8080,
    };
    while let Some(argument) = arguments.next() {
        let name = argument.to_string_lossy().into_owned();
        if name == "--help" || name == "-h" {
            return Ok(None);
        }
        let Some(value) = arguments.next() else {
            bail!("{name} needs a value\n\n{USAGE}");
        };
        let text = value.to_string_lossy();
        match name.as_str() {
            "--host" => {
                options.host = text
                    .parse::<IpAddr>()
                    .with_context(|| format!("--host: “{text}” is not an IP address"))?;
            }
            "--port" => options.port = parse_port(&text).context("--port")?,
            "--socket" => options.socket = Some(PathBuf::from(&value)),
            "--socket-mode" => {
                options.socket_mode = u32::from_str_radix(&text, 8)
                    .ok()
                    .filter(|mode| *mode <= 0o777)
                    .with_context(|| format!("--socket-mode: “{text}” is not a mode such as 600"))?;
            }
            "--home" => options.home = PathBuf::from(&value),
            "--base-path" => options.base_path = Some(text.into_owned()),
            _ => bail!("unknown option {name}\n\n{USAGE}"),
        }
    }
    Ok(Some(options))
}

fn parse_port(text: &str) -> Result<u16> {
    text.parse().with_context(|| format!("“{text}” is not a port number (0–65535)"))
}

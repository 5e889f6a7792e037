//! The command line. Every setting of the table is also a flag, so `codehub --listen …` works before
//! and after a command; without a command, `codehub` serves.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::{
    config::{Config, Effective, Overrides, Sources},
    serve, telemetry,
};

mod admin;
mod archives;
mod config;
mod doctor;
mod flags;
mod groups;
mod image;
mod manual;
mod migrate;
mod password;
mod reached;
mod stop_all;

/// Workspaces in the browser, on a machine of your own.
#[derive(Debug, Parser)]
#[command(name = "codehub", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Client(codehub_client::Command),
    /// Serve: everything in one process (the default)
    Serve,
    /// Bring the database's schema up to date
    Migrate,
    /// Check every configured backend and say what to fix
    Doctor,
    /// Print the effective configuration, and where each value came from
    Config(config::Options),
    /// Users, passwords, recovery
    #[command(subcommand)]
    Admin(admin::Command),
    /// Look at archives, and get homes out of them, without a database or a server
    #[command(subcommand)]
    Archives(archives::Command),
    /// Stop every workspace that runs, also when no server does; home directories are kept
    StopAll(stop_all::Options),
    /// Images for containers
    #[command(subcommand)]
    Image(image::Command),
    /// Run the built-in editor on a directory
    Ide {
        /// Handed to the editor as they are; `codehub ide --help` says which there are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Print what a shell needs to complete commands: `codehub completion bash`
    Completion(manual::Completion),
    /// Write the manual pages into a directory
    Man(manual::Pages),
}

/// The whole program.
pub fn main() -> ExitCode {
    let matches = groups::grouped(command()).get_matches_from(words(std::env::args_os()));
    let (overrides, cli) = read(&matches).unwrap_or_else(|error| error.exit());
    match run(overrides, cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("codehub: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `archive` was what `archives` is, until there was a client: its four words still lead there.
fn words(arguments: impl Iterator<Item = std::ffi::OsString>) -> Vec<std::ffi::OsString> {
    let mut words: Vec<_> = arguments.collect();
    let before = ["list", "verify", "restore", "export"];
    let is_before = words.get(2).is_some_and(|word| before.iter().any(|known| word == known));
    if is_before && words[1] == "archive" {
        words[1] = "archives".into();
    }
    words
}

fn read(matches: &clap::ArgMatches) -> Result<(Overrides, Cli), clap::Error> {
    let (overrides, cli) = (flags::overrides(matches), Cli::from_arg_matches(matches)?);
    if let (Some(Command::Client(_)), Some(key)) = (&cli.command, overrides.set.keys().next()) {
        let text = format!("this command takes none of the server's settings ({key})\n");
        return Err(clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, text));
    }
    Ok((overrides, cli))
}

/// Takes every setting with every command of the server; the help of those that are about something else does not list
/// them. The client's take none: they are about another machine's server.
fn command() -> clap::Command {
    flags::listed(Cli::command()).mut_subcommands(|command| match command.get_name() {
        "serve" => flags::listed(command),
        name if groups::is_of_client(name) || ["completion", "man", "ide"].contains(&name) => command,
        _ => flags::referred(command),
    })
}

fn run(overrides: Overrides, cli: Cli) -> anyhow::Result<ExitCode> {
    let command = match cli.command.unwrap_or(Command::Serve) {
        // The server's settings are none of their business.
        Command::Client(command) => return Ok(codehub_client::run(command)),
        Command::Completion(options) => return manual::completion(&options, Cli::command()),
        Command::Man(options) => return manual::pages(&options, Cli::command()),
        other => other,
    };
    let sources = Sources::of_process(overrides);
    if let Command::Config(options) = &command {
        return config::run(options, &sources).map(|()| ExitCode::SUCCESS);
    }
    let config = load(&sources)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("the runtime cannot be started")?.block_on(async {
        match command {
            Command::Serve => {
                telemetry::init(&config.log);
                for sentence in &config.unknown_env {
                    tracing::warn!("{sentence}");
                }
                serve::serve(config).await.map(|()| ExitCode::SUCCESS)
            }
            Command::Migrate => migrate::run(&config).await.map(|()| ExitCode::SUCCESS),
            Command::Doctor => Ok(doctor::run(&config).await),
            Command::Admin(command) => admin::run(command, &config).await.map(|()| ExitCode::SUCCESS),
            Command::Archives(command) => archives::run(command, &config).await.map(|()| ExitCode::SUCCESS),
            Command::StopAll(options) => stop_all::run(options, config).await.map(|()| ExitCode::SUCCESS),
            Command::Image(command) => image::run(command, &config).await.map(|()| ExitCode::SUCCESS),
            // `main` hands it on before anything of ours is set up, when it is the first word.
            Command::Ide { .. } => anyhow::bail!("`ide` takes none of the server's settings: write it first"),
            Command::Client(_) | Command::Config(_) | Command::Completion(_) | Command::Man(_) => {
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

fn load(sources: &Sources) -> anyhow::Result<Config> {
    Ok(Effective::load(sources)?.config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn try_parse(arguments: &[&str]) -> Result<(Overrides, Cli), clap::Error> {
        let arguments = words(std::iter::once(&"codehub").chain(arguments).map(Into::into));
        read(&groups::grouped(command()).try_get_matches_from(arguments)?)
    }

    fn parse(arguments: &[&str]) -> (Overrides, Option<Command>) {
        let (overrides, cli) = try_parse(arguments).unwrap();
        (overrides, cli.command)
    }

    #[test]
    fn the_commands_are_well_formed() {
        command().debug_assert();
        groups::grouped(command()).debug_assert();
    }

    #[test]
    fn the_servers_settings_are_listed_where_they_are_looked_for() {
        let help = |words: &[&str]| {
            let asked = words.iter().chain(&["--help"]);
            try_parse(&asked.copied().collect::<Vec<_>>()).unwrap_err().to_string()
        };
        for words in [&[][..], &["serve"]] {
            assert!(help(words).contains("--ttl-standby-seconds"), "{words:?}");
        }
        for words in [&["doctor"][..], &["config"], &["admin", "recover"], &["admin", "user", "add"]] {
            let help = help(words);
            assert!(!help.contains("--ttl-standby-seconds") && help.contains("`codehub --help`"), "{help}");
            assert!(help.contains("--config"), "{help}");
        }
        for words in [&["hold"][..], &["ls"], &["context", "ls"], &["exec"]] {
            let help = help(words);
            assert!(!help.contains("--ttl-standby-seconds") && !help.contains("`codehub --help`"), "{help}");
            assert!(!help.contains("--config"), "{help}");
        }
    }

    #[test]
    fn without_a_command_it_serves() {
        assert!(parse(&[]).1.is_none());
        assert!(matches!(parse(&["serve"]).1, Some(Command::Serve)));
    }

    #[test]
    fn settings_are_flags_before_and_after_the_command() {
        let both = |command| [["--listen", "127.0.0.1:1", command], [command, "--listen", "127.0.0.1:1"]];
        for arguments in both("serve").into_iter().chain(both("doctor")) {
            assert_eq!(parse(&arguments).0.set["listen"], "127.0.0.1:1");
        }
        let (said, _) = parse(&["config", "--json", "--ttl-standby-seconds=5m", "--config", "x.toml"]);
        assert_eq!(said.set["ttl.standby_seconds"], "5m");
        assert_eq!(said.config, Some("x.toml".into()));
        let (said, _) = parse(&["admin", "user", "list", "--data-dir", "/x"]);
        assert_eq!(said.set["data_dir"], "/x");
    }

    #[test]
    fn clients_take_no_settings_of_the_servers() {
        assert!(matches!(parse(&["ls"]).1, Some(Command::Client(_))));
        assert!(try_parse(&["ls", "--listen", "127.0.0.1:1"]).is_err());
        let why = try_parse(&["--listen", "127.0.0.1:1", "ls"]).unwrap_err().to_string();
        assert!(why.contains("none of the server's settings"), "{why}");
    }

    #[test]
    fn what_archives_was_called_before_still_leads_there() {
        assert!(matches!(parse(&["archive", "list"]).1, Some(Command::Archives(_))));
        assert!(matches!(parse(&["archives", "list"]).1, Some(Command::Archives(_))));
        assert!(matches!(parse(&["archive", "web"]).1, Some(Command::Client(_))));
    }

    #[test]
    fn secrets_are_no_flags() {
        assert!(command().try_get_matches_from(["codehub", "--admin-password", "x"]).is_err());
    }

    #[test]
    fn arguments_of_other_programs_are_handed_on_as_they_are() {
        let (_, command) = parse(&["ide", "--port", "5", "--home", "/x"]);
        let Some(Command::Ide { arguments }) = command else { panic!("{command:?}") };
        assert_eq!(arguments, ["--port", "5", "--home", "/x"]);
    }
}

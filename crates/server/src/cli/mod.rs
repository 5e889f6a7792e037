//! The command line. Every setting of the table is also a flag, so `codehub --listen …` works before
//! and after a command; without a command, `codehub` serves.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::{
    config::{Config, Effective, Sources},
    serve, telemetry,
};

mod admin;
mod archive;
mod config;
mod doctor;
mod flags;
mod hold;
mod image;
mod migrate;
mod password;
mod reached;
mod stop_all;

use flags::SettingFlags;

/// Workspaces in the browser, on a machine of your own.
#[derive(Debug, Parser)]
#[command(name = "codehub", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    settings: SettingFlags,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
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
    Archive(archive::Command),
    /// Keep a workspace awake while a command runs: `codehub hold 2h -- make test`
    Hold(hold::Options),
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
}

/// The whole program.
pub fn main() -> ExitCode {
    let matches = command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("codehub: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Takes every setting everywhere; the help of commands that are about something else does not list them.
fn command() -> clap::Command {
    Cli::command().mut_subcommands(|command| match command.get_name() {
        "serve" => command,
        // A client.
        "hold" => flags::unlisted(command),
        _ => flags::referred(command),
    })
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let command = cli.command.unwrap_or(Command::Serve);
    let sources = Sources::of_process(cli.settings.overrides);
    if let Command::Config(options) = &command {
        return config::run(options, &sources).map(|()| ExitCode::SUCCESS);
    }
    let command = match command {
        // A client: the server's settings are none of its business.
        Command::Hold(options) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            return runtime.context("the runtime cannot be started")?.block_on(hold::run(options));
        }
        other => other,
    };
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
            Command::Archive(command) => archive::run(command, &config).await.map(|()| ExitCode::SUCCESS),
            Command::StopAll(options) => stop_all::run(options, config).await.map(|()| ExitCode::SUCCESS),
            Command::Image(command) => image::run(command, &config).await.map(|()| ExitCode::SUCCESS),
            // `main` hands it on before anything of ours is set up, when it is the first word.
            Command::Ide { .. } => anyhow::bail!("`ide` takes none of the server's settings: write it first"),
            Command::Config(_) | Command::Hold(_) => Ok(ExitCode::SUCCESS),
        }
    })
}

fn load(sources: &Sources) -> anyhow::Result<Config> {
    Ok(Effective::load(sources)?.config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Cli {
        let matches = command().try_get_matches_from(std::iter::once(&"codehub").chain(arguments));
        Cli::from_arg_matches(&matches.unwrap()).unwrap()
    }

    #[test]
    fn the_commands_are_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn the_servers_settings_are_listed_where_they_are_looked_for() {
        let help = |words: &[&str]| {
            let asked = words.iter().chain(&["--help"]);
            command().try_get_matches_from(std::iter::once(&"codehub").chain(asked)).unwrap_err().to_string()
        };
        for words in [&[][..], &["serve"]] {
            assert!(help(words).contains("--ttl-standby-seconds"), "{words:?}");
        }
        for words in [&["doctor"][..], &["config"], &["admin", "recover"], &["admin", "user", "add"]] {
            let help = help(words);
            assert!(!help.contains("--ttl-standby-seconds") && help.contains("`codehub --help`"), "{help}");
            assert!(help.contains("--config"), "{help}");
        }
        let hold = help(&["hold"]);
        assert!(!hold.contains("--ttl-standby-seconds") && !hold.contains("`codehub --help`"), "{hold}");
    }

    #[test]
    fn without_a_command_it_serves() {
        assert!(parse(&[]).command.is_none());
        assert!(matches!(parse(&["serve"]).command, Some(Command::Serve)));
    }

    #[test]
    fn settings_are_flags_before_and_after_the_command() {
        let both = |command| [["--listen", "127.0.0.1:1", command], [command, "--listen", "127.0.0.1:1"]];
        for arguments in both("serve").into_iter().chain(both("doctor")) {
            assert_eq!(parse(&arguments).settings.overrides.set["listen"], "127.0.0.1:1");
        }
        let cli = parse(&["config", "--json", "--ttl-standby-seconds=5m", "--config", "x.toml"]);
        assert_eq!(cli.settings.overrides.set["ttl.standby_seconds"], "5m");
        assert_eq!(cli.settings.overrides.config, Some("x.toml".into()));
        let cli = parse(&["admin", "user", "list", "--data-dir", "/x"]);
        assert_eq!(cli.settings.overrides.set["data_dir"], "/x");
    }

    #[test]
    fn secrets_are_no_flags() {
        assert!(command().try_get_matches_from(["codehub", "--admin-password", "x"]).is_err());
    }

    #[test]
    fn arguments_of_other_programs_are_handed_on_as_they_are() {
        let cli = parse(&["ide", "--port", "5", "--home", "/x"]);
        let Some(Command::Ide { arguments }) = cli.command else { panic!("{cli:?}") };
        assert_eq!(arguments, ["--port", "5", "--home", "/x"]);
    }
}

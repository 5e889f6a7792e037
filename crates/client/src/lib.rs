//! CodeHub from the command line: a client of the HTTP API. Knows nothing of the server, the store or the runtime, and starts
//! none of their machinery.
//!
//! - [`context`]: where one is signed in, and what the environment says instead;
//! - [`api`]: requests, streams and WebSockets;
//! - [`workspace`]: how workspaces are named;
//! - the rest: the commands.

use std::process::ExitCode;

pub mod api;
mod browser;
pub mod context;
mod copy;
mod exec;
pub mod failure;
mod forward;
mod hold;
mod life;
mod output;
mod session;
mod text;
mod wait;
mod watch;
pub mod workspace;

use api::Api;
use context::{Contexts, Environment, Target};
use failure::Result;

/// Which server is meant.
#[derive(Debug, clap::Args)]
pub struct Connection {
    /// The context to use instead of the current one (`codehub context ls`) [env: CODEHUB_CONTEXT]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// A command's own options, and which server is meant.
#[derive(Debug, clap::Args)]
pub struct With<T: clap::Args> {
    #[command(flatten)]
    options: T,
    #[command(flatten)]
    connection: Connection,
}

/// [`With`], for commands whose answer programs read, too.
#[derive(Debug, clap::Args)]
pub struct On<T: clap::Args> {
    #[command(flatten)]
    options: T,
    #[command(flatten)]
    connection: Connection,
    /// Print JSON: the API's objects
    #[arg(long)]
    json: bool,
}

/// Without options of its own.
#[derive(Debug, clap::Args)]
pub struct Plain {}

/// What a client does.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Sign in to a server, with a code that you confirm in the browser
    Login(session::Login),
    /// Sign out of a server
    Logout(session::Logout),
    /// Show who is signed in, and where
    Whoami(On<Plain>),
    /// Servers you are signed in to
    #[command(subcommand)]
    Context(session::ContextCommand),
    /// Show the versions of this program and of the server
    Version(On<Plain>),
    /// List workspaces
    Ls(On<life::List>),
    /// Show a workspace
    Show(On<life::Show>),
    /// Create a workspace
    Create(On<life::Create>),
    /// Start workspaces; those that are archived are restored first
    Start(On<life::Ask>),
    /// Stop workspaces; home directories are kept
    Stop(On<life::Ask>),
    /// Archive workspaces: pack their home directories away
    Archive(On<life::Ask>),
    /// Restore the home directory of an archived workspace
    Restore(On<life::Restore>),
    /// Delete workspaces and their home directories
    Rm(On<life::Remove>),
    /// Open a workspace in the browser
    Open(On<life::Open>),
    /// Show what a workspace's program printed
    Logs(With<watch::Logs>),
    /// Show what happens to workspaces, as it happens
    Events(On<watch::Events>),
    /// Keep a workspace awake while a command runs: `codehub hold 2h -- make test`
    Hold(On<hold::Hold>),
    /// Run a program in a workspace: `codehub exec -it web -- bash`
    Exec(With<exec::Exec>),
    /// Copy files to and from a workspace: `codehub cp web:notes.txt .`
    Cp(With<copy::Copy>),
    /// Forward ports of a workspace to this machine
    PortForward(With<forward::Forward>),
    /// List the ports that programs in a workspace listen on
    Ports(On<forward::Ports>),
}

/// The server that is meant.
fn target(connection: &Connection) -> Result<Target> {
    // A file that cannot be read is in nobody's way where the environment says everything.
    let said = Environment::of_process();
    let contexts = match Contexts::load() {
        Err(_) if connection.context.is_none() && said.url.is_some() && said.token.is_some() => {
            Contexts::default()
        }
        contexts => contexts?,
    };
    context::target(connection.context.as_deref(), &said, &contexts)
}

async fn connect(connection: &Connection) -> Result<Api> {
    Api::new(&target(connection)?).await
}

/// Runs it to its end.
pub fn run(command: Command) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::note(format_args!("the runtime cannot be started: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(async {
        match command {
            // Its codes are the program's.
            Command::Exec(With { options, connection }) => {
                exec::exec(connect(&connection).await, options).await
            }
            other => done(other).await.unwrap_or_else(|failure| {
                output::note(&failure);
                failure.exit_code()
            }),
        }
    });
    // A thread may still read standard input, which nobody ends.
    runtime.shutdown_background();
    code
}

async fn done(command: Command) -> Result<ExitCode> {
    match command {
        Command::Login(options) => session::login(options).await?,
        Command::Logout(options) => session::logout(options).await?,
        Command::Whoami(On { options: Plain {}, connection, json }) => {
            let target = target(&connection)?;
            session::whoami(&Api::new(&target).await?, &target, json).await?;
        }
        Command::Context(command) => session::contexts(command)?,
        Command::Version(On { options: Plain {}, connection, json }) => {
            session::version(connect(&connection).await, json).await?;
        }
        Command::Ls(On { options, connection, json }) => {
            life::list(&connect(&connection).await?, options, json).await?;
        }
        Command::Show(On { options, connection, json }) => {
            life::show(&connect(&connection).await?, options, json).await?;
        }
        Command::Create(On { options, connection, json }) => {
            life::create(&connect(&connection).await?, options, json).await?;
        }
        Command::Start(On { options, connection, json }) => {
            life::ask(&connect(&connection).await?, life::Verb::Start, options, json).await?;
        }
        Command::Stop(On { options, connection, json }) => {
            life::ask(&connect(&connection).await?, life::Verb::Stop, options, json).await?;
        }
        Command::Archive(On { options, connection, json }) => {
            life::ask(&connect(&connection).await?, life::Verb::Archive, options, json).await?;
        }
        Command::Restore(On { options, connection, json }) => {
            life::restore(&connect(&connection).await?, options, json).await?;
        }
        Command::Rm(On { options, connection, json }) => {
            life::remove(&connect(&connection).await?, options, json).await?;
        }
        Command::Open(On { options, connection, json }) => {
            life::open(&connect(&connection).await?, options, json).await?;
        }
        Command::Logs(With { options, connection }) => {
            watch::logs(&connect(&connection).await?, options).await?;
        }
        Command::Events(On { options, connection, json }) => {
            watch::events(&connect(&connection).await?, options, json).await?;
        }
        Command::Hold(On { options, connection, json }) => {
            return hold::hold(&connect(&connection).await?, options, json).await;
        }
        Command::Cp(With { options, connection }) => {
            copy::copy(&connect(&connection).await?, options).await?;
        }
        Command::PortForward(With { options, connection }) => {
            forward::forward(connect(&connection).await?, options).await?;
        }
        Command::Ports(On { options, connection, json }) => {
            forward::ports(&connect(&connection).await?, options, json).await?;
        }
        Command::Exec(With { options, connection }) => {
            return Ok(exec::exec(connect(&connection).await, options).await);
        }
    }
    Ok(ExitCode::SUCCESS)
}

//! What is made from the commands themselves: completions and manual pages.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;

/// `codehub completion`.
#[derive(Debug, clap::Args)]
pub(super) struct Completion {
    /// The shell
    shell: clap_complete::Shell,
}

pub(super) fn completion(options: &Completion, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    clap_complete::generate(options.shell, &mut command, "codehub", &mut std::io::stdout());
    Ok(ExitCode::SUCCESS)
}

/// `codehub man`.
#[derive(Debug, clap::Args)]
pub(super) struct Pages {
    /// Where they go; made if it is missing
    directory: PathBuf,
}

pub(super) fn pages(options: &Pages, command: clap::Command) -> anyhow::Result<ExitCode> {
    let directory = &options.directory;
    std::fs::create_dir_all(directory).with_context(|| format!("{} cannot be made", directory.display()))?;
    clap_mangen::generate_to(command.disable_help_subcommand(true), directory)
        .with_context(|| format!("the pages cannot be written to {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

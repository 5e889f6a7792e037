//! What is made from the commands themselves: completions, manual pages, and `docs/CLI.md`.

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

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use clap::{Command, CommandFactory as _};

    use crate::cli::{Cli, groups};

    const HEAD: &str = include_str!("manual/head.md");

    /// A command and those below it, as their own help describes them.
    fn describe(text: &mut String, command: &mut Command, name: &str, depth: usize) {
        let _ = write!(text, "\n{} {name}\n\n", "#".repeat(depth));
        let mut one = command.clone().bin_name(name).term_width(100).disable_help_subcommand(true);
        let _ = writeln!(text, "```text\n{}\n```", one.render_long_help().to_string().trim_end());
        for below in command.get_subcommands_mut() {
            let name = format!("{name} {}", below.get_name());
            describe(text, below, &name, depth + 1);
        }
    }

    fn document() -> String {
        let mut text = HEAD.to_owned();
        let mut command = Cli::command();
        for (group, names) in groups::GROUPS {
            let _ = write!(text, "\n## {group}\n");
            for name in *names {
                let found = command.find_subcommand_mut(name).unwrap();
                describe(&mut text, found, &format!("codehub {name}"), 3);
            }
        }
        text
    }

    #[test]
    fn the_documentation_is_what_the_commands_say() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CLI.md");
        if std::env::var_os("CODEHUB_TEST_UPDATE").is_some() {
            std::fs::write(&path, document()).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        let says = "docs/CLI.md is not what the commands say: run this test with CODEHUB_TEST_UPDATE=1";
        assert!(there == document(), "{says}");
    }
}

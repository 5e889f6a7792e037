//! The commands in the order people look for them, for `codehub --help` and the documentation.

use std::fmt::Write as _;

use clap::{Command, Subcommand as _};

/// Every command that is listed, by what it is about.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    (
        "Workspaces",
        &[
            "ls", "show", "create", "start", "stop", "archive", "restore", "rm", "open", "logs", "events",
            "hold",
        ],
    ),
    ("Inside a workspace", &["exec", "cp", "port-forward", "ports"]),
    ("Signing in", &["login", "logout", "whoami", "context", "version"]),
    ("Server", &["serve", "doctor", "migrate", "config", "admin", "archives", "stop-all", "image"]),
    ("Other", &["ide", "completion", "man"]),
];

/// Whether a command is a client's.
pub(super) fn is_of_client(name: &str) -> bool {
    codehub_client::Command::has_subcommand(name)
}

fn about(command: &Command, name: &str) -> String {
    let found = command.find_subcommand(name).and_then(Command::get_about);
    found.map(ToString::to_string).unwrap_or_default()
}

/// With a help that lists the commands by group.
pub(super) fn grouped(command: Command) -> Command {
    let mut list = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(list, "{group}:");
        for name in *names {
            let _ = writeln!(list, "  {name:<14}{}", about(&command, name));
        }
        list.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}`codehub COMMAND --help` says more about each. \
         Without a command, codehub serves.\n\n{{all-args}}{{after-help}}"
    );
    command
        .override_usage("codehub [OPTIONS] [COMMAND]")
        .help_template(template)
        .disable_help_subcommand(true)
        .mut_subcommands(|command| command.hide(true))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let all = crate::cli::command();
        let there: BTreeSet<&str> = all.get_subcommands().map(Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), there);
        assert_eq!(grouped.len(), there.len());
        let help = super::grouped(all).render_help().to_string();
        for name in grouped {
            assert_eq!(help.matches(&format!("\n  {name:<14}")).count(), 1, "{name}: {help}");
        }
    }
}

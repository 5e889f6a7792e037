//! A flag for every setting, made from the table.

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::config::{Overrides, table::SETTINGS};

const CONFIG: &str = "config_file";

/// The few that people type; `--help` shows them all.
const OFTEN: &[&str] = &["listen", "data_dir", "public_base_url"];

/// What says where the settings are, and every setting that may be a flag.
fn settings() -> impl Iterator<Item = Arg> {
    let file = Arg::new(CONFIG)
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(std::path::PathBuf))
        .help("The configuration file [env: CODEHUB_CONFIG]");
    std::iter::once(file).chain(values())
}

fn values() -> impl Iterator<Item = Arg> {
    SETTINGS.iter().filter(|setting| !setting.secret).map(|setting| {
        let default = match setting.default {
            "" => String::new(),
            default => format!(" [default: {default}]"),
        };
        Arg::new(setting.key)
            .long(setting.flag())
            .value_name("VALUE")
            .hide_short_help(!OFTEN.contains(&setting.key))
            .help_heading("Settings")
            .help(format!("{} [env: {}]{default}", setting.help, setting.env))
    })
}

/// The command with every setting as a flag.
pub(super) fn listed(command: Command) -> Command {
    command.args(settings())
}

/// The same, taken but not listed in the help of a command and of those below it, which say where they are.
pub(super) fn referred(command: Command) -> Command {
    let hidden =
        settings().map(|setting| if setting.get_id() == CONFIG { setting } else { setting.hide(true) });
    command
        .args(hidden)
        .mut_subcommands(referred)
        .after_help("Every setting of the server may be given here, too: `codehub --help` lists them.")
}

/// What the flags said, before the command and after it.
pub(super) fn overrides(matches: &ArgMatches) -> Overrides {
    let mut said = Overrides::default();
    let mut level = Some(matches);
    while let Some(matches) = level {
        if let Ok(Some(file)) = matches.try_get_one::<std::path::PathBuf>(CONFIG) {
            said.config = Some(file.clone());
        }
        for setting in SETTINGS.iter().filter(|setting| !setting.secret) {
            // Not every command takes them.
            if let Ok(Some(value)) = matches.try_get_one::<String>(setting.key) {
                said.set.insert(setting.key.to_owned(), value.clone());
            }
        }
        level = matches.subcommand().map(|(_, matches)| matches);
    }
    said
}

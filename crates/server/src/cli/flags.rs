//! A flag for every setting, made from the table.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

use crate::config::{Overrides, table::SETTINGS};

const CONFIG: &str = "config_file";

/// The few that people type; `--help` shows them all.
const OFTEN: &[&str] = &["listen", "data_dir", "public_base_url"];

fn settings() -> impl Iterator<Item = Arg> {
    SETTINGS.iter().filter(|setting| !setting.secret).map(|setting| {
        let default = match setting.default {
            "" => String::new(),
            default => format!(" [default: {default}]"),
        };
        Arg::new(setting.key)
            .long(setting.flag())
            .value_name("VALUE")
            .global(true)
            .hide_short_help(!OFTEN.contains(&setting.key))
            .help_heading("Settings")
            .help(format!("{} [env: {}]{default}", setting.help, setting.env))
    })
}

/// The command with a help that does not list the settings it takes.
pub(super) fn unlisted(command: Command) -> Command {
    command.args(settings().map(|setting| setting.hide(true)))
}

/// Takes the settings out of the help of a command and of those below it, and says there where they are listed.
pub(super) fn referred(command: Command) -> Command {
    unlisted(command)
        .mut_subcommands(referred)
        .after_help("Every setting of the server may be given here, too: `codehub --help` lists them.")
}

/// What the flags said.
#[derive(Debug, Default)]
pub(super) struct SettingFlags {
    pub(super) overrides: Overrides,
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new(CONFIG)
            .long("config")
            .value_name("FILE")
            .value_parser(value_parser!(std::path::PathBuf))
            .global(true)
            .help("The configuration file [env: CODEHUB_CONFIG]");
        command.arg(config).args(settings())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.overrides.config = matches.get_one(CONFIG).cloned();
        for setting in SETTINGS.iter().filter(|setting| !setting.secret) {
            if let Some(value) = matches.get_one::<String>(setting.key) {
                self.overrides.set.insert(setting.key.to_owned(), value.clone());
            }
        }
        Ok(())
    }
}

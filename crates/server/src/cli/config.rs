//! `codehub config`: what is in effect, and who said so.

use crate::config::{Effective, Sources, default_file, effective_json, effective_toml};

#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Print every setting with its default and its meaning instead
    #[arg(long, conflicts_with = "json")]
    default: bool,
}

pub(super) fn run(options: &Options, sources: &Sources) -> anyhow::Result<()> {
    if options.default {
        print!("{}", default_file());
        return Ok(());
    }
    let effective = Effective::load(sources)?;
    if options.json {
        println!("{:#}", effective_json(&effective));
    } else {
        print!("{}", effective_toml(&effective));
    }
    Ok(())
}

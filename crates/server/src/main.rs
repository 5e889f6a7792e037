//! `codehub`: see [`codehub_server::cli`].

use std::process::ExitCode;

use codehub_adapters::runtime::process::{ShimCommand, shim};

fn main() -> ExitCode {
    // Two other programs live in this file, and neither wants anything of the server's: the step
    // before a workspace's program, and the built-in IDE.
    let mut arguments = std::env::args_os();
    match arguments.nth(1) {
        Some(word) if word == ShimCommand::SUBCOMMAND => shim::main(arguments),
        Some(word) if word == "ide" => codehub_ide::cli::main(arguments),
        _ => codehub_server::cli::main(),
    }
}

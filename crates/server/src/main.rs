//! `codehub`: see [`codehub_server::cli`].

use std::process::ExitCode;

use codehub_runtime::{
    docker::{job_main, keep_capabilities_to_ourselves},
    process::{ShimCommand, shim},
};

/// The proxy lives on small, short-lived pieces of memory.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    keep_capabilities_to_ourselves();
    // Four other programs live in this file, and none wants anything of the server's: the step
    // before a workspace's program, the program inside, the built-in IDE, and what reads and writes
    // containers' volumes.
    let mut arguments = std::env::args_os();
    match arguments.nth(1) {
        Some(word) if word == ShimCommand::SUBCOMMAND => shim::main(arguments, first_process),
        Some(word) if word == "storage-job" => job_main::main(arguments),
        Some(word) if word == "ide" => codehub_inside::cli::main(arguments),
        Some(word) if word == "inside" => codehub_inside::run::main(arguments),
        _ => codehub_server::cli::main(),
    }
}

/// What the last step before a workspace's program becomes: its parent.
fn first_process(
    shim::Line { path, shares_network }: shim::Line,
    program: std::process::Command,
    started: &mut dyn FnMut(),
) -> std::io::Result<i32> {
    let options = codehub_inside::run::Options { line: Some(path), shares_network };
    codehub_inside::run::run(&options, program, started)
}

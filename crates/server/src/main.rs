//! `codehub`: see [`codehub_server::cli`].

fn main() -> std::process::ExitCode {
    codehub_server::cli::main()
}

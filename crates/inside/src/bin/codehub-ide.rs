//! The built-in IDE as a program of its own, small enough for an image `FROM
//! scratch`. `codehub ide` is the same thing inside the main binary.

fn main() -> std::process::ExitCode {
    codehub_inside::cli::main(std::env::args_os().skip(1))
}

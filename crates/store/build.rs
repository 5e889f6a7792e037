//! Migrations are embedded when this crate is compiled: a new one must make it compile again.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}

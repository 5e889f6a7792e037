fn main() {
    print!("{}", codehub_server::config::default_file());
}

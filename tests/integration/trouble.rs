//! Starting in a world that is not ready for us: a clear word, a non-zero exit, nothing lost.

use std::{net::TcpListener, os::unix::fs::PermissionsExt, process::Output};

use crate::support::Setup;

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn refused(setup: &Setup, arguments: &[&str], words: &[&str]) {
    let output = setup.command(arguments).output().unwrap();
    let said = said(&output);
    assert!(!output.status.success(), "it should not have started: {said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_the_same_data_directory() {
    let first = Setup::new().start().await;
    let mut second = Setup::new();
    second = second.env("CODEHUB_DATA_DIR", first.setup.data_dir().to_str().unwrap());
    refused(&second, &["serve"], &[first.setup.data_dir().to_str().unwrap(), "already"]);
    assert_eq!(first.get("/workspaces").await["total"], 0, "the first one goes on");
}

#[test]
fn a_port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut setup = Setup::new();
    setup.port = taken.local_addr().unwrap().port();
    refused(&setup, &["serve"], &[&setup.port.to_string(), "in use", "CODEHUB_LISTEN"]);
}

#[test]
fn wrong_settings() {
    for (name, value, words) in [
        ("TTL_STANDBY_SECONDS", "soon", ["TTL_STANDBY_SECONDS", "soon"]),
        ("CODEHUB_LISTEN", "here", ["CODEHUB_LISTEN", "here"]),
        ("IDE", "emacs", ["IDE", "builtin"]),
        ("ACTIVITY_MODE", "sometimes", ["ACTIVITY_MODE", "traffic"]),
        ("DATABASE_URL", "mysql://x", ["DATABASE_URL", "mysql"]),
    ] {
        refused(&Setup::new().env(name, value), &["serve"], &words);
    }
}

#[test]
fn an_unknown_key_in_the_file_names_the_nearest() {
    let setup = Setup::new();
    let file = setup.data.path().join("codehub.toml");
    std::fs::write(&file, "[ttl]\nstandby_secnds = 5\n").unwrap();
    refused(&setup, &["serve", "--config", file.to_str().unwrap()], &["standby_secnds", "standby_seconds"]);
}

#[test]
fn an_unwritable_data_directory() {
    if rustix::process::geteuid().is_root() {
        // Root may write everywhere, but not below a file.
        let setup = Setup::new();
        std::fs::write(setup.data_dir(), "a file").unwrap();
        refused(&setup, &["serve"], &[setup.data_dir().to_str().unwrap()]);
    } else {
        let setup = Setup::new();
        std::fs::create_dir(setup.data_dir()).unwrap();
        std::fs::set_permissions(setup.data_dir(), std::fs::Permissions::from_mode(0o500)).unwrap();
        refused(&setup, &["serve"], &[setup.data_dir().to_str().unwrap(), "ermission"]);
    }
}

//! Starting in a world that is not ready for us: a clear word, a non-zero exit, nothing lost.

use std::{net::TcpListener, os::unix::fs::PermissionsExt, process::Output};

use serde_json::json;

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

/// A file system of its own, small enough to fill.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(mebibytes: u32) -> Option<Self> {
        let directory = tempfile::TempDir::new().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"])
            .arg(directory.path())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(directory));
        }
        codehub_testing::skip("not allowed to mount a small file system");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_said_and_loses_nothing() {
    let Some(disk) = SmallDisk::mount(48) else { return };
    let data = disk.0.path().join("data");
    let server = Setup::new().env("CODEHUB_DATA_DIR", data.to_str().unwrap()).start().await;
    let (status, created) = server
        .post("/workspaces?wait=20", serde_json::json!({ "name": "big", "desired_state": "STANDBY" }))
        .await;
    assert_eq!(status, 201, "{created}");
    let id = created["id"].as_str().unwrap().to_owned();
    server.until_phase(&id, "STANDBY").await;
    let volume = std::process::Command::new("find").arg(&data).args(["-name", "home-1"]).output().unwrap();
    let home = std::path::PathBuf::from(String::from_utf8(volume.stdout).unwrap().trim());
    // A home that does not compress, larger than what is left beside it.
    let mut bytes = vec![0_u8; 24 << 20];
    let mut state = 1_u64;
    for byte in &mut bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 56) as u8;
    }
    std::fs::write(home.join("noise"), &bytes).unwrap();

    let (status, body) = server.post(&format!("/workspaces/{id}/archive"), serde_json::json!({})).await;
    assert_eq!(status, 202, "{body}");
    let failed = server.until_phase(&id, "ERROR").await;
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains("no space left"), "{message}");
    assert_eq!(std::fs::read(home.join("noise")).unwrap(), bytes, "the home is untouched");

    // Its owner goes in, makes room by shrinking the home, and asks again.
    let wish = serde_json::json!({ "desired_state": "RUNNING" });
    let (status, body) = server.post(&format!("/workspaces/{id}/recover?wait=30"), wish).await;
    assert_eq!(status, 202, "{body}");
    server.until_phase(&id, "RUNNING").await;
    std::fs::write(home.join("noise"), &bytes[..1 << 20]).unwrap();
    let (status, body) = server.post(&format!("/workspaces/{id}/archive"), serde_json::json!({})).await;
    assert_eq!(status, 202, "{body}");
    server.until_phase(&id, "ARCHIVED").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_user_without_a_sandbox() {
    let server = Setup::new().without("PROCESS_UNSANDBOXED_USERS").start().await;
    let ann = json!({ "username": "ann", "password": "correct horse" });
    let (status, answer) = server.post("/users", ann.clone()).await;
    assert_eq!((status.as_u16(), &answer["error"]["code"]), (409, &json!("INVALID_STATE")));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("bubblewrap") && message.contains("PROCESS_UNSANDBOXED_USERS=many"),
        "{message}"
    );
    let system = server.get("/system").await;
    let sandbox = system["safeguards"].as_array().unwrap().iter().find(|it| it["name"] == "sandbox").unwrap();
    assert!(sandbox["text"].as_str().unwrap().contains("A second user is refused"), "{sandbox}");
    let (status, _) = Setup::new().start().await.post("/users", ann).await;
    assert_eq!(status, 201, "where it was allowed");
}

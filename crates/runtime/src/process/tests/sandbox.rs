//! Shut in by bubblewrap, where that works.

use std::os::unix::fs::PermissionsExt;

use super::*;

async fn place(command: Vec<String>) -> Option<Place> {
    let mut place = Place::new(command).await;
    place.sandbox = SandboxChoice::Auto;
    if place.runtime().await.sandboxed() {
        return Some(place);
    }
    codehub_testing::skip("no bwrap");
    None
}

#[tokio::test]
async fn inside_only_the_own_home_is_there_and_writable() {
    let look = "ls -a \"$HOME/../../../..\" > users; ls -a \"$HOME/../../../../../..\" > data; \
                echo x > /etc/codehub-was-here; echo x > /usr/codehub-was-here; echo $? > wrote; \
                grep CapEff /proc/self/status > caps; ls /proc | grep -c '^[0-9]' > procs; cat hidden-link > hidden; touch looked; exec sleep 60";
    let Some(place) = place(shell(look)).await else { return };
    let secret = tempfile::NamedTempFile::new_in(std::env::current_dir().unwrap()).unwrap();
    fs::write(secret.path(), "secret").unwrap();
    std::os::unix::fs::symlink(secret.path(), place.home(1).join("hidden-link")).unwrap();
    let other = place.dir.path().join("homes/users/other");
    fs::create_dir_all(&other).unwrap();
    let mut config = place.config();
    config.hidden = vec![secret.path().to_owned(), "/not/there".into()];
    let runtime = ProcessRuntime::open(config).await.unwrap();
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    let seen = |name: &str| fs::read_to_string(place.home(1).join(name)).unwrap_or_default();
    eventually("it has looked around", async || place.home(1).join("looked").exists()).await;
    let owner = place.owner.to_string();
    assert_eq!(seen("users").split_whitespace().collect::<Vec<_>>(), [".", "..", &owner]);
    assert_eq!(seen("data").split_whitespace().collect::<Vec<_>>(), [".", "..", "homes"]);
    assert_ne!(seen("wrote").trim(), "0");
    assert!(!Path::new("/etc/codehub-was-here").exists());
    assert!(seen("procs").trim().parse::<u32>().unwrap() < 10, "it sees {} processes", seen("procs"));
    assert_eq!(seen("caps").trim(), "CapEff:\t0000000000000000");
    assert_eq!(seen("hidden"), "");
    runtime.stop(place.id).await.unwrap();
    assert!(place.processes().is_empty());
}

#[tokio::test]
async fn a_shut_in_workspace_is_adopted_and_ended_like_any_other() {
    let Some(place) = place(web()).await else { return };
    let before = place.started().await;
    let (pid, upstream) = (place.recorded_pid(), before.upstream(place.id).await.unwrap());
    drop(before);
    fs::remove_file(place.record_file()).unwrap();
    let after = place.runtime().await;
    assert_eq!(place.state(&after).await, Some(InstanceState::Ready));
    assert_eq!(after.upstream(place.id).await.unwrap(), upstream);
    after.start(&place.spec(1), &Fence::open()).await.unwrap();
    assert_eq!((place.recorded_pid(), place.mains()), (pid, vec![pid]));
    after.stop(place.id).await.unwrap();
    assert!(place.processes().is_empty());
}

#[tokio::test]
async fn a_shut_in_program_gets_its_grace_and_its_leavings_go_too() {
    let script = "setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & \
                  trap 'sleep 0.7; echo saved > saved; exit 0' TERM; echo up > up; while :; do sleep 0.05; done";
    let Some(place) = place(shell(script)).await else { return };
    let runtime = place.runtime().await;
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    eventually("it is up", async || place.home(1).join("up").exists()).await;
    runtime.stop(place.id).await.unwrap();
    assert!(place.home(1).join("saved").exists(), "it had the time it needs to end well");
    assert!(place.processes().is_empty());
}

#[tokio::test]
async fn the_status_of_a_shut_in_program_is_told() {
    let Some(place) = place(shell("exit 4")).await else { return };
    let runtime = place.runtime().await;
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    assert_eq!(place.ended(&runtime).await, "exited with code 4");
}

#[tokio::test]
async fn a_program_below_tmp_is_there_inside() {
    let elsewhere = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
    let script = elsewhere.path().join("program");
    fs::write(&script, "#!/bin/sh\nexit 7\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let Some(place) = place(vec![script.to_str().unwrap().to_owned()]).await else { return };
    let runtime = place.runtime().await;
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    assert_eq!(place.ended(&runtime).await, "exited with code 7");
}

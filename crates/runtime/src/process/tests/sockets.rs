//! Workspaces that listen where nobody else on the machine can reach them.

use std::{net::TcpStream, os::unix::fs::PermissionsExt};

use super::{
    super::super::{Address, Upstream},
    *,
};

fn socket_of(upstream: &Upstream) -> PathBuf {
    match &upstream.address {
        Address::Socket(path) => PathBuf::from(&**path),
        other => panic!("it listens on {other}"),
    }
}

#[tokio::test]
async fn the_socket_is_for_codehubs_user_and_goes_with_the_workspace() {
    let place = Place::new(web_on_socket()).await;
    let runtime = place.started().await;
    let upstream = runtime.upstream(place.id).await.unwrap().unwrap();
    let socket = socket_of(&upstream);
    for closed in [socket.parent().unwrap(), socket.parent().unwrap().parent().unwrap()] {
        assert_eq!(closed.metadata().unwrap().permissions().mode() & 0o777, 0o700, "{}", closed.display());
    }
    let port = place.record().port;
    TcpStream::connect(("127.0.0.1", port)).expect_err("nobody listens on the port");
    let environment = environment(place.recorded_pid());
    assert!(environment.contains(&format!("CODEHUB_SOCKET={}", socket.display())), "{environment:?}");
    assert!(environment.contains(&format!("PORT={port}")), "every program hears of its port");

    // Started again after it died without cleaning up.
    let pid = place.recorded_pid();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    place.ended(&runtime).await;
    assert!(socket.exists());
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    place.ready(&runtime).await;
    runtime.stop(place.id).await.unwrap();
    assert_eq!(fs::read_dir(place.dir.path().join("run")).unwrap().count(), 0, "nothing is left behind");
}

#[tokio::test]
async fn a_new_codehub_finds_it_with_and_without_its_record() {
    for lost in [false, true] {
        let place = Place::new(web_on_socket()).await;
        let before = place.started().await;
        let (pid, upstream) = (place.recorded_pid(), before.upstream(place.id).await.unwrap());
        drop(before);
        if lost {
            fs::remove_file(place.record_file()).unwrap();
        }
        let after = place.runtime().await;
        assert_eq!(place.state(&after).await, Some(InstanceState::Ready));
        assert_eq!(after.upstream(place.id).await.unwrap(), upstream);
        after.start(&place.spec(1), &Fence::open()).await.unwrap();
        assert_eq!((place.recorded_pid(), place.mains()), (pid, vec![pid]));
        after.stop(place.id).await.unwrap();
    }
}

#[tokio::test]
async fn what_an_older_codehub_started_on_a_port_is_still_found_there() {
    let mut place = Place::new(web()).await;
    drop(place.started().await);
    let mut record = serde_json::to_value(place.record()).unwrap();
    record.as_object_mut().unwrap().remove("socket").expect("newer records say it");
    fs::write(place.record_file(), record.to_string()).unwrap();
    // What is started from now on listens on a socket.
    place.command = web_on_socket();
    let after = place.runtime().await;
    assert_eq!(place.state(&after).await, Some(InstanceState::Ready));
    let upstream = after.upstream(place.id).await.unwrap().unwrap();
    assert_eq!(upstream.address.port().map(|address| address.port()), Some(place.record().port));
    after.stop(place.id).await.unwrap();
    after.start(&place.spec(1), &Fence::open()).await.unwrap();
    place.ready(&after).await;
    socket_of(&after.upstream(place.id).await.unwrap().unwrap());
}

#[tokio::test]
async fn a_data_directory_whose_name_is_too_long_is_noticed() {
    let place = Place::new(web_on_socket()).await;
    let mut config = place.config();
    config.data_dir = place.dir.path().join("x".repeat(100));
    let error = ProcessRuntime::open(config.clone()).await.unwrap_err();
    assert!(error.contains("bytes too long") && error.contains("{socket}"), "{error}");
    config.ide = ide::resolve(IdeChoice::Builtin, &[], "", Path::new("/bin/codehub")).unwrap();
    assert!(!ProcessRuntime::open(config).await.unwrap().inner.on_socket, "it does with a port");
}

#[tokio::test]
async fn in_a_sandbox_the_socket_has_a_short_name_and_no_neighbours() {
    let look = "echo \"$0\" > socket; ls \"$(dirname \"$0\")\" > seen; exec \"$1\" -c \"$2\" \"$0\"";
    let command = ["/bin/sh", "-c", look, "{socket}", &python(), WEB].map(str::to_owned).to_vec();
    let mut place = Place::new(command).await;
    place.sandbox = SandboxChoice::Auto;
    let mut config = place.config();
    // Too long for a socket's name outside.
    config.data_dir = place.dir.path().join("x".repeat(100));
    let home = home_dir(&config.data_dir, &place.key(1));
    let volumes = DirectoryVolumes::new(&config.data_dir);
    volumes.prepare().await.unwrap();
    volumes.create(&place.key(1), 0).await.unwrap();
    let runtime = ProcessRuntime::open(config).await;
    let Ok(runtime) = runtime else { return codehub_testing::skip("no bwrap") };
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    place.ready(&runtime).await;
    assert_eq!(fs::read_to_string(home.join("socket")).unwrap().trim(), "/run/codehub/io/ide");
    assert_eq!(fs::read_to_string(home.join("seen")).unwrap(), "line\n", "nobody else is there");
    socket_of(&runtime.upstream(place.id).await.unwrap().unwrap());
    runtime.stop(place.id).await.unwrap();
}

//! A workspace's whole life on Docker and S3, in fair weather and in foul.

use std::time::{Duration, Instant};

use codehub_archive::flaky_link::Trouble;
use codehub_testing::let_time_pass;
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{Docked, TestBucket, TestEngine, setup};
use crate::support::web_program;

#[tokio::test(flavor = "multi_thread")]
async fn from_creation_to_deletion_on_docker_and_s3() {
    let Some(engine) = TestEngine::of_this_run() else { return };
    let Some(bucket) = TestBucket::of_this_run().await else { return };
    let docked = Docked::start(bucket.configure(setup(&engine)), engine).await;
    let server = &docked.server;
    let id = docked.create("first").await;
    assert_eq!(docked.phase(&id).await, "RUNNING");
    let write = "echo hello > note && mkdir -p a/b && busybox dd if=/dev/urandom of=a/b/large bs=1M count=20 2>/dev/null \
                 && busybox sha256sum a/b/large";
    let (done, sum) = docked.inside(&id, write);
    assert!(done, "{sum}");

    server.go(&id, "stop").await;
    assert!(docked.containers(&id).is_empty(), "nothing is left of the container");
    assert_eq!(docked.volumes(&id).len(), 1);
    server.go(&id, "start").await;
    assert_eq!(docked.inside(&id, "cat note").1, "hello");
    server.go(&id, "stop").await;

    let archived = server.go(&id, "archive").await;
    assert_eq!(archived["phase"], "ARCHIVED");
    assert!(
        docked.volumes(&id).is_empty() && docked.containers(&id).is_empty(),
        "volume and helper are gone"
    );
    let archives = server.get(&format!("/workspaces/{id}/archives")).await;
    assert_eq!(archives["items"][0]["key"], archived["archive_key"]);

    server.go(&id, "start").await;
    let (_, after) =
        docked.inside(&id, "cat note && busybox sha256sum a/b/large && busybox stat -c %U:%G note .");
    assert_eq!(after, format!("hello\n{sum}\ncoder:coder\ncoder:coder"));
    assert!(docked.volumes(&id)[0].ends_with("-home-2"), "a new generation");

    let (status, _) = server.call(Method::DELETE, &format!("/workspaces/{id}"), None).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    docked.until_gone(&id, "deleted").await;
}

/// The operator has changed their mind about containers: the home is the local processes' user's, in their sandbox.
#[tokio::test(flavor = "multi_thread")]
async fn a_home_of_a_container_is_restored_for_a_process_in_its_sandbox() {
    let Some(engine) = TestEngine::of_this_run() else { return };
    let mut docked = Docked::start(setup(&engine), engine).await;
    let id = docked.create("moved").await;
    let (done, said) =
        docked.inside(&id, "echo hello > note && mkdir deep && echo x > deep/file && busybox chmod 700 deep");
    assert!(done, "{said}");
    docked.server.go(&id, "stop").await;
    docked.server.go(&id, "archive").await;
    docked.server.kill();
    for (name, value) in [
        ("RUNTIME", "process"),
        ("IDE", "command"),
        ("IDE_COMMAND", web_program().as_str()),
        ("PROCESS_SANDBOX", "auto"),
    ] {
        docked.server.set_env(name, value);
    }
    docked.server.restart().await;
    docked.server.go(&id, "start").await;
    let ask = async |path: &str| {
        let request = docked.server.client.get(docked.server.url(&format!("/w/{id}{path}")));
        let answer = request.bearer_auth(&docked.server.token).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{path}: {status}");
        answer.text().await.unwrap()
    };
    assert_eq!(ask("/read?note").await, "hello\n");
    ask("/write?note=again").await;
    ask("/write?deep/file=y").await;
    assert_eq!(
        (ask("/read?note").await, ask("/read?deep/file").await),
        ("hello\nagain\n".into(), "x\ny\n".into())
    );
}

/// For each trouble: archiving is asked for while the store has it, and once it is over everything is
/// where it should be within a minute. Meanwhile the home is on its volume, or its archive is whole.
#[tokio::test(flavor = "multi_thread")]
async fn no_trouble_with_the_store_loses_a_home() {
    let Some(engine) = TestEngine::of_this_run() else { return };
    let Some(bucket) = TestBucket::of_this_run().await else { return };
    let docked = Docked::start(bucket.configure(setup(&engine)), engine).await;
    let server = &docked.server;
    let id = docked.create("weather").await;
    let fill = "busybox dd if=/dev/urandom of=large bs=1M count=12 2>/dev/null; busybox sha256sum large";
    let (_, sum) = docked.inside(&id, fill);
    let mut report = Vec::new();
    for trouble in [Trouble::Error, Trouble::Hang, Trouble::CutRequest, Trouble::LoseAnswer, Trouble::Mixed] {
        server.go(&id, "stop").await;
        bucket.link.set(trouble);
        let (status, body) = server.post(&format!("/workspaces/{id}/archive"), json!({})).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{body}");
        let until = Instant::now() + Duration::from_secs(6);
        while Instant::now() < until {
            let workspace = server.workspace(&id).await;
            let archived = workspace["phase"] == "ARCHIVED";
            assert!(archived || !docked.volumes(&id).is_empty(), "{trouble:?}: {workspace:#}");
            assert_ne!(workspace["phase"], "ERROR", "{trouble:?}: {workspace:#}");
            let_time_pass(Duration::from_millis(200)).await;
        }
        bucket.link.set(Trouble::None);
        let over = Instant::now();
        server.until(&id, "archived", |it| it["phase"] == "ARCHIVED" && it["operation"] == "NONE").await;
        let archived = over.elapsed();
        server.go(&id, "start").await;
        assert_eq!(docked.inside(&id, "busybox sha256sum large"), (true, sum.clone()), "{trouble:?}");
        assert!(over.elapsed() < Duration::from_secs(60), "{trouble:?}: {:?}", over.elapsed());
        report.push(format!(
            "{trouble:?}: archived {archived:.1?}, running again {:.1?} after it",
            over.elapsed()
        ));
    }
    eprintln!("{}", report.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_on_standby_starts_while_the_store_is_down() {
    let Some(engine) = TestEngine::of_this_run() else { return };
    let Some(bucket) = TestBucket::of_this_run().await else { return };
    let docked = Docked::start(bucket.configure(setup(&engine)), engine).await;
    let id = docked.create("standby").await;
    docked.server.go(&id, "stop").await;
    bucket.link.set(Trouble::Refuse);
    docked.server.go(&id, "start").await;
    assert_eq!(docked.phase(&id).await, "RUNNING");
    docked.server.go(&id, "stop").await;
    bucket.link.set(Trouble::Hang);
    docked.server.go(&id, "start").await;
    assert_eq!(docked.page(&id).await, 200);
}

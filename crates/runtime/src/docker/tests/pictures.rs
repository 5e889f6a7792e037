//! What others do to our containers behind our back, and that it is seen for what it is.

use codehub_domain::{ArchiveKey, OpId, observed::EndedBy};
use codehub_testing::eventually;

use super::*;
use crate::{RuntimeError, archives::Archives};
use codehub_archive::{ArchiveError, Progress};

/// A failure is told within this, on a busy machine.
const SOON: Duration = Duration::from_secs(10);

fn name(spec: &InstanceSpec) -> String {
    container_name(spec.workspace)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_container_is_found_and_no_second_one_joins_it_on_its_home() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    let first = rig.docker(&["inspect", "-f", "{{.Id}}", &name(&spec)]);
    rig.docker(&["rename", &first, &format!("renamed-{}", spec.workspace)]);
    rig.until_ready(&spec).await;
    rig.runtime.start(&spec, &Fence::open()).await.unwrap();
    let volume = format!("volume={}", spec.volume);
    let users = || rig.docker(&["ps", "-aq", "--no-trunc", "--filter", &volume]);
    assert_eq!(users(), first, "adopted, and alone");
    assert!(rig.runtime.upstream(spec.workspace).await.unwrap().is_some());
    rig.runtime.stop(spec.workspace).await.unwrap();
    assert_eq!(users(), "", "and stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_without_a_name_go_with_their_container_and_homes_stay() {
    let Some(rig) = Rig::new().await else { return };
    let mut spec = spec();
    spec.image_ref = format!("codehub/ide:test-{}", spec.workspace);
    let made = rig.docker(&["create", "--network", "none", IMAGE]);
    rig.docker(&["commit", "--change", "VOLUME /data", &made, &spec.image_ref]);
    rig.docker(&["rm", &made]);
    rig.volumes.create(&spec.volume, 0).await.unwrap();
    rig.runtime.start(&spec, &Fence::open()).await.unwrap();
    rig.until_ready(&spec).await;
    let format = r#"{{range .Mounts}}{{if eq .Destination "/data"}}{{.Name}}{{end}}{{end}}"#;
    let anonymous = rig.docker(&["inspect", "-f", format, &name(&spec)]);
    assert_eq!(anonymous.len(), 64, "{anonymous}");
    rig.runtime.stop(spec.workspace).await.unwrap();
    let left = rig.docker(&["volume", "ls", "-q"]);
    assert!(!left.contains(&anonymous), "{left}");
    assert!(left.contains(&spec.volume.to_string()), "the home stays: {left}");
    rig.docker(&["rmi", &spec.image_ref]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_container_is_told_at_once_and_goes_on_with_the_next_start() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    rig.docker(&["pause", &name(&spec)]);
    let begun = Instant::now();
    let seen = rig.runtime.status(spec.workspace).await.unwrap_err();
    let led_to = rig.runtime.upstream(spec.workspace).await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(2), "without waiting for an answer: {:?}", begun.elapsed());
    for error in [seen, led_to] {
        assert!(matches!(&error, RuntimeError::Unreachable(text) if text.contains("paused")), "{error}");
    }
    rig.runtime.start(&spec, &Fence::open()).await.unwrap();
    rig.until_ready(&spec).await;
    rig.docker(&["pause", &name(&spec)]);
    rig.runtime.stop(spec.workspace).await.unwrap();
    assert_eq!(rig.runtime.status(spec.workspace).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_built_here_is_never_pulled() {
    for policy in [PullPolicy::Missing, PullPolicy::Always] {
        let Some(rig) = Rig::with(|config| config.pull = policy).await else { return };
        for image in ["codehub/ide:0.0.0", "codehub/code-server:none"] {
            let error = rig.runtime.prepare(image, &Progress::new()).await.unwrap_err();
            assert!(
                matches!(&error, RuntimeError::ImagePull(text) if text.contains("never pulled")),
                "{error}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_memory_is_told_with_the_limit_and_counts_as_the_programs_end() {
    // As the first program of its container: what others use up there ends those, and not the container.
    let hungry = ["/bin/sh", "-c", "exec busybox tail /dev/zero"].map(str::to_owned);
    let ide = ide::resolve_in_container(IdeChoice::Command, &hungry, "/healthz", IMAGE).unwrap();
    let Some(rig) = Rig::with(|config| {
        config.ide = ide;
        config.memory = 64 << 20;
    })
    .await
    else {
        return;
    };
    let spec = spec();
    rig.volumes.create(&spec.volume, 0).await.unwrap();
    rig.runtime.start(&spec, &Fence::open()).await.unwrap();
    let mut told = None;
    eventually("its end is told", async || {
        told = rig.runtime.status(spec.workspace).await.ok().flatten().map(|instance| instance.state);
        matches!(told, Some(InstanceState::Ended { .. }))
    })
    .await;
    let expected = InstanceState::Ended { by: EndedBy::Program, how: "out of memory (64 MiB)".into() };
    assert_eq!(told, Some(expected));
    // Also to whoever was not there when it happened.
    let later = rig.later();
    assert_eq!(later.status(spec.workspace).await.unwrap().map(|it| it.state), told);
}

/// At no moment it is only silent, as it would be where a program hangs.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_container_is_never_told_as_a_program_that_does_not_answer() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    let (host, container) = (rig.host.clone(), name(&spec));
    let removing = tokio::task::spawn_blocking(move || docker(&host, &["rm", "-f", &container]));
    loop {
        match rig.runtime.status(spec.workspace).await.unwrap().map(|instance| instance.state) {
            None => break,
            Some(InstanceState::Ended { by, how }) => {
                assert_eq!((by, how.as_str()), (EndedBy::Platform, "its container was removed"));
            }
            // The last moment of a program is like the first of one that hangs: whoever decides looks once more.
            Some(InstanceState::Ready | InstanceState::Alive) => {}
            Some(state) => panic!("{state:?}"),
        }
    }
    removing.await.unwrap();
}

/// A home of this many MiB that does not compress, in an archive.
async fn archived(rig: &Rig, mebibytes: usize) -> (InstanceSpec, ArchiveKey) {
    let spec = rig.running().await;
    let fill = format!("busybox dd if=/dev/urandom of=/home/coder/large bs=1M count={mebibytes} 2>/dev/null");
    assert!(rig.inside(&spec, &fill).0);
    rig.runtime.stop(spec.workspace).await.unwrap();
    let key = ArchiveKey::of(spec.workspace, OpId::from_uuid(Uuid::now_v7()));
    rig.archives.put(&key, &spec.volume, &Transfer::default()).await.unwrap();
    let mut restored = spec;
    restored.volume.generation = Generation(2);
    (restored, key)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_killed_while_it_unpacks_is_noticed_soon() {
    let Some(rig) = Rig::new().await else { return };
    let (spec, key) = archived(&rig, 300).await;
    rig.volumes.create(&spec.volume, 0).await.unwrap();
    let (host, job) = (rig.host.clone(), format!("codehub-job-{}", spec.workspace));
    let killer = tokio::task::spawn_blocking(move || {
        for _ in 0..1000 {
            let killed = Command::new("docker").args(["-H", &host, "kill", &job]).output().unwrap();
            if killed.status.success() {
                return Instant::now();
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        panic!("there was no job to kill");
    });
    let outcome = rig.archives.fetch(&key, &spec.volume, &Transfer::default()).await;
    let late = killer.await.unwrap().elapsed();
    assert!(matches!(outcome, Err(ArchiveError::Unreachable { .. })), "{outcome:?}");
    assert!(late < SOON, "{late:?} after it was killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_noticed_soon() {
    let Some(rig) = Rig::new().await else { return };
    let (spec, key) = archived(&rig, 300).await;
    let volume = spec.volume.to_string();
    let labels = [
        format!("codehub.instance={}", rig.deployment),
        format!("codehub.workspace={}", spec.workspace),
        format!("codehub.owner={}", spec.volume.owner),
        "codehub.generation=2".to_owned(),
    ];
    let mut create =
        vec!["volume", "create", "-o", "type=tmpfs", "-o", "device=tmpfs", "-o", "o=size=16m,mode=1777"];
    for label in &labels {
        create.extend(["--label", label]);
    }
    create.push(&volume);
    rig.docker(&create);
    let begun = Instant::now();
    let outcome = rig.archives.fetch(&key, &spec.volume, &Transfer::default()).await;
    assert!(matches!(outcome, Err(ArchiveError::NoSpace { .. })), "{outcome:?}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

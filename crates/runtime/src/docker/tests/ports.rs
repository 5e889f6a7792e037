//! What the ports promise, whatever is behind them.

use codehub_domain::{
    ArchiveKey, Generation, OpId,
    observed::{EndedBy, InstanceState},
};
use futures::StreamExt as _;
use uuid::Uuid;

use super::*;
use crate::{
    LogQuery, RuntimeError,
    archives::{Archives, record::record},
    ide::DefaultFile,
    volumes::{ListedVolume, Scope, VolumeError},
};
use codehub_archive::Progress;

#[tokio::test(flavor = "multi_thread")]
async fn it_listens_on_a_socket_is_heard_and_its_home_cannot_be_deleted() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    let (id, runtime) = (spec.workspace, &rig.runtime);
    let place = socket_of(&rig, &spec).await.parent().unwrap().to_owned();
    assert!(place.starts_with(rig.files.path().join("run")), "{}", place.display());
    assert_eq!(rig.docker(&["port", &container_name(id)]), "", "and on no port of this machine");
    let mut logs = runtime.logs(id, LogQuery { tail: 10, follow: false }).await.unwrap();
    let text = String::from_utf8(logs.next().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(text.contains("listens"), "{text}");
    let error = rig.volumes.delete(&spec.volume, &Fence::open()).await.unwrap_err();
    assert!(matches!(&error, VolumeError::Failed(text) if text.contains("is used by")), "{error}");
    runtime.stop(id).await.unwrap();
    assert!(!place.exists(), "and nothing is left of where it listened");
}

/// As an earlier CodeHub made it: on a port, which asks for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_of_an_earlier_version_is_adopted_and_replaced_by_one_on_a_socket() {
    let earlier = |config: &mut DockerConfig| {
        config.reach = Reach::Port;
        config.ide.guard = None;
    };
    let Some(rig) = Rig::with(earlier).await else { return };
    let spec = rig.running().await;
    let name = container_name(spec.workspace);
    let first = rig.docker(&["inspect", "-f", "{{.Id}}", &name]);
    let later = rig.another(&rig.host, |now| {
        now.reach = Reach::Socket;
        now.ide = ide::resolve_in_container(IdeChoice::Builtin, &[], "/healthz", IMAGE).unwrap();
    });
    let seen = later.status(spec.workspace).await.unwrap().unwrap();
    assert_eq!(seen.state, InstanceState::Ready, "found, and asked how it is");
    let upstream = later.upstream(spec.workspace).await.unwrap().unwrap();
    assert!(upstream.address.port().is_some() && upstream.secret.is_none(), "{upstream:?}");
    // Its next start makes it as it should be. There is never a second one.
    later.start(&spec, &Fence::open()).await.unwrap();
    later.wait_ready(spec.workspace, &tokio::sync::watch::Sender::new(None)).await.unwrap();
    let users = rig.docker(&["ps", "-aq", "--no-trunc", "--filter", &format!("volume={}", spec.volume)]);
    assert!(users.lines().count() == 1 && users != first, "{users}");
    assert!(later.upstream(spec.workspace).await.unwrap().unwrap().address.port().is_none());
}

/// As where CodeHub is in a container, and its data directory has another name outside.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_does_not_see_our_directory_says_so_in_words_that_we_know() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    let made = body::Made { sockets: Some(Path::new("/no/such/directory")), ..body::Made::default() };
    let name = format!("codehub-{}", rig.deployment);
    let body = body::workspace(rig.runtime.config(), &name, &spec, (1000, 1000), made);
    let refused = rig.jobs.engine().client().await.unwrap().create_container(None, body).await.unwrap_err();
    assert!(instances::no_such_source(&refused), "{refused}");
}

/// The engine is away, or was a moment ago: what had an address may be anybody by now.
#[tokio::test(flavor = "multi_thread")]
async fn a_remembered_address_is_not_used_without_the_engine_and_a_socket_is() {
    for (reach, known) in [(Reach::Socket, true), (Reach::Address, false), (Reach::Port, false)] {
        let Some(rig) = Rig::with(|config| config.reach = reach).await else { return };
        let spec = rig.running().await;
        // The engine under another name, which can be taken away.
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("engine");
        std::os::unix::fs::symlink(rig.host.trim_start_matches("unix://"), &link).unwrap();
        let runtime = rig.another(&format!("unix://{}", link.display()), |_| {});
        let before = runtime.upstream(spec.workspace).await.unwrap();
        assert!(before.is_some());
        std::fs::remove_file(&link).unwrap();
        match runtime.upstream(spec.workspace).await {
            Ok(found) => assert!(known && found == before, "{reach:?}"),
            Err(error) => {
                assert!(!known && matches!(error, RuntimeError::Unreachable(_)), "{reach:?}: {error}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_know_the_secret_of_an_instance_gets_nothing_of_it() {
    for reach in [Reach::Address, Reach::Port] {
        let Some(rig) = Rig::with(|config| config.reach = reach).await else { return };
        let (one, two) = (rig.running().await, rig.running().await);
        let [upstream, other] = [&one, &two].map(|spec| rig.runtime.upstream(spec.workspace));
        let (upstream, other) = (upstream.await.unwrap().unwrap(), other.await.unwrap().unwrap());
        let ask = async |secret: Option<&crate::Secret>| {
            crate::process::health::status(&upstream.address, secret, "/api/info").await.unwrap()
        };
        assert_eq!(ask(None).await, Some(401), "{reach:?}");
        assert_eq!(ask(other.secret.as_ref()).await, Some(401), "another's: {reach:?}");
        assert_eq!(ask(upstream.secret.as_ref()).await, Some(200), "{reach:?}");
        // Another process finds it, and a new instance has a new one.
        let later = rig.later();
        assert_eq!(later.upstream(one.workspace).await.unwrap().unwrap().secret, upstream.secret);
        rig.runtime.stop(one.workspace).await.unwrap();
        rig.runtime.start(&one, &Fence::open()).await.unwrap();
        rig.until_ready(&one).await;
        assert_ne!(rig.runtime.upstream(one.workspace).await.unwrap().unwrap().secret, upstream.secret);
    }
}

/// Three restarts of the engine are not three deaths.
#[tokio::test(flavor = "multi_thread")]
async fn what_ends_while_the_engine_is_away_did_not_die() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    let name = container_name(spec.workspace);
    let ended_by = async || match rig.runtime.status(spec.workspace).await.unwrap().unwrap().state {
        InstanceState::Ended { by, .. } => by,
        state => panic!("{state:?}"),
    };
    rig.docker(&["kill", &name]);
    assert_eq!(ended_by().await, EndedBy::Program);
    rig.runtime.start(&spec, &Fence::open()).await.unwrap();
    rig.until_ready(&spec).await;
    rig.docker(&["kill", &name]);
    rig.jobs.engine().was_away();
    assert_eq!(ended_by().await, EndedBy::Platform);
    // Whoever comes later knows nothing of how it ended.
    let later = rig.later();
    let seen = later.status(spec.workspace).await.unwrap().unwrap().state;
    assert!(matches!(seen, InstanceState::Ended { by: EndedBy::Platform, .. }), "{seen:?}");
    // Removed by somebody's hand: gone, and not silent.
    rig.runtime.start(&spec, &Fence::open()).await.unwrap();
    rig.until_ready(&spec).await;
    rig.docker(&["rm", "-f", &name]);
    assert_eq!(rig.runtime.status(spec.workspace).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_or_is_made_otherwise_is_made_anew() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    let name = container_name(spec.workspace);
    let (done, said) = rig.inside(&spec, "echo kept > /home/coder/note && id -un");
    assert!(done && said == "coder", "{said}");
    rig.docker(&["kill", &name]);
    let state = rig.runtime.status(spec.workspace).await.unwrap().unwrap().state;
    assert!(matches!(&state, InstanceState::Ended { how, .. } if how.contains("137")), "{state:?}");
    rig.runtime.start(&spec, &Fence::open()).await.unwrap();
    rig.until_ready(&spec).await;
    assert_eq!(rig.inside(&spec, "cat /home/coder/note"), (true, "kept".to_owned()));
    // The next start finds a running one that is not as it should be. Another name is no reason to end it.
    let before = rig.docker(&["inspect", "-f", "{{.Id}}", &name]);
    let renamed = InstanceSpec { name: "other".to_owned(), ..spec.clone() };
    rig.runtime.start(&renamed, &Fence::open()).await.unwrap();
    assert_eq!(rig.docker(&["inspect", "-f", "{{.Id}}", &name]), before);
    let elsewhere = InstanceSpec { url: "https://elsewhere.example/".to_owned(), ..spec.clone() };
    rig.runtime.start(&elsewhere, &Fence::open()).await.unwrap();
    rig.until_ready(&spec).await;
    assert_ne!(rig.docker(&["inspect", "-f", "{{.Id}}", &name]), before);
    // Created and never started: what a crash in between leaves.
    rig.runtime.stop(spec.workspace).await.unwrap();
    let label = format!("codehub.instance={}", rig.deployment);
    let (workspace, generation) = (format!("codehub.workspace={}", spec.workspace), "codehub.generation=1");
    rig.docker(&["create", "--name", &name, "-l", &label, "-l", &workspace, "-l", generation, IMAGE]);
    let listed = rig.runtime.list(Among::All(&[])).await.unwrap();
    assert!(matches!(listed[0].instance.state, InstanceState::Ended { .. }));
    rig.runtime.start(&spec, &Fence::open()).await.unwrap();
    rig.until_ready(&spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_never_touched() {
    let Some(rig) = Rig::new().await else { return };
    let spec = spec();
    let name = container_name(spec.workspace);
    let volume = spec.volume.to_string();
    let other = format!("codehub.instance=another-{}", rig.deployment);
    let labels = [
        "-l".to_owned(),
        other.clone(),
        "-l".to_owned(),
        format!("codehub.workspace={}", spec.workspace),
        "-l".to_owned(),
        "codehub.generation=1".to_owned(),
    ];
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let run = ["run", "-d", "--network", "none", "--name", &name];
    let stranger = rig.docker(&[&run[..], &labels, &["--entrypoint", "sleep", IMAGE, "600"]].concat());
    rig.docker(&[&["volume", "create", "--label", &other][..], &[&volume]].concat());
    assert_eq!(rig.runtime.list(Among::All(&[])).await.unwrap(), []);
    assert_eq!(rig.runtime.status(spec.workspace).await.unwrap(), None);
    assert_eq!(rig.runtime.upstream(spec.workspace).await.unwrap(), None);
    assert_eq!(rig.volumes.list(Scope::All).await.unwrap(), []);
    rig.runtime.stop(spec.workspace).await.unwrap();
    assert!(rig.volumes.delete(&spec.volume, &Fence::open()).await.is_err());
    assert!(rig.volumes.create(&spec.volume, 0).await.is_err());
    let error = rig.runtime.start(&spec, &Fence::open()).await.unwrap_err().to_string();
    assert!(error.contains("is not this deployment's"), "another's home is not mounted: {error}");
    rig.docker(&["volume", "rm", &volume]);
    rig.volumes.create(&spec.volume, 0).await.unwrap();
    let error = rig.runtime.start(&spec, &Fence::open()).await.unwrap_err().to_string();
    assert!(error.contains("not ours"), "{error}");
    assert_eq!(rig.docker(&["inspect", "-f", "{{.State.Running}}", &stranger]), "true");
    rig.docker(&["rm", "-f", &stranger]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_had_says_why() {
    let Some(rig) = Rig::with(|config| config.pull = PullPolicy::Missing).await else { return };
    let progress = Progress::new();
    let error = rig.runtime.prepare("127.0.0.1:1/no/such:image", &progress).await.unwrap_err();
    assert!(matches!(&error, RuntimeError::ImagePull(text) if text.contains("127.0.0.1:1")), "{error}");
    rig.runtime.prepare(IMAGE, &progress).await.unwrap();
    let never = Rig::new().await.unwrap();
    let error = never.runtime.prepare("no/such:image", &progress).await.unwrap_err();
    assert!(matches!(&error, RuntimeError::ImagePull(text) if text.contains("RUNTIME_PULL")), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_not_there_is_unreachable_and_not_empty() {
    let engine = Arc::new(Engine::new("unix:///nowhere/engine.sock"));
    let error = engine.ping().await.unwrap_err();
    assert!(matches!(&error, RuntimeError::Unreachable(text) if text.contains("/nowhere")), "{error}");
    let jobs = Jobs::new(engine, "test", Users { uid: None, gid: 1000 }, "/nowhere".into());
    let volumes = DockerVolumes::new(&jobs);
    assert!(matches!(volumes.list(Scope::All).await, Err(VolumeError::Unreachable(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_gets_the_settings_of_the_ide_and_keeps_its_own() {
    const FILES: &[DefaultFile] = &[DefaultFile { path: ".a/b/settings.json", text: "{\"quiet\": true}" }];
    let Some(rig) = Rig::with(|config| config.ide.files = FILES).await else { return };
    let spec = rig.running().await;
    let look = "cd /home/coder; cat .a/b/settings.json; stat -c ' %a %U:%G' .a .a/b .a/b/settings.json";
    let shown = "{\"quiet\": true} 755 coder:coder\n 755 coder:coder\n 644 coder:coder";
    assert_eq!(rig.inside(&spec, look), (true, shown.to_owned()));

    let own = "cd /home/coder; printf mine > .a/b/settings.json; busybox chmod 700 .a";
    assert!(rig.inside(&spec, own).0);
    for (change, now) in [
        ("true", "mine 700 coder:coder\n 755 coder:coder\n 644 coder:coder"),
        (
            "rm /home/coder/.a/b/settings.json",
            "{\"quiet\": true} 700 coder:coder\n 755 coder:coder\n 644 coder:coder",
        ),
    ] {
        assert!(rig.inside(&spec, &format!("busybox {change}")).0);
        rig.runtime.stop(spec.workspace).await.unwrap();
        // A CodeHub that does not know that it has been there.
        let fresh = rig.later();
        fresh.start(&spec, &Fence::open()).await.unwrap();
        rig.until_ready(&spec).await;
        assert_eq!(rig.inside(&spec, look), (true, now.to_owned()), "{change}");
    }
}

fn archive_key(spec: &InstanceSpec) -> ArchiveKey {
    ArchiveKey::of(spec.workspace, OpId::from_uuid(Uuid::now_v7()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_goes_into_an_archive_and_comes_back_as_it_was() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    let fill = "cd /home/coder && mkdir -p deep/er && echo text > deep/er/file && ln -s file deep/er/link && \
                busybox dd if=/dev/urandom of=large bs=1M count=24 2>/dev/null && echo '#!' > run && \
                busybox chmod 4755 run && touch shut && busybox chmod 000 shut && busybox ln large same && \
                busybox chmod 500 deep";
    let (done, said) = rig.inside(&spec, fill);
    assert!(done, "{said}");
    let sum = "cd /home/coder && busybox sha256sum large deep/er/file && stat -c '%n %a %u %g %h' run shut deep large \
               && ls deep/er && busybox readlink deep/er/link && stat -c '%u %g' .";
    let (_, before) = rig.inside(&spec, sum);
    rig.runtime.stop(spec.workspace).await.unwrap();

    let key = archive_key(&spec);
    let transfer = Transfer::default();
    let stored = rig.archives.put(&key, &spec.volume, &transfer).await.unwrap();
    assert!(stored.size > 24 << 20 && stored.entries >= 8, "{stored:?}");
    assert_eq!(rig.archives.head(&key).await.unwrap(), Some(stored.clone()));
    assert_eq!(rig.archives.put(&key, &spec.volume, &transfer).await.unwrap(), stored, "found again");
    let leftover =
        rig.docker(&["ps", "-aq", "--filter", &format!("label=codehub.instance={}", rig.deployment)]);
    assert_eq!(leftover, "", "no helper is left");

    let mut restored = spec.clone();
    restored.volume.generation = Generation(2);
    rig.volumes.create(&restored.volume, 0).await.unwrap();
    rig.archives.fetch(&key, &restored.volume, &transfer).await.unwrap();
    assert_eq!(transfer.progress.done(), stored.uncompressed);
    rig.volumes.delete(&spec.volume, &Fence::open()).await.unwrap();
    rig.runtime.start(&restored, &Fence::open()).await.unwrap();
    rig.until_ready(&restored).await;
    assert_eq!(rig.inside(&restored, sum), (true, before));

    // The next one costs what has changed: the job is told what there is already.
    assert!(rig.inside(&restored, "echo more > /home/coder/more").0);
    let (_, before) = rig.inside(&restored, sum);
    rig.runtime.stop(spec.workspace).await.unwrap();
    let base = Some(record(key, &stored).unwrap());
    let since = Transfer { base, ..Transfer::default() };
    let key = archive_key(&spec);
    let next = rig.archives.put(&key, &restored.volume, &since).await.unwrap();
    assert!(next.size < 1 << 20 && next.parts.len() == 1, "{next:?}");
    assert_eq!(rig.archives.put(&key, &restored.volume, &since).await.unwrap(), next, "found again");
    let mut again = spec.clone();
    again.volume.generation = Generation(3);
    rig.volumes.create(&again.volume, 0).await.unwrap();
    rig.archives.fetch(&key, &again.volume, &Transfer::default()).await.unwrap();
    rig.runtime.start(&again, &Fence::open()).await.unwrap();
    rig.until_ready(&again).await;
    assert_eq!(rig.inside(&again, sum), (true, before));
    assert_eq!(rig.inside(&again, "busybox cat /home/coder/more"), (true, "more".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_left_is_ended_before_the_next_and_a_volume_in_the_making_does_not_count() {
    let Some(rig) = Rig::new().await else { return };
    let spec = spec();
    // What a CodeHub that was killed leaves: a helper that never ran, and the volume it made.
    let labels = |job: &str| {
        ["instance", "workspace", "generation", "job"]
            .into_iter()
            .zip([rig.deployment.clone(), spec.workspace.to_string(), "1".to_owned(), job.to_owned()])
            .flat_map(|(name, value)| ["-l".to_owned(), format!("codehub.{name}={value}")])
            .collect::<Vec<String>>()
    };
    let job = format!("codehub-job-{}", spec.workspace);
    let owner = spec.volume.owner.to_string();
    let volume = spec.volume.to_string();
    let mut create = vec!["volume".to_owned(), "create".to_owned(), "--label".to_owned()];
    create.push(format!("codehub.owner={owner}"));
    for label in labels("").chunks(2).take(3) {
        create.extend(["--label".to_owned(), label[1].clone()]);
    }
    create.push(volume.clone());
    rig.docker(&create.iter().map(String::as_str).collect::<Vec<_>>());
    let mut leave = vec!["create".to_owned(), "--name".to_owned(), job.clone(), "--network".to_owned()];
    leave.extend(["none".to_owned(), "-v".to_owned(), format!("{volume}:/volume"), "--user".to_owned()]);
    leave.push("0:0".to_owned());
    leave.extend(labels("prepare"));
    leave.extend(
        [
            "--entrypoint",
            "/codehub",
            &image::job_image(&codehub().unwrap()).unwrap(),
            "storage-job",
            "prepare",
            "1000",
            "1000",
            "0",
        ]
        .map(str::to_owned),
    );
    rig.docker(&leave.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(rig.volumes.list(Scope::All).await.unwrap(), [], "in the making");
    rig.jobs.settle(spec.workspace).await.unwrap();
    assert_eq!(
        rig.volumes.list(Scope::All).await.unwrap(),
        [ListedVolume::from(spec.volume)],
        "finished, and only then counted"
    );
    rig.runtime.start(&spec, &Fence::open()).await.unwrap();
    rig.until_ready(&spec).await;
    assert_eq!(rig.inside(&spec, "stat -c %u:%g /home/coder").1, home_owner(&spec));
    rig.runtime.stop(spec.workspace).await.unwrap();

    // A helper that hangs on the volume: ended, and the archive is made.
    let run = ["run", "-d", "--name", &job, "--network", "none", "-v"];
    let mount = format!("{volume}:/volume");
    let marks = labels("pack");
    let marks: Vec<&str> = marks.iter().map(String::as_str).collect();
    let hanging =
        rig.docker(&[&run[..], &[&mount], &marks, &["--entrypoint", "sleep", IMAGE, "600"]].concat());
    rig.archives.put(&archive_key(&spec), &spec.volume, &Transfer::default()).await.unwrap();
    assert!(!rig.docker(&["ps", "-aq", "--no-trunc"]).contains(&hanging));
    rig.volumes.delete(&spec.volume, &Fence::open()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_killed_makes_no_archive() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.running().await;
    let fill = "busybox dd if=/dev/urandom of=/home/coder/large bs=1M count=200 2>/dev/null";
    assert!(rig.inside(&spec, fill).0);
    rig.runtime.stop(spec.workspace).await.unwrap();
    let key = archive_key(&spec);
    let job = format!("codehub-job-{}", spec.workspace);
    let host = rig.host.clone();
    let killer = tokio::task::spawn_blocking(move || {
        for _ in 0..400 {
            let output = Command::new("docker").args(["-H", &host, "kill", &job]).output().unwrap();
            if output.status.success() {
                return true;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        false
    });
    let outcome = rig.archives.put(&key, &spec.volume, &Transfer::default()).await;
    assert!(killer.await.unwrap(), "it was killed");
    assert!(outcome.is_err(), "{outcome:?}");
    assert_eq!(rig.archives.head(&key).await.unwrap(), None, "half a home is no archive");
    rig.archives.put(&key, &spec.volume, &Transfer::default()).await.unwrap();
}

//! What a CodeHub that was killed leaves, and what the next one makes of it.

use super::{super::lifecycle::RESTARTED, *};
use codehub_testing::{eventually, let_time_pass, poll_every};

#[tokio::test]
async fn a_new_codehub_finds_the_running_process() {
    let place = Place::new(web()).await;
    let before = place.started().await;
    let (pid, upstream) = (place.recorded_pid(), before.upstream(place.id).await.unwrap());
    drop(before);
    let after = place.runtime().await;
    assert_eq!(place.state(&after).await, Some(InstanceState::Ready));
    assert_eq!(after.upstream(place.id).await.unwrap(), upstream);
    after.start(&place.spec(1), &Fence::open()).await.unwrap();
    assert_eq!((place.recorded_pid(), place.mains()), (pid, vec![pid]));
    after.stop(place.id).await.unwrap();
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_lost_or_damaged_record_does_not_lead_to_a_second_process() {
    for damage in ["", "{\"workspace\":", "gone"] {
        let place = Place::new(web()).await;
        let before = place.started().await;
        let (pid, port) = (place.recorded_pid(), place.record().port);
        drop(before);
        if damage == "gone" {
            fs::remove_file(place.record_file()).unwrap();
        } else {
            fs::write(place.record_file(), damage).unwrap();
        }
        let after = place.runtime().await;
        assert_eq!(after.list(Among::All(&[])).await.unwrap().len(), 1, "{damage:?}");
        assert_eq!(place.state(&after).await, Some(InstanceState::Ready));
        after.start(&place.spec(1), &Fence::open()).await.unwrap();
        assert_eq!((place.recorded_pid(), place.record().port), (pid, port));
        assert_eq!(place.mains(), [pid]);
        // Also while it is running, and also for whoever only wants to stop it.
        fs::remove_file(place.record_file()).unwrap();
        after.stop(place.id).await.unwrap();
        assert!(!is_alive(pid));
    }
}

#[tokio::test]
async fn a_start_that_was_cut_off_is_adopted_or_begun_again() {
    // After the launch, before its process id was written down.
    let place = Place::new(web()).await;
    drop(place.started().await);
    let pid = place.recorded_pid();
    place.write_record(&Record { state: State::Starting, ..place.record() });
    let after = place.runtime().await;
    assert_eq!(place.state(&after).await, Some(InstanceState::Ready));
    after.start(&place.spec(1), &Fence::open()).await.unwrap();
    assert_eq!((place.recorded_pid(), place.mains()), (pid, vec![pid]));
    after.stop(place.id).await.unwrap();

    // Before the launch.
    let place = Place::new(web()).await;
    let runtime = place.started().await;
    let record = Record { state: State::Starting, ..place.record() };
    runtime.stop(place.id).await.unwrap();
    place.write_record(&record);
    let after = place.runtime().await;
    assert_eq!(place.state(&after).await, Some(InstanceState::evicted("its start was cut off")));
    after.start(&place.spec(1), &Fence::open()).await.unwrap();
    place.ready(&after).await;
    assert_eq!(place.mains().len(), 1);
}

#[tokio::test]
async fn somebody_else_with_the_same_number_is_never_touched() {
    let place = Place::new(web()).await;
    let runtime = place.started().await;
    let record = place.record();
    runtime.stop(place.id).await.unwrap();
    let mut stranger = tokio::process::Command::new("setsid").args(["sleep", "60"]).spawn().unwrap();
    let pid = i32::try_from(stranger.id().unwrap()).unwrap();
    let stat = Stat::of(pid).unwrap().unwrap();
    let State::Running { process } = record.state.clone() else { panic!("{record:?}") };
    let boot = process.boot.clone();
    let (died, evicted) = (InstanceState::died("no longer running"), InstanceState::evicted(RESTARTED));
    let numbers = [
        (stat.start_time + 1, boot.clone(), died),
        (stat.start_time, "another boot".to_owned(), evicted.clone()),
        (stat.start_time, boot.replace("pid:", "pid: another "), evicted),
    ];
    for (start_time, boot, ended) in numbers {
        let process = super::super::proc_scan::Identity { pid, start_time, boot };
        place.write_record(&Record { state: State::Running { process }, ..record.clone() });
        let after = place.runtime().await;
        assert_eq!(place.state(&after).await, Some(ended));
        assert_eq!(after.upstream(place.id).await.unwrap(), None);
        after.stop(place.id).await.unwrap();
        assert!(is_alive(pid));
    }
    stranger.kill().await.unwrap();
}

/// Not a test: a CodeHub that starts a workspace, to be killed at it.
#[test]
#[ignore = "runs only as a victim of other tests"]
fn victim_entry() {
    let words: Vec<String> = words_after_dashes().map(|word| word.into_string().unwrap()).collect();
    let [dir, deployment, id, owner, sandbox] = &words[..] else { panic!("{words:?}") };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let ide = ide::resolve(IdeChoice::Command, &web(), "/", Path::new("/nowhere")).unwrap();
        let mut config = ProcessConfig::new(dir, deployment, ide, entry("shim_entry"));
        config.sandbox = if sandbox == "sandbox" { SandboxChoice::Auto } else { SandboxChoice::Never };
        let runtime = ProcessRuntime::open(config).await.unwrap();
        let (workspace, owner) = (id.parse().unwrap(), owner.parse().unwrap());
        let volume = VolumeKey { owner, workspace, generation: Generation(1) };
        let spec = InstanceSpec {
            workspace,
            name: String::new(),
            image_ref: String::new(),
            volume,
            base_path: "/".into(),
            url: String::new(),
            api_url: "http://localhost:8080".to_owned(),
            port_url: None,
        };
        loop {
            runtime.start(&spec, &Fence::open()).await.unwrap();
            runtime.stop(workspace).await.unwrap();
        }
    });
}

#[tokio::test]
async fn killed_at_any_moment_there_is_never_a_second_process() {
    never_two(Place::new(web()).await, Duration::ZERO).await;
}

#[tokio::test]
async fn nor_in_a_sandbox_with_a_network_of_its_own() {
    let mut place = Place::new(web()).await;
    place.sandbox = SandboxChoice::Auto;
    let begun = std::time::Instant::now();
    if !place.runtime().await.own_network() {
        return codehub_testing::skip("no bwrap and pasta");
    }
    // A CodeHub that starts tries the sandbox first.
    never_two(place, begun.elapsed()).await;
}

async fn never_two(place: Place, opening: Duration) {
    let sandbox = if place.sandbox == SandboxChoice::Never { "none" } else { "sandbox" };
    let victim = entry("crash::victim_entry");
    let mut survivors = 0;
    for round in 0..30_u64 {
        let mut codehub = tokio::process::Command::new(&victim.program)
            .args(&victim.args)
            .args([place.dir.path().to_str().unwrap(), &place.deployment])
            .args([&place.id.to_string(), &place.owner.to_string(), sandbox])
            .stdout(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        // Spread over opening, starting and stopping.
        let_time_pass(opening + Duration::from_micros(8_000 + round * 3_700)).await;
        codehub.start_kill().unwrap();
        codehub.wait().await.unwrap();
        // The next one starts at once, while what was being launched may still be on its way.
        let before = place.mains();
        survivors += before.len();
        let runtime = place.runtime().await;
        eventually("it runs", async || {
            // Adopted or new; if it was already asked to end, the next start finds it gone.
            runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
            poll_every(Duration::from_millis(30)).await;
            let now = place.mains();
            assert!(now.len() <= 1, "round {round}: {now:?}, before {before:?}, {:?}", place.record());
            now.first().is_some_and(|&pid| pid == place.recorded_pid())
        })
        .await;
        if round % 3 == 0 {
            runtime.stop(place.id).await.unwrap();
            assert!(place.processes().is_empty());
        }
    }
    assert!(survivors > 0, "no round was killed while a process was there: the delays are wrong");
}

//! One workspace's life under one CodeHub.

use std::time::Instant;

use super::*;

#[tokio::test]
async fn starts_at_once_are_one_process_and_stopping_leaves_nothing_behind() {
    let place = Place::new(web()).await;
    let (one, two) = (place.runtime().await, place.runtime().await);
    let (spec, open) = (place.spec(1), Fence::open());
    let starts =
        (0..8).map(|index| if index % 2 == 0 { one.start(&spec, &open) } else { two.start(&spec, &open) });
    for start in futures::future::join_all(starts).await {
        start.unwrap();
    }
    let pid = place.recorded_pid();
    assert_eq!(place.mains(), [pid]);
    place.ready(&one).await;
    let upstream = one.upstream(place.id).await.unwrap().unwrap();
    assert!(upstream.address.port().is_some_and(|address| address.ip().is_loopback()));
    one.stop(place.id).await.unwrap();
    assert!(!is_alive(pid));
    let left = fs::read_dir(place.dir.path().join("instances")).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[tokio::test]
async fn another_generation_has_to_wait_and_a_missing_home_is_refused() {
    let place = Place::new(web()).await;
    let runtime = place.started().await;
    let error = runtime.start(&place.spec(2), &Fence::open()).await.unwrap_err().to_string();
    assert!(error.contains("generation 1"), "{error}");
    runtime.stop(place.id).await.unwrap();
    runtime.start(&place.spec(2), &Fence::open()).await.unwrap();
    assert_eq!(runtime.status(place.id).await.unwrap().unwrap().generation, Generation(2));
    runtime.stop(place.id).await.unwrap();

    let error = runtime.start(&place.spec(3), &Fence::open()).await.unwrap_err().to_string();
    assert!(error.contains("does not exist"), "{error}");
    assert_eq!(place.state(&runtime).await, None, "nothing was started");
}

#[tokio::test]
async fn a_program_that_dies_says_how_and_is_replaced() {
    let place = Place::new(shell("echo last words; exit 3")).await;
    let runtime = place.runtime().await;
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    assert_eq!(place.ended(&runtime).await, "exited with code 3");
    let listed = runtime.list(Among::All(&[])).await.unwrap();
    assert_eq!(listed[0].instance.state, InstanceState::died("exited with code 3"));
    assert_eq!(runtime.upstream(place.id).await.unwrap(), None);
    assert!(place.log(&runtime).await.contains("last words"), "the log stays");
    runtime.start(&place.spec(2), &Fence::open()).await.unwrap();
    assert_eq!(place.ended(&runtime).await, "exited with code 3");
    assert_eq!(place.record().generation, Generation(2));
    runtime.stop(place.id).await.unwrap();
    assert_eq!(place.state(&runtime).await, None);
    assert!(place.log(&runtime).await.contains("last words"), "also after it was removed");

    let place = Place::new(shell("kill -9 $$")).await;
    let runtime = place.runtime().await;
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    assert_eq!(place.ended(&runtime).await, "killed by signal 9");
}

#[tokio::test]
async fn a_program_that_cannot_be_run_fails_the_start() {
    let mut place = Place::new(web()).await;
    place.command = vec!["{home}/no-such-program".into()];
    let runtime = place.runtime().await;
    let error = runtime.start(&place.spec(1), &Fence::open()).await.unwrap_err().to_string();
    assert!(error.contains("cannot run") && error.contains("No such file"), "{error}");
    assert_eq!(place.mains(), Vec::<i32>::new());
}

#[tokio::test]
async fn alive_is_not_ready_and_silent_is_not_gone() {
    let place = Place::new(shell("exec sleep 60")).await;
    let runtime = place.runtime().await;
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    assert_eq!(place.state(&runtime).await, Some(InstanceState::Alive), "nobody listens");
    runtime.stop(place.id).await.unwrap();

    let silent = "import socket,sys,time\ns=socket.create_server(('127.0.0.1',int(sys.argv[1])))\n\
                  print('listening',flush=True)\ntime.sleep(60)";
    let place = Place::new(vec![python(), "-c".into(), silent.into(), "{port}".into()]).await;
    let runtime = place.runtime().await;
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    eventually("it listens", async || place.log(&runtime).await.contains("listening")).await;
    let error = runtime.status(place.id).await.unwrap_err();
    assert!(matches!(error, super::super::RuntimeError::Unreachable(_)), "{error:?}");
    assert_eq!(runtime.list(Among::All(&[])).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_environment_is_clean_and_the_home_its_own() {
    let place = Place::new(shell("pwd > where; umask > mask; ulimit -c > core; sleep 60; :")).await;
    let mut config = place.config();
    config.env = vec![("HTTPS_PROXY".into(), "http://proxy".into())];
    let runtime = ProcessRuntime::open(config).await.unwrap();
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    let home = place.home(1);
    eventually("it has looked around", async || fs::read(home.join("core")).is_ok_and(|it| !it.is_empty()))
        .await;
    let leader = place.recorded_pid();
    let pid = place.program_pid();
    let mut names: Vec<String> = environment(pid)
        .iter()
        .filter_map(|pair| pair.split_once('=').map(|(name, _)| name.to_owned()))
        .filter(|name| !matches!(name.as_str(), "TZ" | "PWD" | "OLDPWD" | "SHLVL" | "_"))
        .collect();
    names.sort();
    assert_eq!(
        names.join(" "),
        "CODEHUB_API_URL CODEHUB_GENERATION CODEHUB_INSTANCE CODEHUB_LEADER CODEHUB_PORT_URL CODEHUB_URL \
         CODEHUB_WORKSPACE_ID CODEHUB_WORKSPACE_NAME HOME HTTPS_PROXY LANG LOGNAME PATH PORT SHELL USER",
        "and nothing of what CodeHub was started with (a test runner's, here: {})",
        std::env::vars().count()
    );
    let id = place.id.as_uuid().simple().to_string();
    let short = place.dir.path().canonicalize().unwrap().join("h").join(&id[20..]);
    let own = short.display();
    assert!(environment(pid).contains(&format!("HOME={own}")), "{own} in {:?}", environment(pid));
    let path = environment(pid).into_iter().find(|pair| pair.starts_with("PATH=")).unwrap();
    assert!(path.starts_with(&format!("PATH={own}/.local/bin:{own}/bin:")), "{path}");
    assert_eq!(short.canonicalize().unwrap(), home.canonicalize().unwrap());
    assert_eq!(
        fs::read_link(home.with_file_name("home")).unwrap(),
        Path::new("home-1"),
        "the name from before"
    );
    assert_eq!(
        Path::new(fs::read_to_string(home.join("where")).unwrap().trim()).canonicalize().unwrap(),
        home.canonicalize().unwrap()
    );
    assert_eq!(fs::read_to_string(home.join("mask")).unwrap().trim(), "0022");
    assert_eq!(fs::read_to_string(home.join("core")).unwrap().trim(), "0");
    let stat = Stat::of(pid).unwrap().unwrap();
    assert_eq!((stat.session, stat.group), (leader, leader), "a session of its own");
    assert_eq!(fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap().trim(), "300");
    assert_eq!(fs::read_link(format!("/proc/{pid}/fd/0")).unwrap(), Path::new("/dev/null"));
    let data = place.dir.path().canonicalize().unwrap();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let open =
        open.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok()).filter(|it| it.starts_with(&data));
    let log = data.join(format!("logs/{}.log", place.id));
    assert_eq!(open.collect::<Vec<_>>(), [log.clone(), log], "no open file of CodeHub's but the log");
}

#[tokio::test]
async fn stop_ends_the_whole_tree() {
    // A child in the session, one in a session of its own that will not listen, one without our marks.
    let place = Place::new(shell(
        "sh -c 'sleep 600; :' & \
         setsid sh -c 'trap \"\" TERM HUP; echo $$ > deaf; while :; do sleep 1; done' & \
         env -i setsid sleep 601 & echo $! > bare; \
         sleep 600; :",
    ))
    .await;
    let runtime = place.runtime().await;
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    let pid_in = |name: &str| fs::read_to_string(place.home(1).join(name)).ok()?.trim().parse::<i32>().ok();
    eventually("all are there", async || pid_in("deaf").is_some() && pid_in("bare").is_some()).await;
    eventually("and their programs", async || place.processes().len() >= 5).await;
    let mut all: Vec<i32> = place.processes().iter().map(|it| it.stat.pid).collect();
    all.extend(pid_in("bare"));
    assert!(all.len() >= 6, "{all:?}");
    assert!(all.iter().all(|&pid| is_alive(pid)));
    let begun = Instant::now();
    runtime.stop(place.id).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(8));
    for pid in all {
        assert!(!is_alive(pid), "{pid} was left over");
    }
    assert!(place.processes().is_empty());
}

#[tokio::test]
async fn what_a_dead_program_left_is_cleared_away_before_the_next_start() {
    let place = Place::new(shell("setsid sleep 600 & sleep 0.2; exit 1")).await;
    let runtime = place.runtime().await;
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    assert_eq!(place.ended(&runtime).await, "exited with code 1");
    let left = place.processes();
    assert_eq!(left.len(), 1);
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    assert!(!is_alive(left[0].stat.pid));
    runtime.stop(place.id).await.unwrap();
    assert!(place.processes().is_empty());
}

#[tokio::test]
async fn a_program_that_ends_when_asked_is_not_waited_for() {
    let place =
        Place::new(shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done")).await;
    let mut config = place.config();
    config.stop_grace = Duration::from_secs(30);
    let runtime = ProcessRuntime::open(config).await.unwrap();
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    eventually("it listens to signals", async || place.log(&runtime).await.contains("ready")).await;
    let begun = Instant::now();
    runtime.stop(place.id).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(place.log(&runtime).await.contains("bye"));
}

#[tokio::test]
async fn logs_are_followed_and_kept_short() {
    let place = Place::new(shell(
        "while :; do for i in 1 2 3 4 5 6 7 8 9; do echo a line of some length; done; sleep 0.002; done",
    ))
    .await;
    let mut config = place.config();
    config.logs.max_bytes = 20_000;
    config.logs.check_every = Duration::from_millis(20);
    let runtime = ProcessRuntime::open(config).await.unwrap();
    runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
    let mut stream = runtime.logs(place.id, LogQuery { tail: 5, follow: true }).await.unwrap();
    let mut seen = 0;
    while seen < 100_000 {
        let part = tokio::time::timeout(Duration::from_secs(20), stream.next()).await.unwrap();
        seen += part.unwrap().unwrap().len();
    }
    let logs = fs::read_dir(place.dir.path().join("logs")).unwrap();
    let kept: u64 = logs.map(|log| log.unwrap().metadata().map_or(0, |it| it.len())).sum();
    assert!(kept < 100_000, "{kept} bytes are kept");
    runtime.stop(place.id).await.unwrap();
    assert!(place.log(&runtime).await.contains("a line of some length"));
}

#[tokio::test]
async fn strangers_among_the_records_are_left_alone_and_a_missing_directory_is_an_error() {
    let place = Place::new(web()).await;
    let runtime = place.started().await;
    let dir = place.dir.path().join("instances");
    for name in ["notes.txt", "x.json", "01890A5D-AC96-774B-BCCE-B302099A8057.json", ".hidden.json"] {
        fs::write(dir.join(name), "not ours").unwrap();
    }
    let damaged = dir.join("01890a5d-ac96-774b-bcce-b302099a8057.json");
    fs::write(&damaged, "{").unwrap();
    assert_eq!(runtime.list(Among::All(&[])).await.unwrap().len(), 1);
    assert!(dir.join("notes.txt").exists());
    let away = place.dir.path().join("away");
    fs::rename(&dir, &away).unwrap();
    assert!(runtime.list(Among::All(&[])).await.is_err());
    assert!(runtime.ping().await.is_err());
    fs::rename(&away, &dir).unwrap();
    assert_eq!(runtime.list(Among::All(&[])).await.unwrap().len(), 1);
}

/// The rows of the IDE table, with the real programs: `CODEHUB_TEST_IDES` is a directory that has them.
#[tokio::test]
async fn installed_ides_become_ready_and_end() {
    let Some(programs) = codehub_testing::service("CODEHUB_TEST_IDES", "no code-server and JupyterLab")
    else {
        return;
    };
    for choice in [IdeChoice::CodeServer, IdeChoice::JupyterLab] {
        let ide = ide::resolve_in(choice, &[], "/healthz", Path::new("/nowhere"), programs.as_ref()).unwrap();
        let place = Place::new(web()).await;
        let mut config = place.config();
        config.ide = ide;
        config.sandbox = SandboxChoice::Auto;
        let runtime = ProcessRuntime::open(config).await.unwrap();
        let begun = Instant::now();
        runtime.start(&place.spec(1), &Fence::open()).await.unwrap();
        eventually("it is ready", async || {
            let status = runtime.status(place.id).await;
            matches!(status, Ok(Some(instance)) if instance.state == InstanceState::Ready)
        })
        .await;
        println!("{choice:?}: ready after {:?}, sandboxed: {}", begun.elapsed(), runtime.sandboxed());
        for file in runtime.ide().files {
            assert_eq!(fs::read_to_string(place.home(1).join(file.path)).unwrap(), file.text);
        }
        runtime.stop(place.id).await.unwrap();
        assert!(place.processes().is_empty());
        println!("{choice:?}: gone after {:?}", begun.elapsed());
        println!("{}", place.log(&runtime).await);
    }
}

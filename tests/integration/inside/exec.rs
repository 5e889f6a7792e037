//! Programs, and connections to what they listen on.

use std::time::Duration;

use codehub_testing::eventually;
use reqwest::Method;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_run_and_its_end_is_told() {
    let server = sandboxed().start().await;
    let id = server.create(json!({ "name": "agents" })).await;
    let ran = run(
        &server,
        &id,
        json!({ "command": ["sh", "-c", "cat; echo $WHO; pwd; echo oh >&2; exit 3"], "stdin": "한글\n", "env": { "WHO": "me" } }),
    )
    .await;
    let home = sh(&server, &id, "cd; pwd").await;
    let expected = json!({ "exit": { "code": 3 }, "stdout": format!("한글\nme\n{home}"), "stderr": "oh\n", "truncated": false, "timed_out": false });
    assert_eq!(ran, expected);
    if home == "/home/coder\n" {
        let found = sh(&server, &id, "PATH=$PATH:/kept bash -lc 'command -v codehub; echo $PATH'").await;
        assert!(
            found.starts_with("/.codehub/codehub\n") && found.contains("/kept"),
            "in login shells, too: {found}"
        );
    }
    let ran = run(&server, &id, json!({ "command": ["sh", "-c", "kill -TERM $$"] })).await;
    assert_eq!(ran["exit"], json!({ "signal": "TERM" }));
    let ran = run(&server, &id, json!({ "command": ["sh", "-c", "yes | head -c 3000000"] })).await;
    assert_eq!((ran["stdout"].as_str().unwrap().len(), &ran["truncated"]), (1 << 20, &json!(true)));
    let ran = run(
        &server,
        &id,
        json!({ "command": ["sh", "-c", "sleep 600; :", "too-long"], "timeout_seconds": 1 }),
    )
    .await;
    assert_eq!((&ran["exit"], &ran["timed_out"]), (&json!(null), &json!(true)));
    // What it leaves in the background does not hold it up, and stays.
    let ran =
        run(&server, &id, json!({ "command": ["sh", "-c", "sh -c 'sleep 601; :' left-over & echo done"] }))
            .await;
    assert_eq!(ran["stdout"], "done\n");
    assert_eq!(sh(&server, &id, "grep -ls '[l]eft-over' /proc/[0-9]*/cmdline | wc -l").await.trim(), "1");
    eventually("what took too long is gone", async || {
        sh(&server, &id, "grep -ls '[t]oo-long' /proc/[0-9]*/cmdline | wc -l").await.trim() == "0"
    })
    .await;

    for (body, status, text) in [
        (json!({ "command": ["no-such-program"] }), 400, "no program no-such-program"),
        (json!({ "command": ["/etc/hostname"] }), 400, "hostname"),
        (json!({ "command": [] }), 400, "command"),
        (json!({}), 400, "command"),
        (json!({ "command": ["true"], "env": { "CODEHUB_TOKEN": "x" } }), 400, "CODEHUB_TOKEN"),
        (json!({ "command": ["true"], "cwd": "nowhere" }), 400, "nowhere"),
        (json!({ "command": ["true"], "timeout_seconds": 0 }), 400, "timeout_seconds"),
        (json!({ "comand": ["true"] }), 400, "expected: command"),
    ] {
        let (found, answer) = server.post(&format!("/workspaces/{id}/exec"), body).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(found.as_u16() == status && message.contains(text), "{found}: {answer}");
    }
    // Who did what, but not with which words.
    let (_, audit) = server.call(Method::GET, "/audit?action=exec.started", None).await;
    let audit = audit.to_string();
    assert!(audit.contains("exec.started") && audit.contains("no-such-program"), "{audit}");
    assert!(!audit.contains("601") && !audit.contains("WHO"), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sleeps_is_woken_only_where_that_is_asked_for() {
    let server = Setup::new().start().await;
    let id = server.create(json!({ "name": "sleeper", "desired_state": "STANDBY" })).await;
    let (status, answer) =
        server.post(&format!("/workspaces/{id}/exec"), json!({ "command": ["true"] })).await;
    assert_eq!((status.as_u16(), answer["error"]["code"].as_str()), (503, Some("WORKSPACE_STANDBY")));
    let mut socket = Socket::exec(&server, &id, json!({ "command": ["true"] })).await;
    assert_eq!(socket.finish().await.2["error"]["code"], "WORKSPACE_STANDBY");
    assert_eq!(server.workspace(&id).await["desired_state"], "STANDBY");
    let mut socket = Socket::exec(&server, &id, json!({ "command": ["echo", "awake"], "wake": true })).await;
    assert_eq!(socket.finish().await, ("awake\n".into(), String::new(), json!({ "exit": { "code": 0 } })));
    assert!(server.workspace(&id).await["activity"]["last"]["workspace_message"].is_string());
    server.go(&id, "stop").await;
    let ran = run(&server, &id, json!({ "command": ["true"], "wake": true })).await;
    assert_eq!(ran["exit"]["code"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_typed_into_and_resized_and_strangers_are_kept_out() {
    let server = sandboxed().start().await;
    let id = server.create(json!({ "name": "terminal" })).await;
    let tty = json!({ "tty": { "cols": 80, "rows": 24, "term": "dumb" }, "command": ["sh"] });
    let mut socket = Socket::exec(&server, &id, tty).await;
    socket.send(4, br#"{"cols":91,"rows":17}"#).await;
    socket.send(0, b"stty size; cat\n").await;
    socket.send(0, b"typed\n").await;
    let mut seen = String::new();
    // Once as it is typed, and once by the program that reads it.
    while !seen.contains("17 91") || seen.matches("typed").count() < 2 {
        let (kind, rest) = socket.next().await.expect("more");
        assert_eq!(kind, 1, "a terminal has one output");
        seen.push_str(&String::from_utf8_lossy(&rest));
    }
    // The terminal itself makes a signal of it.
    socket.send(0, b"\x03").await;
    // What is typed before the shell is back is thrown away by it.
    while !seen.contains("back-2") {
        socket.send(0, b"echo back-$((1 + 1))\n").await;
        if let Ok(Some((_, rest))) = tokio::time::timeout(Duration::from_millis(300), socket.next()).await {
            seen.push_str(&String::from_utf8_lossy(&rest));
        }
    }
    socket.send(0, b"exit 7\n").await;
    assert_eq!(socket.finish().await.2, json!({ "exit": { "code": 7 } }));

    let path = format!("/workspaces/{id}/exec");
    let origin = ("origin", "http://evil.example");
    let bearer = format!("Bearer {}", server.token);
    let refused =
        Socket::open_with(&server, &path, "codehub.exec.v1", &[("authorization", &bearer), origin]).await;
    assert_eq!(refused.err(), Some(403), "another site's page");
    assert_eq!(Socket::open_with(&server, &path, "codehub.exec.v1", &[]).await.err(), Some(401));
    assert_eq!(Socket::open(&server, &path, "something.else").await.err(), Some(400));
    for key in ["x", "c2hvcnQ=", "dGhlIHNhbXBsZSBub25jZSBhbmQgbW9yZQ=="] {
        let headers = [("authorization", bearer.as_str()), ("sec-websocket-key", key)];
        assert_eq!(
            Socket::open_with(&server, &path, "codehub.exec.v1", &headers).await.err(),
            Some(400),
            "{key}"
        );
    }
    for (wrong, code) in
        [(&b"\x01out"[..], CloseCode::Protocol), (b"\x06{\"signal\":\"NONE\"}", CloseCode::Protocol)]
    {
        let mut socket = Socket::exec(&server, &id, json!({ "command": ["cat"] })).await;
        socket.0.send(Message::Binary(wrong.to_vec().into())).await.unwrap();
        let Some(Ok(Message::Close(Some(frame)))) = socket.0.next().await else { panic!("no goodbye") };
        assert_eq!(frame.code, code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_programs_leave_nothing_behind() {
    let server = sandboxed().start().await;
    let id = server.create(json!({ "name": "many" })).await;
    let pid = i32::try_from(server.child.id()).unwrap();
    sh(&server, &id, "true").await;
    let count = "ls /proc | grep -c '^[0-9]'; ls /proc/2/fd /proc/3/fd 2>/dev/null | wc -l";
    let (before, open) = (sh(&server, &id, count).await, descriptors(pid));
    let server = &server;
    for _ in 0..100 {
        let ten = (0..10).map(|n| {
            let id = &id;
            async move {
                if n == 0 {
                    let mut socket = Socket::exec(server, id, json!({ "command": ["echo", "x"] })).await;
                    assert_eq!(socket.finish().await.0, "x\n");
                } else {
                    assert_eq!(sh(server, id, "echo x").await, "x\n");
                }
            }
        });
        futures::future::join_all(ten).await;
    }
    eventually("all is as before", async || sh(server, &id, count).await == before).await;
    eventually("here, too", async || descriptors(pid) <= open + 12).await;
}

/// Orphans become children of the first process, whatever group they are in.
#[tokio::test(flavor = "multi_thread")]
async fn programs_that_nobody_waits_for_do_not_stay_as_dead_ones() {
    let server = sandboxed().start().await;
    let id = server.create(json!({ "name": "orphans" })).await;
    sh(&server, &id, "for i in 1 2 3; do sh -c '(sleep 0.1 &)'; setsid sh -c '(sleep 0.1 &)'; done").await;
    let names = "cat /proc/[0-9]*/stat 2>/dev/null | grep -c '(sleep)'";
    eventually("nothing is left of them", async || sh(&server, &id, names).await == "0\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn much_goes_through_and_memory_stays() {
    const SIZE: usize = 256 << 20;
    let server = Setup::new().start().await;
    let id = server.create(json!({ "name": "much" })).await;
    let pid = i32::try_from(server.child.id()).unwrap();
    sh(&server, &id, "true").await;
    let before = memory(pid);
    let mut out =
        Socket::exec(&server, &id, json!({ "command": ["head", "-c", SIZE.to_string(), "/dev/zero"] })).await;
    let mut seen = 0;
    let mut most = 0;
    while let Some((1, bytes)) = out.next().await {
        seen += bytes.len();
        if seen % 64 == 0 {
            most = most.max(memory(pid));
        }
    }
    assert_eq!(seen, SIZE);
    let mut into = Socket::exec(&server, &id, json!({ "command": ["wc", "-c"] })).await;
    let block = vec![0; 60_000];
    let mut sent = 0;
    while sent < SIZE {
        let now = block.len().min(SIZE - sent);
        into.send(0, &block[..now]).await;
        sent += now;
        most = most.max(if sent % 64 == 0 { memory(pid) } else { 0 });
    }
    into.send(255, &[0]).await;
    assert_eq!(into.finish().await.0.trim(), SIZE.to_string());
    // One that nobody reads from is not read into memory either.
    let _stuck = Socket::exec(&server, &id, json!({ "command": ["cat", "/dev/zero"] })).await;
    codehub_testing::let_time_pass(Duration::from_secs(1)).await;
    most = most.max(memory(pid));
    assert!(most < before + 64, "{before} MiB became {most} MiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_ends_what_it_ran_and_a_killed_program_inside_is_replaced() {
    let mut server = Setup::new().start().await;
    let id = server.create(json!({ "name": "killed" })).await;
    let pid = server.inside(&id, "/pid").await.unwrap();
    let mut socket = Socket::exec(
        &server,
        &id,
        json!({ "command": ["sh", "-c", "trap '' HUP; echo $$; while :; do sleep 0.1; done"] }),
    )
    .await;
    let (_, number) = socket.next().await.unwrap();
    let number = String::from_utf8(number).unwrap().trim().to_owned();
    let lives =
        || fs::read_to_string(format!("/proc/{number}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    assert!(lives());
    server.kill();
    eventually("nobody waits for it any more", async || !lives()).await;
    server.restart().await;
    assert_eq!(server.inside(&id, "/pid").await.as_deref(), Some(pid.as_str()), "the IDE went on");
    assert_eq!(sh(&server, &id, "echo again").await, "again\n");

    let leader = server.programs();
    assert_eq!(leader.len(), 1);
    let leader = rustix::process::Pid::from_raw(leader[0]).unwrap();
    rustix::process::kill_process(leader, rustix::process::Signal::KILL).unwrap();
    eventually("another runs", async || {
        let answer = server
            .post(&format!("/workspaces/{id}/exec"), json!({ "command": ["true"], "wake": true }))
            .await;
        answer.0 == StatusCode::OK && server.programs().len() == 1
    })
    .await;
    assert_ne!(server.inside(&id, "/pid").await.as_deref(), Some(pid.as_str()));
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    assert!(
        stat.is_ok_and(|stat| stat.contains(") Z ")) || !fs::exists(format!("/proc/{pid}")).unwrap(),
        "never two"
    );
}

/// Whatever a workspace puts in the place of the program inside gets nothing of anybody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_program_at_the_other_end_only_fails() {
    let server = Setup::new().start().await;
    let id = server.create(json!({ "name": "hostile" })).await;
    let other = server.create(json!({ "name": "neighbour" })).await;
    let place = |id: &str| {
        server.setup.data_dir().canonicalize().unwrap().join("run").join(id.replace('-', "")).join("line")
    };
    fs::remove_file(place(&id)).unwrap();
    // A link to the neighbour's is not followed.
    std::os::unix::fs::symlink(place(&other), place(&id)).unwrap();
    let exec = format!("/workspaces/{id}/exec");
    let (status, answer) = server.post(&exec, json!({ "command": ["hostname"] })).await;
    assert_eq!((status.as_u16(), answer["error"]["code"].as_str()), (409, Some("INVALID_STATE")), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("restart the workspace"), "{answer}");
    fs::remove_file(place(&id)).unwrap();
    let listener = tokio::net::UnixListener::bind(place(&id)).unwrap();
    let garbage = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        for n in 0.. {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let words: &[u8] = match n % 3 {
                0 => b"HTTP/1.1 200 OK\r\n\r\n",
                1 => &[0xff; 4096],
                // The beginning of HTTP/2, and then nothing that is any.
                _ => b"\0\0\0\x04\0\0\0\0\0PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            };
            let _ = stream.write_all(words).await;
        }
    });
    for _ in 0..6 {
        let (status, answer) = server.post(&exec, json!({ "command": ["true"] })).await;
        assert_eq!(
            (status.as_u16(), answer["error"]["code"].as_str()),
            (503, Some("UPSTREAM_UNAVAILABLE")),
            "{answer}"
        );
    }
    assert_eq!(sh(&server, &other, "echo well").await, "well\n");
    garbage.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_listens_inside_is_connected_to() {
    let server = sandboxed().start().await;
    let id = server.create(json!({ "name": "ports" })).await;
    let listen = "import socket\ns = socket.create_server(('127.0.0.1', 0))\nprint(s.getsockname()[1], flush=True)\n\
                  while True:\n  c, _ = s.accept()\n  while d := c.recv(65536): c.sendall(d.upper())\n  c.close()";
    let mut program = Socket::exec(&server, &id, json!({ "command": ["python3", "-c", listen] })).await;
    let (_, port) = program.next().await.unwrap();
    let port = String::from_utf8(port).unwrap().trim().to_owned();
    for _ in 0..50 {
        let mut socket =
            Socket::open(&server, &format!("/workspaces/{id}/tcp/{port}"), "codehub.tcp.v1").await.unwrap();
        socket.send(b'h', b"ello").await;
        assert_eq!(socket.next().await.unwrap(), (b'H', b"ELLO".to_vec()));
    }
    let listed = server.get(&format!("/workspaces/{id}/ports")).await;
    let found =
        listed["items"].as_array().unwrap().iter().find(|it| it["port"] == port.parse::<u16>().unwrap());
    let found = found.unwrap_or_else(|| panic!("{listed}"));
    assert!(found["process"].as_str().unwrap().starts_with("python3"), "{found}");
    assert_eq!(found["loopback_only"], true);
    let usage = server.get(&format!("/workspaces/{id}/usage")).await;
    assert!(
        usage["processes"].as_u64().unwrap() >= 2 && usage["memory_bytes"].as_u64().unwrap() > 1 << 20,
        "{usage}"
    );
    assert_eq!(usage["home_complete"], true);
    let nobody = Socket::open(&server, &format!("/workspaces/{id}/tcp/1"), "codehub.tcp.v1").await;
    assert_eq!(nobody.err(), Some(503));
    // Without a network of its own, what others on the machine listen on is not the workspace's.
    let server = Setup::new().start().await;
    let id = server.create(json!({ "name": "shared" })).await;
    let foreign = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let foreign = foreign.local_addr().unwrap().port();
    let refused = Socket::open(&server, &format!("/workspaces/{id}/tcp/{foreign}"), "codehub.tcp.v1").await;
    assert_eq!(refused.err(), Some(503));
    let ide = server.port_of(&id).unwrap();
    let refused = Socket::open(&server, &format!("/workspaces/{id}/tcp/{ide}"), "codehub.tcp.v1").await;
    assert_eq!(refused.err(), Some(403), "the IDE's own");
}

/// Whoever may no longer do something does not get to finish it either.
#[tokio::test(flavor = "multi_thread")]
async fn what_runs_and_what_is_written_ends_with_the_right_to_it() {
    let server = Setup::new().start().await;
    let new = json!({ "username": "ann", "password": "correct horse battery", "role": "user" });
    let (_, ann) = server.post("/users", new).await;
    let token = server.sign_in("ann", "correct horse battery").await;
    let (_, workspace) =
        server.call_as(&token, Method::POST, "/workspaces?wait=30", Some(json!({ "name": "hers" }))).await;
    let id = workspace["id"].as_str().unwrap();
    let home = server.home(id);
    let (exec, body) =
        (format!("/workspaces/{id}/exec"), json!({ "command": ["sh", "-c", "touch began; sleep 600; :"] }));
    let run = server.call_as(&token, Method::POST, &exec, Some(body));
    let pieces = futures::stream::unfold((), |()| async {
        codehub_testing::let_time_pass(Duration::from_millis(20)).await;
        Some((Ok::<_, std::io::Error>(vec![b'x'; 100]), ()))
    });
    let url = server.url(&format!("/api/v1/workspaces/{id}/files?path=slow"));
    let put = server.client.put(url).bearer_auth(&token).body(reqwest::Body::wrap_stream(pieces)).send();
    let disable = async {
        eventually("both are under way", async || home.join("began").exists()).await;
        let path = format!("/users/{}", ann["id"].as_str().unwrap());
        let (status, answer) = server.call(Method::PATCH, &path, Some(json!({ "disabled": true }))).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    };
    let all = async { tokio::join!(run, put, disable) };
    let ((status, answer), put, ()) =
        tokio::time::timeout(Duration::from_secs(20), all).await.expect("it ends");
    assert_eq!(status, StatusCode::UNAUTHORIZED, "{answer}");
    assert!(put.is_err() || put.unwrap().status() == StatusCode::UNAUTHORIZED);
    eventually("nothing of it is left", async || {
        let mut files = fs::read_dir(&home).unwrap().flatten().map(|entry| entry.file_name());
        let sleeps =
            |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|it| it.starts_with(b"sleep"));
        !files.any(|name| name == "slow" || name.to_string_lossy().contains("partial"))
            && !server.processes().iter().any(sleeps)
    })
    .await;
}

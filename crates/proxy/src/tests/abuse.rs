//! Many at once, much at once, and those who do not play by the rules.

use std::{
    sync::atomic::Ordering::SeqCst,
    time::{Duration, Instant},
};

use codehub_domain::change::Change;
use codehub_domain::{Desired, Phase, UserId, WorkspaceId};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use super::support::*;

const PEOPLE: u32 = 500;

fn person(n: u32) -> (WorkspaceId, UserId, String) {
    let id = |kind: u32| format!("01890a5d-ac96-774b-bcce-{kind:04x}{n:08x}");
    (id(1).parse().unwrap(), id(2).parse().unwrap(), format!("secret-{n}"))
}

fn sleeping(rig: &Rig) {
    let mut views = rig.gate.views.lock().unwrap();
    let pattern = views[&workspace()].clone();
    let mut sessions = rig.gate.sessions.lock().unwrap();
    for n in 0..PEOPLE {
        let (id, owner, secret) = person(n);
        let mut view = pattern.clone();
        (view.id, view.owner, view.phase, view.desired) = (id, owner, Phase::Standby, Desired::Standby);
        views.insert(id, view);
        sessions.insert(secret.into_bytes(), owner);
    }
}

/// Starts what is wanted, a little later, as a controller would.
async fn start_what_is_wanted(gate: std::sync::Arc<FakeGate>) {
    loop {
        let_time_pass(Duration::from_millis(200)).await;
        let started: Vec<WorkspaceId> = {
            let mut views = gate.views.lock().unwrap();
            let wanted = views
                .values_mut()
                .filter(|view| view.phase == Phase::Standby && view.desired == Desired::Running);
            wanted
                .map(|view| {
                    view.phase = Phase::Running;
                    view.id
                })
                .collect()
        };
        for workspace in started {
            gate.tell(Change::Updated { workspace, owner: owner() });
        }
    }
}

/// Each opens a workspace of their own, with the requests that a page left open makes beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_people_open_sleeping_workspaces_at_once() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::with(Options { hold: Duration::from_secs(30), ..Options::default() }).await;
    rig.lead_to(&upstream);
    sleeping(&rig);
    let controller = tokio::spawn(start_what_is_wanted(rig.gate.clone()));
    let mut opening = JoinSet::new();
    for n in 0..PEOPLE {
        let addr = rig.addr;
        opening.spawn(async move {
            let (id, _, secret) = person(n);
            let request = |mode: &str| {
                format!(
                    "GET /w/{id}/ HTTP/1.1\r\nHost: code.example.com\r\nCookie: session={secret}\r\n\
                     Sec-Fetch-Mode: {mode}\r\nConnection: close\r\n\r\n"
                )
            };
            // A poll of an old tab: it gets its answer, and wakes nothing.
            let poll = status_of(&exchange(addr, request("cors")).await);
            (poll, status_of(&exchange(addr, request("navigate")).await))
        });
    }
    let mut answers = Vec::new();
    while let Some(answer) = opening.join_next().await {
        answers.push(answer.unwrap());
    }
    controller.abort();
    assert!(answers.iter().all(|answer| *answer == (503, 200)), "{answers:?}");
    let (wakes, reads) = (rig.gate.wakes.load(SeqCst), rig.gate.reads.load(SeqCst));
    let identifications = rig.gate.identifications.load(SeqCst);
    assert_eq!(wakes, PEOPLE, "one start each");
    // Asleep, wanted, running: three views of each; another where the news came between.
    assert!(reads <= PEOPLE * 5, "{reads} readings");
    assert!(identifications <= PEOPLE * 2, "{identifications} identifications");
    println!("{PEOPLE} people: {wakes} starts, {reads} readings, {identifications} identifications");
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// `CODEHUB_TEST_UPLOAD_MIB=4096` for the whole of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_of_any_size_holds_memory_flat() {
    let size_mib: u64 =
        std::env::var("CODEHUB_TEST_UPLOAD_MIB").ok().and_then(|text| text.parse().ok()).unwrap_or(256);
    let upstream = Upstream::new(|mut stream| async move {
        let head = read_head(&mut stream).await.unwrap().to_lowercase();
        let length: u64 = header_of(&head, "content-length").unwrap().parse().unwrap();
        let mut buffer = vec![0; 64 * 1024];
        let mut left = length;
        while left > 0 {
            let n = stream.read(&mut buffer).await.unwrap();
            assert!(n > 0, "{left} bytes were missing");
            left -= n as u64;
        }
        stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    })
    .await;
    let rig = Rig::before(&upstream).await;
    let mut stream = rig.connect().await;
    let (length, cookie) = (format!("Content-Length: {}", size_mib << 20), format!("Cookie: {COOKIE}"));
    stream.write_all(head("PUT", "/file", &[&length, &cookie]).as_bytes()).await.unwrap();
    let piece = vec![b'x'; 1 << 20];
    let (before, began) = (resident_kb(), Instant::now());
    let mut most = 0;
    for n in 0..size_mib {
        stream.write_all(&piece).await.unwrap();
        if n % 16 == 0 {
            most = most.max(resident_kb());
        }
    }
    assert_eq!(status_of(&read_head(&mut stream).await.unwrap()), 201);
    let grown = most.saturating_sub(before);
    println!("{size_mib} MiB in {:.1} s: {grown} KiB more", began.elapsed().as_secs_f64());
    // Other tests of this process run beside it; the upload itself holds a few buffers.
    assert!(grown < 64 * 1024, "{grown} KiB");
}

/// Clients that send a head byte by byte, or only half of it, keep nobody else waiting.
#[tokio::test]
async fn slow_clients_are_in_nobodys_way() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let mut slow: Vec<TcpStream> = Vec::new();
    for _ in 0..200 {
        let mut stream = rig.connect().await;
        stream.write_all(b"GET /w/").await.unwrap();
        slow.push(stream);
    }
    let began = Instant::now();
    assert_eq!(status_of(&rig.get("/", &[]).await), 200);
    assert!(began.elapsed() < Duration::from_secs(5));
    let request = head("GET", "/slow", &[&format!("Cookie: {COOKIE}"), "Connection: close"]);
    let mut stream = slow.pop().unwrap();
    for byte in request.as_bytes()["GET /w/".len()..].iter() {
        stream.write_all(&[*byte]).await.unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(status_of(&answer), 200);
}

/// A workspace that resets in the middle of an answer, or says nothing that makes sense.
#[tokio::test]
async fn workspaces_that_break_off_break_nothing_else() {
    for answer in
        ["", "HTTP/1.1 200", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"]
    {
        let upstream = Upstream::new(move |mut stream| async move {
            let _ = read_head(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
            // Unread bytes make the end a reset.
            let _ = stream.set_zero_linger();
        })
        .await;
        let rig = Rig::before(&upstream).await;
        let got = rig.send("POST", "/x", &[&format!("Cookie: {COOKIE}"), "Content-Length: 0"]).await;
        let cut_off = got.is_empty() || got.ends_with("half");
        assert!(status_of(&got) == 502 || cut_off, "{answer:?}: {got}");
        let healthy = Upstream::echoing_heads().await;
        rig.lead_to(&healthy);
        rig.gate.change(|_| ());
        let after = rig.get("/", &[]).await;
        assert!(matches!(status_of(&after), 200 | 502), "{after}");
        assert_eq!(status_of(&rig.get("/", &[]).await), 200, "the address is looked up again");
    }
}

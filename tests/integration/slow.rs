//! Slow and many, against the real program: whoever holds connections open holds up neither health checks nor people who
//! are signed in. One test for each way to do it.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use codehub_testing::{eventually, poll_every};
use reqwest::Client;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use crate::support::{Server, Setup};

const ATTACKER: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Somebody else, as far as addresses tell.
const PERSON: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const SLOW_BODY: &str = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                         Content-Length: 1000\r\n\r\nusername=";
const SLOW_HEAD: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";

/// For many connections on this side.
fn raise_open_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

async fn connect(from: Ipv4Addr, port: u16) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((from, 0)))?;
    socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await
}

/// Opens so many connections, and leaves each in the middle of what it says.
async fn attack(port: u16, many: usize, says: &'static str) -> Vec<TcpStream> {
    let mut held = Vec::new();
    while held.len() < many {
        let batch = (0..100).map(|_| async move {
            let mut stream = connect(ATTACKER, port).await?;
            // It may have been closed already: that is the point.
            let _ = stream.write_all(says.as_bytes()).await;
            std::io::Result::Ok(stream)
        });
        held.extend(futures::future::join_all(batch).await.into_iter().map(Result::unwrap));
    }
    held
}

/// How many of them the server has not ended.
fn still_open(held: &[TcpStream]) -> usize {
    let open = |stream: &&TcpStream| {
        let mut byte = [0];
        matches!(stream.try_read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    };
    held.iter().filter(open).count()
}

/// One check, on a connection of its own: what it answers, and how long that took.
async fn check(port: u16, path: &str) -> (String, Duration) {
    let begun = Instant::now();
    let mut answer = String::new();
    if let Ok(mut stream) = connect(ATTACKER, port).await {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(request.as_bytes()).await;
        let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_string(&mut answer)).await;
    }
    (answer, begun.elapsed())
}

/// Every check is answered, and the best quarter within a tenth of a second: other tests have the machine, too, and what
/// is in everybody's way is in the way of all of them.
async fn checks_are_answered(port: u16) {
    let mut times = Vec::new();
    for _ in 0..40 {
        let (answer, took) = check(port, "/healthz").await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("ok\n"), "{answer:?}");
        times.push(took);
    }
    times.sort();
    println!("/healthz: {:?} in the middle, {:?} at most", times[20], times[39]);
    assert!(times[10] < Duration::from_millis(100), "{times:?}");
}

/// Somebody who is signed in gets in, by a new connection.
async fn people_are_served(server: &Server) {
    let client = Client::builder().local_address(IpAddr::V4(PERSON)).build().unwrap();
    let ask = async || {
        let request = client.get(server.url("/api/v1/workspaces")).bearer_auth(&server.token);
        request.send().await.is_ok_and(|answer| answer.status() == 200)
    };
    eventually("somebody who is signed in is served", ask).await;
    for _ in 0..20 {
        assert!(ask().await, "and from then on always");
    }
}

/// What the counter says of connections that were closed for this reason.
async fn refused(server: &Server, reason: &str) -> u64 {
    let (metrics, _) = check(server.setup.port, "/metrics").await;
    let line = format!("codehub_connections_refused_total{{reason=\"{reason}\"}} ");
    metrics.lines().find_map(|found| found.strip_prefix(&line)?.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_slow_bodies_hold_up_nobody() {
    raise_open_files();
    let server = Setup::new().start().await;
    let held = attack(server.setup.port, 2000, SLOW_BODY).await;
    eventually("an address has its share", async || still_open(&held) <= 1024).await;
    checks_are_answered(server.setup.port).await;
    people_are_served(&server).await;
    assert!(refused(&server, "address").await >= 900);
    // They are not held for long, either.
    eventually("slow bodies are given up", async || still_open(&held) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_slow_bodies_hold_up_nobody_where_files_are_few() {
    raise_open_files();
    let server = Setup::new().open_files(256).start().await;
    for _ in 0..2 {
        let held = attack(server.setup.port, 1000, SLOW_BODY).await;
        eventually("places are kept", async || still_open(&held) <= 48).await;
        checks_are_answered(server.setup.port).await;
        people_are_served(&server).await;
        drop(held);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_heads_are_few_from_one_address() {
    raise_open_files();
    let server = Setup::new().start().await;
    let held = attack(server.setup.port, 500, SLOW_HEAD).await;
    // Those on places for checks have to show within two seconds that they are some.
    eventually("an address has few of them", async || still_open(&held) <= 64).await;
    checks_are_answered(server.setup.port).await;
    people_are_served(&server).await;
    assert!(refused(&server, "headless").await >= 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_says_nothing_gets_no_more_than_whoever_says_half() {
    raise_open_files();
    let server = Setup::new().env("LIMITS_CONNECTIONS_PER_ADDRESS", "10").start().await;
    let held = attack(server.setup.port, 100, "").await;
    eventually("an address has what the setting says", async || still_open(&held) <= 10).await;
    checks_are_answered(server.setup.port).await;
    people_are_served(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_have_an_address_of_their_own_where_it_is_set() {
    raise_open_files();
    let port = crate::support::free_port();
    let setup = Setup::new().open_files(256).env("METRICS_LISTEN", &format!("127.0.0.1:{port}"));
    let server = setup.start().await;
    let held = attack(server.setup.port, 500, SLOW_BODY).await;
    checks_are_answered(port).await;
    for (path, status) in
        [("/readyz", 200), ("/metrics", 200), ("/", 404), ("/api/v1/system", 404), ("/w/x/", 404)]
    {
        let (answer, _) = check(port, path).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
    // Its own connections are bounded, too, and whoever takes them all loses them again.
    let here = attack(port, 200, SLOW_HEAD).await;
    eventually("few of them stay", async || still_open(&here) <= 64).await;
    drop((held, here));
    let end = Instant::now() + codehub_testing::PATIENCE;
    while !check(port, "/healthz").await.0.ends_with("ok\n") {
        assert!(Instant::now() < end, "it recovers");
        poll_every(Duration::from_millis(20)).await;
    }
}

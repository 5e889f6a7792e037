//! Who gets in, what each phase answers, and what wakes a workspace.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use codehub_domain::change::Change;
use codehub_domain::{
    ArchiveKey, Desired, ErrorReason, Failure, Operation, Phase,
    limits::{LimitHit, LimitScope, RunningWorkspace},
};

use super::support::*;
use crate::{
    gate::{ArchiveFacts, Woken, WorkspaceView},
    wake::resolve::{Answer, Closed, Visit, Waiting, decide},
};

#[tokio::test]
async fn the_order_of_checks() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    let navigate = "Sec-Fetch-Mode: navigate";

    // Nobody.
    let answer = rig.send("GET", "/a?b=c&d", &[]).await;
    assert_eq!(status_of(&answer), 401, "{answer}");
    assert!(body_of(&answer).contains(r#""code":"UNAUTHORIZED""#));
    let answer = rig.send("GET", "/a?b=c&d", &[navigate]).await;
    assert_eq!(status_of(&answer), 303);
    let next = format!("/login?next=/w/{}/a%3Fb%3Dc%26d", workspace());
    assert_eq!(header_of(&answer, "location"), Some(next.as_str()));

    // Two sessions, even equal ones.
    for lines in [
        &["Cookie: session=owner-secret; session=owner-secret"][..],
        &["Cookie: session=owner-secret", "Cookie: session=x"],
    ] {
        let answer = rig.send("GET", "/", lines).await;
        assert_eq!(status_of(&answer), 401);
        // What a workspace's script may have planted is taken away again.
        let planted = format!("session=; Path=/w/{}/; Max-Age=0", workspace());
        assert_eq!(header_of(&answer, "set-cookie"), Some(planted.as_str()));
    }

    // Somebody else, whatever their role.
    let answer = rig.send("GET", "/", &["Cookie: session=stranger-secret"]).await;
    assert_eq!(status_of(&answer), 403, "{answer}");
    let answer = rig.send("GET", "/", &["Cookie: session=stranger-secret", navigate]).await;
    assert_eq!(status_of(&answer), 403);
    assert!(answer.contains("text/html"));

    // The owner, by cookie and by token.
    assert_eq!(status_of(&rig.get("/", &[]).await), 200);
    let token = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(status_of(&rig.send("GET", "/", &[&token]).await), 200);
    assert_eq!(status_of(&rig.send("GET", "/", &["Authorization: Bearer wrong"]).await), 401);

    // Unknown, no id, deleted.
    let cookie = format!("Cookie: {COOKIE}");
    for path in ["01890a5d-ac96-774b-bcce-b302099a9999", "x", "01890A5D-AC96-774B-BCCE-B302099A8057"] {
        let request = format!("GET /w/{path}/ HTTP/1.1\r\nHost: a\r\n{cookie}\r\nConnection: close\r\n\r\n");
        assert_eq!(status_of(&rig.raw(request).await), 404, "{path}");
    }
    rig.gate.change(|view| view.deleted = true);
    rig.soon_answers(404).await;
}

#[tokio::test]
async fn no_token_of_ours_reaches_the_workspace() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    // Not valid, so the cookie decides; it is still nothing for the workspace.
    let answer = rig.get("/", &["Authorization: Bearer chp_expired"]).await;
    assert_eq!(status_of(&answer), 200);
    assert!(!body_of(&answer).contains("chp_"), "{answer}");
    // Of several, one could be.
    let ours = format!("Authorization: Bearer {TOKEN}");
    for lines in [[ours.as_str(), "Authorization: Basic eDp5"], ["Authorization: Basic eDp5", &ours]] {
        let answer = rig.get("/", &lines).await;
        assert_eq!(status_of(&answer), 400, "{answer}");
    }
}

#[tokio::test]
async fn without_a_slash_it_goes_on_at_the_slash() {
    let rig = Rig::new().await;
    let answer = rig.send("GET", "?a=%20b", &[]).await;
    assert_eq!(status_of(&answer), 308);
    assert_eq!(header_of(&answer, "location"), Some(format!("/w/{}/?a=%20b", workspace()).as_str()));
}

#[test]
fn the_phase_policy() {
    use Visit::{Navigation, Other};
    let view = |phase, operation, desired| WorkspaceView {
        id: workspace(),
        owner: owner(),
        name: String::new(),
        phase,
        operation,
        desired,
        deleted: false,
        error: None,
        archive_key: None,
        progress: None,
        ide: crate::gate::ProxyIde::default(),
        activity_mode: None,
        standby_ttl_seconds: None,
        held_until: None,
        ports: Vec::new(),
    };
    let wait = Answer::Wait;
    for (phase, operation, desired, person, program) in [
        (Phase::Running, Operation::None, Desired::Running, Answer::Forward, Answer::Forward),
        (Phase::Running, Operation::None, Desired::Standby, Answer::Forward, Answer::Forward),
        (Phase::Running, Operation::Stopping, Desired::Standby, wait(Waiting::Stopping), Answer::Asleep),
        (Phase::Standby, Operation::None, Desired::Standby, Answer::Wake, Answer::Asleep),
        (Phase::Standby, Operation::None, Desired::Archived, Answer::Wake, Answer::Asleep),
        (Phase::Standby, Operation::None, Desired::Running, wait(Waiting::Starting), Answer::Asleep),
        (Phase::Standby, Operation::Starting, Desired::Running, wait(Waiting::Starting), Answer::Asleep),
        (Phase::Standby, Operation::Archiving, Desired::Archived, wait(Waiting::Archiving), Answer::Asleep),
        (
            Phase::Archived,
            Operation::None,
            Desired::Archived,
            Answer::Close(Closed::Archived),
            Answer::Close(Closed::Archived),
        ),
        (
            Phase::Archived,
            Operation::Restoring,
            Desired::Running,
            wait(Waiting::Restoring),
            Answer::Close(Closed::Archived),
        ),
        (
            Phase::Pending,
            Operation::None,
            Desired::Standby,
            Answer::Close(Closed::NotStarted),
            Answer::Close(Closed::NotStarted),
        ),
        (
            Phase::Pending,
            Operation::Provisioning,
            Desired::Running,
            wait(Waiting::Starting),
            Answer::Close(Closed::NotStarted),
        ),
        (
            Phase::Error,
            Operation::None,
            Desired::Running,
            Answer::Close(Closed::Broken),
            Answer::Close(Closed::Broken),
        ),
        (Phase::Deleting, Operation::Deleting, Desired::Deleted, Answer::Gone, Answer::Gone),
        (Phase::Deleted, Operation::None, Desired::Deleted, Answer::Gone, Answer::Gone),
    ] {
        let view = view(phase, operation, desired);
        assert_eq!(decide(&view, Navigation), person, "{phase} {operation} {desired}");
        assert_eq!(decide(&view, Other), program, "{phase} {operation} {desired}");
    }
}

#[tokio::test]
async fn a_slow_wake_is_held_and_answered_by_the_workspace_itself() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    rig.gate.change(|view| (view.phase, view.desired) = (Phase::Standby, Desired::Standby));
    let gate = rig.gate.clone();
    tokio::spawn(async move {
        gate.woken_once().await;
        // Slowly.
        let_time_pass(Duration::from_millis(300)).await;
        gate.change(|view| view.operation = Operation::Starting);
        let_time_pass(Duration::from_millis(300)).await;
        gate.change(|view| (view.phase, view.operation) = (Phase::Running, Operation::None));
    });
    let answer = rig.navigate(&[]).await;
    assert_eq!(status_of(&answer), 200, "{answer}");
    assert!(body_of(&answer).starts_with("GET / HTTP/1.1"));
    assert_eq!(rig.gate.wakes.load(SeqCst), 1);
}

#[tokio::test]
async fn five_hundred_navigations_ask_once() {
    let upstream = Upstream::echoing_heads().await;
    let rig = std::sync::Arc::new(Rig::before(&upstream).await);
    rig.gate.change(|view| (view.phase, view.desired) = (Phase::Standby, Desired::Standby));
    let gate = rig.gate.clone();
    tokio::spawn(async move {
        gate.woken_once().await;
        // Long enough for all of them to be waiting.
        let_time_pass(Duration::from_secs(1)).await;
        gate.change(|view| (view.phase, view.operation) = (Phase::Running, Operation::None));
    });
    let visits: Vec<_> = (0..500)
        .map(|_| {
            let rig = rig.clone();
            tokio::spawn(async move { status_of(&rig.navigate(&[]).await) })
        })
        .collect();
    for visit in visits {
        assert_eq!(visit.await.unwrap(), 200);
    }
    assert_eq!(rig.gate.wakes.load(SeqCst), 1);
    assert!(rig.gate.reads.load(SeqCst) < 20, "{} reads", rig.gate.reads.load(SeqCst));
}

#[tokio::test]
async fn scripts_assets_and_websockets_never_wake() {
    let rig = Rig::new().await;
    rig.gate.change(|view| (view.phase, view.desired) = (Phase::Standby, Desired::Standby));
    let websocket = ["Connection: Upgrade", "Upgrade: websocket", "Origin: http://code.example.com"];
    for lines in [
        &["Accept: */*"][..],
        &["Sec-Fetch-Mode: cors", "Accept: text/html"],
        &["Sec-Fetch-Mode: no-cors"],
        &[],
    ] {
        let answer = rig.get("/x.js", lines).await;
        assert_eq!(status_of(&answer), 503, "{answer}");
        assert!(body_of(&answer).contains("WORKSPACE_STANDBY"), "{answer}");
        assert!(header_of(&answer, "retry-after").is_some());
    }
    let request = head("GET", "/ws", &[&websocket[..], &[&format!("Cookie: {COOKIE}")]].concat());
    let mut stream = rig.connect().await;
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    assert_eq!(status_of(&read_head(&mut stream).await.unwrap()), 503);
    assert_eq!(rig.gate.wakes.load(SeqCst), 0);
}

#[tokio::test]
async fn a_wake_that_takes_too_long_shows_the_loading_page() {
    let rig = Rig::with(Options { hold: Duration::from_millis(150), ..Options::default() }).await;
    rig.gate.change(|view| (view.phase, view.desired) = (Phase::Standby, Desired::Standby));
    let answer = rig.navigate(&[]).await;
    assert_eq!(status_of(&answer), 503, "{answer}");
    assert!(header_of(&answer, "retry-after").is_some() && header_of(&answer, "refresh").is_some());
    assert!(answer.contains("Starting your workspace"));
    assert!(answer.contains("my &lt;workspace&gt;"));
    // Opened again while it starts: not asked again.
    rig.navigate(&[]).await;
    assert_eq!(rig.gate.wakes.load(SeqCst), 1);
}

#[tokio::test]
async fn a_workspace_that_is_just_stopping_is_woken_when_that_has_ended() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    rig.gate.change(|view| (view.operation, view.desired) = (Operation::Stopping, Desired::Standby));
    let gate = rig.gate.clone();
    tokio::spawn(async move {
        // The visitor is waiting by then.
        let_time_pass(Duration::from_millis(200)).await;
        gate.change(|view| (view.phase, view.operation) = (Phase::Standby, Operation::None));
        gate.woken_once().await;
        let_time_pass(Duration::from_millis(100)).await;
        gate.change(|view| view.phase = Phase::Running);
    });
    assert_eq!(status_of(&rig.navigate(&[]).await), 200);
    assert_eq!(rig.gate.wakes.load(SeqCst), 1);
}

#[tokio::test]
async fn pages_for_what_cannot_be_woken() {
    let rig = Rig::new().await;
    let id = workspace();
    let op = "01890a5d-ac96-774b-bcce-b302099a8058".parse().unwrap();
    *rig.gate.archive.lock().unwrap() = Some(ArchiveFacts {
        size_bytes: 3 * 1024 * 1024,
        created_at: "2026-01-02T03:04:05Z".parse().unwrap(),
    });
    let stop = format!("action=\"/workspaces/{id}/stop\"");
    let start = format!("action=\"/workspaces/{id}/start\"");
    let recover = format!("action=\"/workspaces/{id}/recover\"");
    // The field by which the dashboard's forms say where to come back to.
    let back = format!("name=\"back\" value=\"/w/{id}/\"");
    type Edit = Box<dyn FnOnce(&mut WorkspaceView) + Send>;
    let cases: Vec<(Edit, Vec<&str>)> = vec![
        (
            Box::new(move |view| {
                (view.phase, view.desired) = (Phase::Archived, Desired::Archived);
                view.archive_key = Some(ArchiveKey::of(id, op));
            }),
            vec!["archived", &start, "3.1 MB", "2026-01-02 03:04 UTC"],
        ),
        (
            Box::new(|view| (view.phase, view.desired) = (Phase::Pending, Desired::Standby)),
            vec!["not been started", &start],
        ),
        (
            Box::new(|view| {
                view.phase = Phase::Error;
                view.error = Some(Failure::new(ErrorReason::Timeout, "took <too> long"));
            }),
            vec!["Timeout", "was not ready in time", "took &lt;too&gt; long", &recover],
        ),
    ];
    for (edit, words) in cases {
        rig.gate.change(edit);
        eventually(words[0], async || rig.navigate(&[]).await.contains(words[0])).await;
        let page = rig.navigate(&[]).await;
        assert_eq!(status_of(&page), 502);
        assert!(page.contains(&back), "{page}");
        for word in words {
            assert!(page.contains(word), "{word} not in {page}");
        }
        let answer = rig.get("/", &["Accept: */*"]).await;
        assert_eq!(status_of(&answer), 502);
        assert!(body_of(&answer).contains("UPSTREAM_UNAVAILABLE"));
    }

    rig.gate.change(|view| (view.phase, view.desired) = (Phase::Standby, Desired::Standby));
    *rig.gate.woken.lock().unwrap() = Woken::Limit(LimitHit {
        scope: LimitScope::User { limit: 1 },
        running: vec![RunningWorkspace { id, name: "the <other>".into() }],
    });
    eventually("the limit", async || rig.navigate(&[]).await.contains(&stop)).await;
    let page = rig.navigate(&[]).await;
    assert_eq!(status_of(&page), 502);
    assert!(page.contains(&stop) && page.contains(&back) && page.contains("the &lt;other&gt;"), "{page}");
}

#[tokio::test]
async fn a_stopped_workspace_and_an_ended_session_are_refused_at_once() {
    let upstream = Upstream::echoing_heads().await;
    let rig = Rig::before(&upstream).await;
    assert_eq!(status_of(&rig.get("/", &[]).await), 200);
    let (reads, asked) = (rig.gate.reads.load(SeqCst), rig.gate.identifications.load(SeqCst));
    for _ in 0..5 {
        assert_eq!(status_of(&rig.get("/", &[]).await), 200);
    }
    assert_eq!((rig.gate.reads.load(SeqCst), rig.gate.identifications.load(SeqCst)), (reads, asked));

    rig.gate.change(|view| view.operation = Operation::Stopping);
    rig.soon_answers(503).await;
    rig.gate.change(|view| view.operation = Operation::None);
    rig.soon_answers(200).await;

    rig.gate.sessions.lock().unwrap().clear();
    rig.gate.tell(Change::Access { user: owner() });
    rig.soon_answers(401).await;
}

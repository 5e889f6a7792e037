//! The rules, held against what real tabs were recorded to send. Each line of a recording is what one
//! message (or request) was, and what the person in front of it was doing meanwhile.

use std::sync::Arc;

use serde_json::Value;

use super::*;

const CODE_SERVER: &str = include_str!("recorded/code-server-4.139.jsonl");
const JUPYTERLAB: &str = include_str!("recorded/jupyterlab-4.6.jsonl");

fn rules(ide: &str) -> Arc<Rules> {
    Arc::new(Rules::load(ide, None).unwrap())
}

fn lines(recording: &str) -> impl Iterator<Item = Vec<Value>> {
    recording.lines().map(|line| serde_json::from_str(line).unwrap())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn from(value: &Value) -> From {
    if text(value) == "browser" { From::Browser } else { From::Workspace }
}

/// JSON has no bytes: every character is one.
fn bytes(value: &Value) -> Vec<u8> {
    text(value).chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
}

fn vscode_message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, 1, 0, 0, 0, 2];
    message.extend_from_slice(&(body.len() as u32).to_be_bytes());
    message.extend_from_slice(body);
    message
}

const WHOLE: Piece<'static> =
    Piece { bytes: &[], mask: None, at: 0, starts: true, ends: true, compressed: false };

fn feed(watch: &mut Watch, from: From, bytes: &[u8]) -> Vec<ActivityKind> {
    let mut seen = Vec::new();
    watch.feed(from, Piece { bytes, ..WHOLE }, |kind| seen.push(kind));
    seen
}

/// As a browser would send it, cut into pieces.
fn feed_cut(watch: &mut Watch, from: From, bytes: &[u8], cut: usize, mask: [u8; 4]) -> Vec<ActivityKind> {
    let masked: Vec<u8> = bytes.iter().enumerate().map(|(i, byte)| byte ^ mask[i & 3]).collect();
    let mut seen = Vec::new();
    for (n, piece) in masked.chunks(cut).enumerate() {
        let at = (n * cut) as u64;
        let ends = at as usize + piece.len() == masked.len();
        let piece = Piece { bytes: piece, mask: Some(mask), at, starts: n == 0, ends, compressed: false };
        watch.feed(from, piece, |kind| seen.push(kind));
    }
    seen
}

fn code_server() -> Watch {
    Watch::new(&rules("code-server"), "/stable-53c2f3253bcf32886706fc023e794bbeb253c90f").unwrap()
}

#[test]
fn an_idle_tab_of_code_server_is_idle_and_work_is_work() {
    let (mut idle, mut typing, mut output) = (0, Vec::new(), Vec::new());
    let mut sockets: BTreeMap<(String, String), Watch> = BTreeMap::new();
    for line in lines(CODE_SERVER) {
        let [settings, phase, socket, sender, kind, body] = &line[..] else { panic!("{line:?}") };
        let key = (text(settings).to_owned(), text(socket).to_owned());
        let watch = sockets.entry(key).or_insert_with(code_server);
        let message = vscode_message(kind.as_u64().unwrap() as u8, &bytes(body));
        let seen = feed(watch, from(sender), &message);
        match text(phase) {
            "idle" => {
                assert_eq!(seen, [], "{line:?}");
                idle += 1;
            }
            "typing" => typing.extend(seen),
            _ => output.extend(seen),
        }
    }
    assert!(idle > 150, "{idle}");
    assert!(
        typing.contains(&ActivityKind::Typing) && typing.contains(&ActivityKind::TerminalOutput),
        "{typing:?}"
    );
    assert!(output.contains(&ActivityKind::TerminalOutput), "{output:?}");
}

#[test]
fn messages_are_judged_alike_wherever_they_are_cut() {
    for cut in [1, 2, 3, 13, 14, 40, 1000] {
        let mut watch = code_server();
        let mut whole = code_server();
        for line in lines(CODE_SERVER).take(120) {
            let [_, _, _, sender, kind, body] = &line[..] else { panic!("{line:?}") };
            let message = vscode_message(kind.as_u64().unwrap() as u8, &bytes(body));
            let cut_up = feed_cut(&mut watch, from(sender), &message, cut, [7, 0, 255, 3]);
            let expected = feed(&mut whole, from(sender), &message);
            assert_eq!(cut_up.is_empty(), expected.is_empty(), "{cut}: {line:?}");
        }
    }
    // Several messages in one frame.
    let input = b"\x04\x04\x06\x64\x06\x01\x01\x0eremoteterminal\x01\x06$inputx";
    let batch = [vscode_message(9, b""), vscode_message(3, b""), vscode_message(1, input)].concat();
    assert_eq!(feed(&mut code_server(), From::Browser, &batch), [ActivityKind::Typing]);
}

#[test]
fn what_no_rule_knows_is_work() {
    let mut watch = code_server();
    assert_eq!(
        feed(&mut watch, From::Browser, &vscode_message(1, b"something new")),
        [ActivityKind::FromClient]
    );
    assert_eq!(feed(&mut watch, From::Workspace, &vscode_message(1, b"")), [ActivityKind::FromWorkspace]);
    // Not even the framing.
    assert_eq!(feed(&mut watch, From::Browser, b"GET / HTTP/1.1 and so on"), [ActivityKind::FromClient]);
    assert_eq!(
        feed(&mut watch, From::Browser, &vscode_message(9, b"")),
        [ActivityKind::FromClient],
        "for good"
    );
    assert_eq!(feed(&mut watch, From::Workspace, &vscode_message(9, b"")), [], "the other way still is");
    // Nor what is inside.
    let mut watch = code_server();
    let mut seen = Vec::new();
    let keep_alive = vscode_message(9, b"");
    watch
        .feed(From::Browser, Piece { bytes: &keep_alive, compressed: true, ..WHOLE }, |kind| seen.push(kind));
    assert_eq!(seen, [ActivityKind::FromClient]);
    assert!(Watch::new(&rules("code-server"), "/other").is_none());
    assert!(rules("builtin").is_empty() && rules("command").is_empty());
}

#[test]
fn a_long_message_is_work_until_its_end_and_holds_nothing() {
    let mut watch = code_server();
    let message = vscode_message(1, &[b'x'; 10_000]);
    let (first, rest) = message.split_at(600);
    assert_eq!(feed(&mut watch, From::Browser, first).len(), 2, "judged, and what follows it");
    for part in rest.chunks(1000) {
        assert_eq!(feed(&mut watch, From::Browser, part), [ActivityKind::FromClient]);
    }
    assert_eq!(feed(&mut watch, From::Browser, &vscode_message(9, b"")), []);
}

#[test]
fn replies_to_idle_calls_are_idle_and_late_ones_are_not_mistaken() {
    let mut watch = code_server();
    let ping = b"\x04\x04\x06\x64\x06\x05\x01\x09telemetry\x01\x04ping\x00";
    let reply = |id: u8| vscode_message(1, &[4, 2, 6, 0xc9, 1, 6, id, 0]);
    assert_eq!(feed(&mut watch, From::Browser, &vscode_message(1, ping)), []);
    assert_eq!(feed(&mut watch, From::Workspace, &reply(6)), [ActivityKind::FromWorkspace]);
    assert_eq!(feed(&mut watch, From::Workspace, &reply(5)), []);
    assert_eq!(feed(&mut watch, From::Workspace, &reply(5)), [ActivityKind::FromWorkspace], "once");
}

#[test]
fn reconnections_are_known() {
    let watch = code_server();
    assert!(watch.is_reconnection(Some("reconnectionToken=x&reconnection=true&skipWebSocketFrames=false")));
    assert!(!watch.is_reconnection(Some("reconnectionToken=x&reconnection=false&skipWebSocketFrames=false")));
    assert!(!watch.is_reconnection(None));
}

#[test]
fn an_idle_tab_of_jupyterlab_is_idle_and_work_is_work() {
    let rules = rules("jupyterlab");
    let mut work = Vec::new();
    let mut idle = 0;
    for line in lines(JUPYTERLAB) {
        let seen: Vec<ActivityKind> = match text(&line[1]) {
            "http" => {
                let uri: http::Uri = text(&line[3]).parse().unwrap();
                let method: Method = text(&line[2]).parse().unwrap();
                let poll = rules.is_poll(&method, uri.path(), uri.query());
                if poll { Vec::new() } else { vec![ActivityKind::Http] }
            }
            _ => {
                let mut watch = Watch::new(&rules, text(&line[2])).unwrap();
                feed_cut(&mut watch, from(&line[3]), &bytes(&line[4]), 50, [1, 2, 3, 4])
            }
        };
        if text(&line[0]).starts_with("idle") {
            assert_eq!(seen, [], "{line:?}");
            idle += 1;
        } else {
            work.extend(seen);
        }
    }
    assert!(idle > 15, "{idle}");
    assert!(
        work.contains(&ActivityKind::FromClient) && work.contains(&ActivityKind::FromWorkspace),
        "{work:?}"
    );

    let mut terminal = Watch::new(&rules, "/terminals/websocket/1").unwrap();
    assert_eq!(feed(&mut terminal, From::Workspace, br#"["stdout", "hi"]"#), [ActivityKind::TerminalOutput]);
    assert_eq!(feed(&mut terminal, From::Browser, br#"["stdin","x"]"#), [ActivityKind::Typing]);
    assert_eq!(feed(&mut terminal, From::Browser, br#"["set_size",24,80]"#), []);
    let open = |query| rules.is_poll(&Method::GET, "/api/contents/a.ipynb", Some(query));
    assert!(!open("type=notebook&content=1&hash=1"), "somebody opens a file");
    assert!(!rules.is_poll(&Method::PUT, "/api/contents/a.ipynb", None), "or saves one");
}

#[test]
fn an_operator_adds_rules() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.toml");
    let load = |text: &str, ide: &str| {
        std::fs::write(&file, text).unwrap();
        Rules::load(ide, Some(&file)).map_err(|error| format!("{error:#}"))
    };
    let text = r#"
        [code-server]
        version = 1
        [[code-server.socket]]
        path = "/stable-*"
        framing = "vscode"
        [[code-server.socket.message]]
        is = "idle"
        calls = ["myExtension.*"]

        [command]
        version = 1
        plain_websockets = true
        [[command.http]]
        path = "/poll"
    "#;
    let rules = Arc::new(load(text, "code-server").unwrap());
    let mut watch = Watch::new(&rules, "/stable-1").unwrap();
    let mine = b"\x04\x04\x06\x64\x06\x05\x01\x0bmyExtension\x01\x04beat\x00";
    assert_eq!(feed(&mut watch, From::Browser, &vscode_message(1, mine)), []);
    assert_eq!(feed(&mut watch, From::Browser, &vscode_message(9, b"")), [], "ours are still there");
    let command = load(text, "command").unwrap();
    assert!(command.plain_websockets && command.is_poll(&Method::POST, "/poll", None));

    for (text, why) in [
        ("[command]\nversion = 2", "version"),
        ("[command]\nversion = 1\nhttps = []", "https"),
        ("[command]\nversion = 1\n[[command.http]]\npath = \"x\"", "must start with"),
        (
            "[command]\nversion = 1\n[[command.socket]]\npath = \"/\"\n[[command.socket.message]]\nis = \"idle\"",
            "every message",
        ),
        (
            "[command]\nversion = 1\n[[command.socket]]\npath = \"/\"\n[[command.socket.message]]\nis = \"idle\"\ntypes = [1]",
            "vscode",
        ),
    ] {
        let error = load(text, "code-server").unwrap_err();
        assert!(error.contains("ACTIVITY_RULES") && error.contains(why), "{error}");
    }
    assert!(Rules::load("x", Some(Path::new("/nowhere"))).unwrap_err().to_string().contains("/nowhere"));
}

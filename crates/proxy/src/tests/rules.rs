//! Header rules, as tables.

use std::net::IpAddr;

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::{
    appearance::Lang,
    policy::{
        self, Cookies, Forwarded, Named, RequestHead, RequestPolicy, Sent, cookies, forwarded_chain,
        location::{Mount, rewrite},
    },
    wake::resolve::Visit,
    websocket::frames::{Frames, close_frame},
};

fn map(lines: &[(&str, &str)]) -> HeaderMap {
    lines
        .iter()
        .map(|(name, value)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        })
        .collect()
}

/// What a workspace gets to see of these headers.
fn asked(headers: &HeaderMap, trusted: bool, change: impl FnOnce(&mut RequestHead<'_>)) -> Vec<String> {
    let named = Named::of(policy::lines(headers));
    let claims = trusted.then_some(headers);
    let chain = forwarded_chain(claims, IpAddr::from([10, 0, 0, 1]));
    let mut head = RequestHead {
        method: "GET",
        target: b"/",
        host: Some(b"h"),
        policy: RequestPolicy {
            named: &named,
            our_authorization: false,
            cookies: Cookies::Searched,
            plain_websockets: false,
            local: None,
        },
        forwarded: Some(Forwarded::new(claims, &chain, false, Some(b"h"), b"/w/x")),
        request_id: b"id",
        secret: None,
        upgrade: None,
        trailers: false,
        expects: false,
        body: Sent::Nothing,
    };
    change(&mut head);
    let mut out = BytesMut::new();
    head.write(&mut out, policy::lines(headers));
    let text = String::from_utf8(out.to_vec()).unwrap();
    let lines =
        text.strip_prefix("GET / HTTP/1.1\r\n").and_then(|text| text.strip_suffix("\r\n\r\n")).unwrap();
    lines.split("\r\n").map(str::to_owned).collect()
}

/// Those lines that we always add.
const OURS: [&str; 6] = [
    "host: h",
    "x-forwarded-for: 10.0.0.1",
    "x-forwarded-proto: http",
    "x-forwarded-host: h",
    "x-forwarded-prefix: /w/x",
    "x-request-id: id",
];

fn beside_ours(headers: &HeaderMap) -> Vec<String> {
    asked(headers, false, |_| {}).into_iter().filter(|line| !OURS.contains(&&line[..])).collect()
}

#[test]
fn hop_by_hop_headers_and_what_connection_names_are_removed() {
    let headers = map(&[
        ("connection", "close, X-Private"),
        ("connection", "keep-alive, cookie, host, content-length, sec-websocket-key, date"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("proxy-authorization", "Basic x"),
        ("te", "gzip"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("http2-settings", "x"),
        ("x-private", "1"),
        ("date", "then"),
        ("expect", "100-continue"),
        ("cookie", "a=b"),
        ("host", "evil"),
        ("content-length", "3"),
        ("sec-websocket-key", "k"),
        ("trailer", "x-sum"),
        ("x-public", "1"),
    ]);
    assert_eq!(
        beside_ours(&headers),
        ["cookie: a=b", "sec-websocket-key: k", "trailer: x-sum", "x-public: 1"]
    );
    // What frames the message is said anew, by whoever knows.
    let framed = asked(&headers, false, |head| (head.body, head.trailers) = (Sent::Length(7), true));
    assert!(framed.contains(&"content-length: 7".into()) && framed.contains(&"te: trailers".into()));
    assert!(
        asked(&headers, false, |head| head.body = Sent::Chunked)
            .contains(&"transfer-encoding: chunked".into())
    );
}

#[test]
fn what_is_ours_is_taken_out() {
    let headers = map(&[
        ("authorization", "Bearer x"),
        ("x-request-id", "theirs"),
        ("sec-websocket-extensions", "permessage-deflate"),
    ]);
    assert_eq!(
        beside_ours(&headers),
        ["authorization: Bearer x", "sec-websocket-extensions: permessage-deflate"]
    );
    let without = asked(&headers, false, |head| {
        (head.policy.our_authorization, head.policy.plain_websockets) = (true, true);
    });
    assert_eq!(without, OURS);
}

#[test]
fn our_session_cookie_is_taken_out_and_the_rest_kept_byte_for_byte() {
    for (sent, left) in [
        (&["session=x"][..], &[][..]),
        (&["session=x; a=1"], &["a=1"]),
        (&["a=1; session=x"], &["a=1"]),
        (&["a=1; session=x; b=2"], &["a=1; b=2"]),
        (&["a=1;session=x;b=2"], &["a=1;b=2"]),
        (&["a=1;  b = 2 ; c"], &["a=1;  b = 2 ; c"]),
        (&[" session =x; a=\"q;r\""], &["a=\"q;r\""]),
        (&["session=x; a=1; session=y"], &["a=1"]),
        (&["session=x", "a=1", "b=2; session=y"], &["a=1", "b=2"]),
        (
            &["Session=x; sessions=y; xsession=z; a=session=q"],
            &["Session=x; sessions=y; xsession=z; a=session=q"],
        ),
        (&["session"], &["session"]),
        (&["session="], &[]),
    ] {
        let sent: Vec<(&str, &str)> = sent.iter().map(|value| ("cookie", *value)).collect();
        let left: Vec<String> = left.iter().map(|value| format!("cookie: {value}")).collect();
        assert_eq!(beside_ours(&map(&sent)), left, "{sent:?}");
    }
}

#[test]
fn cookies_split_by_http2_are_joined() {
    let headers = map(&[("cookie", "a=1"), ("cookie", "session=x"), ("cookie", "b=2; c=3")]);
    assert_eq!(cookies::joined_without_ours(&headers), b"a=1; b=2; c=3");
    let seen = asked(&headers, false, |head| head.policy.cookies = Cookies::Replaced(b"all of them"));
    let seen: Vec<&String> = seen.iter().filter(|line| line.starts_with("cookie")).collect();
    assert_eq!(seen, ["cookie: all of them"]);
}

#[test]
fn session_cookies_are_counted_over_all_headers() {
    use cookies::Session;
    for (sent, expected) in [
        (&["a=1"][..], Session::None),
        (&["a=1; session=x"], Session::One(b"x")),
        (&["session=x=y "], Session::One(b"x=y")),
        (&["session=x; session=x"], Session::Several),
        (&["session=x", "session=y"], Session::Several),
    ] {
        let lines: Vec<(&str, &str)> = sent.iter().map(|value| ("cookie", *value)).collect();
        assert_eq!(cookies::session(&map(&lines), "session"), expected, "{sent:?}");
    }
}

#[test]
fn cookies_of_a_workspace_stay_below_its_path() {
    for (set, confined) in [
        ("a=1", Some("a=1; Path=/w/x/")),
        ("a=1; Path=/", Some("a=1; Path=/w/x/")),
        ("a=1; path=/w/y/", Some("a=1; Path=/w/x/")),
        ("a=1; Path=/w/x", Some("a=1; Path=/w/x/")),
        ("a=1; Path=/w/x/deep; HttpOnly", Some("a=1; HttpOnly; Path=/w/x/deep")),
        ("a=1; Path=/w/x/deep; Path=/", Some("a=1; Path=/w/x/")),
        ("a=1; Domain=example.com; Secure; SameSite=None", Some("a=1; Secure; SameSite=None; Path=/w/x/")),
        ("a=1; DOMAIN = .example.com;Max-Age=5", Some("a=1;Max-Age=5; Path=/w/x/")),
        ("session=evil", None),
        (" session = evil; Path=/w/x/", None),
        ("Session=evil", None),
        ("__Host-a=1; Secure; Path=/", None),
        ("__host-a=1", None),
        ("=session=evil", None),
        ("session", None),
        ("__Secure-a=1; Secure", Some("__Secure-a=1; Secure; Path=/w/x/")),
    ] {
        let found = cookies::confine(set.as_bytes(), "/w/x/").map(|set| String::from_utf8(set).unwrap());
        assert_eq!(found.as_deref(), confined, "{set}");
    }
}

#[test]
fn redirects_to_the_workspaces_own_address_lead_back_under_its_path() {
    let place = |strip_prefix| Mount {
        base_path: "/w/x/",
        upstream: "127.0.0.1:4567".parse().ok(),
        host: Some("code.example.com"),
        strip_prefix,
        apart: false,
        port: None,
    };
    for (location, stripped, kept) in [
        ("/", Some("/w/x/"), None),
        ("/a?b#c", Some("/w/x/a?b#c"), None),
        ("/w/x/a", None, None),
        ("/w/x", None, None),
        ("/w/xy", Some("/w/x/w/xy"), None),
        ("a/b", None, None),
        ("?q", None, None),
        ("http://127.0.0.1:4567/a", Some("/w/x/a"), Some("/w/x/a")),
        ("HTTP://LocalHost:4567/a", Some("/w/x/a"), Some("/w/x/a")),
        ("http://127.0.0.1:4567", Some("/w/x/"), Some("/w/x/")),
        ("http://127.0.0.1:4567?q", Some("/w/x/?q"), Some("/w/x/?q")),
        ("http://127.0.0.1:4567/w/x/a", Some("/w/x/a"), Some("/w/x/a")),
        ("//127.0.0.1:4567/a", Some("/w/x/a"), Some("/w/x/a")),
        ("https://code.example.com/a", Some("/w/x/a"), None),
        ("https://code.example.com/w/x/a", None, None),
        ("http://127.0.0.1:9999/a", None, None),
        ("https://elsewhere.example/a", None, None),
        ("//elsewhere.example/a", None, None),
        ("vscode://open", None, None),
    ] {
        let rewritten =
            |strip| rewrite(location.as_bytes(), &place(strip)).map(|b| String::from_utf8(b).unwrap());
        assert_eq!(rewritten(true).as_deref(), stripped, "{location} (prefix stripped)");
        assert_eq!(rewritten(false).as_deref(), kept, "{location} (prefix kept)");
    }
}

#[test]
fn answers_do_not_speak_for_the_whole_origin() {
    let headers = map(&[
        ("accept-ch", "sec-ch-ua"),
        ("alt-svc", "h3=\":443\""),
        ("clear-site-data", "\"*\""),
        ("connection", "x-private"),
        ("critical-ch", "sec-ch-ua"),
        ("nel", "{}"),
        ("report-to", "{}"),
        ("secure-session-registration", "(ES256);path=\"x\""),
        ("set-login", "logged-out"),
        ("strict-transport-security", "max-age=1"),
        ("use-as-dictionary", "match=\"/*\""),
        ("x-private", "1"),
        ("x-request-id", "theirs"),
        ("set_cookie", "session=x"),
        ("service-worker-allowed", "/"),
        ("set-cookie", "session=x"),
        ("set-cookie", "a=b"),
        ("location", "/x"),
        ("etag", "\"e\""),
    ]);
    let place = Mount {
        base_path: "/w/x/",
        upstream: None,
        host: None,
        strip_prefix: true,
        apart: false,
        port: None,
    };
    let expected = map(&[
        ("service-worker-allowed", "/w/x/"),
        ("set-cookie", "a=b; Path=/w/x/"),
        ("location", "/w/x/x"),
        ("etag", "\"e\""),
    ]);
    assert_eq!(policy::clean_response(&headers, place), expected);
}

#[test]
fn forwarding_headers_are_ours_unless_the_peer_is_trusted() {
    let claims = map(&[
        ("x-forwarded-for", "6.6.6.6"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "public.example"),
        ("x-forwarded-prefix", "/evil"),
        ("x-forwarded-user", "root"),
        ("x_forwarded_for", "6.6.6.6"),
        ("x-forwarded_user", "root"),
        ("forwarded", "for=6.6.6.6"),
        ("x-real-ip", "6.6.6.6"),
        ("x_real_ip", "6.6.6.6"),
    ]);
    assert_eq!(asked(&claims, false, |_| {}), OURS);
    let expected = [
        "host: h",
        "x-forwarded-for: 6.6.6.6, 10.0.0.1",
        "x-forwarded-proto: https",
        "x-forwarded-host: public.example",
        "x-forwarded-prefix: /w/x",
        "x-request-id: id",
    ];
    assert_eq!(asked(&claims, true, |_| {}), expected);
}

#[test]
fn a_navigation_is_a_person_opening_a_page() {
    use Visit::{Navigation, Other};
    for (method, lines, expected) in [
        (Method::GET, &[("sec-fetch-mode", "navigate")][..], Navigation),
        (Method::POST, &[("sec-fetch-mode", "navigate")], Navigation),
        (Method::GET, &[("sec-fetch-mode", "cors"), ("accept", "text/html")], Other),
        (Method::GET, &[("sec-fetch-mode", "websocket")], Other),
        (Method::GET, &[("accept", "text/html,application/xhtml+xml;q=0.9")], Navigation),
        (Method::GET, &[("accept", "application/json"), ("accept", "text/html;q=0.5")], Navigation),
        (Method::GET, &[("accept", "*/*")], Other),
        (Method::GET, &[], Other),
        (Method::HEAD, &[("accept", "text/html")], Other),
        (Method::POST, &[("accept", "text/html")], Other),
        (Method::GET, &[("accept", "text/html"), ("upgrade", "websocket")], Other),
        (Method::GET, &[("sec-fetch-mode", "navigate"), ("upgrade", "websocket")], Other),
        (Method::GET, &[("sec-fetch-mode", "navigate"), ("sec-purpose", "prefetch;prerender")], Other),
    ] {
        assert_eq!(Visit::of(&method, &map(lines)), expected, "{method} {lines:?}");
    }
}

#[test]
fn the_language_is_the_better_liked_one() {
    for (accept, expected) in [
        ("", Lang::En),
        ("ko", Lang::Ko),
        ("ko-KR,ko;q=0.9,en-US;q=0.8", Lang::Ko),
        ("en-US,en;q=0.9,ko;q=0.8", Lang::En),
        ("fr, ko;q=0.1", Lang::Ko),
        ("de", Lang::En),
        ("ko;q=0", Lang::En),
    ] {
        assert_eq!(Lang::of(&map(&[("accept-language", accept)])), expected, "{accept}");
    }
    let chosen = |cookie| Lang::of(&map(&[("accept-language", "en"), ("cookie", cookie)]));
    assert_eq!(chosen("a=b; lang=ko"), Lang::Ko, "what was chosen on the dashboard wins");
    assert_eq!(chosen("lang=xx"), Lang::En);
}

#[test]
fn frames_are_told_apart_wherever_the_stream_is_cut() {
    let masked = [0x81, 0x83, 1, 2, 3, 4, 9, 9, 9];
    let ping = [0x89, 0x02, 1, 2];
    let medium: Vec<u8> = [&[0x82, 126, 0x01, 0x00][..], &[0x8a; 256]].concat();
    let large: Vec<u8> = [&[0x02, 127, 0, 0, 0, 0, 0, 1, 0, 0][..], &[0x88; 65536]].concat();
    let close = close_frame(1001, "bye", false);
    for (stream, data, closes) in [
        (masked.to_vec(), true, false),
        (ping.to_vec(), false, false),
        (medium, true, false),
        (large, true, false),
        ([&ping[..], &[0x8a, 0x80, 0, 0, 0, 0]].concat(), false, false),
        (close.clone(), false, true),
        (close_frame(1000, "", true), false, true),
        ([&ping[..], &close].concat(), false, true),
    ] {
        for step in [1, 2, 3, 5, 7, 4096, stream.len()] {
            let mut frames = Frames::default();
            let (mut saw_data, mut saw_close) = (false, false);
            for piece in stream.chunks(step) {
                let seen = frames.feed(piece);
                saw_data |= seen.data;
                saw_close |= seen.close;
            }
            assert_eq!((saw_data, saw_close), (data, closes), "{} bytes by {step}", stream.len());
            assert!(frames.at_boundary());
            assert_eq!(frames.close_has_passed(), closes);
        }
        let mut frames = Frames::default();
        frames.feed(&stream[..stream.len() - 1]);
        assert!(!frames.at_boundary());
    }
}

#[test]
fn what_is_no_websocket_counts_whole_and_has_no_boundary() {
    let mut frames = Frames::opaque();
    assert!(frames.feed(&[0x89, 0]).data);
    assert!(!frames.at_boundary());
    // A reserved opcode: somebody speaks something newer.
    let mut frames = Frames::default();
    assert!(frames.feed(&[0x8b, 0]).data);
    assert!(frames.is_opaque());
}

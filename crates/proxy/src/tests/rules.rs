//! Header rules, as tables.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header};

use crate::{
    appearance::Lang,
    cookies,
    frames::{Frames, close_frame},
    headers,
    location::{Place, rewrite},
    resolve::Visit,
};

fn map(lines: &[(&str, &str)]) -> HeaderMap {
    lines
        .iter()
        .map(|(name, value)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        })
        .collect()
}

fn values(headers: &HeaderMap, name: HeaderName) -> Vec<String> {
    headers.get_all(name).iter().map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned()).collect()
}

#[test]
fn hop_by_hop_headers_and_what_connection_names_are_removed() {
    let mut headers = map(&[
        ("connection", "close, X-Private"),
        ("connection", "keep-alive, cookie, host, content-length, sec-websocket-key"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("proxy-authorization", "Basic x"),
        ("te", "gzip"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("http2-settings", "x"),
        ("x-private", "1"),
        ("cookie", "a=b"),
        ("host", "h"),
        ("content-length", "3"),
        ("sec-websocket-key", "k"),
        ("trailer", "x-sum"),
        ("x-public", "1"),
    ]);
    headers::remove_hop_by_hop(&mut headers);
    let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
    left.sort_unstable();
    assert_eq!(left, ["content-length", "cookie", "host", "sec-websocket-key", "trailer", "x-public"]);
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
        let mut headers = map(&sent);
        cookies::remove_session(&mut headers, Version::HTTP_11);
        assert_eq!(values(&headers, header::COOKIE), left, "{sent:?}");
    }
}

#[test]
fn cookies_split_by_http2_are_joined() {
    let mut headers = map(&[("cookie", "a=1"), ("cookie", "session=x"), ("cookie", "b=2; c=3")]);
    cookies::remove_session(&mut headers, Version::HTTP_2);
    assert_eq!(values(&headers, header::COOKIE), ["a=1; b=2; c=3"]);
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
        assert_eq!(cookies::session(&map(&lines)), expected, "{sent:?}");
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
        let mut headers = map(&[("set-cookie", set)]);
        cookies::confine(&mut headers, "/w/x/");
        let expected: Vec<&str> = confined.into_iter().collect();
        assert_eq!(values(&headers, header::SET_COOKIE), expected, "{set}");
    }
}

#[test]
fn redirects_to_the_workspaces_own_address_lead_back_under_its_path() {
    let place = |strip_prefix| Place {
        base_path: "/w/x/",
        upstream: "127.0.0.1:4567".parse().ok(),
        host: Some("code.example.com"),
        strip_prefix,
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
    let mut headers = map(&[
        ("clear-site-data", "\"*\""),
        ("strict-transport-security", "max-age=1"),
        ("alt-svc", "h3=\":443\""),
        ("service-worker-allowed", "/"),
        ("transfer-encoding", "chunked"),
        ("content-length", "7"),
        ("location", "/x"),
        ("etag", "\"e\""),
    ]);
    let place = Place { base_path: "/w/x/", upstream: None, host: None, strip_prefix: true };
    headers::clean_response(&mut headers, &place);
    let expected = map(&[("service-worker-allowed", "/w/x/"), ("location", "/w/x/x"), ("etag", "\"e\"")]);
    assert_eq!(headers, expected);
}

#[test]
fn forwarding_headers_are_ours_unless_the_peer_is_trusted() {
    let claims = [
        ("x-forwarded-for", "6.6.6.6"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "public.example"),
        ("x-forwarded-prefix", "/evil"),
        ("x-forwarded-user", "root"),
        ("forwarded", "for=6.6.6.6"),
        ("x-real-ip", "6.6.6.6"),
    ];
    let prefix = HeaderValue::from_static("/w/x");
    let host = HeaderValue::from_static("h");
    let origin = |trusted| headers::Origin {
        peer: Some(IpAddr::from([10, 0, 0, 1])),
        tls: false,
        trusted,
        host: Some(&host),
        prefix: &prefix,
    };
    let mut untrusted = map(&claims);
    headers::set_forwarded(&mut untrusted, origin(false));
    let expected = map(&[
        ("x-forwarded-for", "10.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "h"),
        ("x-forwarded-prefix", "/w/x"),
    ]);
    assert_eq!(untrusted, expected);

    let mut trusted = map(&claims);
    headers::set_forwarded(&mut trusted, origin(true));
    let expected = map(&[
        ("x-forwarded-for", "6.6.6.6, 10.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "public.example"),
        ("x-forwarded-prefix", "/w/x"),
    ]);
    assert_eq!(trusted, expected);
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

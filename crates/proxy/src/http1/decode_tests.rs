use http::Method;

use super::{super::head, *};

/// What frames the body of this answer, how long its head is, and whether the connection may be used again.
fn head_of(method: &Method, bytes: &[u8]) -> Result<Option<(Decoder, usize, bool)>, Malformed> {
    head::answer(bytes, method, |answer| (answer.body, answer.lines.raw().len(), answer.keep))
}

/// The whole body of an answer, its trailers, and what is left, fed in pieces of that size.
fn read(
    method: &Method,
    answer: &[u8],
    piece: usize,
) -> Result<(Vec<u8>, HeaderMap, Decoder, BytesMut), Malformed> {
    let mut ahead = BytesMut::new();
    let mut pieces = answer.chunks(piece);
    let mut more = |ahead: &mut BytesMut| {
        let next = pieces.next();
        ahead.extend_from_slice(next.unwrap_or_default());
        next.is_some()
    };
    let mut incoming = loop {
        if let Some((body, length, _)) = head_of(method, &ahead)? {
            ahead.advance(length);
            break body;
        }
        assert!(more(&mut ahead), "no end of the head");
    };
    let (mut body, mut trailers) = (Vec::new(), HeaderMap::new());
    loop {
        match incoming.step(&mut ahead)? {
            Decoded::Frame(frame) => match frame.into_data() {
                Ok(data) => body.extend_from_slice(&data),
                Err(frame) => trailers = frame.into_trailers().unwrap_or_default(),
            },
            Decoded::More if more(&mut ahead) => {}
            Decoded::More | Decoded::Ended => {
                while more(&mut ahead) {}
                return Ok((body, trailers, incoming, ahead));
            }
        }
    }
}

fn refused(answer: &str) -> &'static str {
    let reasons: Vec<_> = [1, 7, 4096]
        .map(|piece| read(&Method::GET, answer.as_bytes(), piece).expect_err(answer).reason)
        .into();
    assert!(reasons.iter().all(|reason| *reason == reasons[0]), "{answer:?}: {reasons:?}");
    reasons[0]
}

#[test]
fn bodies_are_read_by_what_frames_them_however_they_arrive() {
    let cases: [(&str, &str, Decoder, &str); 9] = [
        ("Content-Length: 5\r\n\r\nhello", "hello", Decoder::Ended, ""),
        ("Content-Length: 2\r\n\r\nhello", "he", Decoder::Ended, "llo"),
        ("Content-Length: 9\r\n\r\nhello", "hello", Decoder::Length(4), ""),
        ("Content-Length: 0\r\n\r\nrest", "", Decoder::Ended, "rest"),
        ("\r\nhello", "hello", Decoder::UntilClose, ""),
        (
            "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n03 ;x=\"y\"\r\nllo\r\n0\r\n\r\nrest",
            "hello",
            Decoder::Ended,
            "rest",
        ),
        ("Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", "", Decoder::Ended, ""),
        ("Transfer-Encoding: chunked\r\n\r\n5\r\nhel", "hel", Decoder::Chunks(Chunk::Data(2)), ""),
        (
            "Transfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n",
            "0123456789",
            Decoder::Chunks(Chunk::Size),
            "",
        ),
    ];
    for (rest, body, state, left) in cases {
        for piece in [1, 2, 3, 4096] {
            let answer = format!("HTTP/1.1 200 OK\r\nX: y\r\n{rest}");
            let found = read(&Method::GET, answer.as_bytes(), piece).expect(&answer);
            assert_eq!(
                (found.0.as_slice(), found.2, &found.3[..]),
                (body.as_bytes(), state, left.as_bytes()),
                "{answer:?}"
            );
        }
    }
}

#[test]
fn trailers_are_handed_out() {
    let answer =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 7\r\nContent-Length: 9\r\n\
          Set-Cookie: a=b\r\nX_Forwarded_For: x\r\nX-Sum: 8\r\n\r\n";
    for piece in [1, 5, 4096] {
        let (body, trailers, state, left) = read(&Method::GET, answer, piece).expect("an answer");
        let sums: Vec<_> = trailers.get_all("x-sum").iter().collect();
        assert_eq!(sums, ["7", "8"]);
        assert_eq!(trailers.len(), 2, "what means something is no trailer");
        assert_eq!((body.as_slice(), state), (&b"a"[..], Decoder::Ended));
        assert!(left.is_empty());
    }
}

#[test]
fn some_answers_never_have_a_body() {
    for (method, status) in [
        (Method::HEAD, "200 OK"),
        (Method::GET, "204 No Content"),
        (Method::GET, "304 Not Modified"),
        (Method::GET, "101 X"),
    ] {
        for framing in ["Content-Length: 7\r\n", "Transfer-Encoding: chunked\r\n", ""] {
            let answer = format!("HTTP/1.1 {status}\r\n{framing}\r\nbeyond");
            let (body, _, state, left) = read(&method, answer.as_bytes(), 4096).expect(&answer);
            assert_eq!((body.len(), state, &left[..]), (0, Decoder::Ended, &b"beyond"[..]), "{answer:?}");
        }
    }
}

#[test]
fn what_can_be_read_in_two_ways_is_no_answer() {
    for framing in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Content-Length: 4\r\nContent-Length: 4",
        "Content-Length: 4, 4",
        "Content-Length: +4",
        "Content-Length: -4",
        "Content-Length: 0x4",
        "Content-Length:",
        "Content-Length: 18446744073709551616",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding : chunked",
        "X: y\r\n Content-Length: 4",
    ] {
        refused(&format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n0\r\n\r\n"));
    }
    assert_eq!(
        refused("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        "Transfer-Encoding in HTTP/1.0"
    );
    assert_eq!(refused("HTTP/1.1 099 OK\r\n\r\n"), "an invalid status");
    let many = "X: y\r\n".repeat(MAX_HEADERS + 1);
    assert_eq!(refused(&format!("HTTP/1.1 200 OK\r\n{many}\r\n")), "too many headers");
}

#[test]
fn chunks_that_are_not_as_announced_break_off() {
    let long = "0".repeat(MAX_SIZE_LINE);
    for (chunks, reason) in [
        ("x\r\n", "an invalid chunk size"),
        ("\r\n", "an invalid chunk size"),
        ("2\nhe", "an invalid chunk size"),
        ("-2\r\nhe", "an invalid chunk size"),
        ("0x2\r\nhe", "an invalid chunk size"),
        ("2 2\r\nhe", "an invalid chunk size"),
        ("2;a\rb\r\nhe", "an invalid chunk size"),
        ("2;a\0b\r\nhe", "an invalid chunk size"),
        (" 2\r\nhe", "an invalid chunk size"),
        ("2\x0b\r\nhe", "an invalid chunk size"),
        ("2\r\r\nhe", "an invalid chunk size"),
        ("+2\r\nhe", "an invalid chunk size"),
        ("2_0\r\nhe", "an invalid chunk size"),
        ("fffffffffffffffff\r\nhe", "an invalid chunk size"),
        ("11111111111111111\r\n", "an invalid chunk size"),
        ("2\r\nhello", "a chunk longer than its size"),
        ("2\r\nhe\n0\r\n\r\n", "a chunk longer than its size"),
        (&long, "an endless chunk size"),
        ("0\r\nno trailer\r\n\r\n", "an invalid header name"),
        ("0\r\nX : y\r\n\r\n", "an invalid header name"),
        ("0\r\n X: y\r\n\r\n", "an invalid header name"),
        ("0\r\nX: y\n\r\n", "a bare line feed"),
        ("0\r\n\n", "a bare line feed"),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        assert_eq!(refused(&answer), reason, "{chunks:?}");
    }
}

#[test]
fn connections_are_kept_unless_the_answer_says_otherwise() {
    for (head, kept) in [
        ("HTTP/1.1 200 OK\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n", true),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", true),
        // They announce a body that they cannot have: perhaps they send it.
        ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", false),
        ("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", false),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", true),
    ] {
        let (_, _, keep) = head_of(&Method::GET, head.as_bytes()).expect("HTTP").expect("all of it");
        assert_eq!(keep, kept, "{head}");
    }
}

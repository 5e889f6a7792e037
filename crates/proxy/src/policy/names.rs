//! Header names that mean something to a proxy, told apart without a map: the one list of them.

/// What a header is to us, in either direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderKind {
    Authorization,
    /// What a browser is to forget.
    ClearSiteData,
    /// What a client says about where it comes from.
    Claim,
    Connection,
    ContentLength,
    ContentType,
    Cookie,
    Date,
    /// A name of this list with underscores: programs that turn names into variables read it as the real one.
    Disguised,
    Expect,
    /// What a browser says of the page that sent a request.
    FetchSite,
    /// Another header of this hop, and only of it.
    HopByHop,
    Host,
    Location,
    /// The page that sent a request: scheme, host and port.
    Origin,
    /// How a window stands to the one that opened it.
    OpenerPolicy,
    /// Would speak for the whole origin, dashboard included.
    OriginWide,
    /// The page that sent a request.
    Referer,
    RequestId,
    ServiceWorkerAllowed,
    SetCookie,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
    WebSocketExtensions,
    /// Describes or directs the message it stands before: has no place behind it (RFC 9110 §6.5.1).
    NoTrailer,
    Other,
}

const LONGEST: usize = 27;
const CLAIMS: &[u8] = b"x-forwarded-";

/// The kind of a header, whatever the case of its name.
pub(crate) fn kind(name: &[u8]) -> HeaderKind {
    let mut lower = [0; LONGEST];
    let mut underscores = false;
    for (to, from) in lower.iter_mut().zip(name) {
        underscores |= *from == b'_';
        *to = if *from == b'_' { b'-' } else { from.to_ascii_lowercase() };
    }
    let found = match lower.get(..name.len()) {
        Some(lower) => listed(lower),
        None if lower.starts_with(CLAIMS) => HeaderKind::Claim,
        None => HeaderKind::Other,
    };
    if underscores && found != HeaderKind::Other { HeaderKind::Disguised } else { found }
}

fn listed(lower: &[u8]) -> HeaderKind {
    match lower {
        b"authorization" => HeaderKind::Authorization,
        b"clear-site-data" => HeaderKind::ClearSiteData,
        b"connection" => HeaderKind::Connection,
        b"content-length" => HeaderKind::ContentLength,
        b"content-type" => HeaderKind::ContentType,
        b"cookie" => HeaderKind::Cookie,
        b"cross-origin-opener-policy" => HeaderKind::OpenerPolicy,
        b"date" => HeaderKind::Date,
        b"expect" => HeaderKind::Expect,
        b"host" => HeaderKind::Host,
        b"location" => HeaderKind::Location,
        b"origin" => HeaderKind::Origin,
        b"referer" => HeaderKind::Referer,
        b"sec-fetch-site" => HeaderKind::FetchSite,
        b"sec-websocket-extensions" => HeaderKind::WebSocketExtensions,
        b"service-worker-allowed" => HeaderKind::ServiceWorkerAllowed,
        b"set-cookie" => HeaderKind::SetCookie,
        b"te" => HeaderKind::Te,
        b"trailer" => HeaderKind::Trailer,
        b"transfer-encoding" => HeaderKind::TransferEncoding,
        b"upgrade" => HeaderKind::Upgrade,
        b"x-request-id" => HeaderKind::RequestId,
        // RFC 9110 §7.6.1, and what is seen in the wild.
        b"keep-alive"
        | b"proxy-connection"
        | b"proxy-authenticate"
        | b"proxy-authorization"
        | b"proxy-authentication-info"
        | b"http2-settings" => HeaderKind::HopByHop,
        b"accept-ch"
        | b"alt-svc"
        | b"critical-ch"
        | b"expect-ct"
        | b"nel"
        | b"public-key-pins"
        | b"public-key-pins-report-only"
        | b"report-to"
        | b"sec-session-registration"
        | b"secure-session-registration"
        | b"set-login"
        | b"strict-transport-security"
        | b"use-as-dictionary" => HeaderKind::OriginWide,
        b"cache-control" | b"content-encoding" | b"content-range" | b"max-forwards" | b"range"
        | b"www-authenticate" => HeaderKind::NoTrailer,
        b"forwarded" | b"x-real-ip" => HeaderKind::Claim,
        claim if claim.starts_with(CLAIMS) => HeaderKind::Claim,
        _ => HeaderKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_whatever_their_case() {
        for (name, expected) in [
            ("HOST", HeaderKind::Host),
            ("Set-Cookie", HeaderKind::SetCookie),
            ("X-Forwarded-For", HeaderKind::Claim),
            ("x-forwarded-a-very-long-claim-indeed", HeaderKind::Claim),
            ("Forwarded", HeaderKind::Claim),
            ("X-Real-IP", HeaderKind::Claim),
            ("Use-As-Dictionary", HeaderKind::OriginWide),
            ("Sec-Fetch-Site", HeaderKind::FetchSite),
            ("Public-Key-Pins-Report-Only", HeaderKind::OriginWide),
            ("", HeaderKind::Other),
            ("x", HeaderKind::Other),
            ("x-forwarded", HeaderKind::Other),
            ("hosts", HeaderKind::Other),
            ("x_own_header", HeaderKind::Other),
            ("a-name-that-is-longer-than-any-of-ours", HeaderKind::Other),
        ] {
            assert_eq!(kind(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn underscores_do_not_hide_a_name() {
        for name in [
            "X_Forwarded_For",
            "x-forwarded_for",
            "x_forwarded_a_very_long_claim_indeed",
            "X_Real_IP",
            "Content_Length",
            "transfer_encoding",
            "Set_Login",
        ] {
            assert_eq!(kind(name.as_bytes()), HeaderKind::Disguised, "{name}");
        }
    }
}

//! Header names that mean something to a proxy, told apart without a map.

/// What a header is to us, in either direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Authorization,
    /// Another header of this hop, and only of it.
    HopByHop,
    /// What a client says about where it comes from.
    Claim,
    Connection,
    ContentLength,
    ContentType,
    Cookie,
    Date,
    Host,
    /// Would speak for the whole origin.
    OriginWide,
    RequestId,
    /// Has to be rewritten on its way to the browser.
    Rewritten,
    /// Changes what follows the head.
    Switch,
    TransferEncoding,
    Other,
}

const LONGEST: usize = 25;
const CLAIMS: &[u8] = b"x-forwarded-";

pub(super) fn known(name: &str) -> Known {
    let name = name.as_bytes();
    let mut lower = [0; LONGEST];
    let Some(lower) = lower.get_mut(..name.len()) else {
        return if name[..CLAIMS.len()].eq_ignore_ascii_case(CLAIMS) { Known::Claim } else { Known::Other };
    };
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    match &*lower {
        b"authorization" => Known::Authorization,
        b"connection" => Known::Connection,
        b"content-length" => Known::ContentLength,
        b"content-type" => Known::ContentType,
        b"cookie" => Known::Cookie,
        b"date" => Known::Date,
        b"host" => Known::Host,
        b"x-request-id" => Known::RequestId,
        b"transfer-encoding" => Known::TransferEncoding,
        b"upgrade" | b"expect" | b"te" => Known::Switch,
        b"keep-alive"
        | b"proxy-connection"
        | b"proxy-authenticate"
        | b"proxy-authorization"
        | b"http2-settings" => Known::HopByHop,
        b"clear-site-data"
        | b"strict-transport-security"
        | b"public-key-pins"
        | b"expect-ct"
        | b"alt-svc"
        | b"nel"
        | b"report-to" => Known::OriginWide,
        b"set-cookie" | b"location" | b"service-worker-allowed" => Known::Rewritten,
        b"forwarded" | b"x-real-ip" => Known::Claim,
        claim if claim.starts_with(CLAIMS) => Known::Claim,
        _ => Known::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::headers, *};

    #[test]
    fn what_the_long_way_knows_the_short_way_knows() {
        for name in &headers::HOP_BY_HOP {
            let hop = [Known::HopByHop, Known::Connection, Known::TransferEncoding, Known::Switch];
            assert!(hop.contains(&known(name.as_str())), "{name}");
        }
        for name in &headers::ORIGIN_WIDE {
            assert_eq!(known(name.as_str()), Known::OriginWide, "{name}");
        }
        for name in ["X-Forwarded-For", "x-forwarded-a-very-long-claim-indeed", "Forwarded", "X-Real-IP"] {
            assert_eq!(known(name), Known::Claim, "{name}");
        }
        for name in ["", "x", "x-forwarded", "hosts", "a-name-that-is-longer-than-any-of-ours"] {
            assert_eq!(known(name), Known::Other, "{name}");
        }
        assert_eq!((known("HOST"), known("Set-Cookie")), (Known::Host, Known::Rewritten));
    }
}

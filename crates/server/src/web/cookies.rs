//! The small cookies of pages: language, theme, and what just happened. None of them proves anything.

use http::{HeaderMap, HeaderValue, header::COOKIE};

/// The first cookie of that name.
pub(super) fn get<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let pairs = headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|b| *b == b';'));
    for pair in pairs {
        let Some((key, value)) = str::from_utf8(pair).ok().and_then(|pair| pair.split_once('=')) else {
            continue;
        };
        if key.trim() == name {
            return Some(value.trim());
        }
    }
    None
}

/// `Set-Cookie`; 0 seconds ends it. Values are words of our own.
pub(super) fn set(name: &str, value: &str, seconds: u32, https: bool) -> HeaderValue {
    let secure = if https { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_bytes(b"bad=\xff; a=1").unwrap());
        headers.append(COOKIE, HeaderValue::from_static("xlang=en; lang=ko; lang=en"));
        assert_eq!(get(&headers, "lang"), Some("ko"));
        assert_eq!(get(&headers, "a"), Some("1"));
        assert_eq!(get(&headers, "la"), None);
    }
}

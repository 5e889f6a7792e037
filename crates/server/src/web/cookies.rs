//! The small cookies of pages: language, theme, and what just happened. None of them proves anything.

use http::HeaderValue;

pub(super) use codehub_proxy::appearance::cookie as get;

/// `Set-Cookie`; 0 seconds ends it. Values are words of our own.
pub(super) fn set(name: &str, value: &str, seconds: u32, https: bool) -> HeaderValue {
    let secure = if https { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

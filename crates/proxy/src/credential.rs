//! How what proves somebody's identity is recognised among what a request brings: names and prefixes that
//! the server gives out and the proxy must never let into a workspace.

use std::time::{Duration, Instant};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// The names of the cookies that prove something. This is the one place where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CookieNames {
    /// Keeps a session.
    pub session: &'static str,
    /// Says that somebody has signed in with this browser before.
    pub device: &'static str,
    /// Keeps a session of a workspace's own origin. Where workspaces share one, the id follows.
    pub workspace: &'static str,
    /// Tells the browser that began a hand-over from others. Where workspaces share an origin, the id follows.
    pub nonce: &'static str,
}

impl CookieNames {
    /// By https nobody but this very host can set a cookie of such a name, and only for all of it; newer browsers let no
    /// script set those that go on with `Http-`.
    pub const HTTPS: Self = Self {
        session: "__Host-Http-session",
        device: "__Host-device",
        workspace: "__Host-Http-workspace",
        nonce: "__Host-Http-nonce",
    };
    /// Browsers take no such names by plain http.
    pub const HTTP: Self = Self {
        session: "session",
        device: "codehub_device",
        workspace: "codehub_workspace",
        nonce: "codehub_nonce",
    };
    /// What the session's was called by https before.
    const FORMER: &'static str = "__Host-session";

    /// Those that are read, by how people reach the server.
    pub const fn of(https: bool) -> Self {
        if https { Self::HTTPS } else { Self::HTTP }
    }

    /// Whether a cookie of this name is not the workspace's to see, however people come in now.
    pub(crate) fn any_is(name: &[u8]) -> bool {
        Self::any(|whole| name == whole, |start| name.starts_with(start))
    }

    /// The same, whatever the case: not the workspace's to set.
    pub(crate) fn any_resembles(name: &[u8]) -> bool {
        let starts =
            |start: &[u8]| name.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start));
        Self::any(|whole| name.eq_ignore_ascii_case(whole), starts)
    }

    fn any(is: impl Fn(&[u8]) -> bool, begins: impl Fn(&[u8]) -> bool) -> bool {
        is(Self::FORMER.as_bytes())
            || [Self::HTTP, Self::HTTPS].iter().any(|names| {
                is(names.session.as_bytes())
                    || is(names.device.as_bytes())
                    || begins(names.workspace.as_bytes())
                    || begins(names.nonce.as_bytes())
            })
    }
}

/// What every API token begins with.
pub const TOKEN_PREFIX: &str = "chp_";

/// Whether an `Authorization` header has one of our tokens in it, in whatever form a client has put it there.
pub(crate) fn carries_token(authorization: &[u8]) -> bool {
    has_token(authorization) || basic(authorization).is_some_and(|pair| has_token(&pair))
}

/// A token begins where no other word goes on: longer secrets of others may have its first characters in their midst.
fn has_token(text: &[u8]) -> bool {
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_+/".contains(byte);
    let prefix = TOKEN_PREFIX.as_bytes();
    let mut found = text.windows(prefix.len()).enumerate().filter(|(_, part)| *part == prefix);
    found.any(|(at, _)| at == 0 || !goes_on(&text[at - 1]))
}

/// Name and password, joined by a colon.
fn basic(authorization: &[u8]) -> Option<Vec<u8>> {
    /// As forgiving as the programs that read it.
    const ENGINE: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    let (scheme, pair) = authorization.split_at_checked(5)?;
    let standard = |byte: &u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => *other,
    };
    let pair: Vec<u8> = pair.trim_ascii().iter().map(standard).collect();
    scheme.eq_ignore_ascii_case(b"basic").then(|| ENGINE.decode(pair).ok()).flatten()
}

/// Resolves when it is time to ask again whether somebody may.
pub async fn runs_out(until: Option<Instant>) {
    /// Clocks differ: whoever asks too early asks again, but not in a frenzy.
    const LEAST: Duration = Duration::from_secs(1);
    match until {
        Some(until) => tokio::time::sleep_until(until.max(Instant::now() + LEAST).into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    use super::*;

    #[test]
    fn our_tokens_are_found_in_whatever_form_they_come() {
        const TOKEN: &str = "chp_8Y2xq-_zt";
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        for ours in [
            format!("Bearer {TOKEN}"),
            format!("Bearer\t{TOKEN}"),
            format!("bearer  {TOKEN}"),
            format!("token {TOKEN}"),
            TOKEN.to_owned(),
            format!("Digest username=\"{TOKEN}\", realm=\"x\""),
            format!("Token token={TOKEN}"),
            basic(&format!("{TOKEN}:")),
            basic(&format!("x-token:{TOKEN}")),
            basic(&format!("a:{TOKEN}")).trim_end_matches('=').to_owned(),
            format!("BASIC\t{}", URL_SAFE_NO_PAD.encode(format!("\u{fb}\u{ff}:{TOKEN}"))),
        ] {
            assert!(carries_token(ours.as_bytes()), "{ours}");
        }
        for theirs in [
            "Bearer eyJhbGciOi.eyJzdWIi.AAAAchp_BBBB".to_owned(),
            "Bearer ghp_16C7e42F292c6912E7710c838347Ae178B4a".to_owned(),
            basic("ann:password"),
            basic("ann:xchp_y"),
            "Basic !!!".to_owned(),
            "Basic".to_owned(),
            String::new(),
        ] {
            assert!(!carries_token(theirs.as_bytes()), "{theirs}");
        }
    }
}

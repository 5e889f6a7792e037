//! From what somebody wrote to a typed value, or to a sentence about what is allowed.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use ipnet::IpNet;

/// What a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// `127.0.0.1:8080`
    Address,
    /// The same, or nothing.
    MaybeAddress,
    /// Host names and addresses separated by commas, without ports.
    Hosts,
    /// Ports and ranges of them separated by commas, or nothing.
    Ports,
    /// Addresses and networks separated by commas.
    Networks,
    /// IPv4 addresses separated by commas, or nothing.
    Addresses,
    Path,
    /// Full paths separated by commas, or nothing.
    Paths,
    /// `https://code.example.com`, no path.
    BaseUrl,
    /// An address that begins with one of these words and `://`, or nothing. It may hold a password.
    Url(&'static [&'static str]),
    /// `/healthz`
    UrlPath,
    Text,
    /// `docker-1`, or nothing.
    Name,
    /// A command line, split as a shell would split it, but not run by one.
    Words,
    OneOf(&'static [&'static str]),
    /// `true` or `false`.
    Switch,
    Count {
        min: u64,
        max: u64,
    },
    /// `auto`, or a number.
    AutoOrCount {
        min: u64,
        max: u64,
    },
    /// `30`, `30s`, `5m`, `3h`; bounds in seconds.
    Duration {
        min: u64,
        max: u64,
    },
    /// A duration that is written and shown in whole seconds.
    Seconds {
        min: u64,
        max: u64,
    },
    /// `512m`, `2g`; a number alone is MiB; 0: no limit.
    Memory,
    /// `2`, `1.5`; 0: no limit.
    Cpus,
    LogFilter,
}

impl ValueKind {
    /// What is allowed, after "allowed:".
    pub fn allowed(self) -> String {
        match self {
            Self::Address => "an address and a port, such as 127.0.0.1:8080 or [::1]:8080".into(),
            Self::MaybeAddress => {
                "nothing, or an address and a port, such as 127.0.0.1:9090 or [::1]:9090".into()
            }
            Self::Hosts => {
                "host names or addresses without ports, separated by commas, such as code.lan, 10.0.0.5, [fd00::5]".into()
            }
            Self::Ports => {
                "ports from 1 to 65535 and ranges of them, separated by commas, such as 22, 6000-6010".into()
            }
            Self::Networks => {
                "IP addresses or networks separated by commas, such as 10.0.0.1, fd00::/8".into()
            }
            Self::Addresses => "IPv4 addresses separated by commas, such as 10.0.0.53, 1.1.1.1".into(),
            Self::Paths => "full paths separated by commas, such as /opt, /srv/tools".into(),
            Self::Path => "a path; `~` at the start is your home directory".into(),
            Self::BaseUrl => "http:// or https://, a host and perhaps a port, without a path".into(),
            Self::Url(schemes) => {
                let schemes: Vec<_> = schemes.iter().map(|scheme| format!("{scheme}://")).collect();
                format!("an address that begins with {}", schemes.join(" or "))
            }
            Self::UrlPath => "a path that begins with /".into(),
            Self::Text => "any text".into(),
            Self::Name => "at most 63 characters of a-z, 0-9, '.', '_' and '-'".into(),
            Self::Words => "a command and its arguments, with quotes closed".into(),
            Self::OneOf([only]) => format!("{only} (this version offers nothing else)"),
            Self::OneOf(words) => words.join(", "),
            Self::Switch => "true, false".into(),
            Self::Count { min, max } => format!("a whole number from {min} to {max}"),
            Self::AutoOrCount { min, max } => format!("auto, or a whole number from {min} to {max}"),
            Self::Duration { min, max } | Self::Seconds { min, max } => format!(
                "a duration such as 30, 30s, 5m or 3h, from {} to {}",
                show_seconds(min),
                show_seconds(max)
            ),
            Self::Memory => "an amount such as 512m or 2g (a number alone is MiB), at least 16m; or 0".into(),
            Self::Cpus => "a number of CPUs such as 2 or 1.5, up to 1024; or 0".into(),
            Self::LogFilter => "a level (error, warn, info, debug, trace) or target=level pairs".into(),
        }
    }

    /// Whether a file writes `text` without quotes.
    pub(super) fn is_bare(self, text: &str) -> bool {
        match self {
            Self::Count { .. } | Self::AutoOrCount { .. } | Self::Seconds { .. } | Self::Cpus => {
                !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
            }
            Self::Switch => !text.is_empty(),
            _ => false,
        }
    }

    pub(super) const fn is_list(self) -> bool {
        matches!(
            self,
            Self::Hosts | Self::Ports | Self::Networks | Self::Addresses | Self::Paths | Self::Words
        )
    }

    /// Whether `text` is such a value.
    pub(super) fn check(self, text: &str) -> Result<(), String> {
        let or_allowed = |ok: bool| if ok { Ok(()) } else { Err(format!("expected: {}", self.allowed())) };
        match self {
            Self::Text | Self::Path => Ok(()),
            Self::Name => or_allowed(is_name(text)),
            Self::Address => or_allowed(text.parse::<SocketAddr>().is_ok()),
            Self::MaybeAddress => or_allowed(maybe_address(text).is_some()),
            Self::Hosts => or_allowed(hosts(text).is_some()),
            Self::Ports => or_allowed(codehub_domain::ports::parse_ranges(text).is_some()),
            Self::Networks => or_allowed(networks(text).is_some()),
            Self::Addresses => or_allowed(addresses(text).is_some()),
            Self::Paths => or_allowed(paths(text).is_some()),
            Self::BaseUrl => or_allowed(text.is_empty() || base_url(text).is_some()),
            Self::Url(schemes) => match text.split_once("://") {
                _ if text.is_empty() => Ok(()),
                Some((scheme, rest)) if schemes.contains(&scheme) => or_allowed(!rest.is_empty()),
                // The rest of it may hold a password.
                Some((scheme, _)) => {
                    Err(format!("{scheme}:// is not supported; expected: {}", self.allowed()))
                }
                None => or_allowed(false),
            },
            Self::UrlPath => or_allowed(text.starts_with('/') && !text.contains(char::is_whitespace)),
            Self::Words => or_allowed(words(text).is_some()),
            Self::OneOf(words) => or_allowed(words.contains(&text)),
            Self::Switch => or_allowed(matches!(text, "true" | "false")),
            Self::Count { min, max } => {
                or_allowed(text.parse::<u64>().is_ok_and(|n| (min..=max).contains(&n)))
            }
            Self::AutoOrCount { min, max } => {
                or_allowed(text == "auto" || Self::Count { min, max }.check(text).is_ok())
            }
            Self::Duration { min, max } | Self::Seconds { min, max } => {
                or_allowed(duration(text).is_some_and(|d| (min..=max).contains(&d.as_secs())))
            }
            Self::Memory => or_allowed(memory(text).is_some()),
            Self::Cpus => or_allowed(milli_cpus(text).is_some()),
            Self::LogFilter => {
                // A word alone would be taken for the name of a target: a level with a typing error.
                let levels = ["off", "error", "warn", "info", "debug", "trace"];
                let sensible = |part: &str| part.contains('=') || levels.contains(&part);
                or_allowed(
                    text.split(',').map(str::trim).all(sensible)
                        && text.parse::<tracing_subscriber::filter::Targets>().is_ok(),
                )
            }
        }
    }
}

/// `30`, `30s`, `5m`, `3h`, `2d`.
pub fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return None,
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(unit).map(Duration::from_secs)
}

/// A number; `auto` is none.
pub(super) fn auto_or_count(text: &str) -> Option<Option<u32>> {
    if text == "auto" { Some(None) } else { text.parse().ok().map(Some) }
}

/// `10.0.0.53, 1.1.1.1`; none where it is empty.
pub(super) fn addresses(text: &str) -> Option<Vec<std::net::Ipv4Addr>> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(|word| word.parse().ok()).collect()
}

pub(super) fn paths(text: &str) -> Option<Vec<std::path::PathBuf>> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| Some(std::path::PathBuf::from(word)).filter(|path| path.is_absolute())).collect()
}

/// Bytes: `512m`, `2g`, `1.5g`; a number alone is MiB.
pub(super) fn memory(text: &str) -> Option<u64> {
    const MIB: u64 = 1 << 20;
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &lower[digits.len()..] {
        "" | "m" | "mb" | "mi" | "mib" => MIB,
        "g" | "gb" | "gi" | "gib" => MIB << 10,
        "t" | "tb" | "ti" | "tib" => MIB << 20,
        _ => return None,
    };
    let thousandths = thousandths(digits)?;
    let bytes = u64::try_from(u128::from(thousandths) * u128::from(unit) / 1000).ok()?;
    (bytes == 0 || (16 * MIB..=MIB << 24).contains(&bytes)).then_some(bytes)
}

/// Thousandths of a CPU: `2`, `1.5`.
pub(super) fn milli_cpus(text: &str) -> Option<u64> {
    thousandths(text).filter(|found| *found <= 1_024_000)
}

/// `1.5` is 1500. Three decimals at most, nothing but digits and a point.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 3 {
        return None;
    }
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)
}

/// The shortest way to write it.
fn show_seconds(seconds: u64) -> String {
    match seconds {
        0 => "0".into(),
        s if s % (24 * 3600) == 0 => format!("{}d", s / (24 * 3600)),
        s if s % 3600 == 0 => format!("{}h", s / 3600),
        s if s % 60 == 0 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

/// `Some(None)` where it is empty.
pub(super) fn maybe_address(text: &str) -> Option<Option<SocketAddr>> {
    if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
}

/// Names in lower case; none has a port, a wildcard or a dot at its end.
pub(super) fn hosts(text: &str) -> Option<Vec<String>> {
    let host = |part: &str| {
        let v6 = part.strip_prefix('[').and_then(|part| part.strip_suffix(']'));
        let is_name = !part.starts_with('.')
            && !part.ends_with('.')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
        let valid = v6.map_or(is_name, |inner| inner.parse::<std::net::Ipv6Addr>().is_ok());
        valid.then(|| part.to_ascii_lowercase())
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(host).collect()
}

/// Networks, a single address being the smallest.
pub(super) fn networks(text: &str) -> Option<Vec<IpNet>> {
    let network = |part: &str| part.parse().or_else(|_| part.parse::<IpAddr>().map(IpNet::from)).ok();
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(network).collect()
}

/// Scheme and authority, without a slash at the end.
pub(super) fn base_url(text: &str) -> Option<String> {
    let uri: http::Uri = text.parse().ok()?;
    let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"))?;
    let authority = uri.authority().filter(|a| !a.as_str().contains('@') && !a.host().is_empty())?;
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return None;
    }
    Some(format!("{scheme}://{}", authority.as_str().to_ascii_lowercase()))
}

fn is_name(text: &str) -> bool {
    text.len() <= 63 && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
}

/// Splits a command line: blanks separate, quotes and backslashes keep together.
pub(super) fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => match chars.next()? {
                            c @ ('"' | '\\') => word.push(c),
                            c => word.extend(['\\', c]),
                        },
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

/// The opposite of [`words`].
pub(super) fn quote_words<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quote = |word: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:={}@%+,".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.to_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_neither_ports_nor_wildcards() {
        assert_eq!(hosts(""), Some(vec![]));
        assert_eq!(
            hosts("Code.lan, 10.0.0.5,[fd00::5]"),
            Some(vec!["code.lan".into(), "10.0.0.5".into(), "[fd00::5]".into()])
        );
        for wrong in
            ["code.lan:80", "*.lan", "https://code.lan", "code.lan.", ".lan", "[x]", "fd00::5", "a b"]
        {
            assert_eq!(hosts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations() {
        let table: &[(&str, Option<u64>)] = &[
            ("30", Some(30)),
            ("30s", Some(30)),
            ("5m", Some(300)),
            ("3h", Some(10_800)),
            ("2d", Some(172_800)),
            ("0", Some(0)),
            ("", None),
            ("s", None),
            ("-1", None),
            ("+1", None),
            ("1.5h", None),
            ("5 m", None),
            ("5M", None),
            ("1w", None),
            ("1ms", None),
            ("99999999999999999999", None),
            ("9999999999999999999h", None),
        ];
        for (text, seconds) in table {
            assert_eq!(duration(text), seconds.map(Duration::from_secs), "{text:?}");
        }
    }

    #[test]
    fn amounts_are_read_as_people_write_them() {
        let mib = |n: u64| Some(n << 20);
        let table = [
            ("0", Some(0)),
            ("256", mib(256)),
            ("512m", mib(512)),
            ("512MiB", mib(512)),
            ("2g", mib(2048)),
            ("1.5G", mib(1536)),
            ("1t", mib(1 << 20)),
            ("8m", None),
            ("2147483648", None),
            ("2k", None),
            ("g", None),
            ("-1g", None),
            ("1.2345g", None),
            ("", None),
        ];
        for (text, bytes) in table {
            assert_eq!(memory(text), bytes, "{text:?}");
        }
        for (text, thousandths) in
            [("2", Some(2000)), ("1.5", Some(1500)), ("0.25", Some(250)), ("0", Some(0)), ("1025", None)]
        {
            assert_eq!(milli_cpus(text), thousandths, "{text:?}");
        }
        for wrong in ["", ".5", "1.", "1,5", "1e3", "500m", "2000"] {
            assert_eq!(milli_cpus(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn base_urls_lose_their_slash_and_refuse_more_than_an_origin() {
        assert_eq!(base_url("https://Code.Example.com/").as_deref(), Some("https://code.example.com"));
        assert_eq!(base_url("http://[::1]:8080").as_deref(), Some("http://[::1]:8080"));
        for wrong in [
            "code.example.com",
            "ftp://x",
            "https://",
            "https://x/path",
            "https://x/?q",
            "http://u:p@x",
            "//x",
        ] {
            assert_eq!(base_url(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn command_lines_are_split_like_a_shell_would() {
        let table: &[(&str, Option<&[&str]>)] = &[
            ("", Some(&[])),
            ("a  b\tc", Some(&["a", "b", "c"])),
            ("python3 -m 'http server' {port}", Some(&["python3", "-m", "http server", "{port}"])),
            (r#"a "b \"c\" \d" ''"#, Some(&["a", r#"b "c" \d"#, ""])),
            (r"a\ b c", Some(&["a b", "c"])),
            ("a 'b", None),
            ("a \"b", None),
            ("a \\", None),
        ];
        for (text, expected) in table {
            let expected = expected.map(|words| words.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(words(text), expected, "{text:?}");
            if let Some(expected) = expected {
                let again = quote_words(expected.iter().map(String::as_str));
                assert_eq!(words(&again), Some(expected));
            }
        }
    }
}

//! Path patterns: `*` is anything but a slash, `**` is anything, everything else is itself.

/// Whether the whole path is what the pattern says.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    bytes(pattern.as_bytes(), path.as_bytes())
}

fn bytes(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => path.is_empty(),
        [b'*', b'*', rest @ ..] => (0..=path.len()).any(|skip| bytes(rest, &path[skip..])),
        [b'*', rest @ ..] => {
            let segment = path.iter().position(|&b| b == b'/').unwrap_or(path.len());
            (0..=segment).any(|skip| bytes(rest, &path[skip..]))
        }
        [first, rest @ ..] => path.first() == Some(first) && bytes(rest, &path[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, path, expected) in [
            ("/api/kernels", "/api/kernels", true),
            ("/api/kernels", "/api/kernels/1", false),
            ("/api/kernels/*", "/api/kernels/1", true),
            ("/api/kernels/*", "/api/kernels/1/channels", false),
            ("/api/*/channels", "/api/x/channels", true),
            ("/stable-*", "/stable-1234", true),
            ("/stable-*", "/stable-1234/static", false),
            ("/**", "/", true),
            ("/a/**/z", "/a/b/c/z", true),
            ("/a/**", "/b/a/c", false),
            ("*", "", true),
            ("/a*b", "/a*c", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }
}

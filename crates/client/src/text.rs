//! Text of others, as it may be shown on a terminal.

/// What is about to be shown, without what a terminal would obey but colours and ends of lines: a server or a workspace
/// may have had a say in it.
pub(crate) fn shown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_control() && c != '\n') {
        safe.push_str(&rest[..at]);
        rest = &rest[at..];
        let colour = rest.strip_prefix("\x1b[").and_then(|code| {
            let end = code.find(|c: char| !c.is_ascii_digit())?;
            code[end..].starts_with('m').then_some(end + 3)
        });
        let length = colour.unwrap_or_else(|| rest.chars().next().map_or(0, char::len_utf8));
        safe.push_str(if colour.is_some() { &rest[..length] } else { " " });
        rest = &rest[length..];
    }
    safe + rest
}

/// What others wrote, on one line and without what a terminal would obey.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_printed() {
        assert_eq!(clean("a\x1b[31mb\nc\u{9b}d가"), "a [31mb c d가");
        assert_eq!(
            shown("a\x1b[31mb\x1b[0m\nc\u{9b}d가\x1b]0;t\x07\x1b[2J\x1b"),
            "a\x1b[31mb\x1b[0m\nc d가 ]0;t  [2J "
        );
    }
}

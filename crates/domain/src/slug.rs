//! Slugs: short names for the command line and for SSH, `[a-z0-9-]{1,40}`, unique among an owner's living
//! workspaces. A slug is made from the name once, when a workspace is created, and stays when it is renamed.

use std::collections::BTreeSet;

/// The most characters of a slug.
pub const LONGEST: usize = 40;

/// What a name is called where nothing of it can be written in a slug.
const NAMELESS: &str = "workspace";

/// The slug that a name suggests: its ASCII letters and digits in lower case, everything else between them
/// a single dash.
pub fn suggested_by(name: &str) -> String {
    let mut slug = String::with_capacity(LONGEST);
    for c in name.chars().map(|c| c.to_ascii_lowercase()) {
        if slug.len() == LONGEST {
            break;
        }
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { NAMELESS.into() } else { slug.into() }
}

/// The slug itself if nobody has it, else the first of `slug-2`, `slug-3`, … that is free.
pub fn free(slug: &str, taken: &BTreeSet<String>) -> String {
    let mut n = 1;
    loop {
        let candidate = numbered(slug, n);
        if !taken.contains(&candidate) {
            return candidate;
        }
        n += 1;
    }
}

/// The `n`th slug of that stem: `slug`, `slug-2`, … It never gets longer than [`LONGEST`].
pub fn numbered(slug: &str, n: u64) -> String {
    if n <= 1 {
        return slug.into();
    }
    let suffix = format!("-{n}");
    let room = LONGEST.saturating_sub(suffix.len());
    let stem = slug.get(..room.min(slug.len())).unwrap_or(slug).trim_end_matches('-');
    format!("{stem}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_slugs() {
        let long = "a".repeat(50);
        for (name, slug) in [
            ("work", "work"),
            ("My API (v2)", "my-api-v2"),
            ("  --x--  ", "x"),
            ("Grüße, Welt", "gr-e-welt"),
            ("새 작업", "workspace"),
            ("", "workspace"),
            ("\0\n", "workspace"),
            (long.as_str(), &long[..40]),
        ] {
            let made = suggested_by(name);
            assert_eq!(made, slug, "{name:?}");
            assert!((1..=LONGEST).contains(&made.len()));
        }
        let cut = format!("{} rest", "a".repeat(39));
        assert_eq!(suggested_by(&cut), "a".repeat(39), "no dash at the end");
    }

    #[test]
    fn the_first_free_one() {
        let taken = |slugs: &[&str]| slugs.iter().map(|slug| (*slug).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(free("api", &taken(&[])), "api");
        assert_eq!(free("api", &taken(&["api"])), "api-2");
        assert_eq!(free("api", &taken(&["api", "api-2", "api-4"])), "api-3");
        let long = "b".repeat(40);
        assert_eq!(free(&long, &taken(&[&long])), format!("{}-2", "b".repeat(38)));
    }
}

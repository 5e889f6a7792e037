//! What `git status --porcelain=v2 --branch -z` says.

use serde::Serialize;

use crate::path::{RelPath, encode_name};

/// More changed files are not listed.
const MAX_FILES: usize = 5_000;

/// Branch and changes of a repository.
#[derive(Serialize, Debug, PartialEq, Default)]
pub(super) struct Status {
    /// `None` on a detached head.
    branch: Option<String>,
    /// The commit that is checked out, short; `None` before the first.
    head: Option<String>,
    ahead: u32,
    behind: u32,
    files: Vec<Changed>,
    truncated: bool,
}

/// A changed file. Letters are git's: `M`odified, `A`dded, `D`eleted, `T`ype changed, `U`nmerged, `?` untracked;
/// `.` for no change.
#[derive(Serialize, Debug, PartialEq)]
struct Changed {
    path: String,
    staged: char,
    working: char,
}

pub(super) fn parse(output: &[u8], root: &RelPath, truncated: bool) -> Status {
    let mut status = Status { truncated, ..Status::default() };
    let prefix = if root.parts().is_empty() { String::new() } else { format!("{}/", root.encoded()) };
    let mut lines = output.split(|byte| *byte == 0).filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        if truncated && lines.peek().is_none() {
            break; // perhaps half a line
        }
        if let Some(header) = line.strip_prefix(b"# ") {
            status.header(&String::from_utf8_lossy(header));
            continue;
        }
        let Some((staged, working, path)) = changed(line) else { continue };
        if status.files.len() == MAX_FILES {
            status.truncated = true;
            break;
        }
        let encoded: Vec<String> = path.split(|byte| *byte == b'/').map(encode_name).collect();
        status.files.push(Changed { path: format!("{prefix}{}", encoded.join("/")), staged, working });
    }
    status
}

impl Status {
    fn header(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("branch.head", "(detached)")) => {}
            Some(("branch.head", name)) => self.branch = Some(name.to_owned()),
            Some(("branch.oid", "(initial)")) => {}
            Some(("branch.oid", id)) => self.head = Some(id.chars().take(8).collect()),
            Some(("branch.ab", counts)) => {
                let number = |text: Option<&str>| text.and_then(|n| n[1..].parse().ok()).unwrap_or(0);
                let mut parts = counts.split(' ').filter(|part| part.len() > 1);
                (self.ahead, self.behind) = (number(parts.next()), number(parts.next()));
            }
            _ => {}
        }
    }
}

/// Letters and path of one line: `1 XY …six fields… path`, `u XY …eight fields… path`, `? path`.
fn changed(line: &[u8]) -> Option<(char, char, &[u8])> {
    let fields = match line.first()? {
        b'?' => return Some(('.', '?', line.get(2..).filter(|path| !path.ends_with(b"/"))?)),
        b'1' => 9,
        b'u' => 11,
        _ => return None,
    };
    let parts: Vec<&[u8]> = line.splitn(fields, |byte| *byte == b' ').collect();
    let [staged, working] = parts.get(1)?.get(..2)? else { return None };
    let (staged, working) = match line[0] {
        b'u' => ('.', 'U'),
        _ => (char::from(*staged), char::from(*working)),
    };
    Some((staged, working, parts.get(fields - 1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_branch_and_changes() {
        let output = b"# branch.oid 0123456789abcdef\0# branch.head main\0# branch.ab +2 -1\0\
            1 .M N... 100644 100644 100644 aa bb src/a b.rs\0\
            1 A. N... 000000 100644 100644 00 cc new\0\
            u UU N... 100644 100644 100644 100644 aa bb cc both\0? \xff.txt\0";
        let status = parse(output, &RelPath::decode("p q").unwrap(), false);
        assert_eq!(status.branch.as_deref(), Some("main"));
        assert_eq!((status.ahead, status.behind, status.head.as_deref()), (2, 1, Some("01234567")));
        let seen: Vec<_> = status.files.iter().map(|f| (&*f.path, f.staged, f.working)).collect();
        assert_eq!(
            seen,
            [
                ("p%20q/src/a%20b.rs", '.', 'M'),
                ("p%20q/new", 'A', '.'),
                ("p%20q/both", '.', 'U'),
                ("p%20q/%FF.txt", '.', '?'),
            ]
        );
    }

    #[test]
    fn a_cut_answer_loses_only_its_last_line() {
        let status = parse(b"? one\0? tw", &RelPath::decode("").unwrap(), true);
        assert_eq!((status.files.len(), status.truncated), (1, true));
    }
}

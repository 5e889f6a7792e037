//! Statements are written as PostgreSQL reads them; this is all that SQLite spells differently.
//!
//! Replacing words is enough because the statements are ours: none has one of these words in a literal, and
//! whatever were spelled wrong would fail the contract suite the first time it ran.

/// SQLite's clock in microseconds (it ticks in milliseconds).
const NOW: &str = "(CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) * 1000)";

/// PostgreSQL's word, and SQLite's. There is one writer: rows need no locks.
const WORDS: [(&str, &str); 13] = [
    ("codehub_now()", NOW),
    ("FOR NO KEY UPDATE SKIP LOCKED", ""),
    ("FOR NO KEY UPDATE", ""),
    ("FOR UPDATE", ""),
    ("FOR KEY SHARE", ""),
    ("FOR SHARE", ""),
    ("= ANY ($1)", "IN (SELECT value FROM json_each($1))"),
    ("jsonb_each_text(", "json_each("),
    ("greatest(", "max("),
    ("least(", "min("),
    ("strpos(", "instr("),
    ("::UUID", ""),
    ("::BIGINT", ""),
];

pub(crate) fn spelled(sql: &str) -> String {
    WORDS.iter().fold(sql.to_owned(), |spelled, (theirs, ours)| {
        if spelled.contains(theirs) { spelled.replace(theirs, ours) } else { spelled }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        for (theirs, ours) in [
            ("SELECT id FROM w WHERE id = $1 FOR NO KEY UPDATE", "SELECT id FROM w WHERE id = $1 "),
            ("SELECT id FROM w FOR NO KEY UPDATE SKIP LOCKED", "SELECT id FROM w "),
            ("WHERE id = ANY ($1)", "WHERE id IN (SELECT value FROM json_each($1))"),
            ("greatest(a, least(b, c))", "max(a, min(b, c))"),
            ("SELECT key::UUID FROM jsonb_each_text($1)", "SELECT key FROM json_each($1)"),
            ("DELETE FROM settings WHERE name = $1", "DELETE FROM settings WHERE name = $1"),
        ] {
            assert_eq!(spelled(theirs), ours);
        }
    }
}

//! Workspaces as the API shows them, and how they are named on the command line.

use serde_json::Value;

use crate::{
    api::Api,
    failure::{Failure, Kind, Result},
};

/// So many of an id's last characters name it: the first are the time.
const LAST_CHARACTERS: usize = 8;

/// A workspace as the API shows it.
#[derive(Debug, Clone)]
pub struct Workspace(pub Value);

impl Workspace {
    /// A text of it; empty where there is none.
    pub fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }

    pub fn id(&self) -> &str {
        self.text("id")
    }

    /// What people call it here.
    pub fn slug(&self) -> &str {
        match self.text("slug") {
            "" => self.id(),
            slug => slug,
        }
    }

    pub fn phase(&self) -> &str {
        self.text("phase")
    }

    /// Whether it is where it is wanted, and nothing is under way.
    pub fn has_arrived(&self) -> bool {
        self.phase() == self.text("desired_state") && self.text("operation") == "NONE"
    }

    /// Whether a person has to decide how it goes on.
    pub fn has_failed(&self) -> bool {
        self.phase() == "ERROR"
    }

    /// Its path in the API, and what comes after.
    pub fn path(&self, rest: &str) -> String {
        format!("/workspaces/{}{rest}", self.id())
    }
}

/// Whether this is a whole id.
fn is_id(text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok() && text.len() == 36
}

/// The workspace that is meant: by its slug, its id, or the last characters of it.
///
/// # Errors
/// There is none, or several.
pub async fn find(api: &Api, named: &str) -> Result<Workspace> {
    let unknown = |failure: Failure| match failure.kind {
        Kind::NotFound => failure.or_next("`codehub ls` lists your workspaces"),
        _ => failure,
    };
    if is_id(named) {
        return api.get(&format!("/workspaces/{named}")).await.map(Workspace).map_err(unknown);
    }
    let all = api.list("/workspaces", &[]).await?;
    let all = all["items"].as_array().into_iter().flatten().map(|one| Workspace(one.clone()));
    let found = choose(all.collect(), named).map_err(unknown)?;
    // Lists say a little less.
    api.get(&found.path("")).await.map(Workspace)
}

/// Slugs win: they are unique, and may look like the end of an id.
fn choose(all: Vec<Workspace>, named: &str) -> Result<Workspace> {
    if let Some(found) = all.iter().find(|one| one.text("slug") == named) {
        return Ok(found.clone());
    }
    let ends = named.to_ascii_lowercase();
    let looks_like_an_end = ends.len() >= LAST_CHARACTERS;
    let mut found = all.into_iter().filter(|one| looks_like_an_end && one.id().ends_with(&ends));
    match (found.next(), found.next()) {
        (Some(found), None) => Ok(found),
        (Some(one), Some(other)) => {
            let message = format!(
                "{named:?} may be {} ({}) or {} ({})",
                one.slug(),
                one.id(),
                other.slug(),
                other.id()
            );
            Err(Failure::new(Kind::NotFound, message).or_next("write its slug, or more of the id"))
        }
        (None, _) => Err(Failure::new(Kind::NotFound, format!("you have no workspace {named:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn workspaces_are_named_by_slug_and_by_the_end_of_their_id() {
        let one = |id: &str, slug: &str| Workspace(json!({ "id": id, "slug": slug }));
        let all = vec![
            one("019a0000-0000-7000-8000-aaaabbbbcccc", "web"),
            one("019a0000-0000-7000-8000-ddddbbbbcccc", "web-2"),
            one("019a0000-0000-7000-8000-eeeeffff0000", "bbbbcccc"),
        ];
        let find = |named: &str| choose(all.clone(), named).map(|found| found.slug().to_owned());
        assert_eq!(find("web").unwrap(), "web");
        assert_eq!(find("bbbbcccc").unwrap(), "bbbbcccc", "a slug first");
        assert_eq!(find("abbbbcccc").unwrap(), "web");
        assert_eq!(find("EEEEFFFF0000").unwrap(), "bbbbcccc");
        for (named, word) in [
            ("ffff0000x", "no workspace"),
            ("fff0000", "no workspace"),
            ("we", "no workspace"),
            ("bbbcccc", "no workspace"),
        ] {
            let failure = find(named).unwrap_err();
            assert!(failure.kind == Kind::NotFound && failure.message.contains(word), "{named}: {failure}");
        }
        let several = choose(all[..2].to_vec(), "bbbbcccc").unwrap_err();
        assert!(several.kind == Kind::NotFound && several.message.contains("web-2"), "{several}");
    }
}

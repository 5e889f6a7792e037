//! Slugs: chosen where a workspace is made, and for those that a version before slugs has made.

use std::collections::{BTreeMap, BTreeSet};

use codehub_domain::{UserId, WorkspaceId, slug};

use super::{Lock, SqlStore, SqlWrite, Statements, args, json};
use crate::{
    Result,
    row::{self, SqlRow},
};

/// A slug for a new workspace that none of the owner's living ones has. Nobody else chooses one before this
/// transaction ends.
pub(super) async fn free_for(write: &mut impl SqlWrite, owner: UserId, name: &str) -> Result<String> {
    write.lock(Lock::Slugs).await?;
    let wanted = slug::suggested_by(name);
    // Every slug that a number could make of it begins like this; there are no wildcards in slugs.
    let alike: String = wanted.chars().take(20).chain(['%']).collect();
    let known = write
        .all(
            "SELECT slug FROM workspaces
             WHERE owner_user_id = $1 AND deleted_at IS NULL AND slug <> '' AND slug LIKE $2"
                .into(),
            args![owner, alike],
        )
        .await?;
    let taken = known.iter().map(|found| found.text("slug").map(str::to_owned)).collect::<Result<_>>()?;
    Ok(slug::free(&wanted, &taken))
}

/// Gives a slug to every living workspace without one, the oldest first. How many. One that somebody is
/// writing just now gets its slug the next time: whoever writes it may wait for a creation, which waits for us.
pub(crate) async fn fill<S: SqlStore>(store: &S) -> Result<u64> {
    const MISSING: &str = "SELECT id FROM workspaces WHERE slug = '' AND deleted_at IS NULL LIMIT 1";
    if store.select(MISSING, args![]).await?.is_empty() {
        return Ok(0);
    }
    let mut write = store.write().await?;
    write.lock(Lock::Slugs).await?;
    let rows = write
        .all(
            "SELECT id, owner_user_id, name, slug FROM workspaces WHERE deleted_at IS NULL ORDER BY id"
                .into(),
            args![],
        )
        .await?;
    let mut taken: BTreeMap<UserId, BTreeSet<String>> = BTreeMap::new();
    let mut missing: Vec<(WorkspaceId, UserId, String)> = Vec::new();
    for found in &rows {
        let owner = UserId::from_uuid(found.uuid("owner_user_id")?);
        match found.text("slug")? {
            "" => missing.push((row::workspace_id(found)?, owner, found.text("name")?.into())),
            slug => drop(taken.entry(owner).or_default().insert(slug.into())),
        }
    }
    let mut made = BTreeMap::new();
    let mut numbers: BTreeMap<(UserId, String), u64> = BTreeMap::new();
    for (id, owner, name) in missing {
        let (taken, wanted) = (taken.entry(owner).or_default(), slug::suggested_by(&name));
        let number = numbers.entry((owner, wanted.clone())).or_insert(0);
        let chosen = loop {
            *number += 1;
            let candidate = slug::numbered(&wanted, *number);
            if taken.insert(candidate.clone()) {
                break candidate;
            }
        };
        made.insert(id.to_string(), chosen);
    }
    let filled = write
        .run(
            "UPDATE workspaces SET slug = made.slug
             FROM (SELECT key::UUID AS id, value AS slug FROM jsonb_each_text($1)) AS made,
                  (SELECT id FROM workspaces WHERE slug = '' AND deleted_at IS NULL
                   FOR NO KEY UPDATE SKIP LOCKED) AS free
             WHERE workspaces.id = made.id AND free.id = made.id",
            args![json(&made)?],
        )
        .await?;
    write.commit().await?;
    Ok(filled)
}

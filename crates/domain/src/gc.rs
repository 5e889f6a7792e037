//! What nothing refers to any more. Deleting is the most dangerous thing CodeHub does, so the
//! decision is pure, protects in doubt, waits, and brakes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use crate::{
    ArchiveKey, Generation, OpId, Operation, Phase, Timestamp, Truth, WorkspaceId, retry::saturating_add,
};

/// The numbers of the garbage collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcPolicy {
    /// An orphan is deleted only this long after it was first seen to be one.
    pub orphan_delay: Duration,
    /// How many archives of a living workspace are kept, the current one included.
    pub archive_keep: usize,
    /// A cycle that would delete more than this share of all archives (or of all volumes) …
    pub brake_percent: usize,
    /// … and more than this many deletes nothing.
    pub brake_floor: usize,
}

impl Default for GcPolicy {
    fn default() -> Self {
        Self {
            orphan_delay: Duration::from_secs(2 * 3600),
            archive_keep: 3,
            brake_percent: 20,
            brake_floor: 10,
        }
    }
}

/// What the collector needs to know of a workspace; read *after* the listings, so that whatever was
/// listed had its reference in the database when this was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcRow {
    /// Which workspace.
    pub id: WorkspaceId,
    /// Its phase.
    pub phase: Phase,
    /// What is being done with it; while something is, nothing of it is deleted.
    pub operation: Operation,
    /// Whether its owner deleted it.
    pub deleted: bool,
    /// Which copy of its home is the true one.
    pub truth: Truth,
    /// The generation last given out; while truth is `volume` this is the home.
    pub generation: Generation,
    /// The archive that it refers to.
    pub archive_key: Option<ArchiveKey>,
    /// The operation under way, or the one to be resumed.
    pub op_id: Option<OpId>,
}

/// Something in storage that could be an orphan. Ordered, so plans are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// An archive, with its commit mark.
    Archive(ArchiveKey),
    /// One generation of a workspace's volume.
    Volume { workspace: WorkspaceId, generation: Generation },
}

impl std::fmt::Display for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Archive(key) => write!(f, "archive:{key}"),
            Self::Volume { workspace, generation } => write!(f, "volume:{workspace}:{generation}"),
        }
    }
}

impl std::str::FromStr for Item {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("{text:?} names no archive or volume");
        let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
        match kind {
            "archive" => Ok(Self::Archive(rest.parse().map_err(|_| wrong())?)),
            "volume" => {
                let (workspace, generation) = rest.split_once(':').ok_or_else(wrong)?;
                Ok(Self::Volume {
                    workspace: workspace.parse().map_err(|_| wrong())?,
                    generation: Generation(generation.parse().map_err(|_| wrong())?),
                })
            }
            _ => Err(wrong()),
        }
    }
}

impl Item {
    /// The only rows that can refer to it: the workspace it belongs to, and those whose home is this archive.
    pub fn may_be_needed_by(self) -> (WorkspaceId, Option<ArchiveKey>) {
        match self {
            Self::Archive(key) => (key.workspace, Some(key)),
            Self::Volume { workspace, .. } => (workspace, None),
        }
    }
}

/// What is known of the archives that were listed, beyond their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Archived {
    /// The operations whose objects hold parts of an archive; of those that are not whole in themselves.
    pub parts: BTreeMap<ArchiveKey, BTreeSet<OpId>>,
    /// Without their commit mark: nobody can go back to them.
    pub unfinished: BTreeSet<ArchiveKey>,
    /// Without a record: a claim for what they have parts in would not be refused, so such things are not claimed.
    pub unrecorded: BTreeSet<ArchiveKey>,
}

/// What one cycle will do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcPlan {
    /// Orphans that have waited long enough. Of an archive that is no longer kept while another that is has parts in
    /// its object, only the commit mark goes: the claim for it tells.
    pub delete: BTreeSet<Item>,
    /// All orphans seen now, with the time of first sighting: the new content of the sightings.
    pub sightings: BTreeMap<Item, Timestamp>,
    /// Set when the brake held everything back.
    pub braked: Option<Brake>,
}

/// What the cycle would have deleted, of how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brake {
    /// How many archives it would delete.
    pub would_delete: usize,
    /// Out of how many.
    pub archives: usize,
    /// How many volumes it would delete.
    pub would_delete_volumes: usize,
    /// Out of how many.
    pub volumes: usize,
}

impl std::fmt::Display for Brake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { would_delete, archives, would_delete_volumes, volumes } = self;
        write!(f, "{would_delete} of {archives} archives, {would_delete_volumes} of {volumes} volumes")
    }
}

/// Plans a cycle from complete listings. An incomplete listing or a failed read must skip the cycle
/// before it comes here.
///
/// `in_use` are workspaces for which an instance exists: none of their volumes is touched.
/// `approved` is an admin's word that this time the brake may be passed.
#[expect(clippy::too_many_arguments, reason = "each is another thing that was read")]
pub fn plan(
    listed: &BTreeSet<Item>,
    archived: &Archived,
    in_use: &BTreeSet<WorkspaceId>,
    rows: &[GcRow],
    seen_before: &BTreeMap<Item, Timestamp>,
    policy: &GcPolicy,
    approved: bool,
    now: Timestamp,
) -> GcPlan {
    let rows: HashMap<WorkspaceId, &GcRow> = rows.iter().map(|row| (row.id, row)).collect();
    let mut kept = kept_archives(listed, &rows, policy);
    // A workspace made from another's archive refers to it until it has one of its own.
    kept.extend(rows.values().filter(|row| !row.deleted).filter_map(|row| row.archive_key));

    let needed_itself = |key: &ArchiveKey| {
        let item = Item::Archive(*key);
        kept.contains(key) || rows.get(&key.workspace).is_some_and(|row| refers(row, item))
    };
    // An object that holds parts of what is needed. What only such an object needs in turn is not.
    let holds_parts: BTreeSet<ArchiveKey> = archived
        .parts
        .iter()
        .filter(|(key, _)| needed_itself(key))
        .flat_map(|(key, parts)| parts.iter().map(move |op| (key, ArchiveKey::of(key.workspace, *op))))
        // Of one that is finished, the mark can go.
        .filter(|(key, part)| archived.unfinished.contains(part) || archived.unrecorded.contains(key))
        .map(|(_, part)| part)
        .collect();
    let orphan = |item: &Item| match *item {
        Item::Archive(key) => !needed_itself(&key) && !holds_parts.contains(&key),
        Item::Volume { workspace, .. } => {
            !in_use.contains(&workspace) && !rows.get(&workspace).is_some_and(|row| refers(row, *item))
        }
    };
    let sightings: BTreeMap<Item, Timestamp> = listed
        .iter()
        .filter(|item| orphan(item))
        .map(|item| (*item, seen_before.get(item).copied().unwrap_or(now)))
        .collect();
    let delete: BTreeSet<Item> = sightings
        .iter()
        .filter(|(_, first_seen)| now >= saturating_add(**first_seen, policy.orphan_delay))
        .map(|(item, _)| *item)
        .collect();

    let braked = if approved { None } else { brake(listed, &delete, rows.is_empty(), policy) };
    let delete = if braked.is_some() { BTreeSet::new() } else { delete };
    GcPlan { delete, sightings, braked }
}

/// A cycle that would delete a great part of what there is, or anything at all on the word of a
/// database that knows no workspace, more likely has the wrong database before it.
///
/// Volumes count like archives: a deployment that never archived has its homes there.
fn brake(
    listed: &BTreeSet<Item>,
    delete: &BTreeSet<Item>,
    empty_database: bool,
    policy: &GcPolicy,
) -> Option<Brake> {
    let (archives, volumes) = count(listed);
    let (would_delete, would_delete_volumes) = count(delete);
    let too_many = |part: usize, all: usize| {
        part > policy.brake_floor && part.saturating_mul(100) > all.saturating_mul(policy.brake_percent)
    };
    let hold = too_many(would_delete, archives)
        || too_many(would_delete_volumes, volumes)
        || (empty_database && !delete.is_empty());
    hold.then_some(Brake { would_delete, archives, would_delete_volumes, volumes })
}

/// How many archives, how many volumes.
fn count(items: &BTreeSet<Item>) -> (usize, usize) {
    let archives = items.iter().filter(|item| matches!(item, Item::Archive(_))).count();
    (archives, items.len() - archives)
}

/// The newest archives of every living workspace, by operation (ids sort by time).
fn kept_archives(
    listed: &BTreeSet<Item>,
    rows: &HashMap<WorkspaceId, &GcRow>,
    policy: &GcPolicy,
) -> BTreeSet<ArchiveKey> {
    let mut of_workspace: BTreeMap<WorkspaceId, Vec<ArchiveKey>> = BTreeMap::new();
    for item in listed {
        if let Item::Archive(key) = item
            && rows.get(&key.workspace).is_some_and(|row| !row.deleted)
        {
            of_workspace.entry(key.workspace).or_default().push(*key);
        }
    }
    let mut kept = BTreeSet::new();
    for (workspace, mut keys) in of_workspace {
        let current = rows.get(&workspace).and_then(|row| row.archive_key);
        // Newest first, the current one before all others: a workspace that went back in time keeps
        // the archive it went back to.
        keys.sort_by_key(|key| (Some(*key) != current, std::cmp::Reverse(key.op)));
        kept.extend(keys.into_iter().take(policy.archive_keep.max(1)));
    }
    kept
}

/// Whether this workspace needs the thing, whatever the listings say: asked once more, about every row
/// that could, in the transaction that claims a thing for deletion.
pub fn refers(row: &GcRow, item: Item) -> bool {
    match item {
        Item::Archive(key) => {
            let own = row.id == key.workspace && (row.phase == Phase::Error || row.op_id == Some(key.op));
            !row.deleted && (own || row.archive_key == Some(key))
        }
        Item::Volume { workspace, generation } => row.id == workspace && volume_protected(row, generation),
    }
}

fn volume_protected(row: &GcRow, generation: Generation) -> bool {
    if row.deleted {
        // The deleting operation does that itself; what it left behind is garbage.
        return row.operation != Operation::None;
    }
    row.phase == Phase::Error
        || row.operation != Operation::None
        || generation > row.generation
        || (generation == row.generation && row.truth != Truth::Archive)
}

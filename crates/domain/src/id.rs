//! Names of things. Each kind of id is its own type, so that a user can never be passed for a
//! workspace, and every id has exactly one spelling.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Why a text is not an id. Callers answer "not found" to it: an id that is no id names nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid {1}")]
pub struct ParseIdError(String, &'static str);

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        /// An id with one spelling: a lower-case UUID with hyphens.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Any UUID is an id; the caller makes them.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// For the database.
            pub const fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            /// Accepts the canonical lower-case hyphenated form only: one workspace, one URL.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let wrong = || ParseIdError(text.chars().take(64).collect(), $what);
                let uuid = Uuid::try_parse(text).map_err(|_| wrong())?;
                let id = Self(uuid);
                if id.to_string() == text { Ok(id) } else { Err(wrong()) }
            }
        }
    };
}

uuid_id!(
    /// A workspace. UUIDv7, so ids sort by creation time.
    WorkspaceId, "workspace id"
);
uuid_id!(UserId, "user id");
uuid_id!(
    /// One run of one operation. New for every operation, reused only by retries of that same one.
    /// UUIDv7: the archives of a workspace sort by age.
    OpId, "operation id"
);
uuid_id!(SessionId, "session id");
uuid_id!(TokenId, "token id");
uuid_id!(
    /// A keep-awake lease.
    HoldId, "lease id"
);

/// Which incarnation of a workspace's volume. Never used twice for one workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u32);

impl Generation {
    /// The generation after this one. Saturates: four billion restores of one workspace are not
    /// going to happen, and a wrap-around would reuse a name.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The leader's fencing token: grows by one with every change of leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub i64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names one volume: whose, of which workspace, which incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeKey {
    /// Whose home it is.
    pub owner: UserId,
    /// Which workspace's.
    pub workspace: WorkspaceId,
    /// Which of its generations.
    pub generation: Generation,
}

impl fmt::Display for VolumeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "codehub-ws-{}-home-{}", self.workspace, self.generation)
    }
}

/// Names one archive: `{workspace}/{op}/home.tar.zst`, below whatever prefix the store is given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArchiveKey {
    /// The workspace whose home was packed.
    pub workspace: WorkspaceId,
    /// The operation that packed it.
    pub op: OpId,
}

impl ArchiveKey {
    /// The last part of every key. The archive engine, which knows no workspaces, has the same name as
    /// `codehub_archive::DATA_NAME`; a test of the runtime holds the two together.
    pub const FILE: &str = "home.tar.zst";

    /// The archive that this operation of this workspace writes.
    pub const fn of(workspace: WorkspaceId, op: OpId) -> Self {
        Self { workspace, op }
    }
}

impl fmt::Display for ArchiveKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.workspace, self.op, Self::FILE)
    }
}

impl fmt::Debug for ArchiveKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ArchiveKey {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseIdError(text.chars().take(120).collect(), "archive key");
        let mut parts = text.split('/');
        let (Some(workspace), Some(op), Some(Self::FILE), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        Ok(Self { workspace: workspace.parse().map_err(|_| wrong())?, op: op.parse().map_err(|_| wrong())? })
    }
}

impl Serialize for ArchiveKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ArchiveKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    #[test]
    fn an_id_has_one_spelling() {
        assert_eq!(ID.parse::<WorkspaceId>().unwrap().to_string(), ID);
        for other in
            ["", "x", &ID.to_uppercase(), &ID.replace('-', ""), &format!("{{{ID}}}"), &format!("{ID} ")]
        {
            assert!(other.parse::<WorkspaceId>().is_err(), "{other:?} was accepted");
        }
    }

    #[test]
    fn an_archive_key_round_trips_and_refuses_everything_else() {
        let key = format!("{ID}/{ID}/home.tar.zst");
        assert_eq!(key.parse::<ArchiveKey>().unwrap().to_string(), key);
        for other in [
            format!("{ID}/{ID}"),
            format!("{ID}/{ID}/home.tar.zst/x"),
            format!("../{ID}/home.tar.zst"),
            format!("{ID}/{ID}/other.tar.zst"),
            format!("/{ID}/{ID}/home.tar.zst"),
        ] {
            assert!(other.parse::<ArchiveKey>().is_err(), "{other:?} was accepted");
        }
    }
}

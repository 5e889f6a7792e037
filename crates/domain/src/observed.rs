//! What was seen of a workspace in the world. "Could not look" is an observation of its own, and
//! never means "not there".

use std::collections::{BTreeMap, BTreeSet};

use crate::{Generation, named::named_enum};

/// There, not there, or unknown (the dependency did not answer, or nobody looked).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Seen<T> {
    /// It was seen.
    There(T),
    /// It was looked for, and does not exist.
    NotThere,
    /// Nobody could look: it may or may not exist.
    #[default]
    Unknown,
}

impl<T> Seen<T> {
    /// It was seen.
    pub fn is_there(&self) -> bool {
        matches!(self, Self::There(_))
    }

    /// It certainly does not exist.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::NotThere)
    }

    /// Nobody could look.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }

    /// What was seen, if anything.
    pub fn there(&self) -> Option<&T> {
        match self {
            Self::There(it) => Some(it),
            Self::NotThere | Self::Unknown => None,
        }
    }
}

impl<T> From<Option<T>> for Seen<T> {
    fn from(found: Option<T>) -> Self {
        found.map_or(Self::NotThere, Self::There)
    }
}

/// A container or process that belongs to a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// The volume generation it was started on.
    pub generation: Generation,
    /// How it is.
    pub state: InstanceState,
}

/// How an instance is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceState {
    /// Alive and answering its health check.
    Ready,
    /// Alive, not answering (yet).
    Alive,
    /// Launched, and held up by something outside it: alive as far as its home is concerned.
    Waiting(Waiting),
    /// Not running any more, and nobody asked for that.
    Ended {
        /// Whose doing it was.
        by: EndedBy,
        /// For people: "exit code 1".
        how: String,
    },
}

impl InstanceState {
    /// Ended because its own program did.
    pub fn died(how: impl Into<String>) -> Self {
        Self::Ended { by: EndedBy::Program, how: how.into() }
    }

    /// Ended from outside, through no fault of its own.
    pub fn evicted(how: impl Into<String>) -> Self {
        Self::Ended { by: EndedBy::Platform, how: how.into() }
    }
}

named_enum! {
    /// Whose doing it was that an instance ended. Only the program's own end is a death that counts.
    EndedBy, "cause of an end" {
        /// It exited, crashed, or used more than it may.
        Program => "program",
        /// The engine, the node or somebody's hand: started again, as often as it takes.
        Platform => "platform",
        /// It never ran: its image cannot be had.
        Image => "image",
    }
}

named_enum! {
    /// What an instance waits for before it can run.
    WaitingFor, "kind of waiting" {
        /// A place to run.
        Capacity => "Capacity",
        /// Its home to be attached.
        Volume => "Volume",
        /// Its image to be pulled.
        Image => "Image",
        /// Its container to be made.
        Container => "Container",
        /// A node that does not answer: it may still run there.
        Node => "Node",
    }
}

/// Why an instance does not run yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// What for.
    pub kind: WaitingFor,
    /// The platform's own words.
    pub words: String,
}

impl Waiting {
    /// The reason of a condition: `WaitingForImage`.
    pub fn reason(&self) -> String {
        format!("WaitingFor{}", self.kind)
    }
}

/// Everything seen of one workspace in one look. Instances are looked at before volumes, so an
/// instance seen here had its volume when the volumes were listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// The one container or process of the workspace.
    pub instance: Seen<Instance>,
    /// The generations that exist; never an empty set inside `There`.
    pub volumes: Seen<BTreeSet<Generation>>,
    /// What is wrong with volumes that exist: for people, with what to do about it.
    pub trouble: BTreeMap<Generation, String>,
    /// The archive at the workspace's `archive_key`: data and meta both answer. Unknown without a key.
    pub archive: Seen<()>,
}

impl Observed {
    /// Whether the volume of that generation exists.
    pub fn volume(&self, generation: Generation) -> Seen<()> {
        match &self.volumes {
            Seen::There(set) if set.contains(&generation) => Seen::There(()),
            Seen::There(_) | Seen::NotThere => Seen::NotThere,
            Seen::Unknown => Seen::Unknown,
        }
    }

    /// The generations to clean up, if they could be seen.
    pub fn generations(&self) -> Option<BTreeSet<Generation>> {
        match &self.volumes {
            Seen::There(set) => Some(set.clone()),
            Seen::NotThere => Some(BTreeSet::new()),
            Seen::Unknown => None,
        }
    }

    /// A generation that was never given out and that nothing is on: after `given`, and after all that
    /// were seen (a database restored from a backup may know fewer than there are).
    pub fn unused_after(&self, given: Generation) -> Generation {
        let newest = self.volumes.there().and_then(BTreeSet::last).copied();
        newest.map_or(given, |newest| newest.max(given)).next()
    }

    /// Something is, or was, running on that generation.
    pub fn runs_on(&self, generation: Generation) -> bool {
        self.instance.there().is_some_and(|instance| instance.generation == generation)
    }

    /// The instance is alive, whether or not it answers.
    pub fn instance_alive(&self) -> bool {
        matches!(
            &self.instance,
            Seen::There(Instance {
                state: InstanceState::Ready | InstanceState::Alive | InstanceState::Waiting(_),
                ..
            })
        )
    }
}

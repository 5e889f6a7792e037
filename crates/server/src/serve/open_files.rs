//! How many connections the limit of open files allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const MOST_CONNECTIONS: u64 = 50_000;
const FEWEST_CONNECTIONS: u64 = 64;
/// Files that are not connections from clients: database, logs, upstreams have their own half.
const OTHER_FILES: u64 = 256;

pub(crate) struct OpenFiles {
    pub(crate) files: u64,
    /// A proxied one is two files.
    pub(crate) connections: usize,
}

impl OpenFiles {
    /// Below this many connections people would notice.
    pub(crate) const FEW: usize = 1000;

    /// Raises the soft limit to the hard one, and counts.
    pub(crate) fn raise() -> Self {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        if current != maximum
            && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
        Self::of(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }

    fn of(files: u64) -> Self {
        let connections = files.saturating_sub(OTHER_FILES) / 2;
        let connections = connections.clamp(FEWEST_CONNECTIONS, MOST_CONNECTIONS);
        Self { files, connections: usize::try_from(connections).unwrap_or(usize::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_two_files() {
        for (files, connections) in [(0, 64), (1024, 384), (20_000, 9872), (u64::MAX, 50_000)] {
            assert_eq!(OpenFiles::of(files).connections, connections, "{files}");
        }
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        OpenFiles::raise();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
    }
}

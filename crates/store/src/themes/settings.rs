//! Small facts of the deployment, by name.

use super::theme;
use crate::Result;

/// Which column of a workspace names a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendPart {
    Instances,
    Storage,
}

impl BackendPart {
    /// The setting that says what the backend is called now: its kind, and its name.
    pub(crate) const fn setting(self) -> &'static str {
        match self {
            Self::Instances => "backend.instances",
            Self::Storage => "backend.storage",
        }
    }

    /// What the backend of this kind was called until now, going by that setting: its kind, where nobody
    /// ever named it; `None` where a backend of another kind was used, whose homes are not here.
    pub(crate) fn called_before<'a>(kind: &'a str, setting: Option<&'a str>) -> Option<&'a str> {
        match setting {
            None => Some(kind),
            Some(noted) => noted.split_once(' ').filter(|(of, _)| *of == kind).map(|(_, name)| name),
        }
    }
}

theme! {
    /// Small facts of the deployment, by name.
    Settings, settings {
        /// `None` where nobody has written it.
        async fn setting_get(&self, name: &str) -> Result<Option<String>>;
        /// Writes over what is there.
        async fn setting_put(&self, name: &str, value: &str) -> Result<()>;
        /// Writes only where there is none yet; what is there afterwards.
        async fn setting_init(&self, name: &str, value: &str) -> Result<String>;
        /// One that is not there is deleted already.
        async fn setting_delete(&self, name: &str) -> Result<()>;
        /// Notes what the backend of this kind is called from now on, and renames it in every row that has
        /// its name from before. Rows of other backends stay as they are. How many were renamed.
        async fn backend_named(&self, part: BackendPart, kind: &str, name: &str) -> Result<u64>;
    }
}

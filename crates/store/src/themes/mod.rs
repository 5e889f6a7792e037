//! The port, by theme. [`crate::Store`] is all of them together: whoever only reads people takes a
//! `&dyn People`, and a test that disturbs one theme writes that one and leaves the rest to [`Composed`].

mod archives;
mod audit;
mod credentials;
mod garbage;
mod leadership;
mod people;
mod reconciling;
mod settings;
mod workspaces;

#[cfg(any(test, feature = "testing"))]
mod composed;

pub use archives::{Adopted, ArchiveRecords};
pub use audit::{ActorFilter, Audit, AuditFilter};
#[cfg(any(test, feature = "testing"))]
pub use composed::Composed;
pub use credentials::{
    Allowance, Attempts, Credentials, DeviceLogin, DeviceRedeemed, Handover, Redeemed, SessionEnd, Tried,
    WorkspaceOrigin, tries_at,
};
pub use garbage::{Garbage, GcClaim};
pub use leadership::{Clock, Leadership};
pub use people::{People, UserChange, UserWithHash};
pub use reconciling::{Due, Expired, Reading, Reconciling, Saved};
pub use settings::{BackendPart, Settings};
pub use workspaces::{
    Ask, Asked, Created, Holds, ListFilter, ListOrder, Page, PortSaved, Ports, Recovered, Workspaces,
};

/// Declares a theme as a trait, and that a [`Composed`] store passes it on to its part of that name.
macro_rules! theme {
    ($(#[$about:meta])* $theme:ident, $part:ident {
        $($(#[$contract:meta])* async fn $method:ident(&self $(, $arg:ident: $type:ty)* $(,)?) -> $answer:ty;)+
    }) => {
        $(#[$about])*
        #[async_trait::async_trait]
        pub trait $theme: Send + Sync + 'static {
            $($(#[$contract])* async fn $method(&self $(, $arg: $type)*) -> $answer;)+
        }

        #[cfg(any(test, feature = "testing"))]
        #[async_trait::async_trait]
        impl $theme for $crate::themes::Composed {
            $(async fn $method(&self $(, $arg: $type)*) -> $answer {
                self.$part.$method($($arg),*).await
            })+
        }
    };
}
use theme;

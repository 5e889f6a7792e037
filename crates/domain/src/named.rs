//! Enums whose variants have one written form each.

/// An enum whose variants have one written form each, used alike in the database, the API and logs.
macro_rules! named_enum {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$vdoc:meta])* $variant:ident => $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The one written form.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::named::UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::named::UnknownName {
                        what: $what,
                        given: text.chars().take(64).collect(),
                        allowed: &[$($text),+],
                    }),
                }
            }
        }
    };
}
pub(crate) use named_enum;

/// A word that is none of the allowed ones; the message lists them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no {what}; allowed are {}", allowed.join(", "))]
pub struct UnknownName {
    /// What kind of word was expected.
    pub what: &'static str,
    /// The word, cut to 64 characters.
    pub given: String,
    /// Every word that would have been accepted.
    pub allowed: &'static [&'static str],
}

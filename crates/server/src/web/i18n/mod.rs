//! What pages say, in every language they say it in.
//!
//! Fixed texts are one table ([`texts`]): a line has all languages, so a missing translation does not
//! compile. What depends on a value (a phase, a count, a time) is a function with an exhaustive
//! `match` ([`words`], [`trouble`], [`history`]).

pub mod history;
mod texts;
pub mod trouble;
pub mod words;

pub use codehub_proxy::appearance::Lang;
pub use texts::Texts;

impl Texts {
    /// All texts in a language.
    pub const fn of(lang: Lang) -> &'static Self {
        match lang {
            Lang::En => &Self::EN,
            Lang::Ko => &Self::KO,
        }
    }
}

//! What pages say, in every language they say it in.
//!
//! Fixed texts are one table ([`texts`]): a line has all languages, so a missing translation does not
//! compile. What depends on a value (a phase, a count, a time) is a function with an exhaustive
//! `match` ([`words`], [`trouble`], [`history`]).

pub mod history;
mod texts;
pub mod trouble;
pub mod words;

use http::{HeaderMap, header::ACCEPT_LANGUAGE};

pub use texts::Texts;

/// A language pages come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lang {
    En,
    Ko,
}

impl Lang {
    pub const ALL: [Self; 2] = [Self::En, Self::Ko];

    /// As HTML's `lang` and the cookie have it.
    pub const fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Ko => "ko",
        }
    }

    /// In its own words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::En => "English",
            Self::Ko => "한국어",
        }
    }

    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lang| lang.code() == code)
    }

    /// The first language of the browser's list that we speak, by its weights.
    pub fn accepted(headers: &HeaderMap) -> Self {
        let text = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut best = (0.0_f32, Self::En);
        for range in text.split(',') {
            let mut parts = range.split(';');
            let tag = parts.next().unwrap_or_default().trim();
            let primary = tag.split('-').next().unwrap_or_default().to_ascii_lowercase();
            let weight = parts
                .find_map(|part| part.trim().strip_prefix("q="))
                .map_or(1.0, |q| q.trim().parse::<f32>().unwrap_or(0.0));
            if let Some(lang) = Self::from_code(&primary)
                && weight > best.0
            {
                best = (weight, lang);
            }
        }
        best.1
    }

    pub const fn texts(self) -> &'static Texts {
        match self {
            Self::En => &Texts::EN,
            Self::Ko => &Texts::KO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browsers_first_choice_that_we_speak() {
        let table = [
            ("", Lang::En),
            ("ko", Lang::Ko),
            ("ko-KR,ko;q=0.9,en-US;q=0.8", Lang::Ko),
            ("en-US,en;q=0.9,ko;q=0.8", Lang::En),
            ("fr-FR,ko;q=0.5,en;q=0.4", Lang::Ko),
            ("en;q=0.1, KO-kr;q=0.2", Lang::Ko),
            ("ko;q=0, en", Lang::En),
            ("de", Lang::En),
            ("ko;q=nonsense", Lang::En),
        ];
        for (header, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_LANGUAGE, header.parse().unwrap());
            assert_eq!(Lang::accepted(&headers), expected, "{header:?}");
        }
    }
}

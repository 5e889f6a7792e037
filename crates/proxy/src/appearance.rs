//! For whom a page is drawn: the language and theme of the person, read once for the proxy's pages and the
//! dashboard's alike; and the few things both draw.

use codehub_domain::user::{self, Language};
use http::{
    HeaderMap,
    header::{ACCEPT_LANGUAGE, COOKIE},
};
use maud::{Markup, html};

/// The cookie with the code of the language that was picked.
pub const LANG_COOKIE: &str = "lang";
/// The cookie with the code of the theme that was picked.
pub const THEME_COOKIE: &str = "theme";

/// A language pages come in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lang {
    #[default]
    En,
    Ko,
}

impl Lang {
    /// In the order in which they are offered.
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

    /// The language with this [`code`](Self::code).
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lang| lang.code() == code)
    }

    /// What was picked on the dashboard, if anything was.
    pub fn chosen(headers: &HeaderMap) -> Option<Self> {
        cookie(headers, LANG_COOKIE).and_then(Self::from_code)
    }

    /// The language of an account, if one was chosen there.
    pub const fn of_account(language: Option<Language>) -> Option<Self> {
        match language {
            Some(Language::English) => Some(Self::En),
            Some(Language::Korean) => Some(Self::Ko),
            None => None,
        }
    }

    /// What an account keeps of it.
    pub const fn language(self) -> Language {
        match self {
            Self::En => Language::English,
            Self::Ko => Language::Korean,
        }
    }

    /// The language to answer in: the picked one, else what the browser asks for.
    pub fn of(headers: &HeaderMap) -> Self {
        Self::chosen(headers).unwrap_or_else(|| Self::accepted(headers))
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
}

/// Light, dark, or what the system says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Theme {
    #[default]
    Auto,
    Light,
    Dark,
}

impl Theme {
    /// In the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Light, Self::Dark];

    /// As the cookie has it.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// The theme with this [`code`](Self::code).
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.code() == code)
    }

    /// The theme of an account, if one was chosen there.
    pub const fn of_account(theme: Option<user::Theme>) -> Option<Self> {
        match theme {
            Some(user::Theme::Light) => Some(Self::Light),
            Some(user::Theme::Dark) => Some(Self::Dark),
            None => None,
        }
    }

    /// What an account keeps of it; what the system says is kept as nothing.
    pub const fn kept(self) -> Option<user::Theme> {
        match self {
            Self::Auto => None,
            Self::Light => Some(user::Theme::Light),
            Self::Dark => Some(user::Theme::Dark),
        }
    }

    /// The theme somebody picked.
    pub fn chosen(headers: &HeaderMap) -> Self {
        cookie(headers, THEME_COOKIE).and_then(Self::from_code).unwrap_or(Self::Auto)
    }

    /// What `<html data-theme>` says: nothing where the system decides.
    pub const fn forced(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Light | Self::Dark => Some(self.code()),
        }
    }

    /// What `<meta name="color-scheme">` says.
    pub const fn schemes(self) -> &'static str {
        match self {
            Self::Auto => "light dark",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// The first cookie of that name.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    cookies(headers, name).next()
}

/// All cookies of that name. One strange byte in another cookie hides none of them.
pub fn cookies<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let pairs = headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|b| *b == b';'));
    pairs.filter_map(move |pair| {
        let (key, value) = str::from_utf8(pair).ok()?.split_once('=')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The mark: two brackets around a hub.
pub fn logo() -> Markup {
    html! {
        svg.logo viewBox="0 0 32 32" width="28" height="28" aria-hidden="true" focusable="false" {
            rect.logo-tile width="32" height="32" rx="8" {}
            path.logo-mark d="M11.5 9 5.5 16l6 7M20.5 9l6 7-6 7" {}
            circle.logo-hub cx="16" cy="16" r="2.7" {}
        }
    }
}

/// `1.4 GB`: powers of ten, as disks are sold and browsers show downloads.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let (mut value, mut unit) = (count, 0);
    while value >= 999_950 && unit + 1 < UNITS.len() {
        value /= 1000;
        unit += 1;
    }
    let tenths = (value + 50) / 100;
    if tenths >= 1000 {
        format!("{} {}", (tenths + 5) / 10, UNITS[unit])
    } else {
        format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
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

    #[test]
    fn found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, http::HeaderValue::from_bytes(b"bad=\xff; a=1").unwrap());
        headers.append(COOKIE, http::HeaderValue::from_static("xlang=en; lang=ko; lang=en"));
        assert_eq!(cookie(&headers, "lang"), Some("ko"));
        assert_eq!(cookie(&headers, "a"), Some("1"));
        assert_eq!(cookie(&headers, "la"), None);
    }
}

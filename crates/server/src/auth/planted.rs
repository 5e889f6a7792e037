//! Service workers that control the dashboard: there are none of ours, so every one is planted (by a workspace, when
//! `Service-Worker-Allowed` was still compared and not replaced; or by another program that was once served from this
//! address). A browser keeps such a worker when its workspace is long gone, and it sees passwords.
//!
//! `Clear-Site-Data` removes it, also from an answer that the worker itself fetched (seen in Chromium, with a worker
//! that forwards the sign-in and with one that makes its own). It removes drafts that an editor keeps in the browser
//! with it, so it is sent once per browser: at the first sign-in, before there can be a draft. That a browser is done
//! is noted in a cookie whose value no page can know or read. A browser without it is not known to be clean; but cookies
//! get lost where drafts do not (a browser that is killed, another server at the same host), so the sign-in page's own
//! script says whether pages keep something there and no worker is in the way. Then only the cache is cleared.
//! The upgrade that brought this ended all sessions, so that everybody comes by here.

use codehub_store::StoreError;
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{COOKIE, SET_COOKIE},
};

use super::secret;
use crate::app::App;

const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");
/// The cache too: a worker's script with the header of before could still be in it.
const EVERYTHING_BUT_COOKIES: HeaderValue = HeaderValue::from_static("\"cache\", \"storage\"");
const CACHE: HeaderValue = HeaderValue::from_static("\"cache\"");
/// Sent to the sign-in form only, so workspaces never see it.
const COOKIE_NAME: &str = "clean";
const SETTING: &str = "clean_browser_mark";
/// As long as browsers keep a cookie; each sign-in begins it anew.
const SECONDS: u32 = 400 * 86_400;

/// Removes every service worker (and whatever else pages have stored) from the browser that gets this answer.
pub fn evict(answer: &mut HeaderMap) {
    answer.insert(CLEAR_SITE_DATA, EVERYTHING_BUT_COOKIES);
}

/// Removes planted workers as [`evict`] does, unless this browser is known to be clean; from then on it is. For the answer to a sign-in by the form,
/// which says whether something is `kept` in the browser that must not go, and no worker was seen.
///
/// # Errors
/// The store does not answer.
pub async fn evict_once(
    app: &App,
    request: &HeaderMap,
    kept: bool,
    answer: &mut HeaderMap,
) -> Result<(), StoreError> {
    let mark = app.store().setting_init(SETTING, &secret::new_secret()).await?;
    match (has_mark(request, &mark), kept) {
        (true, _) => {}
        (false, true) => {
            answer.insert(CLEAR_SITE_DATA, CACHE);
        }
        (false, false) => evict(answer),
    }
    answer.append(SET_COOKIE, cookie(&mark, app.config.is_https()));
    Ok(())
}

/// Whether one of the cookies is the mark. Others of that name were planted, and prove nothing.
fn has_mark(request: &HeaderMap, mark: &str) -> bool {
    let cookies = request.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|b| *b == b';'));
    let pairs = cookies.filter_map(|pair| str::from_utf8(pair).ok()?.trim().split_once('='));
    pairs
        .into_iter()
        .any(|(name, value)| name == COOKIE_NAME && secret::matches(value, &secret::hash_text(mark)))
}

fn cookie(mark: &str, https: bool) -> HeaderValue {
    let secure = if https { "; Secure" } else { "" };
    let text =
        format!("{COOKIE_NAME}={mark}; Path=/login; HttpOnly; SameSite=Lax; Max-Age={SECONDS}{secure}");
    // The mark is base64url, so this is always a valid header.
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mark_itself_counts() {
        for (cookies, clean) in [
            (&[][..], false),
            (&["clean=mark"], true),
            (&["a=b; clean=mark; c=d"], true),
            (&["clean=1"], false),
            (&["clean="], false),
            (&["clean"], false),
            (&["xclean=mark", "Clean=mark"], false),
            // Planted beside it: it neither helps nor hides.
            (&["clean=1; clean=mark"], true),
            (&["bad=\u{e9}; clean=1", "clean=2"], false),
        ] {
            let mut headers = HeaderMap::new();
            for cookie in cookies {
                headers.append(COOKIE, HeaderValue::from_bytes(cookie.as_bytes()).unwrap());
            }
            assert_eq!(has_mark(&headers, "mark"), clean, "{cookies:?}");
        }
    }

    #[test]
    fn pages_and_workspaces_do_not_get_to_see_it() {
        let plain = cookie("x", false);
        assert_eq!(plain, "clean=x; Path=/login; HttpOnly; SameSite=Lax; Max-Age=34560000");
        assert!(cookie("x", true).to_str().unwrap().ends_with("; Secure"));
    }
}

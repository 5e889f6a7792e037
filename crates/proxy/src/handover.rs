//! From the dashboard to a workspace's own origin, with nothing shared but a code that is good once: the cookie of the
//! dashboard is never sent there, and what is sent there is worth nothing anywhere else.
//!
//! 1. Whoever comes to the origin without a good cookie is sent to `/open/{id}` on the dashboard, with what a nonce in
//!    their browser hashes to ([`to_dashboard`]).
//! 2. There somebody signed in, to whom the workspace belongs and for whom it runs, gets a code ([`opened`]).
//! 3. At the origin the code and the nonce together become a session of that origin ([`enter`]).

use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use crate::{
    Context, Proxy, ProxyBody,
    authorize::{Identified, Keeper},
    error::ProxyError,
    gate::{Credential, Entered, HandoverState},
    metrics::Outcome,
    pages::{
        self,
        answers::{QUERY_VALUE, redirect},
    },
    policy::cookies,
    route,
};

/// Below a workspace's `.codehub/`.
pub(crate) const ENTER: &str = "enter";
/// How long a browser keeps the nonce: for as long as somebody needs to sign in.
const NONCE_SECONDS: u32 = 600;
/// How long a browser keeps the cookie of an origin. The session it came from ends sooner, or is prolonged.
const COOKIE_SECONDS: u32 = 30 * 86_400;
const LONGEST_TARGET: usize = 2048;
/// So many hand-overs to one origin are under way at once in a browser.
const MOST_NONCES: usize = 8;

/// The path somebody goes on to, below the workspace's base path: `/` where it is none, or could lead elsewhere.
fn target(text: &str) -> &str {
    let mut bytes = text.bytes();
    let is_path = bytes.next() == Some(b'/') && !matches!(bytes.next(), Some(b'/' | b'\\'));
    let is_plain = text.len() <= LONGEST_TARGET && text.bytes().all(|b| b.is_ascii_graphic());
    if is_path && is_plain { text } else { "/" }
}

/// The value of a parameter of a query.
fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.into_iter().find_map(|(key, value)| (key == name).then_some(value))?;
    Some(percent_decode_str(value).decode_utf8().ok()?.into_owned())
}

/// The port that `/open/{id}` is to lead to. `Err`: it says one, and that is none.
pub(crate) fn port_of(uri: &Uri) -> Result<Option<u16>, ProxyError> {
    let Some(said) = parameter(uri, "port") else { return Ok(None) };
    let port = said.parse::<u16>().ok().filter(|port| *port != 0 && said.bytes().all(|b| b.is_ascii_digit()));
    port.map(Some).ok_or(ProxyError::BadRequest("this is no port"))
}

fn has_flag(uri: &Uri, name: &str) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|part| part == name))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<HandoverState> {
    let mut state = HandoverState::default();
    if text.len() != 2 * state.len() || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (n, byte) in state.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * n..2 * n + 2)?, 16).ok()?;
    }
    Some(state)
}

fn state_of(nonce: &[u8]) -> HandoverState {
    Sha256::digest(nonce).into()
}

/// `Set-Cookie` for this origin alone.
fn set_cookie(name: &str, value: &str, seconds: u32, https: bool) -> Option<HeaderValue> {
    let secure = if https { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    HeaderValue::try_from(text).ok()
}

fn see_other(to: &str) -> Response<ProxyBody> {
    let to = HeaderValue::try_from(to).unwrap_or(HeaderValue::from_static("/"));
    unsaid(redirect(StatusCode::SEE_OTHER, to))
}

/// Nobody is told where this came from: there may be a code in it.
fn unsaid(mut response: Response<ProxyBody>) -> Response<ProxyBody> {
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Step 1: to the dashboard, and back to where this was.
pub(crate) fn to_dashboard(
    proxy: &Proxy,
    context: &Context,
    headers: &HeaderMap,
    uri: &Uri,
) -> Response<ProxyBody> {
    let here = route::upstream_target(uri, context.prefix, true).unwrap_or("/");
    let name = proxy.callers.nonce_cookie(context.origin());
    let port = context.port.map(|port| format!("port={port}&")).unwrap_or_default();
    // One that is there is kept, and two that were given at once have different names: tabs do not undo each other.
    let is_nonce = |nonce: &&[u8]| nonce.len() == 64 && nonce.iter().all(u8::is_ascii_hexdigit);
    let given =
        cookies::starting(headers, &name).find(is_nonce).and_then(|nonce| std::str::from_utf8(nonce).ok());
    let nonce = given.map_or_else(|| hex(&rand::random::<[u8; 32]>()), str::to_owned);
    let state = hex(&state_of(nonce.as_bytes()));
    let mut response = see_other(&format!(
        "{}{}{}?{port}to={}&state={state}",
        context.links.dashboard,
        route::OPEN,
        context.id,
        utf8_percent_encode(target(here), QUERY_VALUE),
    ));
    let name = format!("{name}.{}", &state[..8]);
    if let Some(cookie) = set_cookie(&name, &nonce, NONCE_SECONDS, proxy.settings.https()) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// Step 2: to the workspace's origin, for its owner and while it runs.
///
/// # Errors
/// The session has ended, or the rest of the server does not answer.
pub(crate) async fn opened(
    proxy: &Proxy,
    context: &Context,
    uri: &Uri,
    headers: &HeaderMap,
    identified: Identified,
) -> Result<Response<ProxyBody>, ProxyError> {
    let wanted = parameter(uri, "to").unwrap_or_default();
    let target = target(&wanted);
    let origins = proxy.settings.hosts.origins();
    let origin = match context.port {
        None => origins.url_seen_from(context.id, &context.asked),
        Some(port) => {
            origins.port_url_seen_from(context.id, port, &context.asked).ok_or(ProxyError::NoPorts)?
        }
    };
    let below = |path: &str| format!("{origin}{}", path.trim_start_matches('/'));
    let Some(state) = parameter(uri, "state").and_then(|state| from_hex(&state)) else {
        return Ok(see_other(&below(target)));
    };
    let pass = proxy.callers.pass(headers, Keeper::Dashboard, identified);
    let session = pass.as_ref().map(|pass| pass.credential());
    let Some(session @ Credential::Session(_)) = session else { return Err(ProxyError::SignIn) };
    let code = proxy.gate.hand_over(session, context.origin(), &state, target).await;
    let code = code.map_err(|error| ProxyError::Store(error.to_string()))?.ok_or(ProxyError::SignIn)?;
    proxy.metrics.request(Outcome::Redirected);
    Ok(see_other(&below(&format!(".codehub/{ENTER}?code={code}"))))
}

/// What follows a form that leads to `/open/{id}`; `None` where none was sent.
pub(crate) fn after_form(context: &Context, uri: &Uri) -> Option<Response<ProxyBody>> {
    if !has_flag(uri, route::AFTER_FORM) {
        return None;
    }
    let query = uri.query().unwrap_or_default();
    let rest: Vec<&str> = query.split('&').filter(|part| *part != route::AFTER_FORM).collect();
    let rest = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    Some(pages::goes_on(context.look, &context.links, &format!("{}{rest}", uri.path())))
}

/// Step 3: a session of this origin, or a page that says why not.
///
/// # Errors
/// The rest of the server does not answer.
pub(crate) async fn enter(
    proxy: &Proxy,
    context: &Context,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Response<ProxyBody>, ProxyError> {
    let code = parameter(uri, "code").unwrap_or_default();
    let nonce_name = proxy.callers.nonce_cookie(context.origin());
    // A browser without any is another one.
    let mut states: Vec<HandoverState> =
        cookies::starting(headers, &nonce_name).map(state_of).take(MOST_NONCES).collect();
    if states.is_empty() {
        states.push(HandoverState::default());
    }
    let entered = proxy.gate.enter(context.origin(), &code, &states).await;
    let (secret, target) = match entered.map_err(|error| ProxyError::Store(error.to_string()))? {
        Entered::Session { secret, target } => (secret, target),
        refused => {
            proxy.metrics.request(Outcome::Refused);
            return Ok(unsaid(pages::not_entered(context.look, &context.links, &refused, context.id)));
        }
    };
    let base = proxy.settings.hosts.origins().base_path(context.id);
    let mut response = see_other(&format!("{}{target}", base.trim_end_matches('/')));
    let name = proxy.callers.cookie(Keeper::Workspace(context.origin()));
    if let Some(cookie) = set_cookie(&name, &secret, COOKIE_SECONDS, proxy.settings.https()) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    proxy.metrics.request(Outcome::Redirected);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_stays_on_its_origin() {
        for good in ["/", "/a?b=c#d", "/a//b", "/%2F%2Fevil.example", "/a\\b"] {
            assert_eq!(target(good), good);
        }
        let long = format!("/{}", "x".repeat(LONGEST_TARGET));
        for bad in [
            "",
            "x",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/\n/x",
            "/a b",
            "/é",
            &long,
        ] {
            assert_eq!(target(bad), "/", "{bad}");
        }
    }

    #[test]
    fn states_are_read_as_they_are_written() {
        let state = state_of(b"nonce");
        assert_eq!(from_hex(&hex(&state)), Some(state));
        for bad in ["", "00", &"g".repeat(64), &"0".repeat(65), &"é".repeat(32)] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }

    #[test]
    fn parameters_are_decoded() {
        let uri: Uri = "/open/x?form&to=%2Fa%3Fb%3D%26&state=1".parse().unwrap();
        assert_eq!(parameter(&uri, "to").as_deref(), Some("/a?b=&"));
        assert!(has_flag(&uri, "form") && !has_flag(&uri, "to") && parameter(&uri, "form").is_none());
    }
}

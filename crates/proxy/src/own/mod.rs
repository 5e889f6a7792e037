//! What the proxy answers itself, below a workspace's `.codehub/`: how a page of the workspace learns when it will sleep,
//! wakes it in place, and keeps it awake.
//!
//! Below the workspace's own path, not in the API: a page may ask for it with nothing but the right to the workspace
//! it came from, also where workspaces have origins (and cookies) of their own (docs/adr/0015). None of it is
//! activity, except waking.

mod events;

use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};

use super::{
    Context, Proxy, ProxyBody,
    appearance::{Lang, Theme},
    authorize::{Identified, Pass},
    error::ProxyError,
    handover::ENTER,
    metrics::Outcome,
    pages::answers::{json, redirect},
    routes::Entry,
    wake::{
        self, NotReady,
        resolve::{Closed, Waiting},
    },
};
use crate::activity::ActivityKind;

const PREFIX: &str = "/.codehub/";

/// Whether this path, below the workspace's, is answered here.
pub(super) fn is_own(below: &str) -> bool {
    below.starts_with(PREFIX)
}

/// Whether somebody brings a code, and has no session here yet.
pub(super) fn is_entrance(method: &Method, below: &str) -> bool {
    *method == Method::GET && below.strip_prefix(PREFIX) == Some(ENTER)
}

/// What the workspace's owner asks for.
pub(super) enum Call {
    /// With where ports are seen from, whether they are told of, too.
    Events(Box<Pass>, Option<String>),
    /// The language and theme of the person, as a script that a page loads before anything else. What the browser
    /// said counts where nothing was chosen.
    Appearance(Lang, Theme),
    Wake,
    KeepAwake,
    /// The way to a page of the dashboard, wherever that is.
    Dashboard(String),
    WrongMethod,
    Nothing,
}

impl Call {
    /// `None`: it is the workspace's to answer.
    ///
    /// # Errors
    /// A page of another origin may not ask for this with the cookie.
    pub(super) fn of(
        proxy: &Proxy,
        context: &Context,
        request: &Request<ProxyBody>,
        identified: Identified,
    ) -> Result<Option<Self>, ProxyError> {
        let Some(name) = context.below(request.uri()).strip_prefix(PREFIX) else { return Ok(None) };
        if context.port.is_some() {
            // What is served at a port may be anybody's to see, and decides nothing about the workspace.
            return Ok(Some(Self::Nothing));
        }
        let headers = request.headers();
        let call = match (name, request.method()) {
            // It identified the caller a moment ago.
            ("events", &Method::GET) => {
                let pass = proxy.callers.pass(headers, context.keeper(), identified);
                let with_ports = request.uri().query() == Some("ports") && proxy.opens_ports();
                let seen_from = with_ports.then(|| context.asked.clone());
                Self::Events(Box::new(pass.ok_or(ProxyError::SignIn)?), seen_from)
            }
            ("appearance.js", &Method::GET) => Self::Appearance(Lang::of(headers), Theme::chosen(headers)),
            ("wake", &Method::POST) => Self::Wake,
            ("keep-awake", &Method::POST) => Self::KeepAwake,
            ("dashboard", &Method::GET) => Self::Dashboard(format!("{}/", context.links.dashboard)),
            ("workspace", &Method::GET) => {
                Self::Dashboard(format!("{}/workspaces/{}", context.links.dashboard, context.id))
            }
            ("events" | "appearance.js" | "wake" | "keep-awake" | "dashboard" | "workspace" | ENTER, _) => {
                Self::WrongMethod
            }
            _ => Self::Nothing,
        };
        if matches!(call, Self::Wake | Self::KeepAwake) {
            proxy.same_origin(context, headers, identified)?;
        }
        Ok(Some(call))
    }
}

/// Answers the workspace's owner.
///
/// # Errors
/// The rest of the server does not answer.
pub(super) async fn answer(
    proxy: &Arc<Proxy>,
    entry: &Arc<Entry>,
    call: Call,
    identified: Identified,
) -> Result<Response<ProxyBody>, ProxyError> {
    let response = match call {
        Call::Events(pass, ports) => events::stream(proxy, entry, *pass, ports),
        Call::Appearance(lang, theme) => appearance(proxy, identified, lang, theme).await?,
        Call::Wake => woken(proxy, entry, identified).await?,
        Call::KeepAwake => kept_awake(proxy, entry, identified).await?,
        Call::Dashboard(page) => {
            let to = HeaderValue::try_from(page);
            redirect(StatusCode::SEE_OTHER, to.unwrap_or(HeaderValue::from_static("/")))
        }
        Call::WrongMethod => json(StatusCode::METHOD_NOT_ALLOWED, "INVALID_REQUEST", "method not allowed"),
        Call::Nothing => json(StatusCode::NOT_FOUND, "NOT_FOUND", "there is nothing at this path"),
    };
    proxy.metrics.request(Outcome::Own);
    Ok(response)
}

/// A page of a workspace may share no cookie and no storage with the dashboard: this tells it what was chosen there.
async fn appearance(
    proxy: &Proxy,
    identified: Identified,
    lang: Lang,
    theme: Theme,
) -> Result<Response<ProxyBody>, ProxyError> {
    let kept = proxy.gate.appearance(identified.caller.user).await;
    let kept = kept.map_err(|error| ProxyError::Store(error.to_string()))?;
    let (lang, theme) = (kept.0.unwrap_or(lang), kept.1.unwrap_or(theme));
    let chosen = serde_json::json!({ "language": lang.code(), "theme": theme.code() });
    let script = format!("Object.assign(document.documentElement.dataset, {chosen});\n");
    let mut response = Response::new(ProxyBody::Full(script.into()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/javascript; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Wakes it as opening it would. 200: it runs. 202: ask again, each question is held for a while. 409: waking
/// alone does not help, and the message says what does.
async fn woken(
    proxy: &Proxy,
    entry: &Entry,
    identified: Identified,
) -> Result<Response<ProxyBody>, ProxyError> {
    let refused = |code, message| Ok(json(StatusCode::CONFLICT, code, message));
    match Box::pin(wake::hold(proxy, entry, identified.caller.user)).await {
        Ok(_) => {
            entry.cell.record(ActivityKind::Http);
            Ok(state(StatusCode::OK, "running"))
        }
        Err(NotReady::Loading(waiting, _)) => Ok(state(StatusCode::ACCEPTED, waiting_name(waiting))),
        Err(NotReady::Closed(Closed::Archived, _)) => refused("ARCHIVED", "the workspace is archived"),
        Err(NotReady::Closed(Closed::NotStarted, _)) => {
            refused("NOT_STARTED", "the workspace has not been started")
        }
        Err(NotReady::Closed(Closed::Broken, _)) => refused("BROKEN", "the workspace is in ERROR"),
        Err(NotReady::Limit(..)) => refused("LIMIT_REACHED", "too many workspaces are running"),
        Err(NotReady::Asleep) => refused("WORKSPACE_STANDBY", "the workspace is asleep"),
        Err(NotReady::Error(error)) => Err(error),
    }
}

async fn kept_awake(
    proxy: &Proxy,
    entry: &Entry,
    identified: Identified,
) -> Result<Response<ProxyBody>, ProxyError> {
    let kept = proxy.gate.keep_awake(entry.id, identified.caller.user).await;
    Ok(match kept.map_err(|error| ProxyError::Store(error.to_string()))? {
        Ok(()) => state(StatusCode::OK, "kept"),
        Err(why) => json(StatusCode::CONFLICT, "INVALID_STATE", &why),
    })
}

fn state(status: StatusCode, name: &str) -> Response<ProxyBody> {
    let mut response =
        Response::new(ProxyBody::Full(serde_json::json!({ "state": name }).to_string().into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn waiting_name(waiting: Waiting) -> &'static str {
    match waiting {
        Waiting::Starting => "starting",
        Waiting::Restoring => "restoring",
        Waiting::Stopping => "stopping",
        Waiting::Archiving => "archiving",
    }
}

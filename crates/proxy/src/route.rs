//! Which workspace a path is for (`/w/{id}/…`, `/open/{id}`), from its bytes exactly as they were sent.

use std::borrow::Cow;

use codehub_domain::{WorkspaceId, origins::Origins};
use http::{HeaderValue, Uri};

/// What a path under `/w/` names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    Workspace(WorkspaceId),
    /// `/w/{id}`: goes on at `/w/{id}/`, query kept.
    Redirect(HeaderValue),
    /// An id that is no id names nothing.
    Nothing,
}

const ROOT: &str = "/w/";
/// Where somebody is led on to a workspace's own origin.
pub(super) const OPEN: &str = "/open/";
/// A form was sent, and this follows it.
pub(super) const AFTER_FORM: &str = "form";
/// `/w/` and a hyphenated UUID.
pub(super) const PREFIX_LEN: usize = ROOT.len() + 36;

pub(super) fn parse(uri: &Uri) -> Target {
    let Some((id, rest)) = split(uri.path()) else { return Target::Nothing };
    match rest.as_bytes() {
        [b'/', ..] => Target::Workspace(id),
        [_, ..] => Target::Nothing,
        [] => {
            let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            HeaderValue::try_from(format!("/w/{id}/{query}")).map_or(Target::Nothing, Target::Redirect)
        }
    }
}

/// The workspace that a path names, and what stands behind its id.
pub(super) fn split(path: &str) -> Option<(WorkspaceId, &str)> {
    let (id, rest) = path.strip_prefix(ROOT)?.split_at_checked(PREFIX_LEN - ROOT.len())?;
    Some((id.parse().ok()?, rest))
}

/// What all paths of a workspace begin with, on the origin where it is.
pub(super) struct Base {
    /// `/w/{id}/`, or `/` on an origin of its own.
    pub path: String,
    /// The same without the slash at its end.
    pub prefix: HeaderValue,
    /// That origin is not the dashboard's.
    pub apart: bool,
}

impl Base {
    pub(super) fn of(id: WorkspaceId, origins: &Origins) -> Self {
        let path = origins.base_path(id);
        let prefix = HeaderValue::from_str(path.trim_end_matches('/'));
        Self { path, prefix: prefix.unwrap_or(HeaderValue::from_static("")), apart: origins.are_apart() }
    }
}

/// How long the prefix of every workspace is.
pub(super) fn prefix_len(origins: &Origins) -> usize {
    if origins.are_own() { 0 } else { PREFIX_LEN }
}

/// An address of ours to come back to after a form: `/open/{id}` leads to another origin, and is told not to do so by a
/// redirect.
pub(super) fn after_form(path: &str) -> Cow<'_, str> {
    match path.split_once('?') {
        _ if !path.starts_with(OPEN) => path.into(),
        None => format!("{path}?{AFTER_FORM}").into(),
        Some((path, query)) => format!("{path}?{AFTER_FORM}&{query}").into(),
    }
}

/// The workspace in `/open/{id}`.
pub(super) fn opened(path: &str) -> Option<WorkspaceId> {
    path.strip_prefix(OPEN)?.parse().ok()
}

/// `/w/{id}/`
pub(super) fn base_path(id: WorkspaceId) -> String {
    format!("{ROOT}{id}/")
}

/// The path below a prefix that is there.
pub(super) fn below(uri: &Uri, prefix: usize) -> &str {
    uri.path().get(prefix..).unwrap_or_default()
}

/// What the workspace is asked for: the same bytes, with or without a prefix that is there.
pub(super) fn upstream_target(uri: &Uri, prefix: usize, strip_prefix: bool) -> Option<&str> {
    let whole = uri.path_and_query()?.as_str();
    let target = if strip_prefix { whole.get(prefix..)? } else { whole };
    target.starts_with('/').then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    #[test]
    fn paths_name_workspaces() {
        let id: WorkspaceId = ID.parse().unwrap();
        let redirect = |to: &str| Target::Redirect(HeaderValue::try_from(to).unwrap());
        for (path, expected) in [
            (format!("/w/{ID}/"), Target::Workspace(id)),
            (format!("/w/{ID}/a%2Fb//c?d=%20"), Target::Workspace(id)),
            (format!("http://host/w/{ID}/x"), Target::Workspace(id)),
            (format!("/w/{ID}"), redirect(&format!("/w/{ID}/"))),
            (format!("/w/{ID}?a=%2F&b"), redirect(&format!("/w/{ID}/?a=%2F&b"))),
            (format!("/w/{}/", ID.to_uppercase()), Target::Nothing),
            (format!("/w/{ID}x/"), Target::Nothing),
            (format!("/w/{ID}%2F"), Target::Nothing),
            ("/w/".into(), Target::Nothing),
            ("/w/x/".into(), Target::Nothing),
            (format!("/x/{ID}/"), Target::Nothing),
            (format!("/w//{ID}/"), Target::Nothing),
        ] {
            assert_eq!(parse(&path.parse().unwrap()), expected, "{path}");
        }
    }

    #[test]
    fn what_follows_the_prefix_is_kept_byte_for_byte() {
        for (rest, expected) in [
            ("/", "/"),
            ("/?a=b", "/?a=b"),
            ("//evil.example/x", "//evil.example/x"),
            ("/a/../b/./c", "/a/../b/./c"),
            ("/%2e%2E/%00%ff?x=%zz&y=a+b", "/%2e%2E/%00%ff?x=%zz&y=a+b"),
            ("/a?b?c=/d", "/a?b?c=/d"),
            ("/한글?q=값", "/한글?q=값"),
        ] {
            let uri: Uri = format!("/w/{ID}{rest}").parse().unwrap();
            assert_eq!(upstream_target(&uri, PREFIX_LEN, true).unwrap(), expected);
            assert_eq!(upstream_target(&uri, PREFIX_LEN, false).unwrap(), format!("/w/{ID}{rest}"));
        }
    }
}

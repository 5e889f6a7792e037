//! One workspace in the list: the markup the page has and the fragment that live updates fetch.

use codehub_domain::{
    Desired, Operation, Phase, Workspace,
    desired::{Answer, ask},
    ttl::Expiry,
    user::User,
};
use codehub_store::is_active;
use maud::{Markup, html};

use super::{
    components,
    i18n::{trouble, words},
    icons,
    view::PageContext,
};
use crate::service::{self, Access};

/// What somebody can do with a workspace now. The rules are the domain's and the service's; what is
/// left out here would only be refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Buttons {
    pub(super) open: bool,
    pub(super) start: bool,
    pub(super) stop: bool,
    pub(super) archive: bool,
    pub(super) recover: bool,
    pub(super) delete: bool,
    pub(super) edit: bool,
}

impl Buttons {
    pub(super) fn of(user: &User, workspace: &Workspace) -> Self {
        let may = |access| service::permit(user, workspace, access).is_ok();
        let can = |desired| may(service::access_for(desired)) && ask(workspace, desired) == Answer::Change;
        let (phase, operation) = (workspace.status.phase, workspace.status.operation);
        Self {
            open: may(Access::Own)
                && match phase {
                    Phase::Running => operation == Operation::None,
                    Phase::Standby => {
                        matches!(operation, Operation::None | Operation::Starting)
                            && matches!(workspace.desired, Desired::Running | Desired::Standby)
                    }
                    Phase::Pending | Phase::Archived | Phase::Error | Phase::Deleting | Phase::Deleted => {
                        false
                    }
                },
            start: can(Desired::Running)
                && matches!(phase, Phase::Pending | Phase::Archived | Phase::Standby),
            stop: can(Desired::Standby) && phase == Phase::Running,
            archive: can(Desired::Archived) && matches!(phase, Phase::Running | Phase::Standby),
            recover: may(Access::Manage) && phase == Phase::Error && operation == Operation::None,
            delete: can(Desired::Deleted),
            edit: may(Access::Own),
        }
    }
}

/// A workspace with what the list says about it.
pub(super) struct Row<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) user: &'a User,
    /// Whose it is, where that is worth saying.
    pub(super) owner: Option<&'a str>,
    /// What it will do by itself, and when.
    pub(super) expiry: Option<Expiry>,
    /// Where its buttons come back to.
    pub(super) back: &'a str,
}

impl Row<'_> {
    pub(super) fn render(&self, view: &PageContext) -> Markup {
        let ws = self.workspace;
        let id = ws.id;
        html! {
            li.ws id={ "ws-" (id) } data-testid="workspace" data-id=(id) data-version=(ws.updated_at)
                data-phase=(ws.status.phase) data-operation=(ws.status.operation) data-name=(ws.name)
                data-label=(label(view, ws)) data-busy[is_active(ws)] data-poll[ws.owner != self.user.id] {
                div.ws-name {
                    h2 { a href={ "/workspaces/" (id) } data-testid="workspace-name" { (ws.name) } }
                    @if let Some(owner) = self.owner {
                        p.owner { (icons::person()) span.sr-only { (view.t.owner) " " } (owner) }
                    }
                    @if !ws.description.is_empty() { p.description { (ws.description) } }
                }
                div.ws-state { (state(view, ws, self.expiry, true)) }
                div.ws-actions { (actions(view, self.user, ws, self.back, false)) }
            }
        }
    }
}

/// What a screen reader hears when it changes.
pub(super) fn label(view: &PageContext, ws: &Workspace) -> String {
    match ws.status.operation {
        Operation::None => words::phase(view.lang, ws.status.phase).to_owned(),
        operation => words::operation(view.lang, operation).to_owned(),
    }
}

/// Phase, what is being done, how far, what went wrong, what comes next by itself.
pub(super) fn state(
    view: &PageContext,
    ws: &Workspace,
    expiry: Option<Expiry>,
    with_trouble: bool,
) -> Markup {
    let (lang, status) = (view.lang, &ws.status);
    html! {
        div.state-line {
            (components::badge(lang, status.phase))
            @if status.operation != Operation::None {
                span.operation data-testid="operation" {
                    span.spinner aria-hidden="true" {} (words::operation(lang, status.operation))
                }
            } @else if is_active(ws) && status.phase != Phase::Error {
                span.operation data-testid="operation" {
                    span.spinner aria-hidden="true" {} (words::waiting(lang, ws.desired))
                }
            } @else if let Some(expiry) = expiry {
                span.countdown data-testid="countdown" {
                    @let (before, after) = words::expiry(lang, expiry.to);
                    (icons::clock()) span { (before) (components::ahead(view, expiry.acts_at)) (after) }
                }
            }
        }
        @if let Some(progress) = status.progress {
            (components::progress_bar(lang, words::operation(lang, status.operation), progress))
        }
        @if let Some(failure) = status.error.as_ref().filter(|_| with_trouble) {
            p.trouble.passing[!failure.reason.is_terminal()] data-testid="error-reason" data-reason=(failure.reason) {
                strong { (trouble::reason(lang, failure.reason)) }
                @if !failure.reason.is_terminal() {
                    " · " (words::failed_times(lang, status.error_count))
                    @if let Some(at) = status.next_retry_at {
                        " · " (view.t.tries_again) " " (components::ahead(view, at))
                    }
                }
            }
        }
    }
}

/// The buttons of a workspace, most wanted first.
pub(super) fn actions(
    view: &PageContext,
    user: &User,
    ws: &Workspace,
    back: &str,
    with_edit: bool,
) -> Markup {
    let (t, buttons) = (view.t, Buttons::of(user, ws));
    let to = |verb: &str| format!("/workspaces/{}/{verb}", ws.id);
    let start = if ws.status.phase == Phase::Archived { t.restore } else { t.start };
    let start_class = if buttons.open { "" } else { "primary" };
    html! {
        @if buttons.open {
            a.button.primary href={ "/w/" (ws.id) "/" } data-testid="open" {
                (icons::open()) (t.open) span.sr-only { " " (ws.name) }
            }
        }
        @if buttons.recover {
            a.button.primary href={ "/workspaces/" (ws.id) "#recover" } data-testid="recover-link" {
                (t.recover_verb) span.sr-only { " " (ws.name) }
            }
        }
        @if buttons.start {
            (components::post_button(&to("start"), back, start_class, "start", start, &ws.name))
        }
        @if buttons.stop { (components::post_button(&to("stop"), back, "", "stop", t.stop, &ws.name)) }
        @if buttons.archive {
            (components::post_button(&to("archive"), back, "", "archive", t.archive_verb, &ws.name))
        }
        @if buttons.edit && with_edit {
            a.button href=(to("edit")) data-dialog data-testid="edit" { (t.edit) }
        }
        @if buttons.delete {
            a.button.danger href=(to("delete")) data-dialog data-testid="delete" {
                (t.delete) span.sr-only { " " (ws.name) }
            }
        }
    }
}

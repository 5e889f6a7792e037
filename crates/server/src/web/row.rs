//! One workspace in the list: the markup the page has and the fragment that live updates fetch.

use codehub_domain::{
    Desired, Operation, Phase, Timestamp, Workspace,
    desired::{Answer, ask},
    ttl::Expiry,
    user::User,
};
use codehub_store::is_active;
use maud::{Markup, html};

use super::{
    components, forms,
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
    /// How large its home was when it was last archived, where that is known.
    pub(super) size: Option<u64>,
    /// What keeps it awake, and since or until when.
    pub(super) awake: Option<(&'static str, Timestamp)>,
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
                label.ws-pick {
                    input type="checkbox" name="id" value=(id) form="bulk" autocomplete="off" data-testid="pick";
                    span.sr-only { (view.t.select) " " (ws.name) }
                }
                div.ws-name {
                    h2 { a href={ "/workspaces/" (id) } data-testid="workspace-name" { (ws.name) } }
                    @if let Some(owner) = self.owner {
                        p.owner { (icons::person()) span.sr-only { (view.t.owner) " " } (owner) }
                    }
                    @if !ws.description.is_empty() { p.description { (ws.description) } }
                }
                div.ws-state {
                    (state(view, ws, self.expiry, true))
                    (self.usage(view))
                }
                div.ws-actions { (actions(view, self.user, ws, self.back, Place::List)) }
            }
        }
    }

    /// Why it is awake or when it was last used, and how much it holds.
    fn usage(&self, view: &PageContext) -> Markup {
        let (lang, t) = (view.lang, view.t);
        html! {
            p.usage data-testid="usage" {
                @match self.awake {
                    Some((kind, at)) => span data-testid="awake-because" data-kind=(kind) {
                        (t.active_because) ": " (words::activity(lang, kind)) " "
                        @if kind == "hold" { (t.until) " " (components::ahead(view, at)) }
                        @else if kind != "open_connection" { (components::moment(view, at)) }
                    },
                    None => span data-testid="last-used" {
                        (t.last_used) " " (components::moment(view, self.workspace.last_access_at))
                    },
                }
                @if let Some(size) = self.size {
                    span data-testid="size" title=(t.size_hint) { span.sr-only { (t.size) " " } (words::bytes(size)) }
                }
            }
        }
    }
}

/// Where buttons are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Room for the one or two that are wanted most.
    List,
    /// Room for all of them.
    Page,
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

/// The buttons of a workspace, most wanted first; what ends something for good stands behind "⋯".
pub(super) fn actions(view: &PageContext, user: &User, ws: &Workspace, back: &str, place: Place) -> Markup {
    let (t, buttons) = (view.t, Buttons::of(user, ws));
    let to = |verb: &str| format!("/workspaces/{}/{verb}", ws.id);
    let start = if ws.status.phase == Phase::Archived { t.restore } else { t.start };
    let start_class = if buttons.open { "" } else { "primary" };
    let archive = |class: &str| {
        components::post_button(&to("archive"), back, class, "archive", t.archive_verb, &ws.name)
    };
    let edit = |class: &str| {
        html! {
            a.button[class.is_empty()].menu-item[!class.is_empty()] href=(to("edit")) data-dialog data-testid="edit" {
                (t.edit) span.sr-only { " " (ws.name) }
            }
        }
    };
    let roomy = place == Place::Page;
    let hides = buttons.delete || (!roomy && (buttons.archive || buttons.edit));
    html! {
        @if buttons.open {
            a.button.primary href={ "/open/" (ws.id) } data-testid="open" {
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
        @if buttons.archive && roomy { (archive("")) }
        @if buttons.edit && roomy { (edit("")) }
        @if hides {
            details.acts data-testid="more" {
                summary.button { (icons::dots()) span.sr-only { (t.more_actions) " " (ws.name) } }
                div.menu-panel {
                    @if buttons.edit && !roomy { (edit("menu-item")) }
                    @if buttons.archive && !roomy { (archive("menu-item")) }
                    @if buttons.delete {
                        a.menu-item.danger href={ (to("delete")) "?back=" (forms::query_value(back)) } data-dialog data-testid="delete" {
                            (t.delete) span.sr-only { " " (ws.name) }
                        }
                    }
                }
            }
        }
    }
}

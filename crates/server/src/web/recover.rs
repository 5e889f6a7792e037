//! What went wrong, what it means, and the ways out.
//!
//! Which ways there are is the domain's to say: it is asked what would become of each.

use codehub_domain::{
    ArchiveKey, Desired, Operation, Phase, Status, Truth,
    recovery::{Recovery, RecoveryRefusal, home_is_lost, recover},
};
use codehub_runtime::archives::ListedArchive;
use maud::{Markup, html};

use super::{
    components::{ahead, moment},
    detail::Detail,
    i18n::{trouble, words},
    icons, row,
    view::{Me, PageContext},
};
use crate::service;

/// The ways out of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ways {
    /// Clear the error and let reality decide again.
    pub(super) again: bool,
    /// Give the home up and begin with an empty one.
    pub(super) empty: bool,
    /// Going back to an archive would drop a home that is still there.
    pub(super) restoring_drops: bool,
}

impl Ways {
    pub(super) fn of(status: &Status, any_archive: Option<&ListedArchive>) -> Option<Self> {
        if status.phase != Phase::Error || status.operation != Operation::None {
            return None;
        }
        let empty = recover(status, Recovery { accept_data_loss: true, ..Recovery::default() });
        Some(Self {
            // A lost home may have been put back meanwhile: it is looked for then.
            again: recover(status, Recovery::default()).is_ok() || home_is_lost(status),
            empty: status.home.truth != Truth::None && empty.is_ok_and(|next| next.home.truth == Truth::None),
            restoring_drops: any_archive.and_then(|one| drops_home(status, one.key)).unwrap_or(false),
        })
    }
}

/// Whether going back to this archive would drop a home that is still there; `None` when there is no
/// going back to it now.
pub(super) fn drops_home(status: &Status, key: ArchiveKey) -> Option<bool> {
    let ask = |accept_data_loss| {
        recover(status, Recovery { restore_from: Some(key), accept_data_loss, ..Recovery::default() })
    };
    ask(true).ok().map(|_| ask(false) == Err(RecoveryRefusal::WouldDropHome))
}

/// The error, if there is one; an empty part otherwise, so that it can appear later.
pub(super) fn panel(me: &Me, detail: &Detail) -> Markup {
    let (view, t, status) = (&me.view, me.view.t, &detail.workspace.status);
    let Some(failure) = &status.error else {
        return html! { section #part-error data-part {} };
    };
    let archives = detail.archives.as_deref().unwrap_or_default();
    let may = row::Buttons::of(me.user(), &detail.workspace).recover;
    html! {
        section #part-error data-part .card.error-card[failure.reason.is_terminal()]
            aria-labelledby="error-title" data-testid="error" data-reason=(failure.reason) {
            h2 #error-title { (icons::phase(Phase::Error)) (trouble::reason(view.lang, failure.reason)) }
            p { (trouble::reason_meaning(view.lang, failure.reason)) }
            @if !failure.message.is_empty() {
                p.said { span.quiet { (t.in_its_words) " " } code.break { (failure.message) } }
            }
            p.quiet {
                (words::failed_times(view.lang, status.error_count.max(1)))
                " · " code { (failure.reason) }
                @if let Some(at) = status.next_retry_at { " · " (t.tries_again) " " (ahead(view, at)) }
            }
            @if may {
                @if let Some(ways) = Ways::of(status, archives.first()) {
                    (forms(me, detail, archives, ways))
                }
            }
        }
    }
}

fn forms(me: &Me, detail: &Detail, archives: &[ListedArchive], ways: Ways) -> Markup {
    let (view, t) = (&me.view, me.view.t);
    let action = format!("/workspaces/{}/recover", detail.workspace.id);
    let restore = html! {
        @if archives.is_empty() {
            p.quiet data-testid="no-archives" {
                @if detail.archives.is_none() { (t.archives_unreachable) } @else { (t.no_archive_to_restore) }
            }
        } @else {
            form.stack method="post" action=(action) data-testid="recover-restore" {
                fieldset.field {
                    legend { (t.choose_archive) }
                    div.choices.column {
                        @for (n, archive) in archives.iter().enumerate() {
                            label {
                                input type="radio" name="restore_from" value=(archive.key) checked[n == 0] required;
                                " " (moment(view, archive.modified_at)) " · " (words::bytes(archive.size))
                            }
                        }
                    }
                }
                (confirm_going_back(view, ways.restoring_drops))
                div.actions { button type="submit" .primary[!ways.again] data-testid="recover-restore-go" { (t.restore_archive) } }
            }
        }
    };
    // What it is wanted to be may be what went wrong. Starting is the owner's.
    let choices = [(Desired::Running, t.recover_and_start), (Desired::Standby, t.recover_and_wait)];
    let instead = choices.into_iter().filter(|(desired, _)| {
        *desired != detail.workspace.desired
            && service::permit(me.user(), &detail.workspace, service::access_for(*desired)).is_ok()
    });
    html! {
        div #recover .ways {
            @if ways.again {
                div.way {
                    h3 { (t.try_again) }
                    p { (t.try_again_text) }
                    form method="post" action=(action) data-testid="recover-again" {
                        div.actions {
                            button.primary type="submit" data-testid="recover" { (t.try_again) }
                            @for (desired, text) in instead {
                                button type="submit" name="desired_state" value=(desired)
                                    data-testid={ "recover-" (desired) } { (text) }
                            }
                        }
                    }
                }
            }
            @if ways.restoring_drops {
                details.way { summary { (t.go_back) } (restore) }
            } @else {
                div.way { h3 { (t.go_back) } (restore) }
            }
            @if ways.empty {
                div.way {
                    h3 { (t.start_empty) }
                    p { (t.start_empty_text) }
                    form.stack method="post" action=(action) data-testid="recover-empty" {
                        (confirmation(t.confirm_empty, true))
                        div.actions { button.danger type="submit" data-testid="recover-empty-go" { (t.start_empty) } }
                    }
                }
            }
        }
    }
}

/// The box to tick before an archive becomes the home.
pub(super) fn confirm_going_back(view: &PageContext, drops_home: bool) -> Markup {
    confirmation(if drops_home { view.t.confirm_drop } else { view.t.confirm_restore }, drops_home)
}

/// A box that must be ticked; what it says is sent only where the rules ask for it.
fn confirmation(text: &str, accepts_loss: bool) -> Markup {
    html! {
        label.check {
            input type="checkbox" name=(if accepts_loss { "accept_data_loss" } else { "understood" }) value="yes" required
                data-testid="confirm-loss";
            span { (text) }
        }
    }
}

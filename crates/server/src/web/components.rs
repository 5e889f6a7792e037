//! The pieces pages are made of.

use codehub_domain::{Phase, Timestamp};
use maud::{Markup, html};

use super::{
    forms::Wrong,
    i18n::{Lang, words},
    icons,
    view::PageContext,
};

/// A phase as icon, word and colour: never colour alone.
pub(super) fn badge(lang: Lang, phase: Phase) -> Markup {
    let class = format!("badge phase-{}", phase.as_str().to_ascii_lowercase());
    html! {
        span class=(class) data-testid="phase" data-phase=(phase) {
            (icons::phase(phase)) (words::phase(lang, phase))
        }
    }
}

/// A moment: how long ago or ahead for reading, exactly in the title. The script keeps it going and
/// puts the reader's own time zone into the title.
pub(super) fn moment(view: &PageContext, at: Timestamp) -> Markup {
    // What has just been written down may have been so after this page began.
    let just = (0..3).contains(&(at.as_second() - view.now.as_second()));
    let shown = if just { view.now } else { at };
    html! {
        time datetime=(at) title=(words::exact(at)) { (words::relative(view.lang, shown, view.now)) }
    }
}

/// A moment that lies ahead, and is never said to be past: what should happen then is late, not gone.
pub(super) fn ahead(view: &PageContext, at: Timestamp) -> Markup {
    html! {
        time datetime=(at) title=(words::exact(at)) data-ahead {
            (words::relative(view.lang, at.max(view.now), view.now))
        }
    }
}

/// Bytes moved of bytes to move; without a total, only that it moves.
pub(super) fn progress_bar(lang: Lang, label: &str, progress: codehub_domain::Progress) -> Markup {
    html! {
        div.progress data-testid="progress" {
            @if progress.total > 0 {
                progress max=(progress.total) value=(progress.done.min(progress.total)) aria-label=(label) {}
            } @else {
                progress aria-label=(label) {}
            }
            // Before anything has moved there is nothing to count.
            @if progress.total > 0 || progress.done > 0 {
                span.progress-text { (words::progress(lang, progress)) }
            }
        }
    }
}

/// A form that is one button.
pub(super) fn post_button(
    action: &str,
    back: &str,
    class: &str,
    testid: &str,
    text: &str,
    about: &str,
) -> Markup {
    html! {
        form method="post" action=(action) data-inline {
            input type="hidden" name="back" value=(back);
            button class=(class) type="submit" data-testid=(testid) {
                (text) span.sr-only { " " (about) }
            }
        }
    }
}

/// What is wrong with a field, said below it and tied to it for screen readers.
pub(super) fn field_error(view: &PageContext, wrong: &[Wrong], field: &str) -> Markup {
    html! {
        @for one in wrong.iter().filter(|one| one.field == field) {
            p.field-error #{ (field) "-error" } data-testid="field-error" { (one.problem.text(view.lang)) }
        }
    }
}

pub(super) struct Field<'a> {
    pub(super) name: &'static str,
    pub(super) label: &'a str,
    pub(super) kind: &'static str,
    pub(super) value: &'a str,
    pub(super) hint: Option<&'a str>,
    pub(super) autocomplete: &'static str,
    pub(super) required: bool,
    pub(super) autofocus: bool,
    pub(super) max: Option<usize>,
    /// The id of a list of suggestions.
    pub(super) list: Option<&'static str>,
}

impl<'a> Field<'a> {
    pub(super) fn text(name: &'static str, label: &'a str, value: &'a str) -> Self {
        Self {
            name,
            label,
            kind: "text",
            value,
            hint: None,
            autocomplete: "off",
            required: false,
            autofocus: false,
            max: None,
            list: None,
        }
    }

    /// Never filled in again by us.
    pub(super) fn password(name: &'static str, label: &'a str, autocomplete: &'static str) -> Self {
        Self {
            kind: "password",
            autocomplete,
            required: true,
            max: Some(1024),
            ..Self::text(name, label, "")
        }
    }

    pub(super) fn render(&self, view: &PageContext, wrong: &[Wrong]) -> Markup {
        let name = self.name;
        let is_wrong = wrong.iter().any(|one| one.field == name);
        let described = match (self.hint.is_some(), is_wrong) {
            (false, false) => None,
            (true, false) => Some(format!("{name}-hint")),
            (false, true) => Some(format!("{name}-error")),
            (true, true) => Some(format!("{name}-hint {name}-error")),
        };
        html! {
            div.field {
                label for=(name) { (self.label) }
                input id=(name) name=(name) type=(self.kind) value=[(self.kind != "password").then_some(self.value)]
                    autocomplete=(self.autocomplete) required[self.required] autofocus[self.autofocus]
                    maxlength=[self.max] list=[self.list] aria-invalid=[is_wrong.then_some("true")]
                    aria-describedby=[described] data-testid={ "field-" (name) };
                @if let Some(hint) = self.hint {
                    p.hint #{ (name) "-hint" } { (hint) }
                }
                (field_error(view, wrong, name))
            }
        }
    }
}

/// A question before something that cannot be undone. Also shown in a dialog by the script.
pub(super) struct Confirm<'a> {
    pub(super) title: String,
    pub(super) text: Markup,
    pub(super) action: String,
    pub(super) yes: &'a str,
    pub(super) no_href: String,
    pub(super) hidden: &'a [(&'static str, String)],
}

impl Confirm<'_> {
    pub(super) fn render(&self, view: &PageContext) -> Markup {
        html! {
            section.card.narrow.confirm data-dialog-content data-testid="confirm" {
                h1 #dialog-title { (self.title) }
                div.prose { (self.text) }
                form.actions method="post" action=(self.action) {
                    @for (name, value) in self.hidden {
                        input type="hidden" name=(name) value=(value);
                    }
                    a.button href=(self.no_href) data-close data-testid="confirm-no" { (view.t.cancel) }
                    button.danger.solid type="submit" data-testid="confirm-yes" { (self.yes) }
                }
            }
        }
    }
}

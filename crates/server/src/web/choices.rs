//! What a workspace's form lets people choose besides names and times: the home it begins with, its
//! image, and what counts as being in use.

use codehub_archive::ArchiveMeta;
use codehub_domain::{Workspace, activity::ActivityMode};
use maud::{Markup, html};

use super::{
    components::{Field, field_error, moment},
    error::{Result, WebError},
    forms::{WorkspaceForm, Wrong},
    i18n::words,
    view::{Me, PageContext},
};
use crate::{
    app::App,
    config::RuntimeConfig,
    service::{Denied, archives},
};

/// Whose home a new workspace begins with, and when that was archived.
pub(super) struct Source {
    pub(super) workspace: Workspace,
    archive: ArchiveMeta,
}

impl Source {
    /// The archive a link names. One that is not to be had is a page that does not exist.
    pub(super) async fn named(app: &App, me: &Me, key: &str) -> Result<Self> {
        let key = key.parse().map_err(|_| WebError::NotFound)?;
        match archives::source(app, me.user(), key).await {
            Ok((workspace, archive)) => Ok(Self { workspace, archive }),
            Err(Denied::Invalid { .. }) => Err(WebError::NotFound),
            Err(other) => Err(other.into()),
        }
    }

    /// As far as it can be said again: the form was refused, and that is what the page is about.
    pub(super) async fn of(app: &App, me: &Me, form: &WorkspaceForm) -> Option<Self> {
        Self::named(app, me, &form.from_archive).await.ok()
    }

    /// The name a copy is offered.
    pub(super) fn copy_name(&self, view: &PageContext) -> String {
        words::copy_of(view.lang, &self.workspace.name)
            .chars()
            .take(codehub_domain::fields::NAME_MAX)
            .collect()
    }
}

pub(super) fn source_note(
    view: &PageContext,
    form: &WorkspaceForm,
    source: Option<&Source>,
    wrong: &[Wrong],
) -> Markup {
    html! {
        @if !form.from_archive.is_empty() {
            div.field {
                input type="hidden" name="from_archive" value=(form.from_archive);
                @if let Some(source) = source {
                    p.said data-testid="source" {
                        (words::begins_with(view.lang, &source.workspace.name)) " " (moment(view, source.archive.created_at))
                    }
                }
                (field_error(view, wrong, "from_archive"))
            }
        }
    }
}

/// A list where all that is allowed has a name; a field with suggestions where patterns are allowed.
pub(super) fn image_field(
    view: &PageContext,
    runtime: &RuntimeConfig,
    form: &WorkspaceForm,
    wrong: &[Wrong],
) -> Markup {
    if !runtime.has_choice_of_images() {
        return Markup::default();
    }
    let (t, (names, patterns)) = (view.t, runtime.named_images());
    let chosen = if form.image_ref.is_empty() { &runtime.image } else { &form.image_ref };
    html! {
        @if patterns {
            (Field {
                list: Some("images"),
                hint: Some(&words::images(view.lang, &runtime.images_allowed)),
                ..Field::text("image_ref", t.image, chosen)
            }.render(view, wrong))
            datalist #images { @for name in names { option value=(name) {} } }
        } @else {
            div.field {
                label for="image_ref" { (t.image) }
                select #image_ref name="image_ref" data-testid="field-image_ref" {
                    @for name in names { option value=(name) selected[name == chosen] { (name) } }
                }
                (field_error(view, wrong, "image_ref"))
            }
        }
    }
}

pub(super) fn mode_field(
    view: &PageContext,
    default: ActivityMode,
    form: &WorkspaceForm,
    wrong: &[Wrong],
) -> Markup {
    html! {
        div.field {
            label for="activity_mode" { (view.t.in_use_while) }
            select #activity_mode name="activity_mode" data-testid="field-activity_mode" {
                option value="" selected[form.activity_mode.is_empty()] { (words::default_mode(view.lang, default)) }
                @for &mode in ActivityMode::ALL {
                    option value=(mode) selected[form.activity_mode == mode.as_str()] { (words::mode(view.lang, mode)) }
                }
            }
            (field_error(view, wrong, "activity_mode"))
        }
    }
}

pub(super) fn labels_field(view: &PageContext, form: &WorkspaceForm, wrong: &[Wrong]) -> Markup {
    let is_wrong = wrong.iter().any(|one| one.field == "labels");
    html! {
        div.field {
            label for="labels" { (view.t.labels) }
            textarea #labels name="labels" rows="3" aria-describedby="labels-hint"
                aria-invalid=[is_wrong.then_some("true")] data-testid="field-labels" { (form.labels) }
            p.hint #labels-hint { (view.t.labels_hint) }
            (field_error(view, wrong, "labels"))
        }
    }
}

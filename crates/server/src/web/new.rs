//! `/workspaces/new`, `/workspaces/{id}/edit`: a workspace's fields as a form.

use std::sync::Arc;

use axum::{Router, extract::State, response::Response, routing::get};
use codehub_domain::{Desired, Workspace, WorkspaceId, activity::ActivityMode, audit::AuditAction, fields};
use codehub_store::NewWorkspace;
use http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use super::{
    choices::{self, Source},
    components::{Field, field_error},
    error::Result,
    flash::{Flash, Plain},
    forms::{self, WorkspaceForm, Wrong},
    i18n::{Lang, Texts, words},
    layout::{NavEntry, Page},
    view::{Form, Me, PageContext, PathId, Query, see_other, see_other_saying},
};
use crate::{
    app::App,
    config::{TtlBounds, TtlConfig},
    service::{self, Access},
};

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/workspaces", get(to_list).post(create))
        .route("/workspaces/new", get(new))
        .route("/workspaces/{id}/edit", get(edit).post(save))
}

async fn to_list() -> Response {
    see_other("/")
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Beginning {
    from_archive: String,
}

async fn new(State(app): State<Arc<App>>, me: Me, Query(beginning): Query<Beginning>) -> Result<Response> {
    let view = &me.view;
    if beginning.from_archive.is_empty() {
        return Ok(create_page(&app, view, &Filled::default()).respond(view));
    }
    let source = Source::named(&app, &me, &beginning.from_archive).await?;
    let mut form = form_of(&source.workspace);
    form.name = source.copy_name(view);
    form.memo.clear();
    form.image_ref = Some(source.workspace.image_ref.clone())
        .filter(|image| app.config.runtime.offers(image))
        .unwrap_or_default();
    form.from_archive = beginning.from_archive;
    let filled = Filled { form, source: Some(source), ..Filled::default() };
    Ok(create_page(&app, view, &filled).respond(view))
}

async fn create(State(app): State<Arc<App>>, me: Me, Form(form): Form<WorkspaceForm>) -> Result<Response> {
    let fields = match form.check(&app.config) {
        Ok(fields) => fields,
        Err(wrong) => {
            let source = Source::of(&app, &me, &form).await;
            let page = create_page(&app, &me.view, &Filled { form, source, wrong, refused: None });
            return Ok(page.respond_with(&me.view, StatusCode::BAD_REQUEST));
        }
    };
    let new = NewWorkspace {
        id: WorkspaceId::from_uuid(Uuid::now_v7()),
        owner: me.user().id,
        name: fields.name,
        description: fields.description,
        memo: fields.memo,
        image_ref: fields.image_ref,
        desired: fields.desired,
        standby_ttl_seconds: fields.standby_ttl_seconds,
        archive_ttl_seconds: fields.archive_ttl_seconds,
        from_archive: fields.from_archive,
        activity_mode: fields.activity_mode,
        labels: fields.labels,
        once: None,
    };
    match service::create(&app, &me.identity, new).await {
        Ok(workspace) => {
            let to = format!("/workspaces/{}", workspace.id);
            Ok(see_other_saying(&app, &to, Plain::Created))
        }
        // What was typed is not thrown away because of a limit.
        Err(denied) => {
            let refused = Some(Flash::of_refusal(denied)?);
            let source = Source::of(&app, &me, &form).await;
            let page = create_page(&app, &me.view, &Filled { form, source, refused, wrong: Vec::new() });
            Ok(page.respond_with(&me.view, StatusCode::CONFLICT))
        }
    }
}

/// The form as it is shown: new, begun with an archive, or sent back.
#[derive(Default)]
struct Filled {
    form: WorkspaceForm,
    source: Option<Source>,
    wrong: Vec<Wrong>,
    refused: Option<Flash>,
}

fn create_page(app: &App, view: &PageContext, filled: &Filled) -> Page {
    let Filled { form, source, wrong, refused } = filled;
    let t = view.t;
    let body = html! {
        section.card.narrow data-dialog-content {
            h1 #dialog-title { (t.new_workspace) }
            @if let Some(refused) = refused {
                p.flash.bad role="alert" data-testid="refused" { (refused.text(view.lang)) }
            }
            form.stack method="post" action="/workspaces" data-testid="workspace-form" {
                (choices::source_note(view, form, source.as_ref(), wrong))
                (name_and_description(view, form, wrong))
                (choices::image_field(view, &app.config.runtime, form, wrong))
                details open[!wrong.is_empty()] data-testid="advanced" {
                    summary { (t.advanced) }
                    div.stack {
                        (desired_choice(view, form, wrong))
                        (ttl_fields(view, &app.config.ttl, form, wrong))
                        (choices::mode_field(view, app.config.activity.mode, form, wrong))
                        (choices::labels_field(view, form, wrong))
                    }
                }
                div.actions {
                    a.button href="/" data-close { (t.cancel) }
                    button.primary type="submit" data-testid="create" { (t.create_workspace) }
                }
            }
        }
    };
    Page::new(t.new_workspace, NavEntry::Workspaces, body)
}

fn name_and_description(view: &PageContext, form: &WorkspaceForm, wrong: &[Wrong]) -> Markup {
    let t = view.t;
    html! {
        (Field {
            required: true,
            autofocus: true,
            max: Some(fields::NAME_MAX),
            ..Field::text("name", t.name, &form.name)
        }.render(view, wrong))
        (Field {
            max: Some(fields::DESCRIPTION_MAX),
            hint: Some(t.description_hint),
            ..Field::text("description", t.description, &form.description)
        }.render(view, wrong))
    }
}

fn desired_choice(view: &PageContext, form: &WorkspaceForm, wrong: &[Wrong]) -> Markup {
    let chosen = form.desired_state.parse().unwrap_or(Desired::Running);
    html! {
        fieldset.field {
            legend { (view.t.begin_as) }
            div.choices {
                @for desired in [Desired::Running, Desired::Standby, Desired::Archived] {
                    label {
                        input type="radio" name="desired_state" value=(desired) checked[chosen == desired]
                            data-testid={ "desired-" (desired) };
                        " " (words::desired(view.lang, desired))
                    }
                }
            }
            (field_error(view, wrong, "desired_state"))
        }
    }
}

fn ttl_fields(view: &PageContext, ttl: &TtlConfig, form: &WorkspaceForm, wrong: &[Wrong]) -> Markup {
    let t = view.t;
    html! {
        (ttl_field(view, &Ttl {
            name: "standby_ttl",
            unit_name: "standby_unit",
            label: t.sleeps_after,
            value: &form.standby_ttl,
            unit: &form.standby_unit,
            default: ttl.standby_seconds,
            bounds: ttl.standby_bounds(),
        }, wrong))
        (ttl_field(view, &Ttl {
            name: "archive_ttl",
            unit_name: "archive_unit",
            label: t.archived_after,
            value: &form.archive_ttl,
            unit: &form.archive_unit,
            default: ttl.archive_seconds,
            bounds: ttl.archive_bounds(),
        }, wrong))
    }
}

struct Ttl<'a> {
    name: &'static str,
    unit_name: &'static str,
    label: &'a str,
    value: &'a str,
    unit: &'a str,
    default: u32,
    bounds: TtlBounds,
}

fn ttl_field(view: &PageContext, ttl: &Ttl<'_>, wrong: &[Wrong]) -> Markup {
    let unit = if ttl.unit.is_empty() { "m" } else { ttl.unit };
    let is_wrong = wrong.iter().any(|one| one.field == ttl.name);
    html! {
        div.field {
            label for=(ttl.name) { (ttl.label) }
            div.with-unit {
                input id=(ttl.name) name=(ttl.name) type="number" min="0" step="1" inputmode="numeric" value=(ttl.value)
                    aria-describedby={ (ttl.name) "-hint" } aria-invalid=[is_wrong.then_some("true")]
                    data-testid={ "field-" (ttl.name) };
                select name=(ttl.unit_name) aria-label=(view.t.unit) {
                    @for (name, _) in forms::UNITS {
                        option value=(name) selected[name == unit] { (unit_word(view.lang, name)) }
                    }
                }
            }
            p.hint #{ (ttl.name) "-hint" } {
                (words::default_ttl(view.lang, ttl.default)) ". " (words::ttl_bounds(view.lang, ttl.bounds))
            }
            (field_error(view, wrong, ttl.name))
        }
    }
}

fn unit_word(lang: Lang, unit: &str) -> &'static str {
    let t = Texts::of(lang);
    match unit {
        "s" => t.seconds,
        "h" => t.hours,
        "d" => t.days,
        _ => t.minutes,
    }
}

async fn edit(State(app): State<Arc<App>>, me: Me, PathId(id): PathId<WorkspaceId>) -> Result<Response> {
    let workspace = service::find(&app, me.user(), id, Access::Own).await?;
    let form = form_of(&workspace);
    Ok(edit_page(&app, &me.view, &workspace, &form, &[]).respond(&me.view))
}

async fn save(
    State(app): State<Arc<App>>,
    me: Me,
    PathId(id): PathId<WorkspaceId>,
    Form(form): Form<WorkspaceForm>,
) -> Result<Response> {
    let workspace =
        service::find_to(&app, &me.identity, id, Access::Own, AuditAction::WorkspaceEdited).await?;
    match form.check(&app.config) {
        Ok(fields) => {
            service::edit(&app, &me.identity, id, fields.into()).await?;
            Ok(see_other_saying(&app, &format!("/workspaces/{id}"), Plain::Saved))
        }
        Err(wrong) => {
            let page = edit_page(&app, &me.view, &workspace, &form, &wrong);
            Ok(page.respond_with(&me.view, StatusCode::BAD_REQUEST))
        }
    }
}

fn form_of(workspace: &Workspace) -> WorkspaceForm {
    let (standby_ttl, standby_unit) = forms::in_unit(workspace.standby_ttl_seconds);
    let (archive_ttl, archive_unit) = forms::in_unit(workspace.archive_ttl_seconds);
    WorkspaceForm {
        name: workspace.name.clone(),
        description: workspace.description.clone(),
        memo: workspace.memo.clone(),
        standby_ttl,
        standby_unit: standby_unit.into(),
        archive_ttl,
        archive_unit: archive_unit.into(),
        activity_mode: workspace.activity_mode.map_or("", ActivityMode::as_str).into(),
        labels: workspace.labels.to_string(),
        ..WorkspaceForm::default()
    }
}

fn edit_page(
    app: &App,
    view: &PageContext,
    workspace: &Workspace,
    form: &WorkspaceForm,
    wrong: &[Wrong],
) -> Page {
    let t = view.t;
    let body = html! {
        section.card.narrow data-dialog-content {
            h1 #dialog-title { (t.edit_workspace) }
            form.stack method="post" action={ "/workspaces/" (workspace.id) "/edit" } data-testid="edit-form" {
                (name_and_description(view, form, wrong))
                div.field {
                    label for="memo" { (t.memo) }
                    // A first line break right after the tag is dropped by browsers: ours is that one.
                    textarea #memo name="memo" rows="6" aria-describedby="memo-hint" data-testid="field-memo" { "\n" (form.memo) }
                    p.hint #memo-hint { (t.memo_hint) }
                    (field_error(view, wrong, "memo"))
                }
                (ttl_fields(view, &app.config.ttl, form, wrong))
                (choices::mode_field(view, app.config.activity.mode, form, wrong))
                (choices::labels_field(view, form, wrong))
                div.actions {
                    a.button href={ "/workspaces/" (workspace.id) } data-close { (t.cancel) }
                    button.primary type="submit" data-testid="save" { (t.save) }
                }
            }
        }
    };
    Page::new(t.edit_workspace, NavEntry::Workspaces, body)
}

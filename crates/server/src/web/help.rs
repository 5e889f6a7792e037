//! `/help`: what one needs to know, on one page, with the times of this deployment.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    response::{IntoResponse as _, Response},
    routing::get,
};
use maud::html;

use super::{
    i18n::{Lang, words},
    layout::{NavEntry, Page},
    view::{Me, SignIn, Visitor},
};
use crate::app::App;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/help", get(show))
}

/// Sections: an anchor, a heading, and paragraphs.
type Section = (&'static str, &'static str, Vec<String>);

/// With the navigation for whoever is signed in; without it for everybody else.
async fn show(State(app): State<Arc<App>>, me: Result<Me, SignIn>, Visitor(visitor): Visitor) -> Response {
    let view = match me {
        Ok(me) => me.view,
        Err(healing @ SignIn::Heal(_)) => return healing.into_response(),
        Err(SignIn::First(_) | SignIn::Error(_)) => visitor,
    };
    let sections = match view.lang {
        Lang::En => english(&app),
        Lang::Ko => korean(&app),
    };
    let body = html! {
        div.page-head { h1 { (view.t.help) } }
        section.card.help data-testid="help-page" {
            @for (anchor, heading, paragraphs) in &sections {
                section id=(anchor) { h2 { (heading) } @for text in paragraphs { p { (text) } } }
            }
            p { a href="/api/docs" { (view.t.api_reference) } " · " a href="/api/v1/openapi.json" { "OpenAPI" } }
        }
    };
    Page::new(view.t.help, NavEntry::Outside, body).respond(&view)
}

/// When workspaces of this deployment sleep and are archived, unless they have times of their own.
fn times(app: &App, lang: Lang) -> (String, String) {
    let policy = app.config.ttl_policy();
    let say = |seconds: u32| match (seconds, lang) {
        (0, Lang::En) => "never".to_owned(),
        (0, Lang::Ko) => "전환 안 함".to_owned(),
        _ => words::span(lang, seconds.into()),
    };
    (say(policy.standby_seconds), say(policy.archive_seconds))
}

fn english(app: &App) -> Vec<Section> {
    let (sleep, archive) = times(app, Lang::En);
    vec![
        ("workspaces", "Workspaces", vec![
            "A workspace is a home directory with an IDE in your browser. Press Open to work in it. Files in the home directory are kept; everything outside it belongs to the system and may change.".into(),
        ]),
        ("sleep", "Sleep and wake", vec![
            format!("A workspace without activity goes to sleep. The default here: after {sleep}. Running programs stop; files are kept. Opening it wakes it up."),
            "Typing, terminal output and open requests are activity. An open tab alone is not, unless the workspace is set to stay active while a tab is open.".into(),
            "To keep a workspace awake, press “Keep awake for 1 hour” on its page, or run “codehub hold” around a long command in its terminal (with an API token of yours in CODEHUB_TOKEN).".into(),
        ]),
        ("archives", "Archives", vec![
            format!("A workspace that sleeps for long is archived. The default here: after {archive}. Starting it restores the home directory exactly as you left it."),
            "Every archive can be browsed, and a new workspace can be created from it. See “Manage archives” on the workspace’s page.".into(),
        ]),
        ("errors", "When something goes wrong", vec![
            "The workspace’s page says what happened and offers the ways to continue. CodeHub never discards a home directory on its own.".into(),
        ]),
        ("api", "Command line and API", vec![
            "Everything on these pages can be done through the HTTP API. Create a token on the Tokens page and send it as “Authorization: Bearer …”. The API reference can send requests with your session.".into(),
        ]),
    ]
}

fn korean(app: &App) -> Vec<Section> {
    let (sleep, archive) = times(app, Lang::Ko);
    vec![
        ("workspaces", "워크스페이스", vec![
            "워크스페이스는 브라우저에서 IDE로 여는 홈 디렉터리입니다. ‘열기’를 누르면 작업할 수 있습니다. 홈 디렉터리의 파일은 유지되며, 그 밖의 파일은 시스템에 속하므로 바뀔 수 있습니다.".into(),
        ]),
        ("sleep", "대기와 깨우기", vec![
            format!("활동이 없는 워크스페이스는 대기 상태가 됩니다. 이 서버의 기본값: {sleep}. 실행 중인 프로그램은 종료되고 파일은 유지됩니다. 열면 다시 깨어납니다."),
            "입력, 터미널 출력, 진행 중인 요청이 활동입니다. 탭만 열어 두는 것은 활동이 아니며, ‘탭이 열려 있는 동안’으로 설정한 워크스페이스만 예외입니다.".into(),
            "깨어 있게 하려면 워크스페이스 페이지에서 ‘1시간 연장’을 누르거나, 터미널에서 오래 걸리는 명령을 ‘codehub hold’로 실행하세요(CODEHUB_TOKEN에 본인의 API 토큰 필요).".into(),
        ]),
        ("archives", "보관본", vec![
            format!("오래 대기한 워크스페이스는 보관됩니다. 이 서버의 기본값: {archive}. 시작하면 홈 디렉터리가 그대로 복원됩니다."),
            "모든 보관본의 내용을 볼 수 있고, 보관본으로 새 워크스페이스를 만들 수 있습니다. 워크스페이스 페이지의 ‘보관본 관리’를 보세요.".into(),
        ]),
        ("errors", "문제가 생겼을 때", vec![
            "워크스페이스 페이지에서 원인과 계속할 방법을 확인하세요. CodeHub는 홈 디렉터리를 임의로 버리지 않습니다.".into(),
        ]),
        ("api", "명령줄과 API", vec![
            "이 페이지에서 할 수 있는 모든 일은 HTTP API로도 할 수 있습니다. 토큰 페이지에서 토큰을 만들어 ‘Authorization: Bearer …’로 보내세요. API 문서에서 현재 세션으로 요청을 보내 볼 수 있습니다.".into(),
        ]),
    ]
}

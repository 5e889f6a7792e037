//! Words for values: phases, operations, sizes, times.

use codehub_domain::{
    Desired, Operation, Phase, Timestamp, activity::ActivityMode, ports::Visibility, user::Role,
    waiting::Waiting,
};
pub use codehub_proxy::appearance::bytes;

use super::Lang;
use crate::auth::guessing::Counted;

/// A phase in a word.
pub fn phase(lang: Lang, phase: Phase) -> &'static str {
    use Lang::{En, Ko};
    match (phase, lang) {
        (Phase::Pending, En) => "New",
        (Phase::Pending, Ko) => "준비 전",
        (Phase::Archived, En) => "Archived",
        (Phase::Archived, Ko) => "보관됨",
        (Phase::Standby, En) => "Sleeping",
        (Phase::Standby, Ko) => "대기 중",
        (Phase::Running, En) => "Running",
        (Phase::Running, Ko) => "실행 중",
        (Phase::Error, En) => "Error",
        (Phase::Error, Ko) => "오류",
        (Phase::Deleting, En) => "Deleting",
        (Phase::Deleting, Ko) => "삭제 중",
        (Phase::Deleted, En) => "Deleted",
        (Phase::Deleted, Ko) => "삭제됨",
    }
}

/// What exists, in a sentence.
pub fn phase_meaning(lang: Lang, phase: Phase) -> &'static str {
    use Lang::{En, Ko};
    match (phase, lang) {
        (Phase::Pending, En) => "Not created yet.",
        (Phase::Pending, Ko) => "아직 아무것도 만들어지지 않았습니다.",
        (Phase::Archived, En) => "The home directory is archived. Starting restores it exactly as it was.",
        (Phase::Archived, Ko) => "홈이 보관본으로 저장되어 있습니다. 시작하면 그대로 복원됩니다.",
        (Phase::Standby, En) => {
            "The home directory is ready; nothing is running. Open it to wake it in a moment."
        }
        (Phase::Standby, Ko) => "홈은 준비되어 있고 실행 중인 것은 없습니다. 열면 곧바로 깨어납니다.",
        (Phase::Running, En) => "The IDE is running.",
        (Phase::Running, Ko) => "IDE가 실행 중이며 접속할 수 있습니다.",
        (Phase::Error, En) => "Something went wrong. Choose how to continue.",
        (Phase::Error, Ko) => "문제가 발생했습니다. 계속할 방법을 선택하세요.",
        (Phase::Deleting | Phase::Deleted, En) => "Deleted. Remaining data is being removed.",
        (Phase::Deleting | Phase::Deleted, Ko) => "삭제되었으며 남은 데이터를 정리하고 있습니다.",
    }
}

/// An operation while it is under way.
pub fn operation(lang: Lang, operation: Operation) -> &'static str {
    use Lang::{En, Ko};
    match (operation, lang) {
        (Operation::None, En) => "Nothing under way",
        (Operation::None, Ko) => "진행 중인 작업 없음",
        (Operation::Provisioning, En) => "Preparing home directory",
        (Operation::Provisioning, Ko) => "홈 준비 중",
        (Operation::CreateEmptyArchive, En) => "Preparing an empty archive",
        (Operation::CreateEmptyArchive, Ko) => "빈 보관본 준비 중",
        (Operation::Restoring, En) => "Restoring",
        (Operation::Restoring, Ko) => "복원 중",
        (Operation::Starting, En) => "Starting",
        (Operation::Starting, Ko) => "시작하는 중",
        (Operation::Stopping, En) => "Stopping",
        (Operation::Stopping, Ko) => "중지하는 중",
        (Operation::Archiving, En) => "Archiving",
        (Operation::Archiving, Ko) => "보관하는 중",
        (Operation::Deleting, En) => "Deleting",
        (Operation::Deleting, Ko) => "삭제하는 중",
    }
}

/// A wish that nothing is being done about yet.
pub fn waiting(lang: Lang, desired: Desired) -> &'static str {
    use Lang::{En, Ko};
    match (desired, lang) {
        (Desired::Running, En) => "About to start",
        (Desired::Running, Ko) => "곧 시작합니다",
        (Desired::Standby, En) => "About to sleep",
        (Desired::Standby, Ko) => "곧 대기 상태가 됩니다",
        (Desired::Archived, En) => "About to be archived",
        (Desired::Archived, Ko) => "곧 보관됩니다",
        (Desired::Deleted, En) => "About to be deleted",
        (Desired::Deleted, Ko) => "곧 삭제됩니다",
    }
}

/// What a workspace waits for, after "Waiting:".
pub fn waits_for(lang: Lang, waiting: Waiting) -> &'static str {
    use Lang::{En, Ko};
    match (waiting, lang) {
        (Waiting::Recovery, En) => "an error needs your decision",
        (Waiting::Recovery, Ko) => "오류를 해결할 방법을 선택해야 합니다",
        (Waiting::NextTry, En) => "the last attempt failed",
        (Waiting::NextTry, Ko) => "마지막 시도가 실패했습니다",
        (Waiting::HomeUnseen, En) => "the storage of the home directory is not responding",
        (Waiting::HomeUnseen, Ko) => "홈 디렉터리가 있는 저장소가 응답하지 않습니다",
    }
}

/// A desired state as a choice.
pub fn desired(lang: Lang, desired: Desired) -> &'static str {
    use Lang::{En, Ko};
    match (desired, lang) {
        (Desired::Running, En) => "Running",
        (Desired::Running, Ko) => "실행",
        (Desired::Standby, En) => "Sleeping",
        (Desired::Standby, Ko) => "대기",
        (Desired::Archived, En) => "Archived",
        (Desired::Archived, Ko) => "보관",
        (Desired::Deleted, En) => "Deleted",
        (Desired::Deleted, Ko) => "삭제",
    }
}

/// A role in a word.
pub fn role(lang: Lang, role: Role) -> &'static str {
    match (role, lang) {
        (Role::User, Lang::En) => "User",
        (Role::User, Lang::Ko) => "사용자",
        (Role::Admin, Lang::En) => "Administrator",
        (Role::Admin, Lang::Ko) => "관리자",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
    Day,
}

fn unit(lang: Lang, n: u64, unit: Unit) -> String {
    let plural = if n == 1 { "" } else { "s" };
    match (unit, lang) {
        (Unit::Second, Lang::En) => format!("{n} second{plural}"),
        (Unit::Minute, Lang::En) => format!("{n} minute{plural}"),
        (Unit::Hour, Lang::En) => format!("{n} hour{plural}"),
        (Unit::Day, Lang::En) => format!("{n} day{plural}"),
        (Unit::Second, Lang::Ko) => format!("{n}초"),
        (Unit::Minute, Lang::Ko) => format!("{n}분"),
        (Unit::Hour, Lang::Ko) => format!("{n}시간"),
        (Unit::Day, Lang::Ko) => format!("{n}일"),
    }
}

/// A span, roughly: the unit a person would use. The script's steps are the same.
fn rough(lang: Lang, seconds: u64) -> String {
    match seconds {
        0..60 => unit(lang, seconds, Unit::Second),
        60..3600 => unit(lang, seconds / 60, Unit::Minute),
        3600..86_400 => unit(lang, seconds / 3600, Unit::Hour),
        _ => unit(lang, seconds / 86_400, Unit::Day),
    }
}

/// A span in the unit a person would use.
pub fn roughly(lang: Lang, seconds: u64) -> String {
    rough(lang, seconds)
}

/// How long something took.
pub fn took(lang: Lang, millis: u64) -> String {
    match (millis, lang) {
        (..10_000, Lang::En) => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        (..10_000, Lang::Ko) => format!("{}.{}초", millis / 1000, millis % 1000 / 100),
        (..60_000, Lang::En) => format!("{} s", millis / 1000),
        (..60_000, Lang::Ko) => format!("{}초", millis / 1000),
        (_, _) => span(lang, millis / 1000),
    }
}

/// A span, exactly.
pub fn span(lang: Lang, seconds: u64) -> String {
    let parts = [
        (seconds / 86_400, Unit::Day),
        (seconds % 86_400 / 3600, Unit::Hour),
        (seconds % 3600 / 60, Unit::Minute),
        (seconds % 60, Unit::Second),
    ];
    let said: Vec<_> = parts.into_iter().filter(|(n, _)| *n > 0).map(|(n, u)| unit(lang, n, u)).collect();
    if said.is_empty() { unit(lang, 0, Unit::Second) } else { said.join(" ") }
}

/// `3 minutes ago`, `in 9 minutes`: what the browser's own formatter says, too.
pub fn relative(lang: Lang, at: Timestamp, now: Timestamp) -> String {
    let seconds = at.as_second() - now.as_second();
    let text = rough(lang, seconds.unsigned_abs());
    match (lang, seconds) {
        (Lang::En, 0) => "now".into(),
        (Lang::Ko, 0) => "지금".into(),
        (Lang::En, 1..) => format!("in {text}"),
        (Lang::En, _) => format!("{text} ago"),
        (Lang::Ko, 1..) => format!("{text} 후"),
        (Lang::Ko, _) => format!("{text} 전"),
    }
}

/// `2026-03-01 09:05:00 UTC`
pub fn exact(at: Timestamp) -> String {
    let text = at.to_string();
    let text = text.split(['.', 'Z']).next().unwrap_or(&text).replace('T', " ");
    format!("{text} UTC")
}

/// How much of how much, how fast, and how long still.
pub fn progress(lang: Lang, progress: codehub_domain::Progress) -> String {
    let mut text = if progress.total > 0 {
        match lang {
            Lang::En => format!("{} of {}", bytes(progress.done.min(progress.total)), bytes(progress.total)),
            Lang::Ko => format!("{} / {}", bytes(progress.done.min(progress.total)), bytes(progress.total)),
        }
    } else {
        bytes(progress.done)
    };
    if let Some(left) = progress.remaining_seconds() {
        text.push_str(&format!(" · {}/s", bytes(progress.rate)));
        if left > 0 {
            text.push_str(&match lang {
                Lang::En => format!(" · {} left", rough(lang, left)),
                Lang::Ko => format!(" · {} 남음", rough(lang, left)),
            });
        }
    }
    text
}

/// So much of so much that there may be.
pub fn of(lang: Lang, used: u64, most: u64) -> String {
    match lang {
        Lang::En => format!("{} of {}", bytes(used), bytes(most)),
        Lang::Ko => format!("{} / {}", bytes(used), bytes(most)),
    }
}

/// What was counted, of something that was not counted to its end.
pub fn at_least(lang: Lang, counted: u64) -> String {
    match lang {
        Lang::En => format!("At least {}", bytes(counted)),
        Lang::Ko => format!("{} 이상", bytes(counted)),
    }
}

/// Who may open a port.
pub fn visibility(lang: Lang, visibility: Visibility) -> &'static str {
    match (visibility, lang) {
        (Visibility::Owner, Lang::En) => "Only you",
        (Visibility::Owner, Lang::Ko) => "나만",
        (Visibility::SignedIn, Lang::En) => "All signed-in users",
        (Visibility::SignedIn, Lang::Ko) => "로그인한 모든 사용자",
    }
}

/// `None`: too many to count for every page.
pub fn total(lang: Lang, count: Option<u64>) -> String {
    let counted = codehub_store::Page::<()>::COUNTED;
    match (lang, count) {
        (Lang::En, Some(1)) => "1 workspace".into(),
        (Lang::En, Some(count)) => format!("{count} workspaces"),
        (Lang::Ko, Some(count)) => format!("워크스페이스 {count}개"),
        (Lang::En, None) => format!("more than {counted} workspaces"),
        (Lang::Ko, None) => format!("워크스페이스 {counted}개 이상"),
    }
}

/// What was asked for many workspaces at once, and what became of it.
pub fn bulk_done(lang: Lang, desired: Desired, done: u32, skipped: u32, limit: Option<u32>) -> String {
    let many = |count: u32| if count == 1 { "1 workspace".to_owned() } else { format!("{count} workspaces") };
    let said = match (desired, lang) {
        (Desired::Running, Lang::En) => format!("Starting {}.", many(done)),
        (Desired::Standby, Lang::En) => format!("Stopping {}.", many(done)),
        (Desired::Archived, Lang::En) => format!("Archiving {}.", many(done)),
        (Desired::Deleted, Lang::En) => format!("Deleted {}.", many(done)),
        (Desired::Running, Lang::Ko) => format!("워크스페이스 {done}개를 시작합니다."),
        (Desired::Standby, Lang::Ko) => format!("워크스페이스 {done}개를 중지합니다."),
        (Desired::Archived, Lang::Ko) => format!("워크스페이스 {done}개를 보관합니다."),
        (Desired::Deleted, Lang::Ko) => format!("워크스페이스 {done}개를 삭제했습니다."),
    };
    let were = |count: u32| if count == 1 { "1 was".to_owned() } else { format!("{count} were") };
    let but = match (skipped, lang, limit) {
        (0, Lang::En, _) if done == 0 => return "Nothing to do for the selected workspaces.".to_owned(),
        (0, Lang::Ko, _) if done == 0 => return "선택한 워크스페이스에 할 일이 없습니다.".to_owned(),
        (0, ..) => return said,
        (count, Lang::En, Some(limit)) => {
            format!("{} not started: you can run {limit} at once. Stop others first.", were(count))
        }
        (count, Lang::Ko, Some(limit)) => format!(
            "{count}개는 시작하지 않았습니다. 동시에 실행할 수 있는 워크스페이스는 {limit}개입니다. 먼저 다른 워크스페이스를 중지하세요."
        ),
        (count, Lang::En, None) => format!(
            "{} skipped: busy, in an error state, over the limit of running workspaces, or not allowed.",
            were(count)
        ),
        (count, Lang::Ko, None) => format!(
            "{count}개는 건너뛰었습니다. 작업 중이거나 오류 상태이거나, 실행 개수 제한을 넘거나, 권한이 없습니다."
        ),
    };
    if done == 0 { but } else { format!("{said} {but}") }
}

/// The question before many are deleted.
pub fn delete_many(lang: Lang, count: usize) -> String {
    match (lang, count) {
        (Lang::En, 1) => "Delete 1 workspace?".into(),
        (Lang::En, _) => format!("Delete {count} workspaces?"),
        (Lang::Ko, _) => format!("워크스페이스 {count}개를 삭제할까요?"),
    }
}

/// Which page of how many, as far as they are counted.
pub fn page_of(lang: Lang, page: u32, pages: Option<u64>) -> String {
    match (lang, pages) {
        (Lang::En, Some(pages)) => format!("Page {page} of {pages}"),
        (Lang::En, None) => format!("Page {page}"),
        (Lang::Ko, Some(pages)) => format!("{page} / {pages} 페이지"),
        (Lang::Ko, None) => format!("{page} 페이지"),
    }
}

/// How often something has failed.
pub fn failed_times(lang: Lang, count: u32) -> String {
    match lang {
        Lang::En if count == 1 => "failed once".into(),
        Lang::En => format!("failed {count} times"),
        Lang::Ko => format!("{count}번 실패"),
    }
}

/// Around a time ahead: `Sleeps in 9 minutes`, `9분 후 대기 전환`.
pub fn expiry(lang: Lang, to: Desired) -> (&'static str, &'static str) {
    match (to, lang) {
        (Desired::Running | Desired::Standby, Lang::En) => ("Goes to sleep ", ""),
        (Desired::Running | Desired::Standby, Lang::Ko) => ("", " 대기 전환"),
        (Desired::Archived | Desired::Deleted, Lang::En) => ("Will be archived ", ""),
        (Desired::Archived | Desired::Deleted, Lang::Ko) => ("", " 보관 예정"),
    }
}

/// What keeps a workspace awake; the kinds are those of the API.
pub fn activity(lang: Lang, kind: &str) -> &'static str {
    match (kind, lang) {
        ("http", Lang::En) => "a request",
        ("http", Lang::Ko) => "요청",
        ("connection", Lang::En) => "a new connection",
        ("connection", Lang::Ko) => "새 연결",
        ("typing", Lang::En) => "typing",
        ("typing", Lang::Ko) => "입력",
        ("terminal_output", Lang::En) => "terminal output",
        ("terminal_output", Lang::Ko) => "터미널 출력",
        ("browser_message", Lang::En) => "work in the browser",
        ("browser_message", Lang::Ko) => "브라우저 작업",
        ("workspace_message", Lang::En) => "work in the workspace",
        ("workspace_message", Lang::Ko) => "워크스페이스 작업",
        ("open_connection", Lang::En) => "open connections",
        ("open_connection", Lang::Ko) => "열린 연결",
        (_, Lang::En) => "kept awake",
        (_, Lang::Ko) => "유지 요청",
    }
}

/// What an empty field for a time means.
pub fn default_ttl(lang: Lang, seconds: u32) -> String {
    match (lang, seconds) {
        (Lang::En, 0) => "Default: never".into(),
        (Lang::Ko, 0) => "기본값: 전환 안 함".into(),
        (Lang::En, _) => format!("Default: {}", span(lang, seconds.into())),
        (Lang::Ko, _) => format!("기본값: {}", span(lang, seconds.into())),
    }
}

/// What a workspace may choose for itself.
pub fn ttl_bounds(lang: Lang, bounds: crate::config::TtlBounds) -> String {
    let min = span(lang, bounds.min.max(1).into());
    match (lang, bounds.max) {
        (Lang::En, 0) => format!("Minimum {min}. 0 = never."),
        (Lang::Ko, 0) => format!("최소 {min}. 0 = 전환 안 함."),
        (Lang::En, max) => format!("From {min} to {}.", span(lang, max.into())),
        (Lang::Ko, max) => format!("{min} 이상 {} 이하.", span(lang, max.into())),
    }
}

/// What labels are allowed.
pub fn label_rules(lang: Lang) -> String {
    let most = codehub_domain::labels::Labels::MOST;
    match lang {
        Lang::En => format!(
            "At most {most} lines, each a key or key: value. A key has 1 to 63 characters of a–z, 0–9, '.', '_', '/' and \
             '-'; a value has at most 255."
        ),
        Lang::Ko => format!(
            "한 줄에 키 또는 키: 값을 하나씩, {most}줄 이하로 입력하세요. 키는 a–z, 0–9, '.', '_', '/', '-'만 사용하여 1~63자, \
             값은 255자 이하입니다."
        ),
    }
}

/// What counts as being in use.
pub fn mode(lang: Lang, mode: ActivityMode) -> &'static str {
    match (mode, lang) {
        (ActivityMode::Traffic, Lang::En) => "when there is activity",
        (ActivityMode::Traffic, Lang::Ko) => "활동이 있을 때",
        (ActivityMode::Connections, Lang::En) => "while a tab is open",
        (ActivityMode::Connections, Lang::Ko) => "탭이 열려 있는 동안",
    }
}

/// What choosing nothing means.
pub fn default_mode(lang: Lang, default: ActivityMode) -> String {
    match lang {
        Lang::En => format!("Default: {}", mode(lang, default)),
        Lang::Ko => format!("기본값: {}", mode(lang, default)),
    }
}

/// Images that may be chosen, some by patterns.
pub fn images(lang: Lang, allowed: &[String]) -> String {
    let allowed = allowed.join(", ");
    match lang {
        Lang::En => format!("Also allowed: {allowed} (* matches anything)."),
        Lang::Ko => format!("다음 이미지도 쓸 수 있습니다: {allowed} (*는 임의의 문자열)."),
    }
}

/// The name that a copy of a workspace is offered.
pub fn copy_of(lang: Lang, name: &str) -> String {
    match lang {
        Lang::En => format!("Copy of {name}"),
        Lang::Ko => format!("{name} 사본"),
    }
}

/// Before the time of the archive.
pub fn begins_with(lang: Lang, name: &str) -> String {
    match lang {
        Lang::En => format!("Starts from the home directory of “{name}”, archived"),
        Lang::Ko => format!("‘{name}’의 홈으로 시작합니다. 보관 시각:"),
    }
}

/// How long to wait before the next password, and what to do instead.
pub fn retry_in(lang: Lang, counted: Counted, seconds: u64) -> String {
    let wait = span(lang, seconds);
    match lang {
        Lang::En => {
            let instead = match counted {
                Counted::Here => "Or use a browser you have signed in with before.",
                Counted::Device => "Or ask an administrator for a new password.",
                Counted::Account => {
                    "There were too many failed sign-ins for this account, so new browsers have to wait. Use a browser you have signed in with before, or ask an administrator for a new password."
                }
                Counted::Address => {
                    "There were many failed sign-ins from your network. Browsers you have signed in with before do not have to wait."
                }
            };
            format!("Too many attempts. Try again in {wait}. {instead}")
        }
        Lang::Ko => {
            let instead = match counted {
                Counted::Here => "또는 전에 로그인한 적이 있는 브라우저에서 로그인하세요.",
                Counted::Device => "또는 관리자에게 새 비밀번호를 요청하세요.",
                Counted::Account => {
                    "누군가 이 계정의 비밀번호를 추측하고 있어 새 브라우저는 기다려야 합니다. 전에 로그인한 적이 있는 브라우저에서 로그인하거나 관리자에게 새 비밀번호를 요청하세요."
                }
                Counted::Address => {
                    "같은 네트워크에서 잘못된 비밀번호가 많이 입력되었습니다. 전에 로그인한 적이 있는 브라우저는 기다리지 않습니다."
                }
            };
            format!("시도 횟수가 너무 많습니다. {wait} 후에 다시 시도하세요. {instead}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (count, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (1_449, "1.4 kB"),
            (99_949, "99.9 kB"),
            (99_950, "100 kB"),
            (999_949, "1000 kB"),
            (999_950, "1.0 MB"),
            (1_400_000_000, "1.4 GB"),
            (123_400_000_000, "123 GB"),
        ] {
            assert_eq!(bytes(count), text, "{count}");
        }
    }

    #[test]
    fn times() {
        let at = |s: i64| Timestamp::from_second(1_700_000_000 + s).unwrap();
        for (seconds, en, ko) in [
            (0, "now", "지금"),
            (-1, "1 second ago", "1초 전"),
            (59, "in 59 seconds", "59초 후"),
            (60, "in 1 minute", "1분 후"),
            (-7_300, "2 hours ago", "2시간 전"),
            (86_400 * 3, "in 3 days", "3일 후"),
        ] {
            assert_eq!(relative(Lang::En, at(seconds), at(0)), en);
            assert_eq!(relative(Lang::Ko, at(seconds), at(0)), ko);
        }
        assert_eq!(exact(at(0)), "2023-11-14 22:13:20 UTC");
        assert_eq!(span(Lang::En, 5400), "1 hour 30 minutes");
        assert_eq!(span(Lang::Ko, 600), "10분");
    }

    #[test]
    fn progress_says_how_long_still() {
        let one = codehub_domain::Progress { done: 500_000_000, total: 2_000_000_000, rate: 50_000_000 };
        assert_eq!(progress(Lang::En, one), "500 MB of 2.0 GB · 50.0 MB/s · 30 seconds left");
        assert_eq!(progress(Lang::Ko, one), "500 MB / 2.0 GB · 50.0 MB/s · 30초 남음");
        let unknown = codehub_domain::Progress { done: 10, total: 0, rate: 0 };
        assert_eq!(progress(Lang::En, unknown), "10 B");
    }
}

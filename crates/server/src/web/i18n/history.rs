//! The history in people's words.

use codehub_domain::{Operation, Phase, activity::SNOOZED, event::Reason, plan::Abandoned};

use super::{Lang, trouble, words};

/// An operation as a thing that happened.
pub fn operation(lang: Lang, operation: Operation) -> &'static str {
    use Lang::{En, Ko};
    match (operation, lang) {
        (Operation::None, En) => "No operation",
        (Operation::None, Ko) => "작업 없음",
        (Operation::Provisioning, En) => "New home",
        (Operation::Provisioning, Ko) => "홈 준비",
        (Operation::CreateEmptyArchive, En) => "Empty archive",
        (Operation::CreateEmptyArchive, Ko) => "빈 보관본 준비",
        (Operation::Restoring, En) => "Restore",
        (Operation::Restoring, Ko) => "복원",
        (Operation::Starting, En) => "Start",
        (Operation::Starting, Ko) => "시작",
        (Operation::Stopping, En) => "Stop",
        (Operation::Stopping, Ko) => "중지",
        (Operation::Archiving, En) => "Archive",
        (Operation::Archiving, Ko) => "보관",
        (Operation::Deleting, En) => "Delete",
        (Operation::Deleting, Ko) => "삭제",
    }
}

/// Why it happened.
pub fn reason(lang: Lang, reason: &Reason) -> String {
    match lang {
        Lang::En => reason.to_string(),
        Lang::Ko => korean(reason),
    }
}

fn korean(reason: &Reason) -> String {
    let span = |seconds: u32| words::span(Lang::Ko, seconds.into());
    match reason {
        Reason::Created => "생성됨".into(),
        Reason::CreatedFromArchive(key) => format!("보관본에서 생성됨: {key}"),
        Reason::StartRequested => "시작 요청".into(),
        Reason::StopRequested => "중지 요청".into(),
        Reason::ArchiveRequested => "보관 요청".into(),
        Reason::DeleteRequested => "삭제 요청".into(),
        Reason::StateRequested => "API로 목표 상태 변경".into(),
        Reason::OpenedInBrowser => "브라우저에서 열림".into(),
        Reason::RecoveryRequested => "복구 요청".into(),
        Reason::RecoveryAcceptingLoss => "데이터 유실을 감수한 복구 요청".into(),
        Reason::RecoveryFromArchive(key) => format!("보관본에서 복구 요청: {key}"),
        Reason::RequestedWithRecovery => "복구와 함께 목표 상태 요청".into(),
        Reason::TtlStandby(seconds) => format!("{} 동안 활동 없음", span(*seconds)),
        Reason::TtlArchive(seconds) => format!("{} 동안 대기", span(*seconds)),
        Reason::OperationStarted => "시작됨".into(),
        Reason::OperationDone => "완료".into(),
        Reason::Confirmed => "상태 확인".into(),
        Reason::Abandoned(why) => format!("취소됨: {}", abandoned(*why)),
        Reason::InstanceEnded(how) => format!("인스턴스 종료: {how}"),
        Reason::InstanceInterrupted(how) => format!("인스턴스가 외부에서 종료됨: {how}"),
        Reason::InstanceNoImage(why) => format!("인스턴스 이미지를 가져올 수 없음: {why}"),
        Reason::InstanceWaiting(what) => format!("인스턴스 대기 중: {what}"),
        Reason::InstanceNotAnswering => "인스턴스가 상태 점검에 응답하지 않음".into(),
        Reason::InstanceGone => "인스턴스가 외부에서 제거됨".into(),
        Reason::Failed(failure) => {
            format!("{}: {}", trouble::reason(Lang::Ko, failure.reason), failure.message)
        }
        Reason::Other(text) => text.clone(),
    }
}

fn abandoned(why: Abandoned) -> &'static str {
    match why {
        Abandoned::HomeElsewhere => "홈이 이 작업의 시작 위치에 없음",
        Abandoned::HomeInAnotherArchive => "홈이 다른 보관본에 있음",
        Abandoned::HomeWasInUse => "보관하는 동안 홈이 사용됨",
        Abandoned::NotNeeded => "실패했지만 더는 필요하지 않음",
    }
}

/// How an act ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// It was wished for, and nothing has been done about it.
    Asked,
    /// It is being done.
    Doing(Operation),
    /// The phase it led to, and whether a home was restored on the way.
    Done { to: Phase, restored: bool },
    /// It went wrong, or something was noticed that nobody wished for.
    Noted(&'a Reason),
}

/// A whole act in one line: what happened, and by whom. `wished`: somebody, or time, wanted it.
pub fn act(lang: Lang, outcome: Outcome<'_>, why: &Reason, wished: bool, actor: &str) -> String {
    let by_itself = matches!(why, Reason::TtlStandby(_) | Reason::TtlArchive(_)) || !wished;
    let because = reason(lang, why);
    match (outcome, lang) {
        (Outcome::Noted(what), _) => {
            // What exactly failed stands in the steps.
            let what = match what {
                Reason::Failed(failure) => trouble::reason(lang, failure.reason).to_owned(),
                what => reason(lang, what),
            };
            match (by_itself, lang) {
                (true, _) => what,
                (false, Lang::En) => format!("{what} (requested by {actor})"),
                (false, Lang::Ko) => format!("{what} ({actor} 님 요청)"),
            }
        }
        (Outcome::Asked, _) if by_itself => because,
        (Outcome::Asked, Lang::En) => format!("{because} by {actor}"),
        (Outcome::Asked, Lang::Ko) => format!("{because}: {actor}"),
        (Outcome::Doing(operation), _) => {
            let doing = words::operation(lang, operation);
            match (by_itself && !wished, by_itself, lang) {
                (true, _, _) => doing.to_owned(),
                (_, true, _) => format!("{doing}: {because}"),
                (_, _, Lang::En) => format!("{doing}, requested by {actor}"),
                (_, _, Lang::Ko) => format!("{doing} ({actor} 님 요청)"),
            }
        }
        (Outcome::Done { to, restored }, Lang::En) => {
            let done = done(lang, to, restored, why);
            match (wished, by_itself) {
                (false, _) => done.to_owned(),
                (true, true) => format!("{done}: {because}"),
                (true, false) => format!("{done} by {actor}"),
            }
        }
        (Outcome::Done { to, restored }, Lang::Ko) => {
            let done = done(lang, to, restored, why);
            match (wished, by_itself) {
                (false, _) => done.to_owned(),
                (true, true) => format!("{done}: {because}"),
                (true, false) => format!("{actor} 님이 {done}"),
            }
        }
    }
}

fn done(lang: Lang, to: Phase, restored: bool, why: &Reason) -> &'static str {
    use Lang::{En, Ko};
    match (why, to, lang) {
        (Reason::Created | Reason::CreatedFromArchive(_), Phase::Running, En) => "Created and started",
        (Reason::Created | Reason::CreatedFromArchive(_), Phase::Running, Ko) => "만들고 시작함",
        (Reason::Created | Reason::CreatedFromArchive(_), _, En) => "Created",
        (Reason::Created | Reason::CreatedFromArchive(_), _, Ko) => "만듦",
        (_, Phase::Running, En) if restored => "Restored and started",
        (_, Phase::Running, Ko) if restored => "복원하고 시작함",
        (Reason::OpenedInBrowser, Phase::Running, En) => "Opened and started",
        (Reason::OpenedInBrowser, Phase::Running, Ko) => "열어서 시작함",
        (_, Phase::Running, En) => "Started",
        (_, Phase::Running, Ko) => "시작함",
        (Reason::TtlStandby(_), Phase::Standby, En) => "Put to sleep",
        (Reason::TtlStandby(_), Phase::Standby, Ko) => "대기 전환",
        (_, Phase::Standby, En) if restored => "Restored",
        (_, Phase::Standby, Ko) if restored => "복원함",
        (_, Phase::Standby, En) => "Stopped",
        (_, Phase::Standby, Ko) => "중지함",
        (Reason::TtlArchive(_), Phase::Archived, Ko) => "보관",
        (_, Phase::Archived, En) => "Archived",
        (_, Phase::Archived, Ko) => "보관함",
        (_, Phase::Deleting | Phase::Deleted, En) => "Deleted",
        (_, Phase::Deleting | Phase::Deleted, Ko) => "삭제함",
        (_, Phase::Pending | Phase::Error, En) => "Changed",
        (_, Phase::Pending | Phase::Error, Ko) => "변경함",
    }
}

/// From one phase to another, in words that can be read aloud.
pub fn became(lang: Lang, from: Phase, to: Phase) -> String {
    let (before, after) = (words::phase(lang, from), words::phase(lang, to));
    match lang {
        Lang::En => format!("from {before} to {after}"),
        Lang::Ko => format!("{before}에서 {after}(으)로"),
    }
}

/// Why a lease was taken, in the words of whoever took it, or ours for the button that takes one.
pub fn hold(lang: Lang, reason: &str) -> &str {
    match lang {
        Lang::Ko if reason == SNOOZED => "1시간 연장",
        Lang::En | Lang::Ko => reason,
    }
}

/// Who did it, from the history's text.
pub fn actor(lang: Lang, actor: &str, name_of: impl Fn(&str) -> Option<String>) -> String {
    match (actor.split_once(':'), lang) {
        (Some(("user", id)), _) => name_of(id).unwrap_or_else(|| actor.to_owned()),
        (Some(("wake", id)), _) => name_of(id).unwrap_or_else(|| id.to_owned()),
        (None, Lang::En) if actor == "ttl" => "Idle time".into(),
        (None, Lang::Ko) if actor == "ttl" => "유휴 시간".into(),
        (None, Lang::En) if actor == "controller" => "CodeHub".into(),
        (None, Lang::Ko) if actor == "controller" => "CodeHub".into(),
        (None, Lang::En) if actor == "operator" => "Operator".into(),
        (None, Lang::Ko) if actor == "operator" => "운영자".into(),
        (Some(_) | None, _) => actor.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_both_languages() {
        for (stored, en, ko) in [
            ("operation_started", "started", "시작됨"),
            ("opened_in_browser", "Opened in the browser", "브라우저에서 열림"),
            ("ttl_standby: 600", "No activity for 10 minutes", "10분 동안 활동 없음"),
            ("instance_ended: exit code 1", "Instance ended: exit code 1", "인스턴스 종료: exit code 1"),
            (
                "instance_interrupted: its container was removed",
                "Instance was ended from outside: its container was removed",
                "인스턴스가 외부에서 종료됨: its container was removed",
            ),
            (
                "instance_no_image: not found",
                "Instance has no image: not found",
                "인스턴스 이미지를 가져올 수 없음: not found",
            ),
            ("instance_waiting: no room", "Instance waits: no room", "인스턴스 대기 중: no room"),
            ("instance_gone", "Instance was removed from outside", "인스턴스가 외부에서 제거됨"),
            ("failed: Timeout: too slow", "Timeout: too slow", "시간 초과: too slow"),
            ("something of 2019", "something of 2019", "something of 2019"),
        ] {
            let it = Reason::read(stored);
            assert_eq!((reason(Lang::En, &it).as_str(), reason(Lang::Ko, &it).as_str()), (en, ko));
        }
    }

    #[test]
    fn actors_have_names() {
        let name = |id: &str| (id == "1").then(|| "ann".to_owned());
        assert_eq!(actor(Lang::En, "user:1", name), "ann");
        assert_eq!(actor(Lang::En, "user:2", name), "user:2");
        assert_eq!(actor(Lang::Ko, "wake:1", name), "ann");
        assert_eq!(actor(Lang::Ko, "ttl", name), "유휴 시간");
        assert_eq!(actor(Lang::En, "new:kind", name), "new:kind");
    }
}

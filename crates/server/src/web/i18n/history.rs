//! The history in people's words. What is stored is English and for programs as much as for people:
//! sentences we know are said in the reader's language, the others as they are.

use codehub_domain::Operation;

use super::{Lang, words};

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

/// Why, as stored, in the reader's language where we know the sentence.
pub fn reason(lang: Lang, reason: &str) -> String {
    let known = match lang {
        Lang::En => None,
        Lang::Ko => match reason {
            "began" => Some("진행 시작"),
            "done" => Some("완료"),
            "observed" => Some("상태 확인"),
            "created" => Some("생성됨"),
            "snoozed" => Some("1시간 더 사용"),
            "deleted" => Some("삭제 요청"),
            "start asked for" => Some("시작 요청"),
            "stop asked for" => Some("중지 요청"),
            "archiving asked for" => Some("보관 요청"),
            "asked for through the API" => Some("API 요청"),
            "recovery asked for" => Some("복구 요청"),
            "asked for with the recovery" => Some("복구와 함께 요청"),
            "recovery asked for, accepting the loss" => Some("데이터 유실을 감수한 복구 요청"),
            _ if reason.starts_with("recovery asked for, from archive ") => Some("보관본에서 복구 요청"),
            _ => None,
        },
    };
    if let Some(text) = known {
        return text.to_owned();
    }
    let idle = |prefix, said: &dyn Fn(String) -> String| reason.strip_prefix(prefix).and_then(span).map(said);
    match lang {
        Lang::En => reason.to_owned(),
        Lang::Ko => idle("no activity for ", &|span| format!("{span} 동안 활동 없음"))
            .or_else(|| idle("on standby for ", &|span| format!("{span} 동안 대기")))
            .unwrap_or_else(|| reason.to_owned()),
    }
}

/// `10 minutes` in Korean.
fn span(text: &str) -> Option<String> {
    let (number, unit) = text.split_once(' ')?;
    let size = match unit.trim_end_matches('s') {
        "second" => 1,
        "minute" => 60,
        "hour" => 3600,
        "day" => 86_400,
        _ => return None,
    };
    Some(words::span(Lang::Ko, number.parse::<u64>().ok()?.checked_mul(size)?))
}

/// Who did it, from the history's text.
pub fn actor(lang: Lang, actor: &str, name_of: impl Fn(&str) -> Option<String>) -> String {
    match (actor.split_once(':'), lang) {
        (Some(("user", id)), _) => name_of(id).unwrap_or_else(|| actor.to_owned()),
        (Some(("wake", id)), Lang::En) => {
            format!("{} (opened it)", name_of(id).unwrap_or_else(|| id.to_owned()))
        }
        (Some(("wake", id)), Lang::Ko) => {
            format!("{} (열어서 깨움)", name_of(id).unwrap_or_else(|| id.to_owned()))
        }
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
    fn known_sentences_are_translated_and_others_kept() {
        for (stored, ko) in [
            ("began", "진행 시작"),
            ("no activity for 10 minutes", "10분 동안 활동 없음"),
            ("no activity for 1 hour", "1시간 동안 활동 없음"),
            ("on standby for 1 day", "1일 동안 대기"),
            ("no activity for ages", "no activity for ages"),
            ("Timeout: it took too long", "Timeout: it took too long"),
        ] {
            assert_eq!(reason(Lang::Ko, stored), ko);
            assert_eq!(reason(Lang::En, stored), stored);
        }
    }

    #[test]
    fn actors_have_names() {
        let name = |id: &str| (id == "1").then(|| "ann".to_owned());
        assert_eq!(actor(Lang::En, "user:1", name), "ann");
        assert_eq!(actor(Lang::En, "user:2", name), "user:2");
        assert_eq!(actor(Lang::Ko, "wake:1", name), "ann (열어서 깨움)");
        assert_eq!(actor(Lang::Ko, "ttl", name), "유휴 시간");
        assert_eq!(actor(Lang::En, "new:kind", name), "new:kind");
    }
}

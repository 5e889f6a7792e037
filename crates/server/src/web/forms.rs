//! What people type into forms, turned into what is stored or into a problem that can be said in any
//! language. The rules are the domain's, as for the API.

use std::str::FromStr;

use codehub_domain::{
    ArchiveKey, Desired,
    activity::ActivityMode,
    fields::{self, Violation},
    labels::Labels,
};
use codehub_store::Edit;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Deserialize;

use super::i18n::Lang;
use crate::config::{Config, TtlBounds};

/// A path on this server and nothing else: it begins with one slash, and has nothing that a browser
/// would read as another host (`//x`, `/\x`) or drop on the way there (control characters, which turn
/// `/<tab>/x` into `//x`).
pub fn local_path(text: &str) -> Option<&str> {
    let mut chars = text.chars();
    let local = chars.next() == Some('/')
        && !matches!(chars.next(), Some('/' | '\\'))
        && text.len() <= 2000
        && text.chars().all(|c| c.is_ascii_graphic() && c != '\\');
    local.then_some(text)
}

const QUERY: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'&')
    .add(b'+')
    .add(b'<')
    .add(b'>')
    .add(b'%')
    .add(b'=')
    .add(b'?');

/// A text as the value of a query parameter.
pub fn query_value(text: &str) -> String {
    utf8_percent_encode(text, QUERY).to_string()
}

/// The path, and where to go on from there.
pub fn with_next(path: &str, next: &str) -> String {
    match local_path(next) {
        Some(next) if next != "/" => format!("{path}?next={}", query_value(next)),
        Some(_) | None => path.to_owned(),
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// One of the domain's rules for fields of a workspace.
    Rule(Violation),
    TtlNoNumber,
    WrongState,
    ImageNotOffered,
    WrongMode,
    NoSuchArchive,
    LabelsRule,
    UsernameRule,
    UsernameTaken,
    NoSandbox,
    PasswordRule,
    PasswordsDiffer,
    PasswordWrong,
    TokenNameRule,
}

/// The field it is about, for the page to put it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrong {
    pub field: &'static str,
    pub problem: Problem,
}

impl Problem {
    /// This problem, of that field.
    pub const fn of(self, field: &'static str) -> Wrong {
        Wrong { field, problem: self }
    }

    /// The sentence beside the field.
    pub fn text(self, lang: Lang) -> String {
        use Lang::{En, Ko};
        match (self, lang) {
            (Self::Rule(violation), lang) => violation_text(violation, lang),
            (Self::TtlNoNumber, En) => "Enter a whole number, or leave it empty.".into(),
            (Self::TtlNoNumber, Ko) => "정수를 입력하거나 비워 두세요.".into(),
            (Self::WrongState, En) => "Choose one of the states.".into(),
            (Self::WrongState, Ko) => "상태를 하나 고르세요.".into(),
            (Self::ImageNotOffered, En) => "This server does not offer that image.".into(),
            (Self::ImageNotOffered, Ko) => "이 서버에서 제공하지 않는 이미지입니다.".into(),
            (Self::WrongMode, En) => "Choose one of the list.".into(),
            (Self::WrongMode, Ko) => "목록에서 하나를 고르세요.".into(),
            (Self::NoSuchArchive, En) => "There is no such archive.".into(),
            (Self::NoSuchArchive, Ko) => "해당 보관본이 없습니다.".into(),
            (Self::LabelsRule, lang) => super::i18n::words::label_rules(lang),
            (Self::UsernameRule, En) => "1 to 64 letters a–z, digits, '.', '_' or '-'.".into(),
            (Self::UsernameRule, Ko) => "영문자, 숫자, '.', '_', '-'만 사용하여 1~64자로 입력하세요.".into(),
            (Self::NoSandbox, En) => {
                "Workspaces run without a sandbox on this server, so users could read and change each other's files. \
                 Install bubblewrap on the server, or allow it with PROCESS_UNSANDBOXED_USERS=many."
                    .into()
            }
            (Self::NoSandbox, Ko) => {
                "이 서버의 워크스페이스는 샌드박스 없이 실행되므로 사용자들이 서로의 파일을 읽고 바꿀 수 있습니다. 서버에 \
                 bubblewrap을 설치하거나 PROCESS_UNSANDBOXED_USERS=many로 허용하세요."
                    .into()
            }
            (Self::UsernameTaken, En) => "This username is taken.".into(),
            (Self::UsernameTaken, Ko) => "이미 사용 중인 사용자 이름입니다.".into(),
            (Self::PasswordRule, En) => "8 to 1024 characters.".into(),
            (Self::PasswordRule, Ko) => "8자 이상 1024자 이하로 입력하세요.".into(),
            (Self::PasswordsDiffer, En) => "The two passwords are not the same.".into(),
            (Self::PasswordsDiffer, Ko) => "두 비밀번호가 서로 다릅니다.".into(),
            (Self::PasswordWrong, En) => "This is not your current password.".into(),
            (Self::PasswordWrong, Ko) => "현재 비밀번호가 아닙니다.".into(),
            (Self::TokenNameRule, En) => "1 to 100 characters.".into(),
            (Self::TokenNameRule, Ko) => "1~100자로 입력하세요.".into(),
        }
    }
}

fn violation_text(violation: Violation, lang: Lang) -> String {
    use Lang::{En, Ko};
    match (violation, lang) {
        // Of these fields only the name must not be empty.
        (Violation::Empty { .. }, En) => "Enter a name.".into(),
        (Violation::Empty { .. }, Ko) => "이름을 입력하세요.".into(),
        (Violation::TooLong { max }, En) => format!("At most {max} characters."),
        (Violation::TooLong { max }, Ko) => format!("{max}자 이하로 입력하세요."),
        (Violation::TooLarge { max }, En) => format!("At most {} KiB.", max / 1024),
        (Violation::TooLarge { max }, Ko) => format!("{} KiB 이하로 입력하세요.", max / 1024),
        (Violation::Control, En) => "Control characters are not allowed.".into(),
        (Violation::Control, Ko) => "제어 문자를 쓸 수 없습니다.".into(),
        (Violation::Nul, En) => "The character U+0000 is not allowed.".into(),
        (Violation::Nul, Ko) => "U+0000 문자를 쓸 수 없습니다.".into(),
        (Violation::Ttl { bounds, .. }, lang) => super::i18n::words::ttl_bounds(lang, bounds),
    }
}

/// A workspace's fields as the browser sends them; also what is shown again when one is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WorkspaceForm {
    pub name: String,
    pub description: String,
    pub memo: String,
    pub desired_state: String,
    pub standby_ttl: String,
    pub standby_unit: String,
    pub archive_ttl: String,
    pub archive_unit: String,
    /// Empty where there is none to choose.
    pub image_ref: String,
    /// Empty is the deployment's default.
    pub activity_mode: String,
    /// The key of the archive it begins with, if any.
    pub from_archive: String,
    /// One a line, as [`Labels`] writes them.
    pub labels: String,
}

/// The same, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceFields {
    pub name: String,
    pub description: String,
    pub memo: String,
    pub desired: Desired,
    pub standby_ttl_seconds: Option<u32>,
    pub archive_ttl_seconds: Option<u32>,
    pub image_ref: String,
    pub activity_mode: Option<ActivityMode>,
    pub from_archive: Option<ArchiveKey>,
    pub labels: Labels,
}

impl WorkspaceForm {
    /// # Errors
    /// Everything that is wrong, so that a person can fix it in one go.
    pub fn check(&self, config: &Config) -> Result<WorkspaceFields, Vec<Wrong>> {
        let ttl = &config.ttl;
        let mut wrong = Vec::new();
        let mut ruled = |field, checked: Result<String, Violation>| {
            checked.unwrap_or_else(|violation| {
                wrong.push(Problem::Rule(violation).of(field));
                String::new()
            })
        };
        let name = ruled("name", fields::workspace_name(&self.name).map(str::to_owned));
        let description = ruled("description", fields::description(self.description.trim().to_owned()));
        // Browsers send line ends as CRLF.
        let memo = ruled("memo", fields::memo(self.memo.replace("\r\n", "\n")));
        let desired = match self.desired_state.as_str() {
            "" | "RUNNING" => Desired::Running,
            "STANDBY" => Desired::Standby,
            "ARCHIVED" => Desired::Archived,
            _ => {
                wrong.push(Problem::WrongState.of("desired_state"));
                Desired::Running
            }
        };
        let mut read = |field, number: &str, unit: &str, bounds| {
            seconds(number, unit, bounds).unwrap_or_else(|problem| {
                wrong.push(problem.of(field));
                None
            })
        };
        let standby_ttl_seconds =
            read("standby_ttl", &self.standby_ttl, &self.standby_unit, ttl.standby_bounds());
        let archive_ttl_seconds =
            read("archive_ttl", &self.archive_ttl, &self.archive_unit, ttl.archive_bounds());
        let image_ref = if self.image_ref.is_empty() { &config.runtime.image } else { &self.image_ref };
        if !config.runtime.offers(image_ref) {
            wrong.push(Problem::ImageNotOffered.of("image_ref"));
        }
        let activity_mode = optional(&self.activity_mode, Problem::WrongMode.of("activity_mode"), &mut wrong);
        let from_archive =
            optional(&self.from_archive, Problem::NoSuchArchive.of("from_archive"), &mut wrong);
        let labels = self.labels.parse().unwrap_or_else(|_| {
            wrong.push(Problem::LabelsRule.of("labels"));
            Labels::default()
        });
        if wrong.is_empty() {
            Ok(WorkspaceFields {
                name,
                description,
                memo,
                desired,
                standby_ttl_seconds,
                archive_ttl_seconds,
                image_ref: image_ref.clone(),
                activity_mode,
                from_archive,
                labels,
            })
        } else {
            Err(wrong)
        }
    }
}

/// Empty is nothing.
fn optional<T: FromStr>(text: &str, problem: Wrong, wrong: &mut Vec<Wrong>) -> Option<T> {
    if text.is_empty() {
        return None;
    }
    let read = text.parse().ok();
    if read.is_none() {
        wrong.push(problem);
    }
    read
}

impl From<WorkspaceFields> for Edit {
    fn from(fields: WorkspaceFields) -> Self {
        Self {
            name: Some(fields.name),
            description: Some(fields.description),
            memo: Some(fields.memo),
            standby_ttl_seconds: Some(fields.standby_ttl_seconds),
            archive_ttl_seconds: Some(fields.archive_ttl_seconds),
            activity_mode: Some(fields.activity_mode),
            labels: Some(fields.labels),
        }
    }
}

/// The units a TTL can be typed in, with their seconds.
pub const UNITS: [(&str, u32); 4] = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];

/// Empty is the deployment's default.
fn seconds(number: &str, unit: &str, bounds: TtlBounds) -> Result<Option<u32>, Problem> {
    let number = number.trim();
    if number.is_empty() {
        return Ok(None);
    }
    let count: u32 = number.parse().map_err(|_| Problem::TtlNoNumber)?;
    let (_, size) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(Problem::TtlNoNumber)?;
    let too_long = Violation::Ttl { seconds: u32::MAX, bounds };
    let seconds = count.checked_mul(*size).ok_or(Problem::Rule(too_long))?;
    fields::ttl(Some(seconds), bounds).map_err(Problem::Rule)
}

/// The largest unit that says it exactly: what the form shows of a stored TTL.
pub fn in_unit(seconds: Option<u32>) -> (String, &'static str) {
    match seconds {
        None => (String::new(), "m"),
        Some(0) => ("0".into(), "m"),
        Some(seconds) => {
            let (name, size) =
                UNITS.into_iter().rev().find(|(_, size)| seconds.is_multiple_of(*size)).unwrap_or(UNITS[0]);
            ((seconds / size).to_string(), name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_stays_on_this_server() {
        for good in ["/", "/workspaces/x?a=b", "/w/1/?folder=/home", "/%2F%2Fevil.example"] {
            assert_eq!(local_path(good), Some(good));
        }
        for bad in [
            "",
            "x",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\/evil.example",
            "https://evil.example",
            "/\t/evil.example",
            "/\n/evil.example",
            " /x",
            "/x y",
            "/a\\b",
            "javascript:alert(1)",
            "/é",
        ] {
            assert_eq!(local_path(bad), None, "{bad:?}");
        }
        assert_eq!(with_next("/login", "/users?x=1&y=2"), "/login?next=/users%3Fx%3D1%26y%3D2");
        assert_eq!(with_next("/login", "/"), "/login");
        assert_eq!(with_next("/login", "//evil.example"), "/login");
    }

    fn config() -> Config {
        let settings = [
            ("data_dir", "/tmp/nowhere"),
            ("ttl.standby_min", "60"),
            ("ttl.standby_max", "86400"),
            ("runtime.image", "ours"),
            ("runtime.images_allowed", "team/*"),
        ];
        Config::with(&settings).unwrap()
    }

    #[test]
    fn everything_wrong_is_named_at_once() {
        let form = WorkspaceForm {
            name: " ".into(),
            description: "x".repeat(501),
            memo: "x".repeat(fields::MEMO_MAX + 1),
            desired_state: "DELETED".into(),
            standby_ttl: "2".into(),
            standby_unit: "d".into(),
            archive_ttl: "x".into(),
            archive_unit: "m".into(),
            image_ref: "theirs".into(),
            activity_mode: "never".into(),
            from_archive: "x".into(),
            labels: "Team: red".into(),
        };
        let wrong = form.check(&config()).unwrap_err();
        let fields: Vec<_> = wrong.into_iter().map(|wrong| wrong.field).collect();
        let first = ["name", "description", "memo", "desired_state", "standby_ttl", "archive_ttl"];
        assert_eq!(fields[..6], first);
        assert_eq!(fields[6..], ["image_ref", "activity_mode", "from_archive", "labels"]);
    }

    #[test]
    fn what_is_right_is_kept() {
        let form = WorkspaceForm {
            name: "  제 상자 ".into(),
            memo: "a\r\nb".into(),
            standby_ttl: "90".into(),
            standby_unit: "m".into(),
            archive_ttl: "0".into(),
            archive_unit: "d".into(),
            image_ref: "team/one".into(),
            activity_mode: "connections".into(),
            labels: "team: red\r\n\r\nurgent\r\n".into(),
            ..WorkspaceForm::default()
        };
        let fields = form.check(&config()).unwrap();
        assert_eq!(fields.image_ref, "team/one");
        assert_eq!(fields.labels.iter().collect::<Vec<_>>(), [("team", "red"), ("urgent", "")]);
        assert_eq!((fields.activity_mode, fields.from_archive), (Some(ActivityMode::Connections), None));
        assert_eq!((fields.name.as_str(), fields.memo.as_str()), ("제 상자", "a\nb"));
        assert_eq!(fields.desired, Desired::Running);
        assert_eq!((fields.standby_ttl_seconds, fields.archive_ttl_seconds), (Some(5400), Some(0)));
    }

    #[test]
    fn a_ttl_is_shown_as_it_can_be_typed() {
        for (stored, number, unit) in [
            (None, "", "m"),
            (Some(0), "0", "m"),
            (Some(45), "45", "s"),
            (Some(5400), "90", "m"),
            (Some(7200), "2", "h"),
            (Some(86_400), "1", "d"),
        ] {
            assert_eq!(in_unit(stored), (number.to_owned(), unit));
        }
    }
}

//! The one sentence a page says after a form was sent and the browser was sent on: a word of a fixed
//! list in a cookie that lives for seconds. Whatever else stands in the cookie says nothing, so nobody
//! can make a page say their text.

use codehub_domain::{Desired, Operation, limits::LimitScope, recovery::RecoveryRefusal};
use http::{HeaderMap, HeaderValue};

use super::{cookies, error::WebError, i18n::Lang};
use crate::service::Denied;

pub(super) const COOKIE: &str = "flash";
const SECONDS: u32 = 30;

/// Whether it is good news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    Bad,
}

macro_rules! flashes {
    ($($name:ident $tone:ident $word:literal: $en:literal, $ko:literal;)+) => {
        /// Sentences without a value in them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Plain { $($name),+ }

        impl Plain {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            const fn word(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }

            const fn tone(self) -> Tone {
                match self { $(Self::$name => Tone::$tone),+ }
            }

            const fn text(self, lang: Lang) -> &'static str {
                match (self, lang) {
                    $((Self::$name, Lang::En) => $en, (Self::$name, Lang::Ko) => $ko,)+
                }
            }
        }
    };
}

flashes! {
    Welcome Good "welcome": "CodeHub is set up. Create your first workspace.", "CodeHub 설정을 마쳤습니다. 첫 워크스페이스를 만들어 보세요.";
    SignedOut Good "signed-out": "You are signed out.", "로그아웃했습니다.";
    NoSessionEnded Bad "no-session-ended": "This browser’s session had already ended. To end all your sessions, sign in and change your password.", "이 브라우저의 세션이 이미 끝났거나 쿠키가 바뀌어 종료한 세션이 없습니다. 모든 세션을 끝내려면 로그인한 뒤 비밀번호를 변경하세요.";
    Created Good "created": "Workspace created.", "워크스페이스를 만들었습니다.";
    Starting Good "starting": "Starting the workspace.", "워크스페이스를 시작합니다.";
    Stopping Good "stopping": "Stopping the workspace.", "워크스페이스를 중지합니다.";
    Archiving Good "archiving": "Archiving the workspace.", "워크스페이스를 보관합니다.";
    Deleted Good "deleted": "Workspace deleted.", "워크스페이스를 삭제했습니다.";
    Recovering Good "recovering": "Recovery started.", "복구를 시작했습니다.";
    Saved Good "saved": "Your changes were saved.", "변경 사항을 저장했습니다.";
    UserCreated Good "user-created": "User added.", "사용자를 추가했습니다.";
    UserSaved Good "user-saved": "User updated.", "사용자 정보를 변경했습니다.";
    UserDeleted Good "user-deleted": "User deleted.", "사용자를 삭제했습니다.";
    TokenDeleted Good "token-deleted": "Token deleted. It no longer works.", "토큰을 삭제했습니다. 이제 사용할 수 없습니다.";
    PasswordChanged Good "password-changed": "Your password was changed. Your other sessions have ended.", "비밀번호를 변경했습니다. 다른 기기의 세션은 모두 종료되었습니다.";
    PasswordAndTokensChanged Good "password-and-tokens-changed": "Your password was changed. Your other sessions have ended and your API tokens are deleted.", "비밀번호를 변경했습니다. 다른 기기의 세션은 모두 종료되었고 API 토큰은 삭제되었습니다.";
    TokenRevoked Good "token-revoked": "Token revoked. It no longer works.", "토큰을 폐기했습니다. 이제 사용할 수 없습니다.";
    Snoozed Good "snoozed": "The workspace stays awake.", "워크스페이스를 깨어 있는 상태로 유지합니다.";
    Released Good "released": "The workspace may go to sleep again.", "유지를 해제했습니다.";
    NoSuchLease Bad "no-such-lease": "This keep-awake request has already ended.", "이미 끝난 유지 요청입니다.";
    PortShared Good "port-shared": "Everybody with an account here can open this port now.", "이제 이 서버에 계정이 있는 모든 사람이 이 포트를 열 수 있습니다.";
    PortClosed Good "port-closed": "Only you can open this port now.", "이제 본인만 이 포트를 열 수 있습니다.";
    TooManyPorts Bad "too-many-ports": "64 ports of this workspace have settings already. Nothing was changed.", "설정이 저장된 포트가 이미 64개입니다. 변경된 내용이 없습니다.";
    NotRunning Bad "not-running": "The workspace is not running. Start it first.", "실행하도록 설정되지 않은 워크스페이스입니다. 먼저 시작하세요.";
    NothingTicked Bad "nothing-ticked": "No workspace was selected.", "선택한 워크스페이스가 없습니다.";
    NeedsRecovery Bad "needs-recovery": "The workspace has an error. Recover it first.", "워크스페이스에 오류가 있습니다. 먼저 복구하세요.";
    TooManyLeases Bad "too-many-leases": "The workspace has too many keep-awake leases already. Give some of them back first.", "유지 요청이 너무 많습니다. 먼저 일부를 해제하세요.";
    NotInError Bad "not-in-error": "There is nothing to recover from anymore.", "더 이상 복구할 오류가 없습니다.";
    HomeIsLost Bad "home-is-lost": "The home directory is missing. Choose an archive, or confirm that you want to start with an empty home directory.", "홈 데이터가 유실되었습니다. 복원할 보관본을 고르거나, 빈 홈으로 시작한다는 데 동의하세요.";
    WouldDropHome Bad "would-drop-home": "The home directory still exists, and restoring an archive would discard it. Confirm that, or recover without an archive.", "현재 홈 데이터가 남아 있습니다. 보관본으로 되돌리면 사라지므로 동의가 필요합니다. 또는 보관본 없이 복구하세요.";
    NoSuchArchive Bad "no-such-archive": "That archive no longer exists.", "해당 보관본이 없습니다.";
    Unreachable Bad "unreachable": "A service CodeHub needs is not responding. Try again in a moment.", "필요한 구성 요소가 응답하지 않습니다. 잠시 후 다시 시도하세요.";
    LastAdmin Bad "last-admin": "This is the last administrator who can sign in. Make another user an administrator first.", "로그인할 수 있는 마지막 관리자입니다. 먼저 다른 관리자를 지정하세요.";
    OwnsWorkspaces Bad "owns-workspaces": "This user still owns workspaces. Delete those first, or disable the user.", "이 사용자에게 워크스페이스가 남아 있습니다. 먼저 삭제하거나 사용자를 비활성화하세요.";
    NotYourself Bad "not-yourself": "You cannot do this to your own account.", "자기 계정에는 할 수 없는 작업입니다.";
    PasswordRule Bad "password-rule": "A password has 8 to 1024 characters.", "비밀번호는 8자 이상 1024자 이하여야 합니다.";
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flash {
    Plain(Plain),
    Busy(Operation),
    UserLimit(u32),
    ServerLimit(u32),
    /// An act for many workspaces at once: of how many it was granted, and of how many not. `limit`: that was all that
    /// was in the way, so many may run at once.
    Bulk {
        desired: Desired,
        done: u32,
        skipped: u32,
        limit: Option<u32>,
    },
}

impl From<Plain> for Flash {
    fn from(plain: Plain) -> Self {
        Self::Plain(plain)
    }
}

impl Flash {
    fn word(self) -> String {
        match self {
            Self::Plain(plain) => plain.word().to_owned(),
            Self::Busy(operation) => format!("busy.{operation}"),
            Self::UserLimit(limit) => format!("user-limit.{limit}"),
            Self::ServerLimit(limit) => format!("server-limit.{limit}"),
            Self::Bulk { desired, done, skipped, limit } => {
                let limit = limit.map_or_else(String::new, |limit| format!(".{limit}"));
                format!("bulk.{desired}.{done}.{skipped}{limit}")
            }
        }
    }

    fn parse(word: &str) -> Option<Self> {
        match word.split_once('.') {
            None => Plain::ALL.iter().find(|plain| plain.word() == word).map(|plain| Self::Plain(*plain)),
            Some(("busy", operation)) => operation.parse().ok().map(Self::Busy),
            Some(("user-limit", limit)) => limit.parse().ok().map(Self::UserLimit),
            Some(("server-limit", limit)) => limit.parse().ok().map(Self::ServerLimit),
            Some(("bulk", counts)) => {
                let mut parts = counts.split('.');
                let desired = parts.next()?.parse().ok()?;
                let done = parts.next()?.parse().ok()?;
                let skipped = parts.next()?.parse().ok()?;
                let limit = parts.next().map(str::parse).transpose().ok()?;
                parts.next().is_none().then_some(Self::Bulk { desired, done, skipped, limit })
            }
            Some(_) => None,
        }
    }

    /// Whether it is good news.
    pub fn tone(self) -> Tone {
        match self {
            Self::Plain(plain) => plain.tone(),
            Self::Busy(_) | Self::UserLimit(_) | Self::ServerLimit(_) => Tone::Bad,
            Self::Bulk { skipped, .. } => {
                if skipped == 0 {
                    Tone::Good
                } else {
                    Tone::Bad
                }
            }
        }
    }

    /// The sentence in a language.
    pub fn text(self, lang: Lang) -> String {
        match (self, lang) {
            (Self::Plain(plain), _) => plain.text(lang).to_owned(),
            (Self::Bulk { desired, done, skipped, limit }, _) => {
                super::i18n::words::bulk_done(lang, desired, done, skipped, limit)
            }
            (Self::Busy(operation), Lang::En) => {
                let doing = super::i18n::words::operation(lang, operation);
                format!("Another operation is in progress ({doing}). Wait until it finishes, then try again.")
            }
            (Self::Busy(operation), Lang::Ko) => {
                let doing = super::i18n::words::operation(lang, operation);
                format!("진행 중인 작업이 있습니다({doing}). 끝난 뒤에 다시 시도하세요.")
            }
            (Self::UserLimit(limit), Lang::En) => {
                format!("You can run {limit} at once. Stop another workspace first.")
            }
            (Self::UserLimit(limit), Lang::Ko) => {
                format!(
                    "동시에 실행할 수 있는 워크스페이스는 {limit}개입니다. 먼저 다른 워크스페이스를 중지하세요."
                )
            }
            (Self::ServerLimit(limit), Lang::En) => {
                format!("This server’s limit of {limit} running workspaces is reached. Try again later.")
            }
            (Self::ServerLimit(limit), Lang::Ko) => {
                format!("이 서버의 자리 {limit}개가 모두 사용 중입니다. 나중에 다시 시도하세요.")
            }
        }
    }

    /// What the visitor's cookie says, if it is one of ours.
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        cookies::get(headers, COOKIE).and_then(Self::parse)
    }

    /// The cookie that carries it to the next page.
    pub fn cookie(self, https: bool) -> HeaderValue {
        cookies::set(COOKIE, &self.word(), SECONDS, https)
    }

    /// The sentence for a refusal that a person can do something about; anything else is a page of
    /// its own.
    ///
    /// # Errors
    /// The refusals that deserve a page.
    pub fn of_refusal(denied: Denied) -> Result<Self, WebError> {
        Ok(match denied {
            Denied::Busy(operation) => Self::Busy(operation),
            Denied::NotRunning => Plain::NotRunning.into(),
            Denied::NeedsRecovery => Plain::NeedsRecovery.into(),
            Denied::TooManyHolds => Plain::TooManyLeases.into(),
            Denied::Recovery(RecoveryRefusal::NotInError) => Plain::NotInError.into(),
            Denied::Recovery(RecoveryRefusal::HomeIsLost) => Plain::HomeIsLost.into(),
            Denied::Recovery(RecoveryRefusal::WouldDropHome) => Plain::WouldDropHome.into(),
            Denied::Limit(hit) => match hit.scope {
                LimitScope::User { limit } => Self::UserLimit(limit),
                LimitScope::Global { limit } => Self::ServerLimit(limit),
            },
            Denied::Invalid { .. } | Denied::Recovery(RecoveryRefusal::BeingDeleted) => {
                Plain::NoSuchArchive.into()
            }
            Denied::Unreachable(_) => Plain::Unreachable.into(),
            Denied::NotFound | Denied::Forbidden(_) | Denied::Store(_) => return Err(denied.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_comes_back_and_others_say_nothing() {
        let all = Plain::ALL.iter().map(|plain| Flash::Plain(*plain)).chain(
            Operation::ALL
                .iter()
                .map(|op| Flash::Busy(*op))
                .chain([Flash::UserLimit(3), Flash::ServerLimit(9)])
                .chain(Desired::ALL.iter().flat_map(|desired| {
                    [None, Some(2)].map(|limit| Flash::Bulk { desired: *desired, done: 3, skipped: 1, limit })
                })),
        );
        for flash in all {
            let word = flash.word();
            assert_eq!(Flash::parse(&word), Some(flash), "{word}");
            for lang in Lang::ALL {
                assert!(!flash.text(lang).is_empty());
            }
        }
        for wrong in [
            "",
            "<b>x</b>",
            "busy.",
            "busy.x",
            "user-limit.x",
            "user-limit.-1",
            "other.3",
            "bulk.RUNNING.1",
            "bulk.x.1.2",
            "bulk.RUNNING.1.2.x",
            "bulk.RUNNING.1.2.3.4",
        ] {
            assert_eq!(Flash::parse(wrong), None, "{wrong:?}");
        }
    }
}

//! The words of the proxy's pages, in English and Korean.

use codehub_domain::ErrorReason;
use http::HeaderMap;

use crate::{
    appearance::{Lang, Theme},
    gate::Entered,
    wake::resolve::{Closed, Waiting},
};

impl Lang {
    const fn pick(self, en: &'static str, ko: &'static str) -> &'static str {
        match self {
            Self::En => en,
            Self::Ko => ko,
        }
    }
}

/// For whom a page is drawn: language and theme.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Appearance {
    pub lang: Lang,
    pub theme: Theme,
}

impl Appearance {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self { lang: Lang::of(headers), theme: Theme::chosen(headers) }
    }
}

/// A title and what it means.
pub(crate) struct Words {
    pub title: &'static str,
    pub text: &'static str,
}

impl Lang {
    pub(crate) const fn waiting(self, why: Waiting) -> Words {
        let (title, text) = match why {
            Waiting::Starting => (
                self.pick("Starting your workspace", "워크스페이스를 시작하고 있습니다"),
                self.pick("It opens here as soon as it is ready.", "준비되면 이 화면에서 자동으로 열립니다."),
            ),
            Waiting::Restoring => (
                self.pick("Restoring your workspace", "워크스페이스를 복원하고 있습니다"),
                self.pick(
                    "Your files are being restored from the archive. It opens here when they are ready.",
                    "보관된 파일을 되돌리고 있습니다. 모두 복원되면 이 화면에서 자동으로 열립니다.",
                ),
            ),
            Waiting::Stopping => (
                self.pick("Your workspace is going to sleep", "워크스페이스를 대기 상태로 전환하고 있습니다"),
                self.pick("It will be woken up again right after that.", "완료되는 즉시 다시 깨웁니다."),
            ),
            Waiting::Archiving => (
                self.pick("Your workspace is being archived", "워크스페이스를 보관하고 있습니다"),
                self.pick(
                    "You can restore it from here when that is finished.",
                    "보관이 끝나면 이 화면에서 복원할 수 있습니다.",
                ),
            ),
        };
        Words { title, text }
    }

    pub(crate) const fn closed(self, why: Closed) -> Words {
        let (title, text) = match why {
            Closed::NotStarted => (
                self.pick("This workspace has not been started", "아직 시작하지 않은 워크스페이스입니다"),
                self.pick("Start it to use it.", "시작하면 작업할 수 있습니다."),
            ),
            Closed::Archived => (
                self.pick("This workspace is archived", "보관된 워크스페이스입니다"),
                self.pick(
                    "Its files are safe. Restoring them takes a moment, then it opens here.",
                    "파일은 안전하게 보관되어 있습니다. 복원에는 잠시 시간이 걸리며, 끝나면 이 화면에서 열립니다.",
                ),
            ),
            Closed::Broken => (
                self.pick("Something went wrong with this workspace", "워크스페이스에 문제가 생겼습니다"),
                self.pick(
                    "Choose how to continue. Nothing changes until you do.",
                    "계속할 방법을 선택하세요. 선택할 때까지 아무것도 변경하지 않습니다.",
                ),
            ),
        };
        Words { title, text }
    }

    pub(crate) const fn button(self, why: Closed) -> &'static str {
        match why {
            Closed::NotStarted => self.pick("Start", "시작"),
            Closed::Archived => self.pick("Restore and open", "복원하고 열기"),
            Closed::Broken => self.pick("Recover", "복구"),
        }
    }

    pub(crate) const fn limit(self) -> Words {
        Words {
            title: self.pick("Too many workspaces are running", "실행 중인 워크스페이스가 너무 많습니다"),
            text: self.pick(
                "Stop one of yours, then open this one again.",
                "실행 중인 워크스페이스를 하나 중지한 뒤 다시 여세요.",
            ),
        }
    }

    pub(crate) const fn limit_elsewhere(self) -> &'static str {
        self.pick(
            "This server’s limit of running workspaces is reached. Try again later.",
            "서버에서 동시에 실행할 수 있는 워크스페이스 수에 도달했습니다. 나중에 다시 시도하세요.",
        )
    }

    pub(crate) const fn unavailable(self) -> Words {
        Words {
            title: self.pick("The workspace is not responding", "워크스페이스가 응답하지 않습니다"),
            text: self.pick(
                "CodeHub is checking it. This page retries automatically.",
                "CodeHub가 확인하고 있습니다. 이 화면은 자동으로 다시 시도합니다.",
            ),
        }
    }

    pub(crate) const fn our_fault(self) -> Words {
        Words {
            title: self.pick("CodeHub is not ready", "CodeHub가 준비되지 않았습니다"),
            text: self.pick(
                "The database cannot be reached. This page retries automatically.",
                "데이터베이스에 연결할 수 없습니다. 이 화면은 자동으로 다시 시도합니다.",
            ),
        }
    }

    pub(crate) const fn misdirected(self) -> Words {
        Words {
            title: self.pick("Wrong host name", "잘못된 호스트 이름입니다"),
            text: self.pick(
                "This server does not answer under the host name you used. Open it at its own address. Whoever runs it can allow more names with HOSTS_ALLOWED.",
                "이 서버는 요청한 호스트 이름으로 응답하지 않습니다. 서버의 원래 주소로 여세요. 운영자는 HOSTS_ALLOWED로 다른 이름을 허용할 수 있습니다.",
            ),
        }
    }

    pub(crate) const fn not_entered(self, why: &Entered) -> Words {
        Words {
            title: self.pick("The workspace could not be opened", "워크스페이스를 열지 못했습니다"),
            text: match why {
                Entered::AnotherBrowser => self.pick(
                    "The link was made for another browser, or this one does not keep cookies for the workspace's address. Allow cookies, then try again.",
                    "다른 브라우저를 위해 만들어진 링크이거나, 이 브라우저가 워크스페이스 주소의 쿠키를 저장하지 않습니다. 쿠키를 허용한 뒤 다시 시도하세요.",
                ),
                Entered::Late => self.pick(
                    "The link was too old: it is valid for one minute.",
                    "링크가 만료되었습니다. 링크는 1분 동안만 유효합니다.",
                ),
                Entered::Used | Entered::Session { .. } => self.pick(
                    "The link has been used already: it works once.",
                    "이미 사용한 링크입니다. 링크는 한 번만 쓸 수 있습니다.",
                ),
            },
        }
    }

    pub(crate) const fn no_ports(self) -> Words {
        Words {
            title: self.pick("Ports are not available here", "여기서는 포트를 열 수 없습니다"),
            text: self.pick(
                "Ports are opened in the browser only where every workspace has an address of its own. Whoever runs this server can set that up with PROXY_DOMAIN.",
                "워크스페이스마다 고유한 주소가 있어야 브라우저에서 포트를 열 수 있습니다. 운영자가 PROXY_DOMAIN으로 설정할 수 있습니다.",
            ),
        }
    }

    pub(crate) const fn ports_off(self) -> Words {
        Words {
            title: self.pick("Ports are switched off", "포트 열기가 꺼져 있습니다"),
            text: self.pick(
                "Whoever runs this server has switched off opening ports in the browser (PORTS).",
                "운영자가 브라우저에서 포트를 여는 기능을 껐습니다(PORTS).",
            ),
        }
    }

    pub(crate) const fn port_denied(self) -> Words {
        Words {
            title: self.pick("This port is not opened", "열 수 없는 포트입니다"),
            text: self.pick(
                "Whoever runs this server does not allow this port in the browser (PORTS_DENIED). Use another port.",
                "운영자가 이 포트를 브라우저에서 열지 못하도록 했습니다(PORTS_DENIED). 다른 포트를 사용하세요.",
            ),
        }
    }

    pub(crate) const fn port_busy(self) -> Words {
        Words {
            title: self.pick("Too many connections", "연결이 너무 많습니다"),
            text: self.pick(
                "This port has as many open connections as it may have. Close some, then try again.",
                "이 포트에 열 수 있는 연결 수를 모두 사용하고 있습니다. 일부를 닫은 뒤 다시 시도하세요.",
            ),
        }
    }

    pub(crate) const fn nobody_inside(self) -> Words {
        Words {
            title: self.pick(
                "Ports of this workspace cannot be opened",
                "이 워크스페이스의 포트를 열 수 없습니다",
            ),
            text: self.pick(
                "Ports can be opened in workspaces that run as local processes and were started by this version of CodeHub. Restart an older one; workspaces in containers cannot do this yet.",
                "로컬 프로세스로 실행되고 현재 버전의 CodeHub가 시작한 워크스페이스에서만 포트를 열 수 있습니다. 이전 버전에서 시작했다면 다시 시작하세요. 컨테이너 워크스페이스는 아직 지원하지 않습니다.",
            ),
        }
    }

    pub(crate) const fn owner_wakes(self) -> Words {
        Words {
            title: self.pick("The workspace is asleep", "워크스페이스가 대기 상태입니다"),
            text: self.pick(
                "Its owner can wake it. Try again after that.",
                "소유자가 깨울 수 있습니다. 그 후에 다시 시도하세요.",
            ),
        }
    }

    /// Nothing listens on this port.
    pub(crate) fn silent(self, port: u16) -> String {
        match self {
            Self::En => format!("Nothing listens on port {port}"),
            Self::Ko => format!("포트 {port}에서 실행 중인 프로그램이 없습니다"),
        }
    }

    pub(crate) const fn start_it(self) -> &'static str {
        self.pick(
            "Start your program in the workspace. This page opens it as soon as it answers.",
            "워크스페이스에서 프로그램을 시작하세요. 응답하면 이 화면에서 바로 열립니다.",
        )
    }

    pub(crate) const fn other_ports(self) -> &'static str {
        self.pick("Open instead:", "열려 있는 포트:")
    }

    pub(crate) const fn two_sessions(self) -> Words {
        Words {
            title: self.pick("Several session cookies were sent", "세션 쿠키가 여러 개 전송되었습니다"),
            text: self.pick(
                "Somebody else has set one of them. Remove the cookies of this address in your browser's settings, then try again.",
                "그중 하나는 다른 곳에서 설정한 것입니다. 브라우저 설정에서 이 주소의 쿠키를 지운 뒤 다시 시도하세요.",
            ),
        }
    }

    pub(crate) const fn go_on(self) -> &'static str {
        self.pick("Open", "열기")
    }

    pub(crate) const fn busy(self) -> Words {
        Words {
            title: self.pick("The server is busy", "서버가 혼잡합니다"),
            text: self.pick(
                "Too many connections are not signed in. Try again in a moment.",
                "로그인하지 않은 사용자에게 내줄 자리가 없습니다. 잠시 후 다시 시도하세요.",
            ),
        }
    }

    pub(crate) const fn not_found(self) -> Words {
        Words {
            title: self.pick("Workspace not found", "없는 워크스페이스입니다"),
            text: self.pick("It may have been deleted.", "삭제되었을 수 있습니다."),
        }
    }

    pub(crate) const fn not_yours(self) -> Words {
        Words {
            title: self.pick("This workspace belongs to another user", "다른 사람의 워크스페이스입니다"),
            text: self.pick("Only its owner can open it.", "소유자만 열 수 있습니다."),
        }
    }

    pub(crate) const fn not_shared(self, before: bool) -> Words {
        let title = if before {
            self.pick("This port is not shared any more", "이 포트는 더 이상 공유되지 않습니다")
        } else {
            self.pick("This port is not shared", "공유되지 않은 포트입니다")
        };
        let text = self.pick(
            "Only the workspace’s owner can open it. Ask them to share it with you.",
            "워크스페이스 소유자만 열 수 있습니다. 소유자에게 공유를 요청하세요.",
        );
        Words { title, text }
    }

    pub(crate) const fn refused(self) -> Words {
        Words {
            title: self.pick("Invalid request", "처리할 수 없는 요청입니다"),
            text: self.pick(
                "The browser sent an unexpected request.",
                "브라우저가 예상하지 못한 요청을 보냈습니다.",
            ),
        }
    }

    pub(crate) const fn stop(self) -> &'static str {
        self.pick("Stop", "중지")
    }

    pub(crate) const fn dashboard(self) -> &'static str {
        self.pick("All workspaces", "전체 워크스페이스")
    }

    pub(crate) const fn try_again(self) -> &'static str {
        self.pick("Try again", "다시 시도")
    }

    pub(crate) const fn archived_at(self) -> &'static str {
        self.pick("Archived", "보관 시각")
    }

    pub(crate) const fn size(self) -> &'static str {
        self.pick("Size", "크기")
    }

    pub(crate) const fn reason(self) -> &'static str {
        self.pick("Reason", "원인")
    }

    pub(crate) const fn details(self) -> &'static str {
        self.pick("Details", "상세")
    }

    /// What a failure means for the person who reads it.
    pub(crate) const fn meaning(self, reason: ErrorReason) -> &'static str {
        match reason {
            ErrorReason::Timeout => self.pick(
                "It was not ready in time. Recover to try again.",
                "제시간에 준비되지 않았습니다. 복구하면 다시 시도합니다.",
            ),
            ErrorReason::ImagePullFailed => self.pick(
                "Its image could not be pulled. Check the image name, then recover.",
                "이미지를 가져오지 못했습니다. 이미지 이름을 확인한 뒤 복구하세요.",
            ),
            ErrorReason::ContainerWithoutVolume => self.pick(
                "It is running without its home directory. Recover to restart it with its home directory.",
                "홈 없이 실행되고 있습니다. 복구하면 종료한 뒤 홈에서 다시 시작합니다.",
            ),
            ErrorReason::ArchiveCorrupted => self.pick(
                "The archive is damaged. Choose an older one on the dashboard.",
                "보관본이 손상되었습니다. 대시보드에서 이전 보관본을 선택할 수 있습니다.",
            ),
            ErrorReason::DataLost => self.pick(
                "The home directory is missing. On the dashboard, restore an archive or start with an empty home directory.",
                "홈이 사라졌습니다. 대시보드에서 보관본을 복원하거나 손실을 받아들일 수 있습니다.",
            ),
            ErrorReason::NoCapacity => self.pick(
                "Not enough capacity right now. CodeHub retries automatically.",
                "지금은 공간이 부족합니다. 자리가 생길 때까지 다시 시도합니다.",
            ),
            ErrorReason::ActionFailed | ErrorReason::Unreachable | ErrorReason::RetryExceeded => self.pick(
                "It failed repeatedly. Recover to try again.",
                "여러 번 실패했습니다. 복구하면 다시 시도합니다.",
            ),
        }
    }
}

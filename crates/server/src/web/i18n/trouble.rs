//! What went wrong and what it means, for workspaces and for pages.

use codehub_domain::ErrorReason;

use super::Lang;
use crate::web::error::WebError;

/// The short name of what went wrong.
pub fn reason(lang: Lang, reason: ErrorReason) -> &'static str {
    use Lang::{En, Ko};
    match (reason, lang) {
        (ErrorReason::Timeout, En) => "It took too long",
        (ErrorReason::Timeout, Ko) => "시간 초과",
        (ErrorReason::ImagePullFailed, En) => "The image could not be fetched",
        (ErrorReason::ImagePullFailed, Ko) => "이미지를 가져오지 못함",
        (ErrorReason::ContainerWithoutVolume, En) => "Running without its home",
        (ErrorReason::ContainerWithoutVolume, Ko) => "홈 없이 실행됨",
        (ErrorReason::ArchiveCorrupted, En) => "The archive is damaged",
        (ErrorReason::ArchiveCorrupted, Ko) => "보관본 손상",
        (ErrorReason::DataLost, En) => "The home is gone",
        (ErrorReason::DataLost, Ko) => "홈 데이터 유실",
        (ErrorReason::ActionFailed, En) => "A step failed",
        (ErrorReason::ActionFailed, Ko) => "작업 실패",
        (ErrorReason::Unreachable, En) => "Something does not answer",
        (ErrorReason::Unreachable, Ko) => "응답 없음",
        (ErrorReason::NoCapacity, En) => "There is no room",
        (ErrorReason::NoCapacity, Ko) => "자원 부족",
        (ErrorReason::RetryExceeded, En) => "It failed again and again",
        (ErrorReason::RetryExceeded, Ko) => "재시도 한도 초과",
    }
}

/// What that means for the person whose workspace it is.
pub fn reason_meaning(lang: Lang, reason: ErrorReason) -> &'static str {
    use Lang::{En, Ko};
    match (reason, lang) {
        (ErrorReason::Timeout, En) => {
            "The operation did not get anywhere for too long and was given up. Your home is untouched. The cause is often temporary: try again, and look at the logs if it repeats."
        }
        (ErrorReason::Timeout, Ko) => {
            "작업이 오랫동안 진행되지 않아 중단했습니다. 홈 데이터는 그대로입니다. 일시적인 문제인 경우가 많으니 다시 시도하고, 반복되면 로그를 확인하세요."
        }
        (ErrorReason::ImagePullFailed, En) => {
            "The image this workspace runs is not on the server and could not be fetched. Your home is untouched. Check the image's name and the registry, then try again."
        }
        (ErrorReason::ImagePullFailed, Ko) => {
            "이 워크스페이스가 사용할 이미지가 서버에 없고 가져올 수도 없습니다. 홈 데이터는 그대로입니다. 이미지 이름과 레지스트리를 확인한 뒤 다시 시도하세요."
        }
        (ErrorReason::ContainerWithoutVolume, En) => {
            "Something runs for this workspace although its home is not where it should be, so nothing it writes would be kept. Recovery stops it and looks again."
        }
        (ErrorReason::ContainerWithoutVolume, Ko) => {
            "홈이 제자리에 없는데도 실행 중인 것이 있어, 그 안에서 저장한 내용이 남지 않습니다. 복구하면 실행을 멈추고 상태를 다시 확인합니다."
        }
        (ErrorReason::ArchiveCorrupted, En) => {
            "What is stored in the archive is not what was written there, so it was not used. You can try once more, go back to another archive, or start with an empty home."
        }
        (ErrorReason::ArchiveCorrupted, Ko) => {
            "보관본의 내용이 저장할 때와 달라 사용하지 않았습니다. 다시 시도하거나, 다른 보관본으로 되돌리거나, 빈 홈으로 시작할 수 있습니다."
        }
        (ErrorReason::DataLost, En) => {
            "The only up-to-date copy of this workspace's home is not there any more. CodeHub does not replace it by itself: you decide whether to go back to an older archive or to start with an empty home. If the storage was only moved or unmounted, bring it back first and try again."
        }
        (ErrorReason::DataLost, Ko) => {
            "이 워크스페이스 홈의 최신 데이터가 더 이상 존재하지 않습니다. CodeHub가 임의로 대체하지 않으므로, 이전 보관본으로 되돌릴지 빈 홈으로 시작할지 직접 정해야 합니다. 저장소가 옮겨졌거나 연결이 끊긴 것이라면 먼저 되돌려 놓고 다시 시도하세요."
        }
        (ErrorReason::NoCapacity, En) => {
            "Whatever runs workspaces or keeps homes has no room for this one now. It is tried again by itself until there is. Your home is untouched."
        }
        (ErrorReason::NoCapacity, Ko) => {
            "워크스페이스를 실행하거나 홈을 저장할 공간이 지금은 부족합니다. 자리가 생길 때까지 자동으로 다시 시도합니다. 홈 데이터는 그대로입니다."
        }
        (ErrorReason::ActionFailed, En) => {
            "A step failed and is tried again by itself. Your home is untouched."
        }
        (ErrorReason::ActionFailed, Ko) => {
            "작업이 실패하여 자동으로 다시 시도합니다. 홈 데이터는 그대로입니다."
        }
        (ErrorReason::Unreachable, En) => {
            "Something CodeHub needs (storage, or what runs workspaces) does not answer. It is tried again by itself as soon as it does."
        }
        (ErrorReason::Unreachable, Ko) => {
            "CodeHub에 필요한 구성 요소(저장소 또는 실행 환경)가 응답하지 않습니다. 응답하는 대로 자동으로 다시 시도합니다."
        }
        (ErrorReason::RetryExceeded, En) => {
            "The same step failed too often, so CodeHub stopped trying. Your home is untouched. The message below says what failed last: fix that, then try again."
        }
        (ErrorReason::RetryExceeded, Ko) => {
            "같은 작업이 여러 번 실패하여 재시도를 멈췄습니다. 홈 데이터는 그대로입니다. 아래 메시지에서 마지막 실패 원인을 확인해 해결한 뒤 다시 시도하세요."
        }
    }
}

/// The page instead of the one asked for: title and text.
pub fn error(lang: Lang, error: WebError) -> (&'static str, &'static str) {
    use Lang::{En, Ko};
    match (error, lang) {
        (WebError::BadRequest, En) => {
            ("This did not work", "What was sent could not be understood. Go back and try again.")
        }
        (WebError::BadRequest, Ko) => {
            ("처리할 수 없습니다", "보낸 내용을 이해할 수 없습니다. 돌아가서 다시 시도하세요.")
        }
        (WebError::NotFound, En) => {
            ("There is nothing here", "The page does not exist, or what it showed was deleted.")
        }
        (WebError::NotFound, Ko) => {
            ("페이지를 찾을 수 없습니다", "없는 페이지이거나, 표시하던 대상이 삭제되었습니다.")
        }
        (WebError::Forbidden, En) => ("Not for you", "Your account may not see or do this."),
        (WebError::Forbidden, Ko) => ("권한이 없습니다", "이 계정으로는 보거나 할 수 없는 작업입니다."),
        (WebError::Foreign, En) => (
            "Sent from elsewhere",
            "This form was not sent from one of CodeHub's own pages, so nothing was changed. Open the page here and try again.",
        ),
        (WebError::Foreign, Ko) => (
            "다른 곳에서 보낸 요청입니다",
            "CodeHub 페이지에서 보낸 요청이 아니므로 아무것도 변경하지 않았습니다. 이 사이트에서 페이지를 열어 다시 시도하세요.",
        ),
        (WebError::WrongMethod, En) => (
            "This address takes something else",
            "It cannot be opened like this. Go back and use the buttons.",
        ),
        (WebError::WrongMethod, Ko) => {
            ("이렇게는 열 수 없는 주소입니다", "돌아가서 페이지의 버튼을 사용하세요.")
        }
        (WebError::TooLarge, En) => ("Too much", "What was sent is too large. Nothing was changed."),
        (WebError::TooLarge, Ko) => ("너무 큽니다", "보낸 내용이 너무 큽니다. 아무것도 변경하지 않았습니다."),
        (WebError::TooSlow, En) => {
            ("This took too long", "What was sent did not arrive in time. Nothing was changed: try again.")
        }
        (WebError::TooSlow, Ko) => (
            "시간이 초과되었습니다",
            "보낸 내용이 제때 도착하지 않았습니다. 아무것도 변경하지 않았으니 다시 시도하세요.",
        ),
        (WebError::Internal, En) => {
            ("Something broke inside", "It is not your fault. The server's log says what happened.")
        }
        (WebError::Internal, Ko) => {
            ("내부 오류가 발생했습니다", "사용자의 잘못이 아닙니다. 자세한 내용은 서버 로그에 있습니다.")
        }
        (WebError::Unavailable, En) => {
            ("Not available right now", "Something CodeHub needs does not answer. Try again in a moment.")
        }
        (WebError::Unavailable, Ko) => (
            "지금은 사용할 수 없습니다",
            "CodeHub에 필요한 구성 요소가 응답하지 않습니다. 잠시 후 다시 시도하세요.",
        ),
    }
}

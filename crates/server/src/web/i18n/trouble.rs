//! What went wrong and what it means, for workspaces and for pages.

use codehub_domain::ErrorReason;

use super::Lang;
use crate::web::error::WebError;

/// The short name of what went wrong.
pub fn reason(lang: Lang, reason: ErrorReason) -> &'static str {
    use Lang::{En, Ko};
    match (reason, lang) {
        (ErrorReason::Timeout, En) => "Timed out",
        (ErrorReason::Timeout, Ko) => "시간 초과",
        (ErrorReason::ImagePullFailed, En) => "Image could not be pulled",
        (ErrorReason::ImagePullFailed, Ko) => "이미지를 가져오지 못함",
        (ErrorReason::ContainerWithoutVolume, En) => "Running without its home directory",
        (ErrorReason::ContainerWithoutVolume, Ko) => "홈 없이 실행됨",
        (ErrorReason::ArchiveCorrupted, En) => "Archive damaged",
        (ErrorReason::ArchiveCorrupted, Ko) => "보관본 손상",
        (ErrorReason::DataLost, En) => "Home directory missing",
        (ErrorReason::DataLost, Ko) => "홈 데이터 유실",
        (ErrorReason::ActionFailed, En) => "Operation failed",
        (ErrorReason::ActionFailed, Ko) => "작업 실패",
        (ErrorReason::Unreachable, En) => "Not responding",
        (ErrorReason::Unreachable, Ko) => "응답 없음",
        (ErrorReason::NoCapacity, En) => "Not enough capacity",
        (ErrorReason::NoCapacity, Ko) => "자원 부족",
        (ErrorReason::RetryExceeded, En) => "Failed repeatedly",
        (ErrorReason::RetryExceeded, Ko) => "재시도 한도 초과",
    }
}

/// What that means for the person whose workspace it is.
pub fn reason_meaning(lang: Lang, reason: ErrorReason) -> &'static str {
    use Lang::{En, Ko};
    match (reason, lang) {
        (ErrorReason::Timeout, En) => {
            "The operation made no progress for too long and was cancelled. Your home directory is unchanged. The cause is often temporary: try again, and check the logs if it happens again."
        }
        (ErrorReason::Timeout, Ko) => {
            "작업이 오랫동안 진행되지 않아 중단했습니다. 홈 데이터는 그대로입니다. 일시적인 문제인 경우가 많으니 다시 시도하고, 반복되면 로그를 확인하세요."
        }
        (ErrorReason::ImagePullFailed, En) => {
            "The image of this workspace is not on the server and could not be pulled. Your home directory is unchanged. Check the image name and the registry, then try again."
        }
        (ErrorReason::ImagePullFailed, Ko) => {
            "이 워크스페이스가 사용할 이미지가 서버에 없고 가져올 수도 없습니다. 홈 데이터는 그대로입니다. 이미지 이름과 레지스트리를 확인한 뒤 다시 시도하세요."
        }
        (ErrorReason::ContainerWithoutVolume, En) => {
            "This workspace is running without its home directory, so nothing it writes would be kept. Recovery stops it and checks again."
        }
        (ErrorReason::ContainerWithoutVolume, Ko) => {
            "홈이 제자리에 없는데도 실행 중인 것이 있어, 그 안에서 저장한 내용이 남지 않습니다. 복구하면 실행을 멈추고 상태를 다시 확인합니다."
        }
        (ErrorReason::ArchiveCorrupted, En) => {
            "The archive does not match what was stored, so it was not used. Try again, restore another archive, or start with an empty home directory."
        }
        (ErrorReason::ArchiveCorrupted, Ko) => {
            "보관본의 내용이 저장할 때와 달라 사용하지 않았습니다. 다시 시도하거나, 다른 보관본으로 되돌리거나, 빈 홈으로 시작할 수 있습니다."
        }
        (ErrorReason::DataLost, En) => {
            "The only up-to-date copy of the home directory no longer exists. CodeHub does not replace it automatically: restore an older archive, or start with an empty home directory. If the storage was only moved or unmounted, reconnect it first and try again."
        }
        (ErrorReason::DataLost, Ko) => {
            "이 워크스페이스 홈의 최신 데이터가 더 이상 존재하지 않습니다. CodeHub가 임의로 대체하지 않으므로, 이전 보관본으로 되돌릴지 빈 홈으로 시작할지 직접 정해야 합니다. 저장소가 옮겨졌거나 연결이 끊긴 것이라면 먼저 되돌려 놓고 다시 시도하세요."
        }
        (ErrorReason::NoCapacity, En) => {
            "There is not enough capacity to run this workspace or store its home directory right now. CodeHub retries automatically. Your home directory is unchanged."
        }
        (ErrorReason::NoCapacity, Ko) => {
            "워크스페이스를 실행하거나 홈을 저장할 공간이 지금은 부족합니다. 자리가 생길 때까지 자동으로 다시 시도합니다. 홈 데이터는 그대로입니다."
        }
        (ErrorReason::ActionFailed, En) => {
            "The operation failed and is retried automatically. Your home directory is unchanged."
        }
        (ErrorReason::ActionFailed, Ko) => {
            "작업이 실패하여 자동으로 다시 시도합니다. 홈 데이터는 그대로입니다."
        }
        (ErrorReason::Unreachable, En) => {
            "A service CodeHub needs (storage or runtime) is not responding. CodeHub retries automatically."
        }
        (ErrorReason::Unreachable, Ko) => {
            "CodeHub에 필요한 구성 요소(저장소 또는 실행 환경)가 응답하지 않습니다. 응답하는 대로 자동으로 다시 시도합니다."
        }
        (ErrorReason::RetryExceeded, En) => {
            "The same operation failed too often, so CodeHub stopped retrying. Your home directory is unchanged. The message below says what failed last: fix it, then try again."
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
            ("Bad request", "The request could not be understood. Go back and try again.")
        }
        (WebError::BadRequest, Ko) => {
            ("처리할 수 없습니다", "보낸 내용을 이해할 수 없습니다. 돌아가서 다시 시도하세요.")
        }
        (WebError::NotFound, En) => {
            ("Page not found", "The page does not exist, or what it showed was deleted.")
        }
        (WebError::NotFound, Ko) => {
            ("페이지를 찾을 수 없습니다", "없는 페이지이거나, 표시하던 대상이 삭제되었습니다.")
        }
        (WebError::Forbidden, En) => ("Access denied", "Your account does not have permission for this."),
        (WebError::Forbidden, Ko) => ("권한이 없습니다", "이 계정으로는 보거나 할 수 없는 작업입니다."),
        (WebError::Foreign, En) => (
            "Request from another site blocked",
            "This form was not sent from a CodeHub page, so nothing was changed. Open the page here and try again.",
        ),
        (WebError::Foreign, Ko) => (
            "다른 곳에서 보낸 요청입니다",
            "CodeHub 페이지에서 보낸 요청이 아니므로 아무것도 변경하지 않았습니다. 이 사이트에서 페이지를 열어 다시 시도하세요.",
        ),
        (WebError::WrongMethod, En) => {
            ("Method not allowed", "This address cannot be opened directly. Go back and use the buttons.")
        }
        (WebError::WrongMethod, Ko) => {
            ("이렇게는 열 수 없는 주소입니다", "돌아가서 페이지의 버튼을 사용하세요.")
        }
        (WebError::TooLarge, En) => ("Request too large", "The request is too large. Nothing was changed."),
        (WebError::TooLarge, Ko) => ("너무 큽니다", "보낸 내용이 너무 큽니다. 아무것도 변경하지 않았습니다."),
        (WebError::TooSlow, En) => {
            ("Request timed out", "The request did not arrive in time. Nothing was changed. Try again.")
        }
        (WebError::TooSlow, Ko) => (
            "시간이 초과되었습니다",
            "보낸 내용이 제때 도착하지 않았습니다. 아무것도 변경하지 않았으니 다시 시도하세요.",
        ),
        (WebError::Internal, En) => {
            ("Internal error", "Something went wrong on the server. The server log has the details.")
        }
        (WebError::Internal, Ko) => {
            ("내부 오류가 발생했습니다", "사용자의 잘못이 아닙니다. 자세한 내용은 서버 로그에 있습니다.")
        }
        (WebError::Unavailable, En) => {
            ("Temporarily unavailable", "A service CodeHub needs is not responding. Try again in a moment.")
        }
        (WebError::Unavailable, Ko) => (
            "지금은 사용할 수 없습니다",
            "CodeHub에 필요한 구성 요소가 응답하지 않습니다. 잠시 후 다시 시도하세요.",
        ),
    }
}

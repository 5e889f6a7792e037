//! Every fixed text of every page, a line per text, a column per language.

macro_rules! texts {
    ($($key:ident: $en:literal, $ko:literal;)+) => {
        /// The texts of one language.
        #[derive(Debug)]
        pub struct Texts { $(pub $key: &'static str),+ }

        impl Texts {
            pub const EN: Self = Self { $($key: $en),+ };
            pub const KO: Self = Self { $($key: $ko),+ };

            /// `(key, English, Korean)`, for the tests.
            #[cfg(test)]
            pub const ALL: &'static [(&'static str, &'static str, &'static str)] =
                &[$((stringify!($key), $en, $ko)),+];
        }
    };
}

texts! {
    // The frame
    help: "Help", "도움말";
    api_reference: "API reference", "API 문서";
    help_and_reference: "Help and reference", "도움말과 문서";
    skip_to_content: "Skip to content", "본문으로 건너뛰기";
    main_navigation: "Main", "주 메뉴";
    offline: "Connection to the server lost. What you see may be out of date. Reconnecting…", "서버와 연결이 끊겼습니다. 표시된 내용이 최신이 아닐 수 있습니다. 다시 연결하는 중…";
    session_ended: "Your session has ended.", "세션이 종료되었습니다.";
    workspaces: "Workspaces", "워크스페이스";
    tokens: "Tokens", "토큰";
    users: "Users", "사용자";
    system: "System", "시스템";
    account: "Your account", "내 계정";
    sign_out: "Sign out", "로그아웃";
    language: "Language", "언어";
    theme: "Theme", "테마";
    theme_auto: "Auto", "자동";
    theme_light: "Light", "밝게";
    theme_dark: "Dark", "어둡게";
    to_workspaces: "Back to workspaces", "워크스페이스로 돌아가기";

    // Common words
    name: "Name", "이름";
    description: "Description", "설명";
    description_hint: "Optional. What is this workspace for?", "선택 사항입니다. 용도를 적어 두세요.";
    memo: "Notes", "메모";
    memo_hint: "Only you see these. Up to 64 KiB.", "개인 메모입니다. 최대 64 KiB.";
    cancel: "Cancel", "취소";
    save: "Save", "저장";
    edit: "Edit", "편집";
    delete: "Delete", "삭제";
    yes: "Yes", "예";
    no: "No", "아니요";
    never: "Never", "없음";
    status: "Status", "상태";
    reason: "Reason", "이유";
    since: "Since", "변경 시각";
    created: "Created", "생성";
    actions: "Actions", "작업";
    pages: "Pages", "페이지";
    first_page: "First page", "처음으로";
    next_page: "Next page", "다음 페이지";
    reload: "Reload", "새로 고침";
    unit: "Unit", "단위";
    seconds: "seconds", "초";
    minutes: "minutes", "분";
    hours: "hours", "시간";
    days: "days", "일";

    // Signing in, first run
    sign_in: "Sign in", "로그인";
    sign_in_title: "Sign in to CodeHub", "CodeHub 로그인";
    username: "Username", "사용자 이름";
    password: "Password", "비밀번호";
    password_again: "Password again", "비밀번호 확인";
    password_hint: "At least 8 characters.", "8자 이상 입력하세요.";
    cookies_removed: "Another page set a second session cookie in this browser, so CodeHub could not tell which one is yours. Both were removed. Please sign in again.", "다른 페이지가 이 브라우저에 두 번째 세션 쿠키를 설정하여 어느 것이 본인의 것인지 알 수 없었습니다. 모두 제거했으니 다시 로그인하세요.";
    wrong_password: "Wrong username or password.", "사용자 이름 또는 비밀번호가 올바르지 않습니다.";
    not_set_up_title: "Not set up yet", "아직 설정되지 않았습니다";
    not_set_up_text: "This CodeHub has no users yet. The server printed a one-time link when it started: open that to create the administrator. A restart prints a new one.", "아직 사용자가 없습니다. 서버가 시작될 때 출력한 일회용 링크를 열어 관리자를 만드세요. 서버를 다시 시작하면 새 링크가 출력됩니다.";
    setup_title: "Welcome to CodeHub", "CodeHub에 오신 것을 환영합니다";
    setup_text: "Choose a username and a password for the administrator. Next, you create your first workspace.", "관리자 이름과 비밀번호를 정하세요. 이어서 첫 워크스페이스를 만듭니다.";
    setup_token: "Set-up token", "설정 토큰";
    token_hint: "The part after token= in the link the server printed.", "서버가 출력한 링크에서 token= 뒤의 값입니다.";
    wrong_token: "This set-up link is invalid or was already used. The server log has the current one.", "유효하지 않은 설정 링크입니다. 서버 로그에서 최신 링크를 확인하세요.";
    create_admin: "Create administrator", "관리자 만들기";
    process_mode_title: "Good to know: process mode", "알아 두세요: 프로세스 모드";
    sandbox_mode_text: "On this server, workspaces run as local processes in a sandbox: each sees the system's programs and its own home directory, and nothing of the others. Nothing limits their memory. For people you do not trust, use containers.", "이 서버에서 워크스페이스는 샌드박스 안의 로컬 프로세스로 실행됩니다. 각 워크스페이스에는 시스템 프로그램과 자기 홈 디렉터리만 보이고 다른 워크스페이스는 보이지 않습니다. 메모리 사용량은 제한되지 않습니다. 신뢰할 수 없는 사람에게는 컨테이너를 사용하세요.";
    process_mode_text: "On this server, workspaces run as local processes with the rights of the account CodeHub runs under. Whatever runs in a workspace can do what that account can do. That is fine for one trusted person on their own machine. Do not give accounts here to people you would not give a shell to.", "이 서버에서 워크스페이스는 CodeHub를 실행한 계정의 권한을 가진 로컬 프로세스로 실행됩니다. 워크스페이스 안의 프로그램은 그 계정이 할 수 있는 모든 일을 할 수 있습니다. 신뢰하는 한 사람이 자기 컴퓨터에서 쓰기에는 문제가 없습니다. 셸 접속을 허용하지 않을 사람에게는 계정을 주지 마세요.";

    // The list
    new_workspace: "New workspace", "새 워크스페이스";
    search: "Search", "검색";
    search_by_name: "Search names and descriptions", "이름과 설명 검색";
    sort_by: "Sort by", "정렬 기준";
    sort_used: "Last used", "마지막 사용순";
    sort_name: "Name", "이름순";
    sort_created: "Newest", "최근 생성순";
    sort_size: "Size", "크기순";
    sort_owner: "Owner", "소유자순";
    select: "Select", "선택:";
    select_all: "Select all on this page", "이 페이지 모두 선택";
    selected: "Selected workspaces", "선택한 워크스페이스";
    clear_selection: "Clear", "선택 해제";
    more_actions: "More actions for", "추가 작업:";
    previous_page: "Previous page", "이전 페이지";
    size_hint: "Size of the home directory when it was last archived", "마지막으로 보관했을 때의 홈 디렉터리 크기";
    filter_by_label: "Label, or label:value", "라벨 또는 라벨:값";
    labels: "Labels", "라벨";
    labels_hint: "One per line: key, or key: value. You can filter the list by them.", "한 줄에 하나씩: 키 또는 키: 값. 목록에서 라벨로 걸러 볼 수 있습니다.";
    slug: "Short name", "짧은 이름";
    filter_by_phase: "Filter by state", "상태 필터";
    all_phases: "All states", "모든 상태";
    whose: "Whose workspaces", "워크스페이스 범위";
    mine: "Mine", "내 워크스페이스";
    everybodys: "All users", "모든 사용자";
    nothing_matches: "No workspace matches.", "조건에 맞는 워크스페이스가 없습니다.";
    show_all: "Show all", "모두 보기";
    empty_title: "Your first workspace", "첫 워크스페이스";
    empty_text: "A workspace is a home directory with an IDE in your browser. It goes to sleep when you leave, is archived later, and comes back exactly as you left it when you open it.", "워크스페이스는 브라우저에서 IDE로 여는 홈 디렉터리입니다. 자리를 비우면 대기 상태가 되고, 나중에는 보관되며, 다시 열면 그대로 돌아옵니다.";
    create_first: "Create a workspace", "워크스페이스 만들기";
    open: "Open", "열기";
    start: "Start", "시작";
    restore: "Restore and start", "복원하고 시작";
    stop: "Stop", "중지";
    archive_verb: "Archive", "보관";
    recover_verb: "Recover", "복구";
    tries_again: "next try", "다음 시도";

    // The form
    create_workspace: "Create workspace", "워크스페이스 만들기";
    edit_workspace: "Edit workspace", "워크스페이스 편집";
    advanced: "More settings", "추가 설정";
    begin_as: "Start as", "초기 상태";
    in_use_while: "Counts as active", "활성으로 보는 기준";
    sleeps_after: "Goes to sleep after", "대기 전환까지의 유휴 시간";
    archived_after: "Archived after sleeping for", "보관까지의 대기 시간";

    // Awake or asleep
    activity: "Activity", "활동";
    active_because: "Active because", "활성 이유";
    open_connections: "Open connections", "열린 연결";
    stopped_because: "Stopped because", "중지 이유";
    leases: "Kept awake", "깨어 있는 상태 유지";
    until: "until", "유지 종료:";
    give_back: "Let it sleep", "유지 해제";
    snooze: "Keep awake for 1 hour", "1시간 연장";
    sleeps_soon_text: "Running programs will stop; files are kept. Any activity resets the timer.", "실행 중인 프로그램은 종료되고 파일은 그대로 남습니다. 활동이 있으면 시간이 다시 시작됩니다.";

    // One workspace
    about: "About", "정보";
    owner: "Owner", "소유자";
    wanted: "Target state", "목표 상태";
    last_used: "Last used", "마지막 사용";
    state_since: "In this state since", "현재 상태가 된 시각";
    ports: "Ports", "포트";
    no_ports: "Nothing listens yet. Start a server in the workspace, and its port appears here.", "아직 열린 포트가 없습니다. 워크스페이스에서 서버를 시작하면 여기에 표시됩니다.";
    port_not_used: "Not in use", "사용 안 함";
    port_address: "Address of port", "포트 주소";
    share_port: "Share", "공유";
    stop_sharing: "Stop sharing", "공유 중지";
    ports_not_opened: "This server opens no ports in the browser. Use the API to connect to them.", "이 서버에서는 브라우저로 포트를 열 수 없습니다. API로 연결하세요.";
    usage: "Usage", "사용량";
    memory: "Memory", "메모리";
    processes: "Processes", "프로세스";
    home_directory: "Home directory", "홈 디렉터리";
    looking: "Looking…", "확인하는 중…";
    nobody_inside: "This workspace was started without CodeHub’s helper program. Stop and start it to see this.", "CodeHub 도우미 프로그램 없이 시작된 워크스페이스입니다. 중지했다가 다시 시작하면 표시됩니다.";
    silent_inside: "The workspace does not answer right now. Trying again.", "지금은 워크스페이스가 응답하지 않습니다. 다시 시도하는 중입니다.";
    runs_in: "Runs as", "실행 방식";
    image: "Image", "이미지";
    id: "ID", "ID";
    conditions: "Health checks", "상태 점검";
    condition: "Check", "점검 항목";
    nothing_observed: "Not checked yet.", "아직 확인된 내용이 없습니다.";
    volume_ready: "Home directory on its volume", "홈 볼륨 준비";
    archive_ready: "Archive available", "보관본 존재";
    container_ready: "IDE responding", "IDE 응답";
    healthy: "No problems found", "이상 없음";
    archives: "Archives", "보관본";
    archives_unreachable: "Archives cannot be listed right now.", "지금은 보관본 목록을 가져올 수 없습니다.";
    no_archives: "None yet.", "아직 없습니다.";
    to_archives: "Manage archives", "보관본 관리";
    current: "current", "현재";
    history: "History", "기록";
    older: "Older", "이전 기록";
    newest: "Newest", "최근 기록";
    last_days: "The last days", "최근 며칠";
    now: "now", "지금";
    checks_ok: "all OK", "이상 없음";
    checks_failing: "problem found", "문제 있음";
    going_to_sleep: "About to go to sleep", "곧 대기 상태로 전환됩니다";
    no_history: "No history yet.", "아직 기록이 없습니다.";
    logs: "Logs", "로그";
    follow: "Follow", "실시간 보기";
    more_logs: "More", "더 보기";
    no_logs: "No output yet.", "출력된 내용이 없습니다.";
    logs_unreachable: "The logs cannot be read right now.", "지금은 로그를 읽을 수 없습니다.";
    delete_title: "Delete this workspace?", "이 워크스페이스를 삭제할까요?";
    delete_text: "The workspace stops and its home directory is removed without being archived first. This cannot be undone.", "실행을 중지하고 홈을 제거합니다. 먼저 보관하지 않으며, 되돌릴 수 없습니다.";
    delete_for_good: "Delete permanently", "영구 삭제";

    // Recovery
    in_its_words: "What was reported:", "보고된 내용:";
    waiting: "Waiting", "대기 중";
    try_again: "Try again", "다시 시도";
    try_again_text: "Clears the error and checks the workspace again. No data is discarded.", "오류를 지우고 워크스페이스를 다시 확인합니다. 데이터는 버리지 않습니다.";
    go_back: "Restore an archive", "보관본 복원";
    choose_archive: "Archive to restore", "복원할 보관본";
    restore_archive: "Restore from this archive", "이 보관본에서 복원";
    no_archive_to_restore: "This workspace has no archive.", "이 워크스페이스의 보관본이 없습니다.";
    confirm_restore: "I understand that changes made after this archive will be lost.", "이 보관본 이후의 변경 내용은 사라진다는 것을 이해했습니다.";
    confirm_drop: "I understand that the current home directory will be discarded for this archive.", "현재 홈을 버리고 이 보관본으로 되돌린다는 것을 이해했습니다.";
    recover_and_start: "Recover and start", "복구하고 시작";
    recover_and_wait: "Recover and leave it stopped", "복구하고 중지 상태로 두기";
    start_empty: "Start with an empty home directory", "빈 홈으로 시작";
    start_empty_text: "The workspace keeps its name and settings and gets a new, empty home directory.", "이름과 설정은 그대로 두고, 비어 있는 새 홈을 만듭니다.";
    confirm_empty: "I understand that the data of this workspace will be discarded.", "이 워크스페이스의 데이터를 포기한다는 것을 이해했습니다.";

    // Archives
    archives_text: "Each archive is the home directory as it was at that time. Browse it, download single files, or create a new workspace from it.", "보관본은 보관할 당시의 홈 디렉터리입니다. 내용을 보고, 파일을 하나씩 내려받거나, 이 보관본으로 새 워크스페이스를 만들 수 있습니다.";
    archived_at: "Archived", "보관 시각";
    size: "Size", "크기";
    changed: "Changed", "수정";
    look_inside: "Browse files", "내용 보기";
    new_from_archive: "Create workspace from archive", "이 보관본으로 새로 만들기";
    go_back_to_this: "Restore this archive", "이 보관본 복원";
    go_back_title: "Restore this archive?", "이 보관본을 복원할까요?";
    go_back_when: "Restoring in place is only available after an error. To use this archive now, create a new workspace from it.", "제자리 복원은 오류가 발생했을 때만 할 수 있습니다. 지금 이 보관본을 쓰려면 새 워크스페이스를 만드세요.";
    files_of_archive: "Files in this archive", "이 보관본의 파일";
    where_you_are: "Current location", "현재 위치";
    home: "Home", "홈";
    directory: "Directory", "디렉터리";
    same_file_as: "same file as", "같은 파일:";
    links_to: "links to", "가리키는 곳:";
    nothing_here: "This directory is empty.", "비어 있습니다.";
    archive_not_listed: "This archive is too old to be browsed. Create a workspace from it to see its files.", "파일 목록이 생기기 전에 만든 보관본입니다. 이 보관본으로 새 워크스페이스를 만들면 파일을 볼 수 있습니다.";
    archive_corrupted: "This archive was changed or damaged in storage, so its contents are not shown. Ask an administrator to check the archive storage.", "저장했던 보관본과 다릅니다. 저장소에서 변경되었거나 손상되어 내용을 표시하지 않습니다. 관리자에게 보관 저장소 점검을 요청하세요.";

    // People and tokens
    role: "Role", "역할";
    you: "you", "나";
    active: "Active", "활성";
    disabled: "Disabled", "비활성";
    disable: "Disable", "비활성화";
    enable: "Enable", "활성화";
    manage: "Manage", "관리";
    add_user: "Add user", "사용자 추가";
    access: "Access", "접근 권한";
    this_is_you: "This is your own account. Change your password here:", "본인 계정입니다. 비밀번호는 여기에서 변경하세요:";
    reset_password: "Set a new password", "새 비밀번호 설정";
    reset_password_text: "Ends all of this user's sessions and deletes their API tokens. Tell them the new password yourself.", "이 사용자의 모든 세션이 종료되고 API 토큰이 삭제됩니다. 새 비밀번호는 직접 전달하세요.";
    disable_text: "A disabled user cannot sign in, and their tokens stop working. Their workspaces are kept.", "비활성화된 사용자는 로그인할 수 없고 토큰도 작동하지 않습니다. 워크스페이스는 그대로 유지됩니다.";
    delete_user: "Delete user", "사용자 삭제";
    delete_user_title: "Delete this user?", "이 사용자를 삭제할까요?";
    delete_user_text: "Only possible once the user owns no workspaces. This cannot be undone.", "워크스페이스가 남아 있지 않은 사용자만 삭제할 수 있으며, 되돌릴 수 없습니다.";
    change_password: "Change password", "비밀번호 변경";
    current_password: "Current password", "현재 비밀번호";
    new_password: "New password", "새 비밀번호";
    keep_tokens: "Keep my API tokens", "내 API 토큰 유지";
    keep_tokens_hint: "Otherwise they are deleted: anyone who knew the old password may have created one.", "선택하지 않으면 모두 삭제됩니다. 이전 비밀번호를 아는 사람이 토큰을 만들었을 수 있습니다.";
    tokens_text: "Tokens let programs act as you: the command line, scripts, editors.", "토큰이 있으면 명령줄 도구, 스크립트, 편집기 같은 프로그램이 나를 대신해 작업할 수 있습니다.";
    token: "Token", "토큰";
    new_token: "New token", "새 토큰";
    token_created: "The token was created", "토큰을 만들었습니다";
    token_once: "Copy it now. It will not be shown again.", "지금 복사해 두세요. 다시 표시되지 않습니다.";
    token_name_hint: "What is this token for?", "어디에 사용할 토큰인가요?";
    valid_for: "Valid for", "유효 기간";
    forever: "Never expires", "무기한";
    create_token: "Create token", "토큰 만들기";
    device_title: "Sign in on the command line", "명령줄 로그인";
    device_text: "A program wants to act as you. Enter the code it shows.", "프로그램이 내 계정으로 작업하려고 합니다. 프로그램에 표시된 코드를 입력하세요.";
    device_code: "Code", "코드";
    device_code_hint: "8 letters, valid for 10 minutes.", "영문자 8자이며 10분 동안 유효합니다.";
    device_continue: "Continue", "계속";
    device_unknown: "This code is unknown, expired or already used. Run codehub login again to get a new one.", "알 수 없거나 만료되었거나 이미 사용된 코드입니다. codehub login을 다시 실행하여 새 코드를 받으세요.";
    device_wait: "Too many wrong codes. Wait up to 5 minutes, then try again.", "잘못된 코드를 너무 많이 입력했습니다. 최대 5분 뒤에 다시 시도하세요.";
    device_compare: "Does your terminal show exactly this code?", "터미널에 표시된 코드가 아래와 똑같나요?";
    device_machine: "Computer", "컴퓨터";
    device_address: "Address", "주소";
    device_warning: "Allow this only if you have just run codehub login yourself. Whoever ran it can then do everything you can do here for 30 days. You can end that on the Tokens page.", "방금 직접 codehub login을 실행한 경우에만 허용하세요. 허용하면 그 명령을 실행한 사람이 30일 동안 여기에서 내가 할 수 있는 모든 일을 할 수 있습니다. 토큰 페이지에서 언제든지 끝낼 수 있습니다.";
    device_allow: "Allow", "허용";
    device_deny: "Deny", "거부";
    device_allowed: "Signed in", "로그인되었습니다";
    device_allowed_text: "Return to your terminal. You can close this page.", "터미널로 돌아가세요. 이 페이지는 닫아도 됩니다.";
    device_denied: "Denied", "거부했습니다";
    device_denied_text: "The program does not get access.", "프로그램에 접근 권한을 주지 않았습니다.";
    your_tokens: "Your tokens", "내 토큰";
    no_tokens: "You have no tokens.", "토큰이 없습니다.";
    never_used: "Never", "아직 없음";
    expires: "Expires", "만료";
    copy: "Copy", "복사";
    copied: "Copied", "복사됨";
    delete_token_title: "Delete this token?", "이 토큰을 삭제할까요?";
    their_tokens: "API tokens", "API 토큰";
    their_tokens_text: "Programs use these to act as this user. You can revoke them; nobody can see the secrets.", "프로그램이 이 사용자를 대신해 작업할 때 쓰는 토큰입니다. 폐기할 수 있으며, 비밀 값은 누구에게도 표시되지 않습니다.";
    they_have_no_tokens: "This user has no tokens.", "이 사용자에게는 토큰이 없습니다.";
    revoke: "Revoke", "폐기";
    revoke_token_title: "Revoke this token?", "이 토큰을 폐기할까요?";
    delete_token_text: "Anything that uses it stops working immediately.", "이 토큰을 쓰는 프로그램은 즉시 작동을 멈춥니다.";

    // The system
    last_day: "Last 24 hours", "최근 24시간";
    wakes: "Woken up", "깨움";
    starts: "Started", "시작";
    failures: "Failures", "실패";
    start_time: "Start time, average", "평균 시작 시간";
    cleanup_report: "Clean-up report", "정리 보고서";
    cleanup_text: "What the next clean-up would delete, and what it waits with. This is a dry run: nothing is deleted by looking.", "다음 정리 작업에서 삭제될 항목과 기다리는 항목입니다. 미리 보기이므로 아무것도 삭제하지 않습니다.";
    cleanup_stored: "Archives and volumes stored", "저장된 보관본과 볼륨";
    cleanup_now: "Deleted by the next clean-up", "다음 정리 때 삭제";
    cleanup_later: "Unused, deleted later", "미사용, 나중에 삭제";
    cleanup_nothing: "Everything that is stored is in use.", "저장된 모든 항목이 사용 중입니다.";
    kind: "Kind", "종류";
    an_archive: "Archive", "보관본";
    a_volume: "Volume", "볼륨";
    unused_since: "Unused since", "미사용 시작";
    deleted_when: "Deleted", "삭제 시점";
    is_deleted: "deleted workspace", "삭제된 워크스페이스";
    next_cleanup: "by the next clean-up", "다음 정리 때";
    workspace: "Workspace", "워크스페이스";
    backends: "Backends", "백엔드";
    database: "Database", "데이터베이스";
    runtime: "Workspaces run as", "실행 환경";
    container_engine: "Container engine", "컨테이너 엔진";
    firewall: "Firewall", "방화벽";
    way_in: "Way in", "접속 경로";
    sandbox: "Sandbox", "샌드박스";
    workspace_network: "Network", "네트워크";
    workspace_limits: "Limits", "한도";
    homes: "Home directories", "홈 저장소";
    bus: "Message bus", "메시지 버스";
    answers: "OK", "정상";
    answers_not: "not responding", "응답 없음";
    this_server: "This server", "이 서버";
    version: "Version", "버전";
    address: "Address", "주소";
    origins: "Origins of workspaces", "워크스페이스 오리진";
    origins_domain: "Each workspace has an origin of its own.", "워크스페이스마다 별도의 오리진을 사용합니다.";
    origins_port: "Workspaces share an origin apart from the dashboard. They are not kept apart from each other.", "워크스페이스는 대시보드와 분리된 하나의 오리진을 함께 씁니다. 워크스페이스끼리는 분리되지 않습니다.";
    origins_path: "Workspaces share the dashboard's origin: any page that a workspace serves can act as its owner. Set PROXY_DOMAIN or PROXY_ORIGINS=port.", "워크스페이스가 대시보드와 같은 오리진을 씁니다. 워크스페이스의 모든 페이지가 소유자처럼 동작할 수 있습니다. PROXY_DOMAIN 또는 PROXY_ORIGINS=port를 설정하세요.";
    coordinator: "Coordinator", "코디네이터";
    leads: "leader", "리더";
    leads_since: "Leader since", "리더가 된 시각";
    replicas: "Servers", "서버";
    started: "Started", "시작";
    last_seen: "Last seen", "마지막 확인";
    this_one: "this one", "현재 서버";
    epoch: "epoch", "에포크";
    does_not_lead: "not the leader", "리더 아님";
    components_fail: "Some components keep failing. See the log:", "일부 구성 요소가 계속 실패하고 있습니다. 로그를 확인하세요:";
    gc: "Clean-up", "정리 작업";
    gc_normal: "OK", "정상";
    gc_braked: "Clean-up is paused", "정리 작업이 중단되었습니다";
    gc_braked_text: "It was about to delete unusually much data. Nothing is deleted until an administrator approves it on the server:", "평소보다 훨씬 많은 데이터가 삭제될 상황이라 멈췄습니다. 관리자가 서버에서 승인해야 계속합니다:";
}

#[cfg(test)]
mod tests {
    use super::Texts;

    /// The same in both: names and marks.
    const SAME: &[&str] = &["id"];

    #[test]
    fn every_text_is_there_and_translated() {
        for (key, en, ko) in Texts::ALL {
            assert!(!en.trim().is_empty() && !ko.trim().is_empty(), "{key}");
            let korean = ko.chars().any(|c| ('가'..='힣').contains(&c));
            assert!(korean || SAME.contains(key), "{key} is not Korean: {ko}");
            assert!(!en.chars().any(|c| ('가'..='힣').contains(&c)), "{key} is not English: {en}");
        }
    }
}

"""Nothing typed is lost: not when the workspace sleeps, crashes or is cut off, nor when server or browser are killed."""

import os
import re
import shutil
import signal
import time

import pytest
from playwright.sync_api import TimeoutError, expect

import gallery
from codehub import ADMIN, PASSWORD, PATIENCE, Wire, wait_for
from conftest import CHROMIUM, FLAGS, SIZES
from ide import Held, Ide

FILE = "poem.txt"
BEFORE = "roses are red\nviolets are blue\n"


@pytest.fixture(scope="module")
def server(start):
    return start(LIMITS_MAX_RUNNING_PER_USER=0)


@pytest.fixture
def workspace(server, request):
    workspace = server.api.create(request.node.name[:60])
    (gallery.home(server, workspace) / FILE).write_text(BEFORE)
    yield workspace
    server.api.delete(workspace)


def on_disk(server, workspace):
    return (gallery.home(server, workspace) / FILE).read_text()


def opened(page, workspace):
    """The page with the file open, marked so that a reload would be noticed."""
    ide = Ide(page).open(workspace)
    ide.edit(FILE)
    expect(ide.editor).to_have_value(BEFORE)
    page.evaluate("window.sameAsBefore = true")
    return ide


def types(ide, text):
    """At the end of the file, until it is kept."""
    ide.editor.press("Control+End")
    ide.page.keyboard.type(text)
    kept(ide)


def kept(ide):
    expect(ide.page.get_by_test_id("draft")).to_have_attribute("data-state", "kept")


def is_connected(ide):
    expect(ide.page.get_by_test_id("connection")).to_have_attribute("data-state", "open")
    expect(ide.page.get_by_test_id("connection-banner")).to_be_hidden()


# Whether the page was cut off since, however short that was.
NOTICE = """() => {
    const connection = document.querySelector("[data-testid=connection]");
    window.cutOff = new Promise((done) => new MutationObserver(() => connection.dataset.state !== "open" && done()).observe(connection, { attributes: true }));
}"""


def kills_ide(server, workspace, page):
    page.evaluate(NOTICE)
    server.kill_ide(workspace)
    page.evaluate("window.cutOff")


def saves(ide, server, workspace, text):
    ide.save()
    assert on_disk(server, workspace) == text
    expect(ide.page.get_by_test_id("draft")).to_have_attribute("data-state", "none")


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_stop_from_elsewhere_then_wake_in_place_and_save(server, tab, workspace, shots, lang):
    page = tab(server, strict=False, lang=lang)
    ide = opened(page, workspace)
    types(ide, "sugar is sweet")
    server.api.act(workspace, "stop", "STANDBY")
    banner = page.get_by_test_id("connection-banner")
    expect(banner).to_have_attribute("data-shows", "asleep")
    expect(banner).to_contain_text("kept in this browser" if lang == "en" else "이 브라우저에 보관되어 있습니다")
    # Saving says why not, and typing goes on.
    ide.editor.press("Control+s")
    expect(page.get_by_test_id("toast").last).to_contain_text("asleep" if lang == "en" else "대기 상태")
    types(ide, "\nand so are you")
    if shots:
        page.screenshot(path=shots / f"ide-asleep-{lang}.png")
    page.get_by_test_id("wake").click()
    is_connected(ide)
    expect(page.get_by_test_id("toast").filter(has_text="asleep" if lang == "en" else "대기 상태")).to_have_count(0)
    assert page.evaluate("window.sameAsBefore"), "the page was not loaded anew"
    saves(ide, server, workspace, BEFORE + "sugar is sweet\nand so are you")
    ide.ready()


def test_a_killed_server(server, tab, workspace):
    page = tab(server, strict=False)
    ide = opened(page, workspace)
    types(ide, "before")
    server.kill()
    expect(page.get_by_test_id("connection-banner")).to_be_visible()
    types(ide, " and after")
    server.begin_again()
    is_connected(ide)
    assert page.evaluate("window.sameAsBefore")
    saves(ide, server, workspace, BEFORE + "before and after")


def test_a_killed_ide(server, tab, workspace):
    page = tab(server, strict=False)
    ide = opened(page, workspace)
    types(ide, "before")
    kills_ide(server, workspace, page)
    types(ide, " and after")
    ide.wakes()
    is_connected(ide)
    assert page.evaluate("window.sameAsBefore")
    saves(ide, server, workspace, BEFORE + "before and after")


def test_a_cut_network(server, tab, workspace):
    wire = Wire(server)
    page = tab(wire, strict=False)
    ide = opened(page, workspace)
    types(ide, "before")
    wire.cut()
    expect(page.get_by_test_id("connection-banner")).to_be_visible()
    types(ide, " and after")
    wire.mend()
    is_connected(ide)
    saves(ide, server, workspace, BEFORE + "before and after")
    wire.close()


def profile(browser, server, directory):
    context = browser.browser_type.launch_persistent_context(
        directory, executable_path=CHROMIUM, args=FLAGS, chromium_sandbox=False, base_url=server.url,
        viewport=SIZES["desktop"], locale="en-US",
    )
    name, value = server.session(ADMIN, PASSWORD).split("=", 1)
    context.add_cookies([{"name": name, "value": value, "url": server.url}])
    return context


def kill_browser(directory):
    """All processes of the browser that uses this profile, at once."""
    mine = f"--user-data-dir={directory}".encode()
    pids = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if mine in file.read().split(b"\0"):
                    pids.append(int(pid))
        except OSError:
            pass
    assert pids
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def test_a_killed_browser(server, browser, workspace, tmp_path):
    context = profile(browser, server, tmp_path)
    ide = opened(context.new_page(), workspace)
    types(ide, "typed before the browser was killed")
    with context.expect_event("close"):
        kill_browser(tmp_path)

    context = profile(browser, server, tmp_path)
    page = context.new_page()
    ide = Ide(page).open(workspace)
    expect(ide.editor).to_have_value(BEFORE + "typed before the browser was killed")
    assert on_disk(server, workspace) == BEFORE
    kept(ide)
    saves(ide, server, workspace, BEFORE + "typed before the browser was killed")
    page.reload()
    expect(ide.editor).to_have_value(BEFORE + "typed before the browser was killed")
    expect(page.get_by_test_id("save")).to_be_disabled()
    context.close()


def test_a_reload_asks_nothing_and_loses_nothing(server, workspace, tab):
    page = tab(server)
    ide = opened(page, workspace)
    types(ide, "typed")
    page.reload()
    expect(ide.editor).to_have_value(BEFORE + "typed")
    kept(ide)
    # Undone by hand: nothing is left to keep.
    ide.editor.fill(BEFORE)
    expect(page.get_by_test_id("draft")).to_have_attribute("data-state", "none")
    page.reload()
    expect(ide.editor).to_have_value(BEFORE)


@pytest.mark.parametrize("choice", ["notice-overwrite", "notice-reload", "notice-keep"])
def test_a_conflict_shows_both_versions(server, tab, workspace, shots, choice):
    page = tab(server, strict=False, lang="ko" if choice == "notice-reload" else "en")
    ide = opened(page, workspace)
    types(ide, "mine\n")
    page.close()
    (gallery.home(server, workspace) / FILE).write_text(BEFORE + "theirs\n")
    page = page.context.new_page()
    ide = Ide(page).open(workspace)
    compare = page.get_by_test_id("compare")
    expect(compare.get_by_test_id("compare-removed")).to_have_text(["3theirs"])
    expect(compare.get_by_test_id("compare-added")).to_have_text(["3mine"])
    if shots:
        page.screenshot(path=shots / f"ide-conflict-{choice}.png")
    page.get_by_test_id(choice).click()
    if choice == "notice-reload":
        # One click throws nothing away.
        page.get_by_test_id("choose-cancel").click()
        expect(compare).to_be_visible()
        kept(ide)
        page.get_by_test_id(choice).click()
        page.get_by_test_id("choose-ok").click()
    expect(compare).to_be_hidden()
    if choice == "notice-overwrite":
        wait_for(lambda: on_disk(server, workspace) == BEFORE + "mine\n", "the file to be written")
    elif choice == "notice-reload":
        expect(ide.editor).to_have_value(BEFORE + "theirs\n")
        expect(page.get_by_test_id("draft")).to_have_attribute("data-state", "none")
    else:
        # Nothing is decided: saving asks again.
        expect(ide.editor).to_have_value(BEFORE + "mine\n")
        ide.editor.press("Control+s")
        expect(compare).to_be_visible()
        assert on_disk(server, workspace) == BEFORE + "theirs\n"


def test_what_somebody_writes_between_looking_and_choosing_is_not_written_over(server, tab, workspace):
    page = tab(server, strict=False)
    ide = opened(page, workspace)
    types(ide, "mine\n")
    (gallery.home(server, workspace) / FILE).write_text(BEFORE + "theirs\n")
    ide.editor.press("Control+s")
    expect(page.get_by_test_id("compare")).to_contain_text("theirs")
    (gallery.home(server, workspace) / FILE).write_text(BEFORE + "theirs, later\n")
    page.get_by_test_id("notice-overwrite").click()
    expect(page.get_by_test_id("compare")).to_contain_text("theirs, later")
    assert on_disk(server, workspace) == BEFORE + "theirs, later\n"


def test_what_is_typed_while_the_file_is_read_anew_is_kept(server, tab, workspace):
    page = tab(server, strict=False)
    ide = opened(page, workspace)
    reading = Held(page, "**/api/file?*", every=True)
    (gallery.home(server, workspace) / FILE).write_text(BEFORE + "theirs\n")
    reading.wait()
    types(ide, "mine\n")
    reading.let_go()
    expect(page.get_by_test_id("disk-notice")).to_contain_text("changed on disk")
    expect(ide.editor).to_have_value(BEFORE + "mine\n")
    kept(ide)


def test_what_was_asked_before_a_save_is_not_believed_after_it(server, tab, workspace):
    page = tab(server, strict=False)
    ide = opened(page, workspace)
    types(ide, "mine\n")
    # Somebody else writes, and the page asks; the answer says what was there before it saves over that.
    asking = Held(page, "**/api/stat?*")
    (gallery.home(server, workspace) / FILE).write_text(BEFORE + "theirs\n")
    asking.wait()
    version = page.evaluate("""fetch("api/file?path=poem.txt").then((answer) => answer.headers.get("etag").replaceAll('"', ""))""")
    ide.editor.press("Control+s")
    expect(page.get_by_test_id("compare")).to_contain_text("theirs")
    page.get_by_test_id("notice-overwrite").click()
    expect(page.get_by_test_id("save")).to_be_disabled()
    types(ide, "and more\n")
    asking.let_go(json={"kind": "file", "version": version})
    page.wait_for_timeout(500)
    expect(page.get_by_test_id("disk-notice")).to_have_count(0)
    saves(ide, server, workspace, BEFORE + "mine\nand more\n")


def test_two_tabs_keep_their_own(server, tab, workspace):
    one = tab(server, strict=False)
    two = one.context.new_page()
    first, second = opened(one, workspace), opened(two, workspace)
    types(first, "one")
    types(second, "two")
    for ide, text in ((first, "one"), (second, "two")):
        ide.page.reload()
        expect(ide.editor).to_have_value(BEFORE + text)
    # A closed tab's draft is the next one's; the other tab keeps its own.
    two.close()
    third = one.context.new_page()
    expect(Ide(third).open(workspace).editor).to_have_value(BEFORE + "two")
    one.reload()
    expect(first.editor).to_have_value(BEFORE + "one")


FILL = """async (count) => {
    const request = indexedDB.open("codehub-ide", 1);
    const database = await new Promise((resolve) => { request.onsuccess = () => resolve(request.result); });
    const transaction = database.transaction("drafts", "readwrite");
    for (let n = 0; n < count; n++) transaction.objectStore("drafts").put({
        workspace: location.pathname, path: `elsewhere-${n}`, tab: "another", text: "x", version: "1", eol: "\\n", size: 1, at: Date.now(),
    });
    await new Promise((resolve) => { transaction.oncomplete = resolve; });
    database.close();
}"""


def test_where_no_more_is_kept_the_page_says_so(server, tab, workspace):
    page = tab(server, strict=False)
    ide = opened(page, workspace)
    types(ide, "a")
    page.evaluate(FILL, 99)
    # It has its place; one more file has not.
    types(ide, "b")
    (gallery.home(server, workspace) / "other.txt").write_text("other\n")
    ide.edit("other.txt")
    ide.editor.press("Control+End")
    page.keyboard.type("c")
    expect(page.get_by_test_id("draft")).to_have_attribute("data-state", "full")
    expect(page.get_by_test_id("toast").last).to_contain_text("in this tab only")
    # The banner says what the status line says.
    server.api.act(workspace, "stop", "STANDBY")
    banner = page.get_by_test_id("connection-banner")
    expect(banner).to_contain_text("in this tab only")
    expect(banner).not_to_contain_text("kept in this browser")
    page.get_by_test_id("wake").click()
    is_connected(ide)
    # Room again: kept with the next key.
    page.get_by_test_id("tabs").get_by_text(FILE).click()
    ide.save()
    page.get_by_test_id("tabs").get_by_text("other.txt").click()
    types(ide, "d")


def test_signed_out_and_in_again(server, tab, workspace):
    page = tab(server, strict=False, user=None)

    def sign(verb):
        data = {"username": ADMIN, "password": PASSWORD} if verb == "login" else None
        assert page.request.post(f"/api/v1/auth/{verb}", data=data, headers={"Origin": server.url}).ok

    sign("login")
    ide = opened(page, workspace)
    types(ide, "before")
    sign("logout")
    expect(page.get_by_test_id("connection-banner")).to_contain_text("signed out")
    types(ide, " and after")
    sign("login")
    # The workspace's own address learns of it when somebody comes there from the dashboard.
    other = page.context.new_page()
    Ide(other).open(workspace)
    other.close()
    # Unless it has tried again by itself meanwhile.
    page.evaluate("document.querySelector('[data-testid=retry]')?.click()")
    is_connected(ide)
    saves(ide, server, workspace, BEFORE + "before and after")


def test_auto_save(server, tab, workspace):
    page = tab(server, strict=False)
    ide = opened(page, workspace)
    toggle = page.get_by_test_id("auto-save")
    expect(toggle).to_have_attribute("aria-pressed", "false")
    types(ide, "by hand")
    toggle.click()
    wait_for(lambda: on_disk(server, workspace) == BEFORE + "by hand", "the file to be saved by itself")
    ide.editor.press("Control+End")
    page.keyboard.type(", by itself")
    wait_for(lambda: on_disk(server, workspace) == BEFORE + "by hand, by itself", "the file to be saved by itself")
    expect(page.get_by_test_id("save")).to_be_disabled()
    page.reload()
    expect(toggle).to_have_attribute("aria-pressed", "true")
    expect(ide.editor).to_be_visible()
    # What was typed while the workspace slept is saved once it is awake.
    server.api.act(workspace, "stop", "STANDBY")
    expect(page.get_by_test_id("wake")).to_be_visible()
    types(ide, ", asleep")
    page.get_by_test_id("wake").click()
    wait_for(lambda: on_disk(server, workspace) == BEFORE + "by hand, by itself, asleep", "the file to be saved")
    toggle.click()
    expect(toggle).to_have_attribute("aria-pressed", "false")


def focus_is_in(ide):
    return ide.page.evaluate("document.activeElement?.dataset.testid ?? document.activeElement?.tagName")


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_who_types_while_it_connects_again_types_into_the_editor(server, tab, workspace, end):
    """A shell that opens by itself must not take the focus: what is typed would be run."""
    page = tab(server, strict=False)
    ide = opened(page, workspace)
    types(ide, "before ")
    terminal = page.get_by_test_id("term-tab")
    expect(terminal).to_have_count(1)
    if end == "stopped":
        server.api.act(workspace, "stop", "STANDBY")
        page.get_by_test_id("wake").click()
    else:
        kills_ide(server, workspace, page)
    typed = ""
    connected = page.locator("[data-testid=connection][data-state=open]")
    seen = 0
    # Until the new shell has shown its prompt, and somewhat longer.
    end = time.monotonic() + 2 * PATIENCE
    while time.monotonic() < end:
        page.keyboard.type("x", delay=20)
        typed += "x"
        if page.get_by_test_id("wake").is_visible():
            try:
                page.get_by_test_id("wake").click(timeout=1000)
            except TimeoutError:
                pass  # it has begun again by itself
        if connected.is_visible() and ide.screen.is_visible() and re.search(r"[$#%>]", ide.screen.inner_text()):
            seen += 1
        if seen == 20:
            break
    assert seen == 20
    expect(ide.editor).to_have_value(BEFORE + "before " + typed)
    assert focus_is_in(ide) == "editor"
    assert "xx" not in ide.screen.inner_text()
    page.keyboard.press("Control+s")
    wait_for(lambda: on_disk(server, workspace) == BEFORE + "before " + typed, "the file to be saved")
    # A terminal that one asks for has the focus.
    page.get_by_test_id("new-terminal").click()
    expect(terminal).to_have_count(2)
    expect(ide.keys).to_be_focused()


def test_drafts_that_were_cleared_under_an_open_page_are_written_again(server, tab, workspace):
    page = tab(server, strict=False)
    ide = opened(page, workspace)
    types(ide, "typed")
    session = page.context.new_cdp_session(page)
    origin = page.evaluate("location.origin")
    session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "indexeddb,local_storage"})
    page.evaluate("dispatchEvent(new Event('focus'))")
    wait_for(lambda: page.evaluate(COUNT) == 1, "the draft to be there again")
    page.reload()
    expect(ide.editor).to_have_value(BEFORE + "typed")


COUNT = """async () => {
    if (!(await indexedDB.databases()).some(({ name }) => name === "codehub-ide")) return 0;
    const request = indexedDB.open("codehub-ide");
    const database = await new Promise((resolve) => { request.onsuccess = () => resolve(request.result); });
    if (!database.objectStoreNames.contains("drafts")) { database.close(); return 0; }
    const count = database.transaction("drafts").objectStore("drafts").count();
    const found = await new Promise((resolve) => { count.onsuccess = () => resolve(count.result); });
    database.close();
    return found;
}"""


def test_a_file_whose_folder_is_gone_is_saved_with_it(server, tab, workspace):
    page = tab(server, strict=False)
    deep = gallery.home(server, workspace) / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "deep.txt").write_text("deep\n")
    ide = Ide(page).open(workspace)
    ide.file("a").locator(".row").first.click()
    ide.file("a/b").locator(".row").first.click()
    ide.edit("a/b/deep.txt")
    expect(ide.editor).to_have_value("deep\n")
    types(ide, "mine")
    shutil.rmtree(deep.parent)
    notice = page.get_by_test_id("disk-notice")
    ide.editor.press("Control+s")
    expect(notice).to_contain_text("Saving creates it again")
    page.get_by_test_id("notice-overwrite").click()
    expect(notice).to_be_hidden()
    assert (deep / "deep.txt").read_text() == "deep\nmine"

    # A folder in its place is never written over.
    types(ide, " and more")
    (deep / "deep.txt").unlink()
    (deep / "deep.txt").mkdir()
    ide.editor.press("Control+s")
    expect(notice).to_contain_text("A folder of this name")
    expect(page.get_by_test_id("notice-overwrite")).to_have_count(0)
    (deep / "deep.txt").rmdir()
    ide.editor.press("Control+s")
    written = lambda: (deep / "deep.txt").is_file() and (deep / "deep.txt").read_text() == "deep\nmine and more"
    wait_for(written, "the file to be there")


def test_what_is_too_large_to_be_shown_is_not_written_over_unasked(server, tab, workspace):
    page = tab(server, strict=False)
    ide = opened(page, workspace)
    types(ide, "mine")
    large = "x" * (17 * 1024 * 1024)
    (gallery.home(server, workspace) / FILE).write_text(large)
    notice = page.get_by_test_id("disk-notice")
    expect(notice).to_be_visible()
    for _ in range(2):
        # From the first word about it, and again after saving has found out why it cannot be shown.
        page.get_by_test_id("notice-overwrite").click()
        expect(page.get_by_test_id("dialog")).to_contain_text("16 MiB")
        page.get_by_test_id("choose-cancel").click()
        ide.editor.press("Control+s")
        expect(notice).to_contain_text("16 MiB")
        assert on_disk(server, workspace) == large
    page.get_by_test_id("notice-overwrite").click()
    page.get_by_test_id("choose-ok").click()
    wait_for(lambda: on_disk(server, workspace) == BEFORE + "mine", "the file to be written")


def test_a_workspace_that_is_deleted_under_the_page(server, tab):
    workspace = server.api.create("short-lived")
    page = tab(server, strict=False)
    # It has been told of the workspace: one that never was there is not gone.
    with page.expect_response("**/.codehub/events*"):
        Ide(page).open(workspace)
    server.api.delete(workspace)
    banner = page.get_by_test_id("connection-banner")
    expect(banner).to_have_attribute("data-shows", "gone")
    expect(banner).to_contain_text("no longer exists")
    expect(page.get_by_test_id("banner-dashboard")).to_be_visible()

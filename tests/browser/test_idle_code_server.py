"""A real code-server tab: left alone, used, printing; typed in without saving; and put to sleep under a person."""

import json

import pytest
from playwright.sync_api import expect

from idle_rig import (PREPARED, awake_while_typed_in, chromium, ide_is_installed, left_alone_sleeps_and_work_does_not, picture,
                      server, sleeps_when_left, until)

pytestmark = pytest.mark.skipif(not ide_is_installed("code-server"), reason="no code-server or no Chromium")

FILE = '.tab.active[data-resource-name="notes.txt"]'
TEXT = ".editor-group-container .monaco-editor .view-lines"
DIALOG = ".monaco-dialog-box"


def opened(running, browser, id):
    page = running.tab(browser, id)
    workbench(page)
    return page


def workbench(page):
    page.wait_for_selector(".monaco-workbench", timeout=90_000)
    page.wait_for_selector(".explorer-folders-view, .explorer-viewlet", timeout=60_000)


def command(page, text):
    """Runs the command whose name begins so."""
    page.keyboard.press("F1")
    page.wait_for_selector(".quick-input-widget input", timeout=20_000)
    page.keyboard.type(text)
    # The first in the list is not always the best: "Compare New Untitled Text Files" comes before "New …".
    page.locator(f'.quick-input-list .monaco-list-row[aria-label^="{text}"]').first.click(timeout=30_000)


def terminal(page, line):
    page.keyboard.press("Control+`")
    page.wait_for_selector(".xterm", timeout=60_000)
    page.click(".xterm")
    # What is typed before the shell is there waits for it.
    page.wait_for_function("document.activeElement.classList.contains('xterm-helper-textarea')")
    page.keyboard.type(line)
    page.keyboard.press("Enter")


def editor(page):
    command(page, "File: New Untitled Text File")
    page.wait_for_selector(".editor-group-container .monaco-editor", timeout=30_000)


def notes(running, browser, id):
    """A file of the home, open, on which nothing is saved unless somebody says so."""
    settings = running.home(id) / ".local/share/code-server/User/settings.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"files.autoSave": "off"}))
    file = running.home(id) / "notes.txt"
    file.write_text("")
    page = opened(running, browser, id)
    page.locator(".explorer-folders-view .monaco-list-row", has_text="notes.txt").dblclick()
    page.wait_for_selector(FILE, timeout=60_000)
    page.click(TEXT)
    return page, file


def answering_the_browser(page, answer):
    """What the browser asks before it leaves the page, as a list that grows; and the answer, which may be changed."""
    asked, answers = [], [answer]

    def dialog(box):
        asked.append(box.type)
        getattr(box, answers[0])()

    page.on("dialog", dialog)
    return asked, answers


def reload_window(page):
    page.get_by_role("button", name="Reload Window").click()


def shown(page):
    # Spaces are drawn as no-break ones.
    return page.inner_text(TEXT).replace("\u00a0", " ").replace("\n", "")


def test_previews_service_workers_terminals_and_reloads_at_an_origin_of_its_own(tmp_path, shots):
    with server(tmp_path, "code-server") as running, chromium() as browser:
        id = running.create("previews")
        (running.home(id) / "README.md").write_text("# Seen in a preview\n")
        page = opened(running, browser, id)
        origin = "/".join(page.url.split("/")[:3])
        assert id in origin
        page.locator(".explorer-folders-view .monaco-list-row", has_text="README.md").dblclick()
        page.wait_for_selector('.tab.active[data-resource-name="README.md"]', timeout=60_000)
        page.click(TEXT)
        # A preview is a page within a page within the page, and gets what it shows by a service worker.
        heading = lambda: any(frame.locator("h1", has_text="Seen in a preview").count() for frame in page.frames)
        # Its extension takes a while to be there.
        preview = page.locator('.tab[aria-label^="Preview README.md"]')
        until(60, heading, lambda: preview.count() or page.keyboard.press("Control+Shift+v"), every=3)
        workers = [worker.url for worker in page.context.service_workers]
        assert workers and all(url.startswith(f"{origin}/") for url in workers), workers
        picture(page, shots, "code-server-preview")
        terminal(page, "echo from the shell > made.txt")
        until(30, (running.home(id) / "made.txt").exists)
        page.reload()
        workbench(page)
        until(60, heading)
        assert "/".join(page.url.split("/")[:3]) == origin


def test_a_tab_left_alone_sleeps_and_stays_asleep(tmp_path):
    with server(tmp_path, "code-server") as running, chromium() as browser:
        ids = [running.create(name, **PREPARED) for name in ("output", "typing", "alone")]
        tabs = [(id, opened(running, browser, id)) for id in ids]
        tabs.reverse()
        terminal(tabs[2][1], "while sleep 12; do echo tick; done")
        editor(tabs[1][1])
        left_alone_sleeps_and_work_does_not(running, tabs, lambda page: page.keyboard.press("x"), 100)


def test_typing_without_saving_keeps_it_awake_and_comes_back_after_sleep(tmp_path, shots):
    with server(tmp_path, "code-server") as running, chromium() as browser:
        id = running.create("typing")
        page, file = notes(running, browser, id)
        typed = awake_while_typed_in(running, id, page)
        assert file.read_text() == "", "nobody saved"
        sleeps_when_left(running, id)

        # Its page says so by itself, and waits; waiting does not wake anything.
        expect(page.locator(DIALOG)).to_contain_text("Attempting to reconnect", timeout=90_000)
        picture(page, shots, "code-server-asleep")
        assert running.phase(id) == "STANDBY"

        # Its own button wakes the workspace, and the unsaved text is there: code-server had put it aside in the home.
        asked, _ = answering_the_browser(page, "accept")
        reload_window(page)
        page.wait_for_selector(FILE, timeout=90_000)
        until(30, lambda: shown(page).strip() == typed.strip())
        assert asked == [], "nothing was going to be lost"
        assert file.read_text() == "" and running.phase(id) == "RUNNING"
        picture(page, shots, "code-server-woken")
        page.click(TEXT)
        page.keyboard.press("Control+s")
        until(30, lambda: file.read_text() == typed)


def test_stopped_from_another_tab_it_warns_before_it_loses_the_last_words(tmp_path, shots):
    with server(tmp_path, "code-server") as running, chromium() as browser:
        id = running.create("stopped")
        page, file = notes(running, browser, id)
        page.keyboard.type("put aside")
        backups = running.home(id) / ".local/share/code-server/User/Backups"
        until(30, lambda: any(b"put aside" in it.read_bytes() for it in backups.rglob("*") if it.is_file()))
        running.act(id, "stop", "STANDBY")
        page.keyboard.type(", typed asleep")
        expect(page.locator(DIALOG)).to_contain_text("Attempting to reconnect", timeout=90_000)

        # Woken from another tab: the page sees that this is another code-server.
        running.act(id, "start", "RUNNING")
        expect(page.locator(DIALOG)).to_contain_text("Cannot reconnect. Please reload the window.", timeout=90_000)
        picture(page, shots, "code-server-woken-elsewhere")

        # It cannot keep what was typed meanwhile, and the browser asks first: staying leaves all of it to be copied.
        asked, answers = answering_the_browser(page, "dismiss")
        reload_window(page)
        until(30, lambda: asked == ["beforeunload"], lambda: page.wait_for_timeout(100))
        assert shown(page) == "put aside, typed asleep"
        answers[0] = "accept"
        page.reload()
        page.wait_for_selector(FILE, timeout=90_000)
        until(30, lambda: shown(page).startswith("put aside"))
        assert file.read_text() == ""

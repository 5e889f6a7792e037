"""A real JupyterLab tab: left alone, used, printing; typed in without saving; and put to sleep under a person."""

import re
import time

import pytest
from playwright.sync_api import expect

from idle_rig import (PREPARED, awake_while_typed_in, chromium, ide_is_installed, left_alone_sleeps_and_work_does_not, picture,
                      server, sleeps_when_left, until)

pytestmark = pytest.mark.skipif(not ide_is_installed("jupyter-lab"), reason="no JupyterLab or no Chromium")

TEXT = ".jp-FileEditor .cm-content"
DIALOG = ".jp-Dialog"


def lab(page):
    page.wait_for_selector("#jupyterlab-splash", state="detached", timeout=120_000)


def notebook(running, browser, id):
    page = running.tab(browser, id, "lab")
    page.wait_for_selector(".jp-Launcher", timeout=120_000)
    lab(page)
    page.click('.jp-LauncherCard[data-category="Notebook"]')
    page.wait_for_selector(".jp-Notebook .cm-content", timeout=60_000)
    # Its kernel is there.
    page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]', timeout=90_000)
    return page


def notes(running, browser, id):
    """A text file of the home, open."""
    file = running.home(id) / "notes.txt"
    file.write_text("")
    page = running.tab(browser, id, "lab/tree/notes.txt")
    page.wait_for_selector(TEXT, timeout=120_000)
    lab(page)
    page.click(TEXT)
    return page, file


def test_a_tab_left_alone_sleeps_and_stays_asleep(tmp_path):
    with server(tmp_path, "jupyterlab") as running, chromium() as browser:
        ids = [running.create(name, **PREPARED) for name in ("output", "typing", "alone")]
        tabs = [(id, notebook(running, browser, id)) for id in ids]
        tabs.reverse()
        printing = tabs[2][1]
        printing.click(".jp-Notebook .cm-content")
        printing.keyboard.type("import time\nwhile True: time.sleep(12); print('tick', flush=True)")
        printing.keyboard.press("Shift+Enter")
        tabs[1][1].click(".jp-Notebook .cm-content")
        left_alone_sleeps_and_work_does_not(running, tabs, lambda page: page.keyboard.press("x"), 100)


def test_typing_without_saving_keeps_it_awake_and_its_page_leads_to_waking_it(tmp_path, shots):
    with server(tmp_path, "jupyterlab") as running, chromium() as browser:
        id = running.create("typing")
        page = notebook(running, browser, id)
        file = running.home(id) / "Untitled.ipynb"
        page.click(".jp-Notebook .cm-content")
        typed = awake_while_typed_in(running, id, page)
        sleeps_when_left(running, id)
        assert typed in file.read_text(), "JupyterLab saved what was typed before it slept"

        # Its page says so, and leads to where it can be woken, in another tab.
        expect(page.locator(DIALOG)).to_contain_text("is not running", timeout=90_000)
        picture(page, shots, "jupyterlab-asleep")
        assert running.phase(id) == "STANDBY"
        with page.context.expect_page() as opening:
            page.get_by_role("button", name="Restart", exact=True).click()
        dashboard = opening.value
        expect(dashboard).to_have_url(re.compile(f"/workspaces/{id}"))
        dashboard.get_by_test_id("start").first.click()
        until(60, lambda: running.phase(id) == "RUNNING")

        # The page that was left goes on where it was; nothing is reloaded.
        page.bring_to_front()
        until(60, quiet_for(5, page), lambda: dismissed(page))
        page.click(".jp-Notebook .cm-content")
        page.keyboard.press("End")
        page.keyboard.type("and more")
        until(60, lambda: typed + "and more" in file.read_text(), lambda: dismissed(page))
        picture(page, shots, "jupyterlab-woken")


def test_stopped_from_another_tab_it_keeps_the_text_and_saves_it_once_awake(tmp_path, shots):
    with server(tmp_path, "jupyterlab") as running, chromium() as browser:
        id = running.create("stopped")
        page, file = notes(running, browser, id)
        page.keyboard.type("typed awake")
        running.act(id, "stop", "STANDBY")
        page.keyboard.type(", typed asleep")
        page.keyboard.press("Control+s")
        # Saving fails, and says why.
        expect(page.locator(DIALOG).first).to_contain_text("The workspace is asleep.", timeout=30_000)
        picture(page, shots, "jupyterlab-save-asleep")
        dismissed(page)
        assert file.read_text() == "" and running.phase(id) == "STANDBY"

        # Once it is awake, whoever woke it, JupyterLab saves by itself.
        running.act(id, "start", "RUNNING")
        until(60, lambda: file.read_text() == "typed awake, typed asleep", lambda: dismissed(page))
        picture(page, shots, "jupyterlab-saved")


def quiet_for(seconds, page):
    """Whether no dialog has come for that long: its questions that were on their way end one after the other."""
    since = [time.monotonic()]

    def quiet():
        if page.locator(DIALOG).count():
            since[0] = time.monotonic()
        return time.monotonic() - since[0] > seconds

    return quiet


def dismissed(page):
    """Closes the dialogs that came meanwhile, as a person does: while one is open, JupyterLab does not save by itself."""
    button = page.locator(DIALOG).get_by_role("button", name=re.compile("^(Dismiss|Close)$"))
    if button.count():
        button.first.click()

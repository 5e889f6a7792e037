"""A real code-server tab, left alone, used, and printing."""

import time

import pytest
from idle_rig import chromium, ide_is_installed, left_alone_sleeps_and_work_does_not, server

pytestmark = pytest.mark.skipif(not ide_is_installed("code-server"), reason="code-server or Chromium is missing")


def opened(running, browser, id):
    page = running.tab(browser, id)
    page.wait_for_selector(".monaco-workbench", timeout=90_000)
    page.wait_for_selector(".explorer-folders-view, .explorer-viewlet", timeout=60_000)
    return page


def command(page, text):
    page.keyboard.press("F1")
    page.wait_for_selector(".quick-input-widget input", timeout=20_000)
    page.keyboard.type(text)
    time.sleep(2)
    page.keyboard.press("Enter")


def terminal(page, line):
    page.keyboard.press("Control+`")
    page.wait_for_selector(".xterm", timeout=30_000)
    time.sleep(3)
    page.click(".xterm")
    page.keyboard.type(line)
    page.keyboard.press("Enter")


def editor(page):
    command(page, "new untitled text")
    page.wait_for_selector(".editor-group-container .monaco-editor", timeout=30_000)


def test_a_tab_left_alone_sleeps_and_stays_asleep(tmp_path):
    with server(tmp_path, "code-server") as running, chromium() as browser:
        tabs = [(id, opened(running, browser, id)) for id in (running.create(name) for name in ("output", "typing", "alone"))]
        tabs.reverse()
        terminal(tabs[2][1], "while sleep 12; do echo tick; done")
        editor(tabs[1][1])
        left_alone_sleeps_and_work_does_not(running, tabs, lambda page: page.keyboard.press("x"), 100)

"""A real JupyterLab tab, left alone, used, and printing."""

import json
import time

import pytest
from idle_rig import chromium, ide_is_installed, left_alone_sleeps_and_work_does_not, server

pytestmark = pytest.mark.skipif(not ide_is_installed("jupyter-lab"), reason="JupyterLab or Chromium is missing")

SAVE_SOON = {"raw": json.dumps({"autosaveInterval": 4})}


def notebook(running, browser, id):
    page = running.tab(browser, id, "lab")
    page.wait_for_selector(".jp-Launcher", timeout=120_000)
    page.wait_for_selector("#jupyterlab-splash", state="detached", timeout=60_000)
    page.click('.jp-LauncherCard[data-category="Notebook"]')
    page.wait_for_selector(".jp-Notebook .cm-content", timeout=60_000)
    time.sleep(6)
    return page


def test_a_tab_left_alone_sleeps_and_stays_asleep(tmp_path):
    with server(tmp_path, "jupyterlab") as running, chromium() as browser:
        ids = [running.create(name) for name in ("output", "typing", "alone")]
        # A key reaches the workspace when the notebook is saved, which is every two minutes by default.
        page = running.tab(browser, ids[1], "lab")
        saved = page.request.put(
            f"{running.base}/w/{ids[1]}/lab/api/settings/@jupyterlab/docmanager-extension:plugin",
            data=SAVE_SOON, headers={"X-XSRFToken": xsrf(page)})
        assert saved.ok, saved.text()
        page.context.close()
        tabs = [(id, notebook(running, browser, id)) for id in ids]
        tabs.reverse()
        printing = tabs[2][1]
        printing.click(".jp-Notebook .cm-content")
        printing.keyboard.type("import time\nwhile True: time.sleep(12); print('tick', flush=True)")
        printing.keyboard.press("Shift+Enter")
        tabs[1][1].click(".jp-Notebook .cm-content")
        left_alone_sleeps_and_work_does_not(running, tabs, lambda page: page.keyboard.press("x"), 100)


def xsrf(page):
    return next((cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "_xsrf"), "")

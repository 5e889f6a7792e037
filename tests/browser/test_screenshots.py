"""The README's pictures, taken from the running product. Kept with `make screenshots`."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

import gallery
from ide import Ide

MOST_BYTES = 200 * 1024


@pytest.fixture(scope="module")
def place(start):
    place = gallery.make(start)
    place.server.api.delete(place.broken)
    return place


@pytest.fixture
def take(tmp_path):
    directory = Path(os.environ.get("CODEHUB_SCREENSHOTS", tmp_path))
    directory.mkdir(parents=True, exist_ok=True)

    def take(page, name):
        path = directory / f"{name}.png"
        page.screenshot(path=path, animations="disabled", caret="hide")
        assert path.stat().st_size < MOST_BYTES, f"{name} is too large for a README"

    return take


def overview(tab, place, **look):
    page = tab(place.server, **look)
    page.goto("/")
    expect(page.get_by_test_id("workspace")).to_have_count(3)
    return page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_dashboard(place, tab, take, dark):
    page = overview(tab, place, dark=dark)
    page.set_viewport_size({"width": 1280, "height": 560})
    take(page, f"dashboard-{'dark' if dark else 'light'}")


def test_a_workspace(place, tab, take):
    page = tab(place.server)
    page.goto(f"/workspaces/{place.running}")
    expect(page.get_by_test_id("history-entry").first).to_be_visible()
    take(page, "workspace")


def test_the_ide_with_a_terminal(place, tab, take):
    page = tab(place.server, dark=True)
    page.goto("/")
    gallery.put_files(page, place.running)
    ide = Ide(page).open(place.running)
    for folder in ("src", "tests"):
        ide.file(folder).locator(".row").first.click()
    ide.edit("src/main.py")
    ide.run("PS1='\\[\\e[1;34m\\]tide-tables\\[\\e[0m\\] $ '; clear")
    ide.sees("tide-tables $")
    ide.run("python3 src/main.py")
    ide.sees("24:00")
    take(page, "ide")


def test_a_phone(place, tab, take):
    take(overview(tab, place, size="phone"), "phone")


def test_korean(place, tab, take):
    page = overview(tab, place, lang="ko")
    page.set_viewport_size({"width": 1280, "height": 560})
    take(page, "korean")

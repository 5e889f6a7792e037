"""Archives: looked into, downloaded from, copied, and gone back to, with scripts and without."""

import os
import time

import pytest
from playwright.sync_api import expect

import gallery
from dashboard import follow, press, workspace_id

ODD = b"odd-\xff.bin"
CONTENT = bytes(range(256)) * 4000
MANY = 620  # more than a page has


def fill(home, note):
    (home / "src/deep").mkdir(parents=True, exist_ok=True)
    (home / "src/deep/leaf.txt").write_text("leaf\n")
    (home / "page.html").write_text("<h1>not for showing</h1>")
    (home / "note.txt").write_text(note)
    (home / os.fsdecode(ODD)).write_bytes(CONTENT)
    (home / "many").mkdir(exist_ok=True)
    for n in range(MANY):
        (home / f"many/{n:04}").touch()


def travelled(server, name):
    """A workspace that was archived twice, with another note each time."""
    id = server.api.create(name, description="Been there")
    fill(gallery.home(server, id), "first\n")
    server.api.act(id, "archive", "ARCHIVED")
    server.api.act(id, "start", "RUNNING")
    (gallery.home(server, id) / "note.txt").write_text("second\n")
    server.api.act(id, "archive", "ARCHIVED")
    return id


@pytest.fixture(scope="module")
def traveller(server):
    """For those that leave it as it was."""
    id = travelled(server, "traveller")
    yield id
    server.api.delete(id)


@pytest.fixture(params=[True, False], ids=["scripts", "no-scripts"])
def page(request, server, tab):
    return tab(server, java_script_enabled=request.param)


def archive(page, nth):
    return page.get_by_test_id("archive").nth(nth)


def download(page, name):
    with page.expect_download() as found:
        page.get_by_role("link", name=name, exact=True).click()
    return found.value


def names(page):
    return [file.get_attribute("data-name") for file in page.get_by_test_id("file").all()]


def test_looked_into_and_downloaded_from(page, server, traveller):
    page.goto(f"/workspaces/{traveller}")
    press(page, "to-archives")
    expect(page.get_by_test_id("archive")).to_have_count(2)
    expect(archive(page, 0)).to_contain_text("current")
    follow(page, archive(page, 1).get_by_test_id("browse"))
    found = [name for name in names(page) if not name.startswith(".")]
    assert found == ["many", "src", "note.txt", "odd-\ufffd.bin", "page.html"], "directories first"

    assert download(page, "odd-\ufffd.bin").path().read_bytes() == CONTENT
    assert download(page, "note.txt").path().read_text() == "first\n"
    html = download(page, "page.html")
    assert html.suggested_filename == "page.html"
    expect(page.get_by_test_id("files"), "still where one was").to_be_visible()

    follow(page, page.get_by_role("link", name="src"))
    follow(page, page.get_by_role("link", name="deep"))
    assert names(page) == ["leaf.txt"]
    expect(page.get_by_test_id("path")).to_contain_text("deep")
    follow(page, page.get_by_test_id("path").get_by_role("link", name="src"))
    assert names(page) == ["deep"]
    follow(page, page.get_by_test_id("path").get_by_role("link", name="Home"))

    follow(page, page.get_by_role("link", name="many"))
    first = names(page)
    follow(page, page.get_by_test_id("next-page"))
    expect(page.get_by_test_id("first-page")).to_be_visible()
    assert first + names(page) == [f"{n:04}" for n in range(MANY)]
    assert server.api.get(traveller)["phase"] == "ARCHIVED", "nothing was restored for that"


def test_copied(page, server, traveller):
    page.goto(f"/workspaces/{traveller}/archives")
    archive(page, 1).get_by_test_id("fork").click()
    expect(page.get_by_test_id("source")).to_contain_text("traveller")
    expect(page.get_by_test_id("field-name")).to_have_value("Copy of traveller")
    press(page, "create")
    expect(page.get_by_role("heading", level=1)).to_have_text("Copy of traveller")
    fork = workspace_id(page)
    server.api.wait(fork, "RUNNING")
    page.goto(f"/w/{fork}/")
    expect(page.locator("#workbench")).to_be_attached()
    home = gallery.home(server, fork)
    assert (home / "note.txt").read_text() == "first\n"
    assert (home / os.fsdecode(ODD)).read_bytes() == CONTENT
    assert server.api.get(traveller)["phase"] == "ARCHIVED", "the one it was copied from stays as it is"
    # Before the IDE notices, and complains on its console.
    page.goto("/")
    server.api.delete(fork)


def test_gone_back_to(page, server):
    traveller = travelled(server, f"lost {time.monotonic_ns()}")
    current = server.api.get(traveller)["archive_key"]
    page.goto(f"/workspaces/{traveller}/archives")
    expect(page.get_by_test_id("go-back"), "not while it works").to_have_count(0)
    bring_back = gallery.lose_archives(server, traveller, current.split("/")[1])
    server.api.wait(traveller, "ERROR")
    page.reload()
    page.get_by_test_id("archive").last.get_by_test_id("go-back").click()
    press(page, "confirm-yes")
    assert server.api.get(traveller)["phase"] == "ERROR", "not without the tick"
    press(page, "confirm-loss")
    press(page, "confirm-yes")
    expect(page.get_by_test_id("flash")).to_be_visible()
    server.api.wait(traveller, "ARCHIVED")
    older = server.api.get(traveller)["archive_key"]
    assert older != current
    server.api.act(traveller, "start", "RUNNING")
    assert (gallery.home(server, traveller) / "note.txt").read_text() == "first\n"
    bring_back()
    server.api.delete(traveller)

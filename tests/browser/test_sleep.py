"""Sleeping workspaces: what wakes them, what does not, and what visitors are shown meanwhile."""

import re
import time

import pytest
from playwright.sync_api import expect

import gallery
from codehub import PASSWORD
from ide import Ide

OTHER = ("somebody", PASSWORD)


@pytest.fixture(scope="module")
def server(start):
    """One on which workspaces sleep after two seconds, and each person may run one."""
    server = start(
        TTL_STANDBY_SECONDS=2, TTL_ARCHIVE_SECONDS=0, COORDINATOR_TTL_INTERVAL="1s", ACTIVITY_FLUSH_INTERVAL="1s",
        LIMITS_MAX_RUNNING_PER_USER=1,
    )
    server.api.call("POST", "/users", {"username": OTHER[0], "password": OTHER[1], "role": "user"})
    return server


@pytest.fixture(scope="module")
def workspace(server):
    return server.api.create("sleepy")


TRY_EVERYTHING = """() => {
    const address = new URL("ws", document.baseURI);
    address.protocol = "ws:";
    window.answers = new Set();
    window.trying = setInterval(() => {
        for (const path of ["healthz", "api/tree?path=", "assets/app.js", ""]) {
            fetch(path, { cache: "no-store" }).then((answer) => window.answers.add(answer.status), () => {});
        }
        new Image().src = "assets/icon.svg?" + Math.random();
        new WebSocket(address).onopen = () => window.answers.add("socket");
    }, 500);
}"""


def test_an_open_tab_cannot_keep_it_awake_nor_wake_it(server, tab, workspace):
    page = tab(server, strict=False)
    Ide(page).open(workspace)
    # Nobody touches the tab: it sleeps although the tab stays open.
    server.api.wait(workspace, "STANDBY")
    expect(page.get_by_test_id("connection-banner")).to_be_visible()

    page.evaluate(TRY_EVERYTHING)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        now = server.api.get(workspace)
        assert (now["phase"], now["operation"], now["desired_state"]) == ("STANDBY", "NONE", "STANDBY")
        page.wait_for_timeout(250)
    assert page.evaluate("[...answers]") == [503]


def test_the_tab_says_that_it_sleeps_and_wakes_it_when_asked(server, tab, workspace):
    server.api.wait(workspace, "STANDBY")
    page = tab(server, strict=False)
    ide = Ide(page).open(workspace)
    server.api.wait(workspace, "STANDBY")
    banner = page.get_by_test_id("connection-banner")
    expect(banner).to_contain_text("asleep")
    banner.get_by_role("button", name="Wake").click()
    expect(banner).to_be_hidden()
    ide.ready()


def test_opening_it_is_held_until_the_ide_itself_answers(server, tab, workspace):
    server.api.wait(workspace, "STANDBY")
    page = tab(server)
    began = time.monotonic()
    answer = page.goto(f"/w/{workspace}/")
    took = time.monotonic() - began
    assert answer.status == 200, "the first answer is the IDE's"
    expect(page.get_by_test_id("tree")).to_be_attached()
    assert took < 10
    Ide(page).ready()


def test_typing_keeps_it_awake(server, tab, workspace):
    page = tab(server)
    ide = Ide(page).open(workspace)
    end = time.monotonic() + 6
    while time.monotonic() < end:
        ide.type("x")
        page.wait_for_timeout(300)
        now = server.api.get(workspace)
        assert (now["phase"], now["desired_state"]) == ("RUNNING", "RUNNING")


def test_another_user_is_refused(server, tab, workspace):
    page = tab(server, user=OTHER)
    assert page.goto(f"/w/{workspace}/").status == 403
    expect(page.get_by_role("heading", level=1)).to_have_text("This workspace belongs to another user")
    assert page.goto(f"/workspaces/{workspace}").status in (403, 404)
    stranger = tab(server, user=None)
    stranger.goto(f"/w/{workspace}/")
    expect(stranger).to_have_url(re.compile("/login"))


def test_an_archived_workspace_is_restored_from_its_page(server, tab, workspace):
    server.api.wait(workspace, "STANDBY")
    server.api.act(workspace, "archive", "ARCHIVED")
    page = tab(server)
    assert page.goto(f"/w/{workspace}/").status == 502
    expect(page.get_by_role("heading", level=1)).to_have_text("This workspace is archived")
    page.get_by_role("button", name="Restore and open").click()
    expect(page).to_have_url(server.at(workspace))
    Ide(page).ready()


def test_the_limit_page_makes_room(server, tab, workspace):
    server.api.wait(workspace, "STANDBY")
    # Never sleeps by itself, so that it is in the way.
    busy = server.api.create("busy", standby_ttl_seconds=0)
    page = tab(server)
    assert page.goto(f"/w/{workspace}/").status == 502
    expect(page.get_by_role("heading", level=1)).to_have_text("Too many workspaces are running")
    page.get_by_role("button", name="Stop: busy").click()
    server.api.wait(busy, "STANDBY")
    page.goto(f"/w/{workspace}/")
    Ide(page).ready()


def test_a_broken_workspace_says_so_and_recovers(server, tab, workspace):
    server.api.wait(workspace, "STANDBY")
    archived = server.api.create("broken", until="ARCHIVED")
    bring_back = gallery.lose_archives(server, archived)
    server.api.wait(archived, "ERROR")
    page = tab(server)
    assert page.goto(f"/w/{archived}/").status == 502
    expect(page.get_by_role("heading", level=1)).to_have_text("Something went wrong with this workspace")
    expect(page.get_by_text("DataLost")).to_be_visible()
    # What to do about it is a choice, so it is made on the dashboard; here the disk came back.
    page.locator("main .button").click()
    expect(page.get_by_test_id("error")).to_be_visible()
    bring_back()
    page.reload()
    page.get_by_test_id("recover-restore").get_by_test_id("confirm-loss").check()
    page.get_by_test_id("recover-restore-go").click()
    expect(page.get_by_test_id("flash")).to_be_visible()
    server.api.wait(archived, "ARCHIVED", "STANDBY", "RUNNING")

"""Sleeping workspaces: what wakes them, what does not, and what visitors are shown meanwhile."""

import re
import time

import pytest
from playwright.sync_api import expect

import gallery
from codehub import PASSWORD
from dashboard import follow
from ide import Ide

OTHER = ("somebody", PASSWORD)


@pytest.fixture(scope="module")
def server(start):
    """One that holds whoever opens a sleeping workspace for as long as it may take to start."""
    server = start(
        TTL_ARCHIVE_SECONDS=0, COORDINATOR_TTL_INTERVAL="1s", ACTIVITY_FLUSH_INTERVAL="1s", PROXY_WAKE_HOLD="60s",
        LIMITS_MAX_RUNNING_PER_USER=0,
    )
    server.api.call("POST", "/users", {"username": OTHER[0], "password": OTHER[1], "role": "user"})
    return server


@pytest.fixture
def workspace(server, request):
    """Asleep. Once it is awake it stays so, until a test says that it sleeps soon."""
    workspace = server.api.create(request.node.name[:60], until="STANDBY", standby_ttl_seconds=AWAKE)
    yield workspace
    server.api.delete(workspace)


# In seconds. A busy machine needs longer to show an IDE than a TTL that is worth waiting for.
SOON, AWAKE = 2, 600


def sleeps_after(server, workspace, seconds):
    server.api.call("PATCH", f"/workspaces/{workspace}", {"standby_ttl_seconds": seconds})


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


def test_an_open_tab_cannot_keep_it_awake_nor_wake_it(server, workspace, tab):
    page = tab(server, strict=False)
    Ide(page).open(workspace)
    # Nobody touches the tab: it sleeps although the tab stays open.
    sleeps_after(server, workspace, SOON)
    server.api.wait(workspace, "STANDBY")
    expect(page.get_by_test_id("connection-banner")).to_be_visible()

    page.evaluate(TRY_EVERYTHING)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        now = server.api.get(workspace)
        assert (now["phase"], now["operation"], now["desired_state"]) == ("STANDBY", "NONE", "STANDBY")
        page.wait_for_timeout(250)
    assert page.evaluate("[...answers]") == [503]


def test_the_tab_says_that_it_sleeps_and_wakes_it_when_asked(server, workspace, tab):
    page = tab(server, strict=False)
    ide = Ide(page).open(workspace)
    sleeps_after(server, workspace, SOON)
    server.api.wait(workspace, "STANDBY")
    sleeps_after(server, workspace, AWAKE)
    banner = page.get_by_test_id("connection-banner")
    expect(banner).to_contain_text("asleep")
    banner.get_by_role("button", name="Wake").click()
    expect(banner).to_be_hidden()
    ide.ready()


def test_opening_it_is_held_until_the_ide_itself_answers(server, workspace, tab):
    page = tab(server)
    answer = page.goto(f"/w/{workspace}/", timeout=90_000)
    assert answer.status == 200, "the first answer is the IDE's"
    expect(page.get_by_test_id("tree")).to_be_attached()
    Ide(page).ready()


def test_typing_keeps_it_awake(server, workspace, tab):
    page = tab(server)
    ide = Ide(page).open(workspace)

    def types(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ide.type("x")
            page.wait_for_timeout(300)
            now = server.api.get(workspace)
            assert (now["phase"], now["desired_state"]) == ("RUNNING", "RUNNING")

    # Held until it is known that somebody types: what was done before may be longer ago than this TTL.
    server.api.call("POST", f"/workspaces/{workspace}/snooze")
    sleeps_after(server, workspace, 2 * SOON)
    types(2)
    server.api.call("DELETE", f"/workspaces/{workspace}/keepalive")
    types(6 * SOON)
    sleeps_after(server, workspace, AWAKE)


def test_another_user_is_refused(server, workspace, tab):
    page = tab(server, user=OTHER)
    assert page.goto(f"/w/{workspace}/").status == 403
    expect(page.get_by_role("heading", level=1)).to_have_text("This workspace belongs to another user")
    assert page.goto(f"/workspaces/{workspace}").status in (403, 404)
    stranger = tab(server, user=None)
    stranger.goto(f"/w/{workspace}/")
    expect(stranger).to_have_url(re.compile("/login"))


def test_an_archived_workspace_is_restored_from_its_page(server, workspace, tab):
    server.api.act(workspace, "archive", "ARCHIVED")
    page = tab(server)
    assert page.goto(f"/w/{workspace}/").status == 502
    expect(page.get_by_role("heading", level=1)).to_have_text("This workspace is archived")
    page.get_by_role("button", name="Restore and open").click()
    expect(page).to_have_url(server.at(workspace))
    Ide(page).ready()


def test_the_limit_page_makes_room(start, tab):
    server = start(LIMITS_MAX_RUNNING_PER_USER=1)
    workspace, busy = server.api.create("waiting", until="STANDBY"), server.api.create("busy")
    page = tab(server)
    assert page.goto(f"/w/{workspace}/").status == 502
    expect(page.get_by_role("heading", level=1)).to_have_text("Too many workspaces are running")
    follow(page, page.get_by_role("button", name="Stop: busy"))
    # By way of a page that leads back: to the same page while the other one still ends, or into the workspace.
    expect(page).to_have_url(re.compile(rf"/open/{workspace}$|://{workspace}\."))
    page.wait_for_load_state()
    server.api.wait(busy, "STANDBY")
    page.goto(f"/w/{workspace}/")
    Ide(page).ready()


def test_a_broken_workspace_says_so_and_recovers(server, tab):
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

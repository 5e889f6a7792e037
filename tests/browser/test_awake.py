"""Why a workspace is awake, the word before it sleeps, "not yet", and why it stopped: on its own page."""

import re

import pytest
from playwright.sync_api import expect

from dashboard import phase, press


@pytest.fixture(scope="module")
def server(start):
    """One on which sleep is always near enough to be announced."""
    return start(
        TTL_STANDBY_SECONDS=110, COORDINATOR_TTL_INTERVAL="1s", ACTIVITY_FLUSH_INTERVAL="1s", LIMITS_MAX_RUNNING_PER_USER=0,
    )


def visit(page, server, name):
    """A workspace somebody has just been in, and its page."""
    workspace = server.api.create(name)
    page.goto(f"/w/{workspace}/")
    page.goto(f"/workspaces/{workspace}")
    return workspace


@pytest.mark.parametrize("script", [True, False])
def test_not_yet_and_let_it_sleep(server, tab, shots, script):
    page = tab(server, java_script_enabled=script)
    visit(page, server, f"awake {script}")
    because = page.get_by_test_id("active-because")
    expect(because).to_have_attribute("data-kind", re.compile("http|connection|browser_message|workspace_message"))
    expect(page.get_by_test_id("countdown")).to_contain_text("Goes to sleep in")
    expect(page.get_by_test_id("sleep-soon")).to_contain_text("About to go to sleep")
    if shots:
        page.screenshot(path=shots / f"awake-{script}.png", full_page=True)

    press(page, "snooze-banner")
    expect(page.get_by_test_id("lease")).to_have_count(1)
    expect(page.get_by_test_id("sleep-soon")).to_have_count(0)
    expect(because).to_have_attribute("data-kind", "hold")
    if shots:
        page.screenshot(path=shots / f"snoozed-{script}.png", full_page=True)

    press(page, "release")
    expect(page.get_by_test_id("lease")).to_have_count(0)
    expect(page.get_by_test_id("sleep-soon")).to_be_visible()


def test_what_stopped_says_why(server, tab):
    page = tab(server)
    visit(page, server, "stopped")
    press(page, "stop")
    phase(page, "STANDBY")
    expect(page.get_by_test_id("stopped-because")).to_contain_text("Stop requested")
    expect(page.get_by_test_id("active-because")).to_have_count(0)


def test_in_korean(server, tab, shots):
    page = tab(server, lang="ko")
    visit(page, server, "korean")
    expect(page.get_by_test_id("sleep-soon")).to_contain_text("곧 대기 상태로 전환됩니다")
    press(page, "snooze")
    expect(page.get_by_test_id("lease")).to_contain_text("1시간 연장")
    if shots:
        page.screenshot(path=shots / "awake-ko.png", full_page=True)

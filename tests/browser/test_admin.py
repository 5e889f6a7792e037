"""What administrators see: everybody's workspaces, the last day in charts, what clean-up would delete, and people's roles."""

import pytest
from playwright.sync_api import expect

from codehub import PASSWORD, Api
from dashboard import follow, press


@pytest.fixture(scope="module")
def busy(start):
    server = start(LIMITS_MAX_RUNNING_PER_USER=0)
    for name in ("bora", "areum"):
        server.api.call("POST", "/users", {"username": name, "password": PASSWORD, "role": "user"})
        mine = Api(server.url, name, PASSWORD)
        kept = mine.create(f"of {name}", until="ARCHIVED")
        mine.act(kept, "start", "RUNNING")
        mine.act(kept, "stop", "STANDBY")
        gone = mine.create(f"left by {name}", until="ARCHIVED")
        mine.delete(gone)
    return server


@pytest.mark.parametrize("size", ["desktop", "phone"])
@pytest.mark.parametrize("lang", ["en", "ko"])
def test_the_last_day_and_what_clean_up_would_delete(busy, tab, shots, size, lang):
    page = tab(busy, size=size, lang=lang)
    page.goto("/system")
    expect(page.get_by_test_id("chart-starts").locator("strong")).to_have_text("2")
    expect(page.get_by_test_id("chart-failures").locator("strong")).to_have_text("0")
    expect(page.get_by_test_id("chart-latency").locator("strong")).not_to_have_text("–")
    expect(page.get_by_test_id("chart-starts").locator("rect")).to_have_count(24)
    if shots:
        page.screenshot(path=shots / f"system-busy-{size}-{lang}.png", full_page=True)
    press(page, "to-cleanup")
    expect(page.get_by_test_id("cleanup-now")).to_have_text("0")
    items = page.get_by_test_id("cleanup-item")
    expect(items.filter(has_text="left by bora").first).to_be_visible()
    expect(items.filter(has_text="of areum")).to_have_count(0)
    if shots:
        page.screenshot(path=shots / f"cleanup-busy-{size}-{lang}.png", full_page=True)


def test_everybodys_workspaces_by_owner(busy, tab):
    page = tab(busy)
    page.goto("/?all=true")
    page.get_by_test_id("sort").select_option("owner")
    page.wait_for_url("**/?*sort=owner*")
    expect(page.get_by_test_id("workspace-name")).to_have_text(["of areum", "of bora"])
    follow(page, page.get_by_test_id("mine"))
    assert "sort" not in page.url, "one's own have one owner"


def test_a_role_is_changed_and_written_down(busy, tab):
    page = tab(busy)
    page.goto("/users")
    page.locator("[data-testid=user][data-name=bora]").get_by_role("link").click()
    page.get_by_test_id("role-form").locator("select").select_option("admin")
    press(page, "save-role")
    expect(page.get_by_test_id("flash")).to_have_text("User updated.")
    written = busy.api.call("GET", "/audit?action=user.edited")["items"]
    assert "admin" in str(written[0]), written[0]

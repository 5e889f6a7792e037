"""A workspace's page: one line for each act, a picture of the last days, checks folded away, live logs; help and the API."""

import re
import time

import pytest
from playwright.sync_api import expect

from codehub import wait_for
from dashboard import phase, press

ARROWS = re.compile("[←-⇿➔-➾⟵-⟿]")


@pytest.fixture(scope="module")
def lived(start):
    server = start(LIMITS_MAX_RUNNING_PER_USER=0)
    id = server.lived = server.api.create("lived in")
    for verb, there in [("stop", "STANDBY"), ("archive", "ARCHIVED"), ("start", "RUNNING")] * 4:
        server.api.act(id, verb, there)
    # The picture names no phase that lasted less than a second.
    started = time.monotonic()
    wait_for(lambda: time.monotonic() > started + 1.5, "to have run for a while")
    return server


# Whole seconds from ten on.
SAID = {
    "en": [r"Restored and started by admin · \d+(\.\d)? s", r"Archived by admin · [\d.]+ [kM]?B · \d+(\.\d)? s", r"Stopped by admin · \d+(\.\d)? s"],
    "ko": [r"admin 님이 복원하고 시작함 · \d+(\.\d)?초", r"admin 님이 보관함 · [\d.]+ [kM]?B · \d+(\.\d)?초", r"admin 님이 중지함 · \d+(\.\d)?초"],
}


@pytest.mark.parametrize("size", ["desktop", "phone"])
@pytest.mark.parametrize("lang", ["en", "ko"])
def test_one_line_for_each_act_and_a_picture(lived, tab, shots, size, lang):
    page = tab(lived, size=size, lang=lang)
    page.goto(f"/workspaces/{lived.lived}")
    lines = page.get_by_test_id("history-entry")
    expect(lines).to_have_count(8)
    for line, said in zip(lines.all()[:3], SAID[lang]):
        expect(line.locator("summary")).to_have_text(re.compile(said))
    lines.first.locator("summary").click()
    expect(lines.first.locator(".steps li").first).to_be_visible()
    expect(page.get_by_test_id("phases").locator("rect[data-phase=ARCHIVED]").first).to_be_attached()
    named = page.get_by_test_id("phases").get_by_role("img").get_attribute("aria-label")
    assert ("Running" if lang == "en" else "실행 중") in named
    expect(page.get_by_test_id("conditions")).not_to_have_attribute("open", "")
    expect(page.get_by_test_id("countdown")).to_have_count(1)
    assert not ARROWS.search(page.locator("body").inner_text())
    if shots:
        page.screenshot(path=shots / f"detail-lived-{size}-{lang}.png", full_page=True)
    press(page, "older")
    expect(page.get_by_test_id("history-entry")).to_have_count(13)
    expect(page.get_by_test_id("history-entry").last).to_contain_text("Created and started" if lang == "en" else "만들고 시작함")


def test_logs_are_live_without_asking(lived, tab):
    page = tab(lived)
    page.goto(f"/workspaces/{lived.lived}")
    expect(page.get_by_test_id("follow")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_test_id("log")).to_contain_text("the IDE listens")
    press(page, "follow")
    expect(page.get_by_test_id("follow")).to_have_attribute("aria-pressed", "false")


def test_what_is_open_stays_open_when_something_happens(lived, tab):
    page = tab(lived)
    page.goto(f"/workspaces/{lived.lived}")
    page.get_by_test_id("conditions").locator("summary").click()
    press(page, "stop")
    phase(page, "STANDBY")
    expect(page.get_by_test_id("condition").first).to_be_visible()
    lived.api.act(lived.lived, "start", "RUNNING")


@pytest.mark.parametrize("address", ["/", "/tokens", "/users", "/system", "/account", "/nowhere", "/workspaces/new", "/login"])
def test_help_and_the_reference_are_linked_from_every_page(server, tab, address):
    page = tab(server, user=None) if address == "/login" else tab(server)
    page.goto(address)
    expect(page.get_by_test_id("api-docs")).to_be_visible()
    press(page, "help")
    expect(page.get_by_test_id("help-page")).to_contain_text("10 minutes")


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_the_reference_tries_requests(server, tab, shots, size):
    page = tab(server, size=size)
    # What the address names is unfolded, as soon as it is there.
    page.goto("/api/docs#get/api/v1/workspaces")
    listed = page.locator("[id='get/api/v1/workspaces'][open]")
    listed.locator("input[name=limit]").fill("1")
    listed.get_by_role("button", name="Send request").click()
    expect(listed.locator(".try pre")).to_contain_text(re.compile(r"200 OK[\s\S]*\"items\""))
    if shots:
        page.screenshot(path=shots / f"api-try-{size}.png")

"""Hands on the built-in IDE keep a workspace awake, a tab that nobody touches does not, and sleep is announced."""

import re
import time

import pytest
from playwright.sync_api import expect

from codehub import PATIENCE, Wire, wait_for
from ide import Ide

TTL = 8
# What the server waits for activity it may not have seen: one flush and one round.
SLACK = 2


@pytest.fixture(scope="module")
def server(start):
    return start(
        TTL_STANDBY_SECONDS=TTL, TTL_ARCHIVE_SECONDS=0, COORDINATOR_TTL_INTERVAL="1s", ACTIVITY_FLUSH_INTERVAL="1s",
        LIMITS_MAX_RUNNING_PER_USER=0,
    )


def opened(server, page, name, **fields):
    """A workspace with a long file, which is open."""
    workspace = server.api.create(name, **fields)
    ide = Ide(page).open(workspace)
    ide.run("seq 1 500 > numbers.txt")
    ide.edit("numbers.txt")
    expect(ide.editor).to_have_value(re.compile("500"))
    return workspace, ide


def frames_sent(page):
    """What the page says on its WebSocket from now on."""
    said = []
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.webSocketFrameSent", lambda frame: said.append(frame["response"]["payloadData"]))
    return said


def awake(server, workspace):
    now = server.api.get(workspace)
    return (now["phase"], now["desired_state"]) == ("RUNNING", "RUNNING")


def test_typing_scrolling_and_clicking_without_saving_keep_it_awake(server, tab):
    def types(ide):
        ide.editor.focus()
        ide.page.keyboard.type("x")

    def scrolls(ide):
        ide.editor.hover()
        ide.page.mouse.wheel(0, 40)

    def clicks(ide):
        ide.editor.click()

    # None sleeps while the others are opened, which takes a busy machine longer than the TTL, nor until its page has said
    # that somebody is there, which it does twice in a TTL.
    hands, last = {}, {}
    for act in (types, scrolls, clicks):
        workspace, ide = opened(server, tab(server, strict=False), act.__name__, standby_ttl_seconds=600)
        server.api.call("POST", f"/workspaces/{workspace}/snooze")
        server.api.call("PATCH", f"/workspaces/{workspace}", {"standby_ttl_seconds": TTL})
        hands[workspace] = (act, ide, frames_sent(ide.page))

    def work(seconds):
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            for workspace, (act, ide, _) in hands.items():
                last[workspace] = time.monotonic()
                act(ide)
                ide.page.wait_for_timeout(100)
            for workspace, (act, *_) in hands.items():
                assert awake(server, workspace), f"asleep while somebody {act.__name__}"

    began = time.monotonic()
    work(TTL / 2 + 1)
    for workspace in hands:
        server.api.call("DELETE", f"/workspaces/{workspace}/keepalive")
    work(3 * TTL)
    stopped = time.monotonic()
    for workspace, (act, ide, said) in hands.items():
        told = [frame for frame in said if "active" in frame]
        # What is open is watched from when the tree has been drawn, which may be a moment after the file is; and who gets
        # no answer for a while asks whether somebody is there.
        rest = [frame for frame in said if "active" not in frame and '"watch"' not in frame and '"probe"' not in frame]
        assert rest == [], "nothing else is said, and nothing is saved"
        assert 0 < len(told) <= (stopped - began) / (TTL / 2) + 2, f"{act.__name__}: {len(told)} messages"
    # A little later the last of it is told; from then on the TTL counts.
    slept = {}
    while len(slept) < len(hands):
        for workspace in hands:
            if workspace not in slept and not awake(server, workspace):
                slept[workspace] = time.monotonic() - last[workspace]
        assert time.monotonic() - stopped < TTL / 2 + TTL + SLACK + PATIENCE, "it sleeps when nobody works"
        hands[workspace][1].page.wait_for_timeout(100)
    print("slept after", [f"{after:.1f} s" for after in slept.values()])
    assert min(slept.values()) > TTL - 1, "not sooner after the last key than the TTL says"


def test_an_untouched_tab_is_warned_and_sends_nothing_until_it_sleeps(server, tab):
    wire = Wire(server)
    page = tab(wire, strict=False)
    workspace, ide = opened(server, page, "untouched", standby_ttl_seconds=20)
    banner = page.get_by_test_id("connection-banner")

    # The last of what hands did is told within half the TTL.
    since, before = time.monotonic(), wire.sent
    while time.monotonic() - since < 11:
        page.wait_for_timeout(100)
        if wire.sent != before:
            since, before = time.monotonic(), wire.sent
    assert awake(server, workspace)
    warned = False
    while True:
        sent = wire.sent
        if not awake(server, workspace):
            break
        assert sent == before, f"{sent - before} bytes were sent by a tab that nobody touches"
        warned = warned or banner.get_attribute("data-shows") == "warning" and banner.is_visible()
        page.wait_for_timeout(100)
    assert warned
    expect(banner).to_contain_text("asleep")
    wire.close()


# A warning comes when half of the TTL is over.
WARNED = 30


@pytest.fixture(scope="module")
def patient(start):
    """With a warning that lasts long enough to look at it, also for a busy machine."""
    return start(TTL_STANDBY_SECONDS=2 * WARNED, COORDINATOR_TTL_INTERVAL="1s", ACTIVITY_FLUSH_INTERVAL="1s", LIMITS_MAX_RUNNING_PER_USER=0)


SECONDS = re.compile(r"(\d+)")


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_one_countdown_everywhere_and_keep_awake(patient, tab, shots, lang):
    page = tab(patient, lang=lang)
    workspace, ide = opened(patient, page, f"countdown {lang}")
    listed, detail = tab(patient, lang=lang), tab(patient, lang=lang)
    banner = page.get_by_test_id("connection-banner")
    # There, before the seconds of the warning count.
    listed.goto("/")
    detail.goto(f"/workspaces/{workspace}")
    expect(banner).to_have_attribute("data-shows", "warning", timeout=90_000)
    row = listed.locator(f"[id='ws-{workspace}']").get_by_test_id("countdown")

    def number(element):
        return int(SECONDS.search(element.inner_text()).group(1))

    def agree():
        numbers = [number(banner.get_by_test_id("banner-text")), number(row), number(detail.get_by_test_id("countdown"))]
        # A second may pass while they are read.
        return numbers if max(numbers) - min(numbers) <= 1 else None

    # The dashboard's pages ask every five seconds.
    numbers = wait_for(agree, "the countdowns to agree")
    print("seconds left:", numbers)
    assert max(numbers) <= WARNED + 2
    expect(banner).to_contain_text("goes to sleep in" if lang == "en" else "대기 상태로 전환됩니다")
    if shots:
        page.screenshot(path=shots / f"ide-warning-{lang}.png")

    page.get_by_test_id("keep-awake").click()
    expect(banner).to_be_hidden()
    wait_for(lambda: patient.api.get(workspace)["held_until"], "the lease")
    # Giving it back brings the countdown back, with nothing asked by the page.
    patient.api.call("DELETE", f"/workspaces/{workspace}/keepalive")
    expect(banner).to_have_attribute("data-shows", "warning", timeout=90_000)
    expect(banner).to_be_visible(timeout=90_000)
    # Any key resets the timer.
    ide.editor.press("ArrowDown")
    expect(banner).to_be_hidden()


def test_the_position_follows_find(server, tab):
    page = tab(server)
    _, ide = opened(server, page, "find", standby_ttl_seconds=600)
    ide.editor.press("Control+f")
    page.keyboard.type("321")
    expect(page.get_by_test_id("position")).to_have_text("Ln 321, Col 4")
    page.get_by_test_id("find-input").fill("12")
    expect(page.get_by_test_id("position")).to_have_text("Ln 412, Col 4")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("position")).to_have_text("Ln 12, Col 3")


def test_a_reload_brings_back_the_terminal_that_was_in_front(server, tab):
    page = tab(server)
    workspace = server.api.create("terminals", standby_ttl_seconds=600)
    ide = Ide(page).open(workspace)
    tabs = page.get_by_test_id("term-tab")
    for _ in range(2):
        ide.open_terminal()
    tabs.nth(1).click()
    expect(tabs.nth(1)).to_have_attribute("aria-selected", "true")
    page.reload()
    expect(tabs).to_have_count(3)
    expect(tabs.nth(1)).to_have_attribute("aria-selected", "true")

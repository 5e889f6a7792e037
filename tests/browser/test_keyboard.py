"""Without a mouse."""

import re

from playwright.sync_api import expect

from codehub import ADMIN, PASSWORD
from dashboard import phase


def focused(page):
    return page.evaluate("document.activeElement.dataset.testid ?? document.activeElement.textContent.trim()")


def tab_until(page, testid, most=40):
    for _ in range(most):
        page.keyboard.press("Tab")
        if focused(page) == testid:
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", f"{testid} does not show that it has the focus"
            return
    raise AssertionError(f"{testid} is not reached by Tab")


def test_a_workspace_by_keyboard_alone(server, tab):
    page = tab(server, user=None)
    page.goto("/login")
    expect(page.locator("input[name=username]")).to_be_focused()
    page.keyboard.type(ADMIN)
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("new-workspace")).to_be_visible()
    page.wait_for_load_state()  # dialogs are the script's

    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    expect(page.locator(".skip")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()

    tab_until(page, "new-workspace")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("dialog").get_by_test_id("field-name")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("new-workspace")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("dialog").get_by_test_id("field-name")).to_be_focused()
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    phase(page, "RUNNING")
    page.wait_for_load_state()
    for testid in ("open", "stop", "archive", "edit"):
        tab_until(page, testid)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    tab_until(page, "delete")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("dialog").get_by_test_id("confirm")).to_be_visible()
    tab_until(page, "confirm-yes", 5)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/$"))


def test_the_menu_opens_and_closes_by_keyboard(server, tab):
    page = tab(server)
    page.goto("/")
    page.locator("details.menu summary").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("sign-out")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("sign-out")).to_be_hidden()
    expect(page.locator("details.menu summary")).to_be_focused()

"""The dashboard, as somebody with a mouse uses it."""

import re

from playwright.sync_api import expect


def fill(page, **fields):
    for name, value in fields.items():
        page.get_by_test_id(f"field-{name}").fill(value)


def phase(page, name, operation="NONE"):
    """The one workspace that a detail page shows has come to rest in a phase."""
    expect(page.get_by_test_id("detail")).to_have_attribute("data-phase", name)
    expect(page.get_by_test_id("detail")).to_have_attribute("data-operation", operation)


def press(page, testid):
    """Clicks it; where it stands in a menu, after opening that."""
    button = page.get_by_test_id(testid).first
    menu = page.locator("details.acts:not([open])").filter(has=page.get_by_test_id(testid)).first.locator("summary")
    # Which of the two it is, a page that is still arriving does not know.
    expect(button.locator("visible=true").or_(menu).first).to_be_visible()
    if not button.is_visible():
        menu.click()
    button.click()


def follow(page, link):
    """Clicks what leads to another page, and waits until all of that is there."""
    with page.expect_navigation():
        link.click()


def sign_in(page, username, password):
    """Until what it leads to is there: the form is sent a moment after the click, and would be lost to who goes on at once."""
    fill(page, username=username, password=password)
    follow(page, page.get_by_test_id("sign-in"))


def workspace_id(page):
    return re.search(r"/workspaces/([0-9a-f-]{36})", page.url).group(1)

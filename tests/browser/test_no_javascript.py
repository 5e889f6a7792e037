"""Everything by forms and reloads, in a browser that runs no scripts."""

import re

from playwright.sync_api import expect

from codehub import ADMIN, PASSWORD, wait_for
from dashboard import fill, press, sign_in


def settle(page, phase):
    """Looks again, as the page asks browsers to, until the workspace has come to rest."""

    def look():
        page.reload()
        detail = page.get_by_test_id("detail")
        return (detail.get_attribute("data-phase"), detail.get_attribute("data-operation")) == (phase, "NONE")

    wait_for(look, f"the page to say {phase}")


def test_the_whole_life_by_forms(start, tab):
    server = start(admin=False)
    page = tab(server, user=None, java_script_enabled=False)
    page.goto(server.link)
    fill(page, username=ADMIN, password=PASSWORD, password_again=PASSWORD)
    press(page, "setup-go")
    expect(page).to_have_url(re.compile("/workspaces/new$"))

    page.locator("details.menu summary").click()
    press(page, "sign-out")
    sign_in(page, ADMIN, PASSWORD)
    press(page, "first-workspace")
    expect(page).to_have_url(re.compile("/workspaces/new$"))
    fill(page, name="by hand")
    press(page, "create")
    expect(page.get_by_test_id("flash")).to_be_visible()
    settle(page, "RUNNING")
    for button, phase in (("stop", "STANDBY"), ("archive", "ARCHIVED"), ("start", "RUNNING")):
        press(page, button)
        expect(page.get_by_test_id("flash")).to_be_visible()
        settle(page, phase)

    press(page, "edit")
    fill(page, name="renamed", memo="a note")
    press(page, "save")
    expect(page.get_by_role("heading", level=1)).to_have_text("renamed")
    expect(page.get_by_test_id("memo")).to_have_text("a note")

    press(page, "delete")
    press(page, "confirm-no")
    expect(page.get_by_test_id("detail")).to_be_visible()
    press(page, "delete")
    press(page, "confirm-yes")
    expect(page.get_by_test_id("flash")).to_be_visible()

    def gone():
        page.goto("/")
        return page.get_by_test_id("empty").count()

    wait_for(gone, "the workspace to be gone")


def test_the_list_refreshes_itself_while_something_happens(server, tab):
    page = tab(server, java_script_enabled=False)
    page.goto("/workspaces/new")
    fill(page, name="watched")
    press(page, "create")
    expect(page.get_by_test_id("flash")).to_be_visible()
    page.goto("/")
    row = page.locator("[data-testid=workspace][data-name=watched]")
    expect(row).to_have_attribute("data-phase", "RUNNING")
    server.api.delete(row.get_attribute('data-id'))


def test_language_and_theme_are_buttons(server, tab):
    # Somebody of their own: what is chosen is kept with the account.
    person = {"username": "chooser", "password": PASSWORD, "role": "user"}
    server.api.call("POST", "/users", person)
    page = tab(server, java_script_enabled=False, user=("chooser", PASSWORD))
    page.goto("/")
    page.locator("details.menu summary").click()
    press(page, "lang-ko")
    expect(page.locator("html")).to_have_attribute("lang", "ko")
    page.locator("details.menu summary").click()
    press(page, "theme-dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_an_archived_workspace_is_opened_by_a_form(server, tab):
    id = server.api.create("kept", until="ARCHIVED")
    page = tab(server, java_script_enabled=False)
    page.goto(f"/w/{id}/")
    page.get_by_role("button", name="Restore and open").click()
    # The loading page, if any, reloads itself until the IDE is there.
    expect(page.locator("#workbench")).to_be_attached()
    server.api.delete(id)

"""From the printed link to a file that outlives stop and archive: what a newcomer does."""

import re

from playwright.sync_api import expect

from codehub import ADMIN, PASSWORD
from dashboard import fill, phase, press, sign_in, workspace_id
from ide import Ide


def test_from_the_printed_link_to_a_restored_file(start, tab):
    server = start(admin=False)
    page = tab(server, user=None)

    page.goto(server.link)
    expect(page.get_by_test_id("process-mode")).to_be_visible()
    fill(page, username=ADMIN, password=PASSWORD, password_again=PASSWORD)
    press(page, "setup-go")

    expect(page).to_have_url(re.compile("/workspaces/new$"))
    expect(page.get_by_test_id("flash")).to_be_visible()
    fill(page, name="first")
    press(page, "create")
    phase(page, "RUNNING")
    id = workspace_id(page)

    press(page, "open")
    ide = Ide(page).ready()
    expect(page.get_by_test_id("workspace-name")).to_have_text("first")
    ide.run("echo hello > note.txt")
    expect(ide.file("note.txt")).to_be_visible()
    ide.edit("note.txt")
    expect(ide.editor).to_have_value("hello\n")
    ide.editor.focus()
    page.keyboard.press("Control+End")
    page.keyboard.type("and more")
    ide.save()
    ide.run("cat note.txt")
    ide.sees("and more")

    page.get_by_test_id("brand").click()
    page.get_by_test_id("workspaces").get_by_role("link", name="first", exact=True).click()
    press(page, "stop")
    phase(page, "STANDBY")
    press(page, "archive")
    phase(page, "ARCHIVED")
    assert not (server.data / "homes" / id).exists(), "an archived home is not kept twice"
    press(page, "start")
    phase(page, "RUNNING")
    press(page, "open")
    ide.ready()
    ide.edit("note.txt")
    expect(ide.editor).to_have_value("hello\nand more")


def test_the_link_works_once_and_passwords_matter(start, tab):
    server = start(admin=False)
    page = tab(server, user=None)

    page.goto(f"{server.url}/setup?token=guessed")
    fill(page, username=ADMIN, password=PASSWORD, password_again=PASSWORD)
    press(page, "setup-go")
    expect(page.get_by_test_id("setup-error")).to_be_visible()

    page.goto(server.link)
    fill(page, username=ADMIN, password=PASSWORD, password_again=PASSWORD + "!")
    press(page, "setup-go")
    expect(page.get_by_test_id("field-error")).to_be_visible()
    fill(page, password=PASSWORD, password_again=PASSWORD)
    press(page, "setup-go")
    expect(page).to_have_url(re.compile("/workspaces/new$"))

    page.get_by_test_id("account-menu").locator("summary").click()
    press(page, "sign-out")
    expect(page.get_by_test_id("login-form")).to_be_visible()
    page.goto(server.link)
    expect(page, "the link is spent").to_have_url(re.compile("/login"))

    sign_in(page, ADMIN, "not the password")
    expect(page.get_by_test_id("login-error")).to_be_visible()
    expect(page.get_by_test_id("field-username")).to_have_value(ADMIN)
    sign_in(page, ADMIN, PASSWORD)
    expect(page.get_by_test_id("empty")).to_be_visible()

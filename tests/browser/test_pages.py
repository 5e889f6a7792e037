"""Every page in every look: nothing on the console, nothing too wide, everything has a name."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

import gallery
from codehub import wait_for
from ide import Ide

CHECKS = (Path(__file__).parent / "checks.js").read_text()
LOOKS = [(dark, size, lang) for lang in ("en", "ko") for size in ("desktop", "phone") for dark in (False, True)]


@pytest.fixture(scope="module")
def place(start):
    # An hour, in which whoever looks at all of it is done: what runs still does, and is in the way of what does not.
    return gallery.make(start, TTL_STANDBY_SECONDS=3600)


@pytest.fixture(scope="module")
def stuck(start):
    """One whose workspaces never finish starting, nor give up."""
    server = start(
        IDE="command", IDE_COMMAND="sleep 10000", PROXY_WAKE_HOLD="1s", LIMITS_MAX_RUNNING_PER_USER=0, OPERATION_START_TIMEOUT="1h",
    )
    server.starting = server.api.call("POST", "/workspaces", {"name": "slow-starter"})["id"]
    wait_for(lambda: server.api.get(server.starting)["operation"] == "STARTING", "a start")
    return server


@pytest.fixture(scope="module")
def long_name(start):
    """One whose only workspace has the longest name there can be, and a word as long as that."""
    server = start()
    server.workspace = server.api.create("x" * 255, until="STANDBY", description="y" * 500, memo="z" * 5000)
    return server


class Look:
    """Visits pages one after the other, and remembers what is wrong with them."""

    def __init__(self, page, lang, shots, suffix):
        self.page, self.lang, self.shots, self.suffix = page, lang, shots, suffix
        self.wrong = []

    def visit(self, name, address, ready="main"):
        self.page.goto(address)
        self.check(name, ready)

    def check(self, name, ready="main"):
        self.page.locator(ready).first.wait_for()
        self.page.wait_for_load_state()
        lang = self.page.locator("html").get_attribute("lang")
        found = self.page.evaluate(CHECKS) + ([] if lang == self.lang else [f"is in {lang}"])
        self.wrong += [f"{name} {problem}" for problem in found]
        self.picture(name, full_page=True)

    def picture(self, name, **options):
        if self.shots:
            self.page.screenshot(path=self.shots / f"{name}-{self.suffix}.png", **options)


@pytest.fixture
def look(tab, shots):
    def make(server, dark, size, lang, user=None):
        page = tab(server, dark=dark, size=size, lang=lang, **({"user": user} if user != "admin" else {}))
        suffix = f"{size}-{'dark' if dark else 'light'}-{lang}"
        return Look(page, lang, shots, suffix)

    return make


def label(value):
    return {True: "dark", False: "light"}.get(value, value)


@pytest.mark.parametrize(("dark", "size", "lang"), LOOKS, ids=label)
def test_the_dashboard(place, look, dark, size, lang):
    at = look(place.server, dark, size, lang, user="admin")
    at.visit("list", "/", "[data-testid=workspace]")
    at.visit("list-no-match", "/?q=nothing-is-called-so", "[data-testid=no-match]")
    at.visit("new", "/workspaces/new")
    at.page.locator("details summary").last.click()
    at.check("new-advanced", "[data-testid=field-standby_ttl]")
    for name in ("running", "standby", "archived", "broken"):
        at.visit(f"detail-{name}", f"/workspaces/{getattr(place, name)}", "[data-testid=detail]")
    at.visit("edit", f"/workspaces/{place.running}/edit")
    at.visit("delete", f"/workspaces/{place.running}/delete")
    at.visit("logs", f"/workspaces/{place.running}/logs")
    archives(at, place)
    at.visit("history", f"/workspaces/{place.broken}/history", "[data-testid=history-entry]")
    at.page.get_by_test_id("history-entry").first.locator("summary").click()
    at.check("history-open")
    at.visit("help", "/help", "[data-testid=help-page]")
    at.visit("users", "/users")
    at.visit("tokens", "/tokens")
    at.visit("account", "/account")
    at.visit("system", "/system", "[data-testid=charts]")
    at.visit("cleanup", "/system/cleanup", "[data-testid=cleanup]")
    at.visit("not-found", "/nowhere")
    at.visit("list-everybody", "/?all=true", "[data-testid=workspace]")
    at.page.locator("details.menu summary").click()
    at.check("menu")
    at.page.keyboard.press("Escape")
    at.page.get_by_test_id("pick").first.check()
    at.page.get_by_test_id("more").first.locator("summary").click()
    at.check("list-menu")
    at.page.get_by_test_id("delete").first.click()
    at.page.get_by_test_id("dialog").get_by_test_id("confirm").wait_for()
    at.picture("dialog")
    assert at.wrong == []


def archives(at, place):
    for name in ("archived", "broken"):
        at.visit(f"archives-{name}", f"/workspaces/{getattr(place, name)}/archives", "[data-testid=archive]")
    restore = at.page.get_by_test_id("go-back").get_attribute("href")
    at.visit("archive-restore", restore, "[data-testid=confirm]")
    at.page.goto(f"/workspaces/{place.archived}/archives")
    copy = at.page.get_by_test_id("fork").get_attribute("href")
    files = at.page.get_by_test_id("browse").get_attribute("href")
    at.visit("archive-files", files, "[data-testid=files]")
    at.visit("archive-directory", f"{files}?path=src", "[data-testid=files]")
    at.visit("new-from-archive", copy, "[data-testid=source]")


@pytest.mark.parametrize(("dark", "size", "lang"), LOOKS, ids=label)
def test_the_doors(start, place, look, dark, size, lang):
    """What is seen by somebody who is not signed in."""
    at = look(place.server, dark, size, lang)
    at.visit("login", "/login")
    if dark == (size == "phone"):  # not in every look: wrong passwords are counted
        at.page.get_by_test_id("field-username").fill("jisoo")
        at.page.get_by_test_id("field-password").fill("not the password")
        at.page.get_by_test_id("sign-in").click()
        at.check("login-wrong", "[data-testid=login-error]")
    fresh = fresh_server(start)
    at.visit("setup", fresh.link)
    at.visit("not-set-up", f"{fresh.url}/login")
    assert at.wrong == []


def fresh_server(start, made=[]):
    """One that nobody has set up."""
    if not made:
        made.append(start(admin=False))
    return made[0]


@pytest.mark.parametrize(("dark", "size", "lang"), LOOKS, ids=label)
def test_an_empty_list(place, look, dark, size, lang):
    at = look(place.server, dark, size, lang, user=("minho", gallery.PASSWORD))
    at.visit("empty", "/", "[data-testid=empty]")
    at.visit("not-yours", f"/w/{place.running}/")
    assert at.wrong == []


@pytest.mark.parametrize(("dark", "size", "lang"), LOOKS, ids=label)
def test_names_of_any_length(long_name, look, dark, size, lang):
    at = look(long_name, dark, size, lang, user="admin")
    at.visit("long-list", "/", "[data-testid=workspace]")
    for name, path in [("detail", ""), ("edit", "/edit"), ("delete", "/delete"), ("logs", "/logs"), ("archives", "/archives")]:
        at.visit(f"long-{name}", f"/workspaces/{long_name.workspace}{path}")
    assert at.wrong == []


@pytest.mark.parametrize(("dark", "size", "lang"), [look for look in LOOKS if look[2] == "en"], ids=label)
def test_the_pages_about_the_api(place, look, dark, size, lang):
    at = look(place.server, dark, size, lang)
    at.visit("api", "/api/docs", "main details")
    for part in ("summary:has-text('Create a workspace')", "#schema-Workspace > summary"):
        at.page.locator(part).first.click()
    at.check("api-open", "main details[open]")
    assert at.wrong == []


@pytest.mark.parametrize(("dark", "size", "lang"), LOOKS, ids=label)
def test_the_pages_of_the_proxy(place, stuck, look, dark, size, lang):
    at = look(place.server, dark, size, lang, user="admin")
    at.visit("proxy-archived", f"/w/{place.archived}/")
    at.visit("proxy-limit", f"/w/{place.standby}/", "main .running")
    at.visit("proxy-broken", f"/w/{place.broken}/")
    at.visit("proxy-not-found", f"/w/{gallery.NOWHERE}/")
    waiting = look(stuck, dark, size, lang, user="admin")
    waiting.visit("proxy-loading", f"/w/{stuck.starting}/", "main .spinner")
    assert at.wrong + waiting.wrong == []


@pytest.mark.parametrize(("dark", "size", "lang"), LOOKS, ids=label)
def test_the_ide(place, look, dark, size, lang):
    at = look(place.server, dark, size, lang, user="admin")
    page = at.page
    page.goto("/")
    gallery.put_files(page, place.running)
    page.goto(f"/w/{place.running}/")
    ide = Ide(page)
    expect(ide.file("notes.txt")).to_be_visible()
    at.check("ide")
    ide.edit("notes.txt")
    at.check("ide-editor")
    if size == "phone":
        page.get_by_test_id("view-terminal").click()
        ide.ready()
        at.check("ide-terminal")
    assert at.wrong == []

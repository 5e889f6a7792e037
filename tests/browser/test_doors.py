"""Doors: planted cookies heal instead of locking a person out, and a person who was locked out signs in."""

import re
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from codehub import ADMIN, PASSWORD
from conftest import CHROMIUM, FLAGS
from dashboard import sign_in


def sessions(page):
    return [one for one in page.context.cookies() if one["name"] == "session"]


def heals(page, path):
    """Opening the page leads to the sign-in page, which says why; after it one is where one wanted to be."""
    page.goto(path)
    expect(page).to_have_url(re.compile("/login"))
    expect(page.get_by_test_id("login-error")).to_contain_text("second session cookie")
    assert sessions(page) == [], "every one of them is gone"
    sign_in(page, ADMIN, PASSWORD)
    expect(page.get_by_test_id("login-form")).to_have_count(0)
    expect(page).to_have_url(re.compile(re.escape(path) + "$"))
    assert len(sessions(page)) == 1
    page.goto(path)
    expect(page).to_have_url(re.compile(re.escape(path) + "$"))


@pytest.mark.parametrize("path, places", [
    ("/tokens", ["/tokens"]),
    ("/tokens", ["/tokens", "/tokens/"]),
    ("/account", ["/account"]),
    ("/workspaces/new", ["/workspaces", "/workspaces/", "/workspaces/new"]),
])
def test_cookies_planted_for_a_path_heal(server, tab, path, places):
    page = tab(server)
    page.goto("/")
    for place in places:
        page.evaluate("(path) => { document.cookie = `session=planted; Max-Age=31536000; path=${path}`; }", place)
    heals(page, path)


def test_a_cookie_planted_before_the_sign_in_page_heals(server, tab):
    """Both at the page and at the sign-in page: no circle, and the person gets in."""
    page = tab(server)
    page.goto("/")
    for place in ("/login", "/account"):
        page.evaluate("(path) => { document.cookie = `session=planted; Max-Age=31536000; path=${path}`; }", place)
    page.goto("/account")
    expect(page).to_have_url(re.compile("/login"))
    sign_in(page, ADMIN, PASSWORD)
    expect(page).to_have_url(re.compile("/account$"))
    page.goto("/")
    expect(page).to_have_title("Workspaces · CodeHub")


def test_a_mark_that_was_planted_does_not_stop_it(server, tab):
    page = tab(server)
    page.goto("/")
    page.evaluate("""() => {
        document.cookie = "healed=1; Max-Age=31536000; path=/";
        document.cookie = "session=planted; Max-Age=31536000; path=/tokens";
    }""")
    heals(page, "/tokens")


def test_a_workspace_path_heals(start, tab):
    server = start(PROXY_ORIGINS="path")
    id = server.api.create("planted")
    page = tab(server, strict=False)
    page.goto("/")
    page.evaluate("(id) => { document.cookie = `session=planted; path=/w/${id}/`; }", id)
    page.goto(f"/w/{id}/")
    expect(page).to_have_url(re.compile("/login"))
    expect(page.get_by_test_id("login-error")).to_contain_text("second session cookie")
    sign_in(page, ADMIN, PASSWORD)
    expect(page).to_have_url(re.compile(f"/w/{id}/$"))


def test_cookies_planted_for_the_domain_above_heal(start, browser):
    """A program at a neighbouring name of the same domain sets a cookie for both."""
    server = start(HOSTS_ALLOWED="code.doors.test, neighbour.doors.test")
    port = urlsplit(server.url).port
    names = "--host-resolver-rules=MAP *.doors.test 127.0.0.1"
    named = browser.browser_type.launch(executable_path=CHROMIUM, args=[*FLAGS, names], chromium_sandbox=False)
    page = named.new_context(base_url=f"http://code.doors.test:{port}", locale="en-US").new_page()
    page.goto("/login")
    sign_in(page, ADMIN, PASSWORD)
    expect(page).to_have_title("Workspaces · CodeHub")
    for path in ("/", "/tokens"):
        page.goto(f"http://neighbour.doors.test:{port}/login")
        page.evaluate("(path) => { document.cookie = `session=planted; domain=doors.test; path=${path}`; }", path)
    heals(page, "/tokens")
    # A name that nobody allowed is answered by nothing.
    answer = page.goto(f"http://evil.doors.test:{port}/")
    assert answer.status == 421
    named.close()


def test_somebody_who_is_guessed_at_signs_in_with_their_own_browser(start, tab):
    server = start()
    page = tab(server, user=None)
    page.goto("/login")
    sign_in(page, ADMIN, PASSWORD)
    expect(page).to_have_title("Workspaces · CodeHub")
    page.evaluate("fetch('/logout', { method: 'POST' })")

    stranger = tab(server, user=None)
    stranger.goto("/login")
    # Somebody else guesses, from the same address: whichever of this machine's the browser comes from. By turns, for the
    # first wait is half a minute and each guess takes a busy machine seconds.
    port = urlsplit(server.url).port
    for _ in range(8):
        for address in ("127.0.0.1", "[::1]"):
            form = f"username={ADMIN}&password=wrong".encode()
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(urllib.request.Request(f"http://{address}:{port}/login", form))
    sign_in(stranger, ADMIN, PASSWORD)
    said = stranger.get_by_test_id("login-error")
    expect(said).to_contain_text("Try again in")
    expect(said).to_contain_text("signed in with before")

    # One's own browser does not wait.
    page.goto("/login")
    sign_in(page, ADMIN, PASSWORD)
    expect(page).to_have_title("Workspaces · CodeHub")

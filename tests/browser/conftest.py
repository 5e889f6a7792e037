"""What the browser tests share: a browser, pages of every kind, and servers."""

import os
import shutil
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from codehub import ADMIN, PASSWORD, PATIENCE, Server

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run
    --disable-background-networking --disable-component-update --disable-sync""".split()
expect.set_options(timeout=PATIENCE * 1000)
SIZES = {"desktop": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}


# Set where everything has to be tested (`.ci/run`): what is missing then fails a test instead of skipping it.
REQUIRE = os.environ.get("CODEHUB_TEST_REQUIRE", "") not in ("", "0")

# Per test: what its pages asked for and did not get.
TROUBLES = pytest.StashKey[list]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and (troubles := item.stash.get(TROUBLES, None)):
        report.sections.append(("What did not arrive", "\n".join(troubles)))
    if REQUIRE and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"{reason}; CODEHUB_TEST_REQUIRE allows no skipped test"
    return report


@pytest.fixture(scope="session")
def browser():
    if not CHROMIUM:
        pytest.skip("no Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, chromium_sandbox=False)
        yield browser
        browser.close()


@pytest.fixture
def tab(browser, request):
    """Makes pages: `tab(server, dark=True, size="phone", lang="ko", user=(name, password))`.

    Every page complains (fails the test) about errors on its console and pages that break their own
    content security policy, unless it was made with `strict=False`.
    """
    contexts, complaints = [], []

    def make(server, *, dark=False, size="desktop", lang="en", user=(ADMIN, PASSWORD), strict=True, **options):
        context = browser.new_context(
            base_url=server.url, viewport=SIZES[size], color_scheme="dark" if dark else "light",
            locale={"en": "en-US", "ko": "ko-KR"}[lang], has_touch=size == "phone", **options,
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE * 1000)
        if user:
            name, value = server.session(*user).split("=", 1)
            context.add_cookies([{"name": name, "value": value, "url": server.url}])
        page = context.new_page()
        page.complaints = []
        follow(page, request.node.stash.setdefault(TROUBLES, []))
        if strict:
            listen(page, page.complaints)
            complaints.append(page.complaints)
        return page

    yield make
    for context in contexts:
        context.close()
    assert not any(complaints), f"the browser complained: {complaints}"


def follow(page, troubles):
    """Notes what the page asked for and did not get: shown when the test fails."""
    since = time.monotonic()
    note = lambda request, why: troubles.append(f"{time.monotonic() - since:.3f} s: {request.method} {request.url}: {why}")
    page.on("requestfailed", lambda request: note(request, request.failure))
    page.on("response", lambda answer: answer.status >= 400 and note(answer.request, answer.status))


def listen(page, complaints):
    """Collects what a page should never say."""

    def console(message):
        # Chromium itself reports answers such as 404 and 503 to a page's address this way.
        if message.type == "error" and "Failed to load resource" not in message.text:
            complaints.append(f"{page.url}: {message.text}")

    page.on("console", console)
    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))


@pytest.fixture(scope="session")
def start():
    """Starts servers; all end with the tests."""
    servers = []

    def make(**settings):
        servers.append(Server(**settings))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def server(start):
    """One with an administrator, for everything that leaves it as it was."""
    return start(LIMITS_MAX_RUNNING_PER_USER=0)


@pytest.fixture(scope="session")
def shots():
    """Where a picture of every page goes, if anybody wants to look at them."""
    directory = os.environ.get("CODEHUB_SCREENSHOTS_ALL")
    if directory:
        Path(directory).mkdir(parents=True, exist_ok=True)
    return directory and Path(directory)

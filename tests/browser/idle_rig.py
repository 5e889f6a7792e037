"""A server with short TTLs and a real IDE, and a browser to leave open in front of it."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

from playwright.sync_api import sync_playwright

REPO = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "codehub-test"
BINARY = pathlib.Path(os.environ.get("CODEHUB_BIN", REPO / "target/debug/codehub"))
TTL = 30
FLUSH = SYNC = 2
# After the TTL: JupyterLab saves up to ten seconds after the last key, which counts; then flush, sync and stop,
# on a busy machine.
SLACK = 40
# For workspaces that are prepared one after the other, which takes a busy machine longer than the TTL.
PREPARED = {"standby_ttl_seconds": 1800}
NAME, PASSWORD = "ann", "correct horse battery staple"
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def ide_is_installed(program):
    return (CACHE / "bin" / program).exists() and shutil.which("chromium") is not None


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    def __init__(self, base, directory):
        self.base, self.directory, self.token = base, directory, None

    def call(self, method, path, body=None, cookie=None):
        request = urllib.request.Request(self.base + "/api/v1" + path, method=method)
        request.add_header("Origin", self.base)
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        if cookie:
            request.add_header("Cookie", cookie)
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, data, timeout=150) as answer:
            self.cookie = answer.headers.get("Set-Cookie", "").split(";")[0]
            text = answer.read()
        return json.loads(text) if text else None

    def sign_in(self):
        self.call("POST", "/auth/login", {"username": NAME, "password": PASSWORD})
        self.session = self.cookie
        self.token = self.call("POST", "/auth/tokens", {"name": "test"}, cookie=self.session)["token"]

    def create(self, name, **fields):
        made = self.call("POST", "/workspaces?wait=120", {"name": name, **fields})
        assert made["phase"] == "RUNNING", made
        return made["id"]

    def show(self, id):
        return self.call("GET", f"/workspaces/{id}")

    def phase(self, id):
        return self.show(id)["phase"]

    def act(self, id, verb, phase):
        """What somebody asks for in another tab."""
        self.call("POST", f"/workspaces/{id}/{verb}?wait=60", {})
        assert self.phase(id) == phase, self.show(id)

    def home(self, id):
        """Its home on the disk."""
        return next((self.directory / "data/homes/users").glob(f"*/workspaces/{id}/home-*"))

    def tab(self, browser, id, path=""):
        """The workspace, opened by its owner."""
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        name, value = self.session.split("=", 1)
        context.add_cookies([{"name": name, "value": value, "url": self.base}])
        page = context.new_page()
        page.goto(f"{self.base}/w/{id}/{path}", timeout=90_000)
        return page


@contextmanager
def server(tmp_path, ide, **settings):
    port = free_port()
    env = dict(os.environ, PATH=f"{CACHE / 'bin'}:{os.environ['PATH']}", CODEHUB_LISTEN=f"127.0.0.1:{port}",
               CODEHUB_DATA_DIR=str(tmp_path / "data"), CODEHUB_ADMIN_USERNAME=NAME,
               CODEHUB_ADMIN_PASSWORD=PASSWORD, IDE=ide, PROCESS_SANDBOX="never",
               TTL_STANDBY_SECONDS=str(TTL), TTL_ARCHIVE_SECONDS="0", LIMITS_MAX_RUNNING_PER_USER="0",
               ACTIVITY_FLUSH_INTERVAL=f"{FLUSH}s", COORDINATOR_TTL_INTERVAL=f"{SYNC}s")
    env |= settings
    log = open(tmp_path / "server.log", "w")
    process = subprocess.Popen([BINARY, "serve"], env=env, stdout=log, stderr=log)
    running = Server(f"http://localhost:{port}", tmp_path)
    try:
        for _ in range(200):
            try:
                running.sign_in()
                break
            except OSError:
                time.sleep(0.1)
        yield running
    finally:
        try:
            # Workspaces outlive their server. One that is just stopping says "wait" to everything else.
            until(60, lambda: all_deleted(running))
        finally:
            process.terminate()
            process.wait(20)


def all_deleted(running):
    left = running.call("GET", "/workspaces")["items"]
    for workspace in left:
        try:
            running.call("DELETE", f"/workspaces/{workspace['id']}?wait=20")
        except urllib.error.HTTPError as error:
            if error.code not in (404, 409):
                raise
    return not left


@contextmanager
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM)
        yield browser
        browser.close()


def until(deadline, condition, meanwhile=lambda: None, every=1.0):
    """Waits for it; how long it took."""
    began = time.monotonic()
    while time.monotonic() - began < deadline:
        if condition():
            return time.monotonic() - began
        meanwhile()
        time.sleep(every)
    raise AssertionError(f"not within {deadline} seconds")


def left_alone_sleeps_and_work_does_not(running, tabs, press_a_key, for_seconds):
    """`tabs`: a page for each of alone, typing, output, by workspace id in the same order, made with `PREPARED`."""
    (alone, _), (typing, typing_tab), (output, _) = tabs
    press_a_key(typing_tab)
    for id in (alone, typing, output):
        running.call("PATCH", f"/workspaces/{id}", {"standby_ttl_seconds": None})
    began = time.monotonic()
    last_key = [0.0]
    seen = {"slept_after": None}

    def work():
        if time.monotonic() - last_key[0] > 12:
            press_a_key(typing_tab)
            last_key[0] = time.monotonic()
        assert running.phase(typing) == "RUNNING", running.show(typing)
        assert running.phase(output) == "RUNNING", running.show(output)

    seen["slept_after"] = until(TTL + 120, lambda: running.phase(alone) == "STANDBY", work)
    print(f"left alone: STANDBY {seen['slept_after']:.0f} s after it was left (TTL {TTL})")
    # The tab reconnects all the while; nothing wakes it.
    while time.monotonic() - began < for_seconds:
        work()
        assert running.phase(alone) == "STANDBY"
        time.sleep(1)
    print(f"typing and output: RUNNING for {time.monotonic() - began:.0f} s")
    reasons = [line["reason_code"] for line in running.call("GET", f"/workspaces/{alone}/history")["items"]]
    assert "ttl_standby" in reasons, reasons
    # Without a key it sleeps like the other.
    slept = until(TTL + 120, lambda: running.phase(typing) == "STANDBY")
    print(f"typing stopped: STANDBY {slept:.0f} s later")
    assert running.phase(output) == "RUNNING", running.show(output)


def awake_while_typed_in(running, id, page, ttls=3):
    """Types a word about every second without saving, for that many TTLs; all that was typed. Never asleep."""
    typed, began = "", time.monotonic()
    while time.monotonic() - began < ttls * TTL:
        word = f"w{int(time.monotonic() - began)} "
        page.keyboard.type(word)
        typed += word
        page.wait_for_timeout(1000)
        now = running.show(id)
        assert (now["phase"], now["desired_state"]) == ("RUNNING", "RUNNING"), now
    return typed


def sleeps_when_left(running, id):
    """Nobody types any more: asleep when its TTL is over, give or take the slack."""
    took = until(TTL + SLACK, lambda: running.phase(id) == "STANDBY")
    print(f"typing stopped: STANDBY {took:.0f} s later (TTL {TTL})")


def picture(page, shots, name):
    """For people who want to see it: `CODEHUB_SCREENSHOTS_ALL=directory`."""
    if shots:
        page.screenshot(path=shots / f"{name}.png")

"""Service workers: a workspace's own controls the workspace, never the dashboard; one that was planted before is
evicted by signing in, and what an editor keeps in the browser is not."""

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, Request, build_opener

import pytest
from playwright.sync_api import expect

from codehub import ADMIN, PASSWORD, ROOT
from dashboard import sign_in

REGISTER = """async ([script, scope]) => {
    try {
        const made = await navigator.serviceWorker.register(script, { scope, updateViaCache: "all" });
        const worker = made.installing || made.waiting || made.active;
        await new Promise((done) => {
            const look = () => worker.state === "activated" && done();
            worker.addEventListener("statechange", look);
            look();
        });
        return new URL(made.scope).pathname;
    } catch (error) {
        return error.name;
    }
}"""
SCOPES = "navigator.serviceWorker.getRegistrations().then((all) => all.map((one) => new URL(one.scope).pathname))"


@pytest.fixture(scope="module")
def hostile(start):
    command = f"{sys.executable} {ROOT / 'tests/programs/hostile.py'}"
    # What one origin for everything has to guard; test_origins.py has the others.
    return start(IDE="command", IDE_COMMAND=command, PROCESS_SANDBOX="never", LIMITS_MAX_RUNNING_PER_USER=0, PROXY_ORIGINS="path")


# Each is what a workspace says, one header or several.
HEADERS = [
    ["/"], ["/w/"], ["{base}../../"], ["{base}../"], ["{base}%2e%2e/%2e%2e/"], ["{base}%2E./.%2e/"], ["{base}..\\..\\"],
    ["{base}./../.././"], ["{base}x/../../../"], ["{base}", "/"], ["/", "{base}"], ["{base}", "{base}../../", "/"],
    ["{base}, /"], ["../../"], ["\\"], [],
]


def test_a_workspace_cannot_take_over_the_dashboard(hostile, tab):
    mine, other = hostile.api.create("mine"), hostile.api.create("other")
    page = tab(hostile, strict=False)
    page.goto(f"/w/{mine}/")
    got = []
    for headers in HEADERS:
        script = f"/w/{mine}/sw.js?" + "&".join(quote(header, safe="") for header in headers)
        for scope in ["/", "/login", "/w/", "/w", f"/w/{other}/", f"/w/{mine}"]:
            made = page.evaluate(REGISTER, [script, scope])
            if made != "SecurityError":
                got.append((headers, scope, made))
    assert not got, f"registered: {got}"
    # Scripts that are not a workspace's, or not below its path, are none at all.
    for script in ["/sw.js", "/api/docs/docs.js", "/favicon.ico", f"/w/{mine}", f"/w/{mine}?x", f"/w/{mine}/../sw.js"]:
        assert page.evaluate(REGISTER, [script, "/"]) in ("SecurityError", "TypeError"), script
    assert page.evaluate(SCOPES) == []

    # Its own is as good as anywhere.
    assert page.evaluate(REGISTER, [f"/w/{mine}/deep/sw.js?" + quote("{base}"), f"/w/{mine}/"]) == f"/w/{mine}/"
    assert page.evaluate("fetch('mine').then((answer) => answer.text())") == "worker of my own"
    page.goto("/")
    assert not page.evaluate("!!navigator.serviceWorker.controller")
    assert "worker" not in page.evaluate("fetch('/mine').then((answer) => answer.text())")


# What a planted worker does with a sign-in: hands it on, makes it itself, or stays out of it.
PLANTED = {
    "hands it on": "event.respondWith(fetch(event.request))",
    "makes its own": """event.respondWith(event.request.text().then((body) => fetch("/login", { method: "POST", body,
        headers: { "Content-Type": "application/x-www-form-urlencoded" } })).then(() => Response.redirect("/")))""",
    "makes its own by the API": """event.respondWith(event.request.formData().then((form) => fetch("/api/v1/auth/login", {
        method: "POST", body: JSON.stringify(Object.fromEntries(form)), headers: { "Content-Type": "application/json" },
        })).then(() => Response.redirect("/")))""",
    "stays out of it": "return",
}
WORKER = """
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(clients.claim()));
self.addEventListener("fetch", (event) => {
  if (event.request.method === "POST") { %s; return; }
  event.respondWith(new Response(`<!doctype html><title>forged</title><form method="post" action="/login">
    <input name="username" data-testid="field-username"><input name="password" data-testid="field-password">
    <button data-testid="sign-in">go</button></form>`, { headers: { "Content-Type": "text/html" } }));
});
"""


class Address:
    """An address at which an older server let a worker through, and after `upgrade` the server itself is."""

    def __init__(self, server, post):
        self.old = True
        address = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, status, headers, body):
                self.send_response(status)
                for name, value in headers:
                    if name.lower() not in ("transfer-encoding", "connection", "date", "content-length"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                if address.old and self.path == "/w/old/":
                    return self.answer(200, [("Content-Type", "text/html")], b"an old workspace")
                if address.old and self.path == "/w/old/sw.js":
                    headers = [("Content-Type", "text/javascript"), ("Service-Worker-Allowed", "/")]
                    headers += [("Cache-Control", "max-age=31536000, immutable")]
                    return self.answer(200, headers, (WORKER % post).encode())
                self.forward()

            def forward(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
                request = Request(server.url + self.path, body, dict(self.headers), method=self.command)
                try:
                    answer = build_opener(Stay).open(request, timeout=30)
                except HTTPError as error:
                    answer = error
                with answer:
                    self.answer(answer.status, answer.headers.items(), answer.read())

            do_POST = forward

            def log_message(self, form, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://localhost:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


class Stay(HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


@pytest.mark.parametrize("post", PLANTED.values(), ids=PLANTED.keys())
def test_signing_in_evicts_what_was_planted_and_keeps_drafts(server, tab, post):
    address = Address(server, post)
    page = tab(address, user=None, strict=False)
    page.goto("/w/old/")
    page.evaluate("fetch('/w/old/sw.js').then((answer) => answer.text())")
    assert page.evaluate(REGISTER, ["/w/old/sw.js", "/"]) == "/"
    address.old = False
    page.goto("/login")
    expect(page).to_have_title("forged")
    sign_in(page, ADMIN, PASSWORD)
    # The next page is the server's own again, and so are all that follow.
    page.goto("/")
    expect(page).to_have_title("Workspaces · CodeHub")
    assert page.evaluate(SCOPES) == []
    # Its script, as the older server sent it, is not in the browser's cache either.
    assert page.evaluate(REGISTER, ["/w/old/sw.js", "/"]) in ("SecurityError", "TypeError")

    if "api" in post:
        # That browser is swept again by its first sign-in with the form: it has not shown that it is clean.
        return
    # An editor's drafts survive every sign-in from here on.
    page.evaluate("localStorage.setItem('draft', 'unsaved')")
    for _ in range(2):
        page.evaluate("fetch('/logout', { method: 'POST' })")
        page.goto("/login")
        sign_in(page, ADMIN, PASSWORD)
        expect(page).to_have_title("Workspaces · CodeHub")
        assert page.evaluate("localStorage.getItem('draft')") == "unsaved"
    address.http.shutdown()


KEEP = """(text) => new Promise((resolve, reject) => {
    const request = indexedDB.open("an editor", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("drafts");
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
        const database = request.result;
        const transaction = database.transaction("drafts", text ? "readwrite" : "readonly");
        const store = transaction.objectStore("drafts");
        const found = text ? store.put(text, "draft") : store.get("draft");
        transaction.oncomplete = () => { database.close(); resolve(found.result); };
    };
})"""


def test_a_browser_that_lost_its_cookies_keeps_its_drafts(server, tab):
    """Cookies are written later than drafts, and shared with other servers of the host."""
    page = tab(server, user=None, strict=False)

    def signs_in():
        page.goto("/login")
        with page.expect_response(lambda answer: answer.request.method == "POST") as answered:
            sign_in(page, ADMIN, PASSWORD)
        expect(page).to_have_title("Workspaces · CodeHub")
        return answered.value.all_headers().get("clear-site-data")

    # Nothing is kept yet.
    assert signs_in() == '"cache", "storage"'
    page.evaluate(KEEP, "unsaved")
    page.context.clear_cookies()
    assert signs_in() == '"cache"'
    assert page.evaluate(KEEP, None) == "unsaved"
    page.context.clear_cookies(name="session")
    assert signs_in() is None
    assert page.evaluate(KEEP, None) == "unsaved"

"""Every workspace its own origin: what a hostile page of a workspace tries, in every mode, and what reached whom."""

import hashlib
import http.client
import json
import re
import socket
import ssl
import sys
import threading
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import expect

from certificates import Certificate
from codehub import ADMIN, ANY_CERTIFICATE, PASSWORD, ROOT, wait_for
from dashboard import sign_in

PROGRAM = f"{sys.executable} {ROOT / 'tests/programs/hostile_page.py'}"
SETTINGS = {
    "IDE": "command", "IDE_COMMAND": PROGRAM, "PROCESS_SANDBOX": "never", "PROCESS_UNSANDBOXED_USERS": "many", "LIMITS_MAX_RUNNING_PER_USER": 0,
    "PROXY_WAKE_HOLD": "1s", "ACTIVITY_FLUSH_INTERVAL": "1s",
}


def seen_at(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/seen")
    return [one for one in json.loads(connection.getresponse().read()) if not one[1].endswith("/favicon.ico")]


class Place:
    """A server in one mode, with a browser whose person is signed in, and two workspaces of that person."""

    def __init__(self, server, browser, base, port=None, **context):
        self.server, self.base, self.port = server, base, port or urlsplit(server.url).port
        self.context = browser.new_context(base_url=base, locale="en-US", **context)
        self.context.set_default_timeout(30_000)
        self.page = self.context.new_page()
        self.page.goto("/login")
        sign_in(self.page, ADMIN, PASSWORD)
        expect(self.page).to_have_title("Workspaces · CodeHub")
        self.mine, self.other = server.api.create("mine"), server.api.create("other")

    def enter(self, id, page=None):
        """Opens a workspace as a person does."""
        page = page or self.page
        page.goto(f"/open/{id}")
        expect(page.locator("#page")).to_have_text("page")
        return page

    def url(self, id):
        return self.server.at(id)

    def seen(self, id):
        """What has reached the program in a workspace, asked past everything; but icons, which browsers ask for whenever they
        like."""
        record = json.loads((self.server.data / "instances" / f"{id}.json").read_text())
        return seen_at(record["port"])

    def ask(self, url, cookies):
        """What is answered to somebody who opens an address with these cookies and follows nothing: status, headers."""
        parts = urlsplit(url)
        apart = self.server.at(self.mine).split("/w/")[0]
        port = urlsplit(apart).port if "/w/" in parts.path else self.port
        if self.server.direct.startswith("https:"):
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=ANY_CERTIFICATE)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        navigates = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html"}
        connection.request("GET", path, headers={"Host": parts.netloc, "Cookie": cookie, **navigates})
        answer = connection.getresponse()
        return answer.status, answer.headers

    def cookies(self, kind):
        """The browser's cookies of this kind."""
        return {one["name"]: one["value"] for one in self.context.cookies() if kind in one["name"]}

    def code(self, id):
        """The address of a code for this browser that has not been used."""
        nonces = [one for one in self.context.cookies() if "nonce" in one["name"]]
        nonce = next(one["value"] for one in nonces if id in one["domain"] or id in one["name"])
        state = hashlib.sha256(nonce.encode()).hexdigest()
        status, headers = self.ask(f"{self.base}/open/{id}?to=/&state={state}", self.cookies("session"))
        assert status == 303, status
        return headers["Location"]

    def tokens(self):
        return len(self.server.api.call("GET", "/auth/tokens")["items"])

    def users(self):
        return len(self.server.api.call("GET", "/users")["items"])


class Tls:
    """Ends TLS in front of a server and passes bytes on."""

    def __init__(self, certificate, port):
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.file, certificate.key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port, self._to = self._listener.getsockname()[1], port
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        try:
            near = self._context.wrap_socket(near, server_side=True)
            far = socket.create_connection(("127.0.0.1", self._to))
        except OSError:
            return
        near.setblocking(True)
        threading.Thread(target=self._pump, args=(far, near), daemon=True).start()
        self._pump(near, far)

    def _pump(self, source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@pytest.fixture(scope="module", params=["localhost", "https", "own TLS, shared domain", "port"])
def place(request, start, browser, tmp_path_factory):
    if request.param == "localhost":
        server = start(**SETTINGS)
        yield Place(server, browser, server.url)
        return
    if request.param == "port":
        server = start(**SETTINGS, PROXY_ORIGINS="port", PROXY_LISTEN=f"127.0.0.1:{free_port()}")
        yield Place(server, browser, server.url)
        return
    listen = free_port()
    settings = {**SETTINGS, "CODEHUB_LISTEN": f"127.0.0.1:{listen}"}
    if request.param == "https":
        # Workspaces have a registrable domain of their own; TLS ends in front.
        certificate = Certificate(tmp_path_factory.mktemp("tls"), ["code.origins.test", "*.apps.test"])
        base, domain = f"https://code.origins.test:{Tls(certificate, listen).port}", "apps.test"
    else:
        # Cookies for shared.test, which any workspace can set, are sent to the dashboard; TLS ends in CodeHub.
        certificate = Certificate(tmp_path_factory.mktemp("tls"), ["code.shared.test", "*.apps.shared.test"])
        base, domain = f"https://code.shared.test:{listen}", "apps.shared.test"
        settings |= certificate.settings()
    secure = certificate.browser(browser)
    server = start(**settings, PUBLIC_BASE_URL=base, PROXY_DOMAIN=domain)
    yield Place(server, secure, base, listen, ignore_https_errors=True)
    secure.close()


def origin(url):
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


# Sends what a page can send without being asked, with the cookies, to an address; says what it could read of the answers.
ATTACK = """async ([base, paths]) => {
    const read = [];
    const tries = [];
    for (const path of paths) {
        for (const options of [
            { credentials: "include" }, { credentials: "include", mode: "no-cors" },
            { credentials: "include", method: "POST", body: "username=evil&password=correct+horse+battery" },
            { credentials: "include", method: "POST", mode: "no-cors", body: new URLSearchParams({ name: "evil" }) },
            { credentials: "include", method: "DELETE" },
            { credentials: "include", headers: { "Content-Type": "application/json" }, method: "POST", body: '{"name":"evil"}' },
        ]) {
            tries.push(fetch(base + path, options).then(async (answer) => {
                if (answer.type !== "opaque") read.push([path, answer.status, (await answer.text()).slice(0, 200)]);
            }, () => {}));
        }
        navigator.sendBeacon(base + path, "name=evil");
        const frame = document.createElement("iframe");
        frame.name = "f" + Math.random().toString(36).slice(2);
        document.body.append(frame);
        const form = document.createElement("form");
        Object.assign(form, { method: "post", action: base + path, target: frame.name });
        form.innerHTML = "<input name=name value=evil>";
        document.body.append(form);
        form.submit();
        const image = new Image();
        image.src = base + path;
        tries.push(new Promise((done) => {
            const socket = new WebSocket((base + path).replace(/^http/, "ws"));
            socket.onopen = () => { read.push([path, "websocket", ""]); done(); };
            socket.onerror = socket.onclose = done;
        }));
    }
    await Promise.all(tries);
    await new Promise((done) => setTimeout(done, 500));
    return read;
}"""


def test_nothing_of_the_dashboard_is_minted_created_changed_or_read(place):
    page = place.enter(place.mine)
    before = place.tokens(), place.users(), len(place.server.api.call("GET", "/workspaces")["items"])
    paths = [
        "/api/v1/auth/tokens", "/api/v1/users", "/api/v1/workspaces", f"/api/v1/workspaces/{place.other}",
        "/api/v1/auth/session", "/tokens", "/users/new", f"/workspaces/{place.other}/delete", f"/open/{place.other}", "/logout",
    ]
    read = page.evaluate(ATTACK, [place.base, paths])
    assert read == [], read
    assert before == (place.tokens(), place.users(), len(place.server.api.call("GET", "/workspaces")["items"]))
    page.goto("/")
    expect(page).to_have_title("Workspaces · CodeHub")


def test_a_neighbour_is_reached_by_nothing(place):
    place.enter(place.other)
    page = place.enter(place.mine)
    before = len(place.seen(place.other))
    there = origin(place.url(place.other))
    if there == origin(place.url(place.mine)):
        # A second port keeps the dashboard apart, and workspaces not from each other: the row that falls there.
        assert page.evaluate("(address) => fetch(address).then((answer) => answer.status)", place.url(place.other)) == 200
        assert len(place.seen(place.other)) == before + 1
        return
    read = page.evaluate(ATTACK, [there, ["/", "/api/file", "/.codehub/wake", "/.codehub/keep-awake"]])
    assert read == []
    assert place.seen(place.other)[before:] == [], "its program saw nothing"


def test_no_session_reaches_a_program(place):
    place.enter(place.mine)
    place.page.evaluate("fetch('own', { method: 'POST' })")
    for _, path, cookie in place.seen(place.mine):
        assert not re.search("session|workspace|nonce|device", cookie), (path, cookie)


def test_a_service_worker_ends_at_its_origin(place):
    page = place.enter(place.mine)
    register = """async (scope) => {
        try { await navigator.serviceWorker.register("sw.js", { scope }); return "registered"; } catch (error) { return error.name; }
    }"""
    shared = "/w/" in place.url(place.mine)
    assert page.evaluate(register, "/") == ("SecurityError" if shared else "registered")
    fresh = place.context.new_page()
    fresh.goto("/")
    expect(fresh).to_have_title("Workspaces · CodeHub")
    assert not fresh.evaluate("!!navigator.serviceWorker.controller")
    place.enter(place.other, fresh)
    fresh.close()
    page.evaluate("navigator.serviceWorker.getRegistrations().then((all) => Promise.all(all.map((one) => one.unregister())))")


def test_what_the_server_side_says_stays_there(place):
    page = place.enter(place.mine)
    domain = urlsplit(place.base).hostname.split(".", 1)[-1]
    headers = [
        ["Clear-Site-Data", '"cookies", "*"'], ["Strict-Transport-Security", "max-age=1000; includeSubDomains"],
        ["Set-Cookie", f"session=planted; Domain={domain}; Path=/"], ["Set-Cookie", "__Host-Http-session=planted; Secure; Path=/; HttpOnly"],
        ["Set-Cookie", "codehub_workspace=planted; Path=/"], ["Access-Control-Allow-Origin", "*"],
    ]
    page.evaluate("(query) => fetch('headers?' + query)", quote(json.dumps(headers)))
    page.reload()
    expect(page.locator("#page")).to_have_text("page")
    page.goto("/")
    expect(page).to_have_title("Workspaces · CodeHub")
    assert page.url.startswith(place.base), "and by the same scheme"


def test_planted_cookies_lock_nobody_out(place):
    page = place.enter(place.mine)
    page.evaluate("""() => {
        const above = location.hostname.split(".").slice(-2).join(".");
        for (const name of ["session", "__Host-Http-session", "codehub_workspace", "__Host-Http-workspace"]) {
            document.cookie = `${name}=planted; path=/`;
            document.cookie = `${name}=planted; path=/; domain=${above}`;
        }
        for (let n = 0; n < 200; n++) document.cookie = `large${n}=${"x".repeat(3000)}; path=/; domain=${above}`;
    }""")
    try:
        page.goto("/")
        if page.get_by_test_id("login-form").count():
            sign_in(page, ADMIN, PASSWORD)
        page.goto("/")
        if page.get_by_test_id("login-form").count():
            sign_in(page, ADMIN, PASSWORD)
        expect(page).to_have_title("Workspaces · CodeHub")
    finally:
        place.context.clear_cookies(name=re.compile("large"))
    place.enter(place.mine)


def test_planted_cookies_act_for_nobody(place):
    """Whoever is signed in with cookies of somebody else's beside theirs is still themselves, and so is what they do."""
    place.server.api.call("POST", "/users", {"username": "mallory", "password": PASSWORD, "role": "user"})
    secret = place.server.session("mallory", PASSWORD).split("=", 1)[1]
    page = place.enter(place.mine)
    page.evaluate("""(secret) => {
        const parts = location.hostname.split(".");
        for (const name of ["session", "__Host-Http-session", "__Host-session", "codehub_workspace", "__Host-Http-workspace"]) {
            for (let n = 1; n < parts.length; n++) {
                for (const path of ["/", "/api", "/open", "/workspaces", "/.codehub"]) {
                    document.cookie = `${name}=${secret}; path=${path}; domain=${parts.slice(-n).join(".")}`;
                    document.cookie = `${name}=${secret}; path=${path}; secure; domain=${parts.slice(-n).join(".")}`;
                }
            }
        }
    }""", secret)
    try:
        page.goto("/")
        expect(page).to_have_title("Workspaces · CodeHub")
        who = page.evaluate("fetch('/api/v1/auth/session').then((answer) => answer.json())")
        assert who["user"]["username"] == ADMIN, who
        place.enter(place.mine)
    finally:
        place.context.clear_cookies(domain=re.compile(r"^\."))


def test_framing_openers_and_counting_show_nothing(place):
    shared = "/w/" in place.url(place.mine)
    page = place.enter(place.mine)
    addresses = [place.base + "/", f"{place.base}/open/{place.other}"] + ([] if shared else [place.url(place.other)])
    before = len(place.seen(place.other))
    for address in addresses:
        inside = page.evaluate("""async (address) => {
            const frame = document.createElement("iframe");
            frame.src = address;
            document.body.append(frame);
            await new Promise((done) => { frame.onload = done; setTimeout(done, 3000); });
            try { return frame.contentDocument?.body?.innerText ?? "closed"; } catch { return "closed"; }
        }""", address)
        assert inside in ("closed", ""), address
    for frame in page.frames[1:]:
        assert frame.locator("#page").count() == 0 and "Workspaces" not in (frame.title() or "")
    assert len(place.seen(place.other)) == before
    with place.context.expect_page() as opened:
        page.evaluate("(address) => { window.opened = window.open(address); }", place.base + "/")
    window = opened.value
    expect(window).to_have_title("Workspaces · CodeHub")
    assert window.evaluate("window.opener") is None
    assert page.evaluate("window.opened.closed || window.opened.length === 0")
    window.close()


def test_nothing_but_a_person_wakes_a_neighbour(place):
    page = place.enter(place.mine)
    sleeper = place.server.api.create("sleeper", until="STANDBY")
    addresses = [place.url(sleeper), f"{place.base}/open/{sleeper}"]
    for address in addresses:
        page.evaluate("""async (address) => {
            const frame = document.createElement("iframe"); frame.src = address; document.body.append(frame);
            const image = new Image(); image.src = address;
            const hint = document.createElement("link"); hint.rel = "prefetch"; hint.href = address; document.head.append(hint);
            const rules = document.createElement("script"); rules.type = "speculationrules";
            rules.textContent = JSON.stringify({ prefetch: [{ source: "list", urls: [address] }] }); document.head.append(rules);
            await fetch(address, { mode: "no-cors", credentials: "include" }).catch(() => {});
            await new Promise((done) => setTimeout(done, 1500));
        }""", address)
    now = place.server.api.get(sleeper)
    assert (now["phase"], now["desired_state"]) == ("STANDBY", "STANDBY")
    # A person does.
    place.enter(sleeper)
    place.server.api.delete(sleeper)


def hand_over(place, page, id):
    """The addresses that the browser was led through."""
    led = []
    page.on("request", lambda request: led.append(request.url) if request.is_navigation_request() else None)
    page.goto(f"/open/{id}")
    expect(page.locator("#page")).to_have_text("page")
    return led


def test_a_code_is_good_once_and_here(place):
    stranger = place.context.new_page()
    for cookie in ("workspace", "nonce"):
        place.context.clear_cookies(name=re.compile(cookie))
    led = hand_over(place, stranger, place.mine)
    enter = next(url for url in led if "/.codehub/enter?code=" in url)
    assert enter.startswith(place.url(place.mine))
    # Twice.
    assert stranger.goto(enter).status == 400
    expect(stranger.get_by_role("link", name="Try again")).to_be_visible()
    # At another origin, and in another browser: a code that was made but not used.
    other = stranger.context.browser.new_context(locale="en-US", ignore_https_errors=True, base_url=place.base)
    code = place.code(place.mine)
    victim = other.new_page()
    assert victim.goto(code).status == 400
    expect(victim.get_by_role("heading", level=1)).to_have_text("The workspace could not be opened")
    elsewhere = code.replace(place.mine, place.other)
    assert stranger.goto(elsewhere).status == 400
    assert stranger.goto(code).status == 200, "whoever was refused has not used it up"
    assert stranger.goto(code).status == 400
    other.close()
    stranger.close()


def test_two_tabs_do_not_undo_each_other(place):
    for cookie in ("workspace", "nonce"):
        place.context.clear_cookies(name=re.compile(cookie))
    tabs = [place.context.new_page() for _ in range(3)]
    for n, tab in enumerate(tabs):
        tab.evaluate("(address) => { setTimeout(() => { location = address; }, 10); }", f"{place.url(place.mine)}deep/{n}")
    for n, tab in enumerate(tabs):
        expect(tab.locator("#page")).to_have_text("page")
        expect(tab).to_have_url(f"{place.url(place.mine)}deep/{n}")
        tab.close()


def test_without_cookies_there_is_no_circle(place):
    """A browser that keeps nothing for the workspace's address is told so."""
    address, led = place.url(place.mine), []
    while len(led) < 10:
        on_dashboard = address.startswith(f"{place.base}/open")
        status, headers = place.ask(address, place.cookies("session") if on_dashboard else {})
        led.append(status)
        if status != 303:
            break
        address = headers["Location"]
    assert led == [303, 303, 400]


def test_old_links_lead_on(place):
    place.page.goto(f"/w/{place.mine}/deep/down?x=1")
    expect(place.page.locator("#page")).to_have_text("page")
    expect(place.page).to_have_url(f"{place.url(place.mine)}deep/down?x=1")


def test_signing_out_ends_what_is_open(place):
    other = place.context.browser.new_context(locale="en-US", ignore_https_errors=True, base_url=place.base)
    page = other.new_page()
    page.goto("/login")
    sign_in(page, ADMIN, PASSWORD)
    expect(page).to_have_title("Workspaces · CodeHub")
    place.enter(place.mine, page)
    page.evaluate("""() => {
        window.closed_with = 0;
        const socket = new WebSocket(new URL("socket", location).href.replace(/^http/, "ws"));
        socket.onclose = (event) => { window.closed_with = event.code; };
        return new Promise((done) => { socket.onopen = done; });
    }""")
    # It has begun: what is asked for after the end is refused, and does not break.
    page.evaluate("""async () => {
        window.download = "runs";
        const answer = await fetch("slow");
        answer.text().then(() => "ended", () => "broken").then((how) => { window.download = how; });
    }""")
    dashboard = other.new_page()
    dashboard.goto("/")
    dashboard.evaluate("fetch('/logout', { method: 'POST' })")
    wait_for(lambda: page.evaluate("window.closed_with") == 1008, "the WebSocket to end")
    wait_for(lambda: page.evaluate("window.download") == "broken", "the download to end")
    assert page.evaluate("fetch('x').then((answer) => answer.status)") == 401
    other.close()


def test_after_signing_in_one_is_where_one_wanted_to_be(place):
    """Also where a form led to another origin."""
    other = place.context.browser.new_context(locale="en-US", ignore_https_errors=True, base_url=place.base)
    page = other.new_page()
    page.goto(f"{place.url(place.mine)}deep?x=1")
    expect(page.get_by_test_id("login-form")).to_be_visible()
    sign_in(page, ADMIN, PASSWORD)
    expect(page.locator("#page")).to_have_text("page")
    expect(page).to_have_url(f"{place.url(place.mine)}deep?x=1")
    other.close()


def test_a_page_at_a_port_reaches_nothing_but_its_program(place):
    """Nor does any page reach a port: the dashboard's API, both workspaces, and the port itself stay apart."""
    port = free_port()
    if "/w/" in place.url(place.mine):
        page = place.page
        page.goto(f"/open/{place.mine}?port={port}")
        expect(page.locator("main")).to_contain_text("PROXY_DOMAIN")
        return
    run = {"command": ["sh", "-c", f"{PROGRAM} {port} >/dev/null 2>&1 &"]}
    place.server.api.call("POST", f"/workspaces/{place.mine}/exec", run)
    listed = lambda: [one for one in place.server.api.call("GET", f"/workspaces/{place.mine}/ports")["items"] if one["port"] == port]
    there = wait_for(listed, "the program to listen")[0]["url"]
    place.enter(place.other)
    page = place.enter(place.mine)
    page.goto(there + "deep?x=1")
    expect(page.locator("#page")).to_have_text("page")
    assert page.url == there + "deep?x=1", "handed over to where it was asked for"
    before = place.tokens(), place.users(), len(place.seen(place.mine)), len(place.seen(place.other))
    read = page.evaluate(ATTACK, [place.base, [
        "/api/v1/auth/tokens", "/api/v1/users", f"/api/v1/workspaces/{place.mine}/ports/{port}", f"/open/{place.mine}?port={port}", "/logout",
    ]])
    for target in (place.url(place.mine), place.url(place.other)):
        read += page.evaluate(ATTACK, [origin(target), ["/", "/api/file", "/.codehub/wake", "/.codehub/keep-awake"]])
    assert read == [], read
    assert before == (place.tokens(), place.users(), len(place.seen(place.mine)), len(place.seen(place.other)))
    assert page.evaluate("fetch('/.codehub/keep-awake', { method: 'POST' }).then((answer) => answer.status)") == 404
    # The other way round: pages of the workspace, and of its neighbour, get nothing from the port.
    # Asked past everything: without a sandbox the network is the machine's.
    page.goto(there)
    count = len(seen_at(port))
    for id in (place.mine, place.other):
        assert place.enter(id).evaluate(ATTACK, [origin(there), ["/", "/taken"]]) == []
    page.goto(there)
    new = [path for _, path, _ in seen_at(port)[count:]]
    assert new == ["/"], new
    assert not any(re.search("session|workspace|nonce|device", cookie) for _, _, cookie in seen_at(port))


def test_below_paths_the_same_page_does_all_of_it(start, browser):
    """The rows that fall where workspaces share the dashboard's origin: why that mode is only taken on purpose."""
    server = start(**SETTINGS, PROXY_ORIGINS="path")
    place = Place(server, browser, server.url)
    page = place.enter(place.mine)
    assert place.tokens() == 0
    made = page.evaluate("""() => fetch("/api/v1/auth/tokens", {
        method: "POST", headers: { "Content-Type": "application/json" }, body: '{"name":"evil"}',
    }).then((answer) => answer.status)""")
    assert (made, place.tokens()) == (201, 1), "a token was minted"
    read = page.evaluate("(id) => fetch(`/w/${id}/read`).then((answer) => answer.status)", place.other)
    assert read == 200 and any("/read" in path for _, path, _ in place.seen(place.other)), "the neighbour was read"
    assert "path" in "".join(server.output), "and the start warned of it"

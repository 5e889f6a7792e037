"""Ports in the browser: a page that waits for its program, a plain server and its WebSocket, sharing, and a development
server from npm that loads anew after an edit."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from codehub import PASSWORD, ROOT, wait_for
from ide import Ide
from test_origins import free_port

NODE = Path.home() / ".cache/codehub-test/node24/bin"
ECHO = ROOT / "tests/programs/hostile_page.py"


@pytest.fixture(scope="module")
def server(start):
    server = start(IDE="builtin", PROCESS_SANDBOX="never", PROCESS_UNSANDBOXED_USERS="many", LIMITS_MAX_RUNNING_PER_USER=0, PROXY_WAKE_HOLD="1s")
    yield server
    # What was started in them without a sandbox ends with them only.
    for one in server.api.call("GET", "/workspaces?limit=100")["items"]:
        server.api.call("DELETE", f"/workspaces/{one['id']}?wait=20")


def run(server, id, script, **more):
    answer = server.api.call("POST", f"/workspaces/{id}/exec", {"command": ["sh", "-c", script], **more})
    assert answer["exit"] == {"code": 0}, answer
    return answer["stdout"]


@pytest.fixture
def program(server):
    """Starts programs in workspaces, which end with the test: without a sandbox nothing else ends them."""
    started = []

    def begin(id, command):
        started.append(int(run(server, id, f"setsid {command} </dev/null >/dev/null 2>&1 & echo $!")))

    yield begin
    for pid in started:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def ports(server, id):
    return {one["port"]: one for one in server.api.call("GET", f"/workspaces/{id}/ports")["items"]}


def address(server, id, port):
    """Where a port is."""
    return server.at(id).replace("://", f"://{port}-", 1)


def test_a_page_waits_for_its_program_and_opens_it(server, tab, program):
    id, port = server.api.create("waits"), free_port()
    page = tab(server, strict=False)
    assert page.goto(address(server, id, port) + "hello.txt").status == 502
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Nothing listens on port {port}")
    run(server, id, "echo from the workspace > hello.txt")
    program(id, f"python3 -m http.server --bind 127.0.0.1 {port}")
    expect(page.locator("body")).to_have_text("from the workspace")
    assert ports(server, id)[port]["loopback_only"]
    # The page of another port offers it.
    other = address(server, id, free_port())
    assert page.goto(other).status == 502
    page.get_by_role("link", name=str(port)).click()
    expect(page.get_by_role("link", name="hello.txt")).to_be_visible()


def test_an_address_that_a_program_prints_leads_to_its_port(server, tab):
    id, port = server.api.create("links"), free_port()
    page = tab(server, strict=False)
    ide = Ide(page).open(id)
    ide.run(f"echo at http://0.0.0.0:{port}/a?b=c")
    line = page.locator(".row-line", has_text=re.compile(r"^at http://0\.0\.0\.0")).locator("visible=true").last
    line.click(button="right", position={"x": 90, "y": 6})
    with page.context.expect_page() as opening:
        page.get_by_test_id("term-menu-open").click()
    expect(opening.value).to_have_url(address(server, id, port) + "a?b=c")


def test_websockets_pass(server, tab, program):
    id, port = server.api.create("sockets"), free_port()
    program(id, f"{sys.executable} {ECHO} {port}")
    wait_for(lambda: port in ports(server, id), "the program to listen")
    page = tab(server)
    page.goto(address(server, id, port))
    expect(page.locator("#page")).to_have_text("page")
    opened = page.evaluate("""() => new Promise((done) => {
        window.closed_with = 0;
        const socket = new WebSocket(location.href.replace(/^http/, "ws") + "socket");
        socket.onopen = () => done("open");
        socket.onclose = (event) => { window.closed_with = event.code; done("closed"); };
    })""")
    assert opened == "open"
    server.api.act(id, "stop", "STANDBY")
    wait_for(lambda: page.evaluate("window.closed_with") == 1001, "the page to hear of the stop")


def test_a_colleague_sees_a_shared_port_until_it_is_not(server, tab, program):
    id, port = server.api.create("shared"), free_port()
    program(id, f"{sys.executable} {ECHO} {port}")
    wait_for(lambda: port in ports(server, id), "the program to listen")
    server.api.call("POST", "/users", {"username": "colleague", "password": PASSWORD, "role": "user"})
    page = tab(server, user=("colleague", PASSWORD), strict=False)
    there = address(server, id, port)
    assert page.goto(there).status == 403
    server.api.call("PUT", f"/workspaces/{id}/ports/{port}", {"visibility": "signed-in"})
    page.goto(there)
    expect(page.locator("#page")).to_have_text("page")
    assert page.goto(server.at(id)).status == 403, "the port, and nothing else"
    page.goto(there)
    page.evaluate("""async () => {
        window.closed_with = 0;
        const socket = new WebSocket(location.href.replace(/^http/, "ws") + "socket");
        socket.onclose = (event) => { window.closed_with = event.code; };
        await new Promise((done) => { socket.onopen = done; });
        window.download = "runs";
        const answer = await fetch("slow");
        answer.text().then(() => "ended", () => "broken").then((how) => { window.download = how; });
    }""")
    server.api.call("PUT", f"/workspaces/{id}/ports/{port}", {"visibility": "owner"})
    wait_for(lambda: page.evaluate("window.closed_with") == 1008, "the WebSocket to end")
    wait_for(lambda: page.evaluate("window.download") == "broken", "the download to end")
    assert page.goto(there).status == 403


def test_the_dashboard_lists_ports_as_they_come_and_go(server, tab, program, shots):
    id, port = server.api.create("listed"), free_port()
    page = tab(server, permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"/workspaces/{id}")
    ports_card = page.get_by_test_id("ports")
    expect(ports_card).to_contain_text("Nothing listens yet")
    expect(page.get_by_test_id("processes")).to_have_text(re.compile(r"^\d+$"))
    expect(page.get_by_test_id("memory")).to_have_text(re.compile(r"^[\d.]+ [kMG]?B$"))
    expect(page.get_by_test_id("home-size")).to_have_text(re.compile(r"[\d.]+ [kMG]?B$"))
    program(id, f"{sys.executable} {ECHO} {port}")
    line = ports_card.locator(f"[data-port='{port}']")
    expect(line).to_contain_text("python")
    page.get_by_test_id(f"copy-{port}").click()
    assert page.evaluate("navigator.clipboard.readText()") == address(server, id, port)
    expect(line.get_by_test_id("port-visibility")).to_have_text("Only you")
    page.get_by_test_id(f"share-{port}").click()
    expect(line.get_by_test_id("port-visibility")).to_have_text("All signed-in users")
    assert ports(server, id)[port]["visibility"] == "signed-in"
    if shots:
        for name, options in [("desktop", {}), ("phone", {"size": "phone"}), ("dark", {"dark": True}), ("ko", {"lang": "ko", "size": "phone", "dark": True})]:
            picture = tab(server, **options)
            picture.goto(f"/workspaces/{id}")
            expect(picture.get_by_test_id("ports").locator(f"[data-port='{port}']")).to_be_visible()
            expect(picture.get_by_test_id("memory")).to_be_visible()
            picture.screenshot(path=shots / f"ports-{name}.png", full_page=True)
    with page.context.expect_page() as opening:
        page.get_by_test_id(f"open-{port}").click()
    expect(opening.value.locator("#page")).to_have_text("page")
    page.get_by_test_id(f"share-{port}").click()
    expect(line.get_by_test_id("port-visibility")).to_have_text("Only you")
    server.api.act(id, "stop", "STANDBY")
    expect(ports_card).to_be_hidden()


def test_the_ide_says_once_that_a_port_answers(server, tab, program, shots):
    id, first, second, third = server.api.create("told"), free_port(), free_port(), free_port()
    page = tab(server, permissions=["clipboard-read", "clipboard-write"])
    ide = Ide(page).open(id)
    page.get_by_test_id("side-ports").click()
    expect(page.get_by_test_id("ports-note")).to_contain_text("Nothing listens yet")
    program(id, f"{sys.executable} {ECHO} {first}")
    offer = page.get_by_test_id("offer")
    expect(offer).to_contain_text(f"Port {first} answers")
    expect(page.get_by_test_id("port-list").locator(f"[data-port='{first}']")).to_contain_text("python")
    expect(page.get_by_test_id("port-count")).to_have_text("1")
    if shots:
        page.screenshot(path=shots / "ports-ide-desktop.png")
    page.get_by_test_id("port-copy").click()
    wait_for(lambda: page.evaluate("navigator.clipboard.readText()") == address(server, id, first), "the address to be copied")
    expect(offer).to_have_count(0)
    program(id, f"{sys.executable} {ECHO} {second}")
    expect(offer).to_contain_text(f"Port {second} answers")
    with page.context.expect_page() as opening:
        page.get_by_test_id("port-open").click()
    expect(opening.value.locator("#page")).to_have_text("page")
    # Who opens the page anew knows them, and a port may be one that nobody wants to hear of.
    page.reload()
    ide.ready()
    expect(page.get_by_test_id("port-count")).to_have_text("2")
    expect(offer).to_have_count(0)
    program(id, f"{sys.executable} {ECHO} {third}")
    expect(offer).to_contain_text(f"Port {third} answers")
    page.get_by_test_id("port-never").click()
    assert str(third) in page.evaluate("JSON.stringify(Object.entries(localStorage))")
    if shots:
        for name, options in [("phone", {"size": "phone"}), ("ko", {"lang": "ko", "size": "phone", "dark": True}), ("dark", {"dark": True})]:
            picture = tab(server, **options)
            picture.goto(f"/w/{id}/")
            if "size" in options:
                picture.get_by_test_id("view-files").click()
            picture.get_by_test_id("side-ports").click()
            expect(picture.get_by_test_id("port-list").locator("li")).to_have_count(3)
            picture.screenshot(path=shots / f"ports-ide-{name}.png")


def test_vite_from_npm_loads_anew_after_an_edit(server, tab, tmp_path, program):
    """As npm has it, without a word of configuration."""
    if not NODE.exists():
        pytest.skip("no Node")
    environment = os.environ | {"PATH": f"{NODE}:{os.environ['PATH']}"}
    (tmp_path / "package.json").write_text(json.dumps({"name": "page", "type": "module"}))
    install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(tmp_path), "vite"]
    done = subprocess.run(install, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"Vite cannot be installed: {done.stderr[-300:]}")
    (tmp_path / "index.html").write_text('<!doctype html><p id=text></p><script type=module src="/main.js"></script>')
    source = 'import { text } from "./text.js"; document.getElementById("text").textContent = text;\nwindow.loads = (window.loads ?? 0) + 1;\nimport.meta.hot?.accept("./text.js", (fresh) => { document.getElementById("text").textContent = fresh.text; });'
    (tmp_path / "main.js").write_text(source)
    (tmp_path / "text.js").write_text('export const text = "before";')
    id, port = server.api.create("vite"), free_port()
    program(id, f"env -C {tmp_path} PATH={NODE}:{os.environ['PATH']} npx vite --port {port} --strictPort")
    wait_for(lambda: port in ports(server, id), "Vite to listen")
    page, said = tab(server), []
    page.on("console", lambda message: said.append(message.text))
    page.goto(address(server, id, port))
    expect(page.locator("#text")).to_have_text("before")
    wait_for(lambda: page.evaluate("1") and any("connected" in one for one in said), "its client to be connected")
    (tmp_path / "text.js").write_text('export const text = "after";')
    expect(page.locator("#text")).to_have_text("after")
    assert page.evaluate("window.loads") == 1, "in place, by its WebSocket"

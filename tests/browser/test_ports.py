"""Ports in the browser: a page that waits for its program, a plain server and its WebSocket, sharing, and a development
server from npm that loads anew after an edit."""

import json
import os
import re
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


def ports(server, id):
    return {one["port"]: one for one in server.api.call("GET", f"/workspaces/{id}/ports")["items"]}


def address(server, id, port):
    """Where a port is."""
    return server.at(id).replace("://", f"://{port}-", 1)


def test_a_page_waits_for_its_program_and_opens_it(server, tab):
    id, port = server.api.create("waits"), free_port()
    page = tab(server, strict=False)
    assert page.goto(address(server, id, port) + "hello.txt").status == 502
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Nothing listens on port {port}")
    run(server, id, f"echo from the workspace > hello.txt; python3 -m http.server --bind 127.0.0.1 {port} >/dev/null 2>&1 &")
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


def test_websockets_pass(server, tab):
    id, port = server.api.create("sockets"), free_port()
    run(server, id, f"{sys.executable} {ECHO} {port} >/dev/null 2>&1 &")
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


def test_a_colleague_sees_a_shared_port_until_it_is_not(server, tab):
    id, port = server.api.create("shared"), free_port()
    run(server, id, f"{sys.executable} {ECHO} {port} >/dev/null 2>&1 &")
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


def test_vite_from_npm_loads_anew_after_an_edit(server, tab, tmp_path):
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
    run(server, id, f"cd {tmp_path} && PATH={NODE}:$PATH npx vite --port {port} --strictPort >vite.log 2>&1 &")
    wait_for(lambda: port in ports(server, id), "Vite to listen")
    page, said = tab(server), []
    page.on("console", lambda message: said.append(message.text))
    page.goto(address(server, id, port))
    expect(page.locator("#text")).to_have_text("before")
    wait_for(lambda: page.evaluate("1") and any("connected" in one for one in said), "its client to be connected")
    (tmp_path / "text.js").write_text('export const text = "after";')
    expect(page.locator("#text")).to_have_text("after")
    assert page.evaluate("window.loads") == 1, "in place, by its WebSocket"

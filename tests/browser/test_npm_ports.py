"""Development servers from npm behind a port, without a word of configuration: webpack-dev-server, and Next with a Server
Action. What is edited shows in the open page, in place. Vite is in test_ports.py; these take longer to install."""

import json
import os
import subprocess
import time

import pytest
from playwright.sync_api import expect

from codehub import wait_for
from test_origins import free_port
from test_ports import NODE, address, ports, program, server  # noqa: F401: fixtures

# What one edit takes is the machine's, too: the fastest of these counts.
EDITS = 3
WITHIN = 2.0


def project(directory, files, *packages):
    """A directory with these files and packages."""
    if not NODE.exists():
        pytest.skip("no Node")
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(directory), *packages]
    environment = os.environ | {"PATH": f"{NODE}:{os.environ['PATH']}"}
    done = subprocess.run(install, env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode:
        pytest.skip(f"{packages[0]} cannot be installed: {done.stderr[-300:]}")


def serve(server, program, name, directory, command):
    """Starts a development server in a workspace; where it is."""
    id, port = server.api.create(name), free_port()
    program(id, f"env -C {directory} PATH={NODE}:{os.environ['PATH']} NEXT_TELEMETRY_DISABLED=1 npx {command.format(port=port)}")
    wait_for(lambda: port in ports(server, id), f"{name} to listen", 120)
    return address(server, id, port)


def edits_show_in_place(page, file, text):
    """The page shows each edit of a file by itself, without being loaded again."""
    page.evaluate("window.here = 1")
    took = []
    for n in range(EDITS):
        began = time.monotonic()
        file.write_text(text(f"edit {n}"))
        expect(page.locator("#text")).to_have_text(f"edit {n}", timeout=60_000)
        took.append(time.monotonic() - began)
    assert page.evaluate("window.here") == 1, "in place"
    assert min(took) < WITHIN, took


def test_webpack_dev_server(server, tab, tmp_path, program):  # noqa: F811
    show = 'import { text } from "./text.js";\nconst show = () => { document.getElementById("text").textContent = text; };\nshow();\nmodule.hot.accept("./text.js", show);\n'
    text = lambda said: f"export const text = {json.dumps(said)};\n"
    files = {
        "package.json": json.dumps({"name": "page", "private": True}), "src/index.js": show, "src/text.js": text("before"),
        "public/index.html": '<!doctype html><p id="text"></p><script src="main.js"></script>',
    }
    project(tmp_path, files, "webpack", "webpack-cli", "webpack-dev-server")
    there = serve(server, program, "webpack", tmp_path, "webpack serve --mode development --port {port}")
    page, said = tab(server, strict=False), []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: said.append(str(frame))))
    wait_for(lambda: page.goto(there).status == 200, "the page to be built", 60)
    expect(page.locator("#text")).to_have_text("before")
    wait_for(lambda: page.evaluate("1") and any('"ok"' in one for one in said), "its client to be connected", 60)
    edits_show_in_place(page, tmp_path / "src/text.js", text)


def test_next_with_a_server_action(server, tab, tmp_path, program):  # noqa: F811
    layout = "export default function Layout({ children }) { return <html><body>{children}</body></html>; }\n"
    text = lambda said: """
import { cookies } from "next/headers";
import { redirect } from "next/navigation";

export default async function Page() {
  async function act(data) {
    "use server";
    (await cookies()).set("said", data.get("word"));
    redirect("/");
  }
  const said = (await cookies()).get("said")?.value ?? "nothing";
  return <main><p id="text">%s</p><p id="said">{said}</p><form action={act}><input name="word" /><button>send</button></form></main>;
}
""" % said
    files = {"package.json": json.dumps({"name": "page", "private": True}), "app/layout.js": layout, "app/page.js": text("before")}
    project(tmp_path, files, "next", "react", "react-dom")
    there = serve(server, program, "next", tmp_path, "next dev --port {port}")
    page = tab(server, strict=False)
    # The first page is compiled when it is asked for.
    page.set_default_timeout(120_000)
    page.set_default_navigation_timeout(120_000)
    page.goto(there)
    expect(page.locator("#text")).to_have_text("before", timeout=60_000)
    expect(page.locator("#said")).to_have_text("nothing")
    page.get_by_role("textbox").fill("hello")
    page.get_by_role("button", name="send").click()
    expect(page.locator("#said")).to_have_text("hello", timeout=60_000)
    assert page.url == there, "the redirect stays at the port"
    edits_show_in_place(page, tmp_path / "app/page.js", text)

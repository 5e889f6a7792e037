"""A real code-server in a container, its home archived in a real S3 server: what somebody made is all there."""

import os
import re
import subprocess

import pytest
from idle_rig import REPO, TTL, chromium, server, until
from test_idle_code_server import command, opened, terminal

ENGINE, BUCKET = os.environ.get("CODEHUB_TEST_DOCKER"), os.environ.get("CODEHUB_TEST_S3")
VERSION = re.search(r"^version=(.*)$", (REPO / "images/code-server/recipe").read_text(), re.M).group(1)
IMAGE = f"codehub/code-server:{VERSION}"
FOLDER, TEXT = "/home/coder/project", "written in the editor"


def docker(*words):
    ran = subprocess.run(["docker", "-H", ENGINE.split()[0], *words], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def has_image():
    known = ["docker", "-H", ENGINE.split()[0], "image", "inspect", IMAGE]
    return subprocess.run(known, capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(
    not ENGINE or not BUCKET or not has_image(),
    reason="no engine, no S3 server, or no image (scripts/image-build code-server)",
)


def settings():
    endpoint, bucket, key, secret = BUCKET.split()
    return {
        "RUNTIME": "docker", "DOCKER_HOST": ENGINE.split()[0], "RUNTIME_IMAGE": IMAGE, "RUNTIME_PULL": "never",
        "S3_ENDPOINT": endpoint, "S3_BUCKET": bucket, "S3_ACCESS_KEY": key, "S3_SECRET_KEY": secret,
    }


def go(running, id, verb, phase):
    found = running.call("POST", f"/workspaces/{id}/{verb}?wait=120", {})
    assert found["phase"] == phase, found


def inside(id, *words):
    container = docker("ps", "-q", "--filter", f"label=codehub.workspace={id}", "--filter", "name=codehub-ws-")
    return docker("exec", container, *words)


def answer(page, text):
    """Fills in the box that a command has opened."""
    box = page.locator(".quick-input-widget input[type=text]").first
    box.wait_for(timeout=20_000)
    # The box reads the folder it names after every change, and shows nothing when it has.
    page.wait_for_timeout(1000)
    box.fill(text)
    page.wait_for_timeout(1000)
    page.keyboard.press("Enter")


def item(page, name):
    return page.locator(f".explorer-folders-view [role=treeitem][aria-label*='{name}']")


def test_what_was_made_in_the_browser_survives_stop_archive_and_restore(tmp_path):
    awake = {"TTL_STANDBY_SECONDS": "3600", "TTL_ARCHIVE_SECONDS": "3600"}
    with server(tmp_path, "auto", **settings(), **awake) as running, chromium() as browser:
        id = running.create("project")
        inside(id, "mkdir", FOLDER)
        page = opened(running, browser, id)

        command(page, "File: Open Folder")
        answer(page, FOLDER + "/")
        page.wait_for_url(re.compile("folder=" + FOLDER), timeout=60_000)
        page.wait_for_selector(".monaco-workbench", timeout=60_000)
        page.get_by_text("project", exact=False).first.wait_for(timeout=60_000)

        command(page, "File: New Untitled Text File")
        page.wait_for_selector(".editor-group-container .monaco-editor", timeout=30_000)
        page.keyboard.type(TEXT)
        page.keyboard.press("Control+s")
        answer(page, FOLDER + "/hello.txt")
        item(page, "hello.txt").wait_for(timeout=30_000)
        until(30, lambda: inside(id, "cat", FOLDER + "/hello.txt") == TEXT)

        terminal(page, "tr a-z A-Z < hello.txt > made.txt; id -un >> made.txt")
        item(page, "made.txt").wait_for(timeout=60_000)
        # A terminal of the workspace's user.
        until(30, lambda: inside(id, "cat", FOLDER + "/made.txt") == TEXT.upper() + "coder")
        made = inside(id, "cat", FOLDER + "/made.txt")
        page.context.close()

        go(running, id, "stop", "STANDBY")
        go(running, id, "archive", "ARCHIVED")
        assert docker("volume", "ls", "-q", "--filter", f"label=codehub.workspace={id}") == ""
        go(running, id, "start", "RUNNING")

        page = running.tab(browser, id, f"?folder={FOLDER}")
        page.wait_for_selector(".monaco-workbench", timeout=90_000)
        item(page, "made.txt").wait_for(timeout=60_000)
        item(page, "hello.txt").dblclick()
        page.locator(".editor-group-container .view-line", has_text=TEXT.split()[0]).wait_for(timeout=30_000)
        assert inside(id, "cat", FOLDER + "/made.txt") == made
        assert inside(id, "stat", "-c", "%U:%G", FOLDER, FOLDER + "/hello.txt") == "coder:coder\ncoder:coder"
        quiet = inside(id, "cat", ".local/share/code-server/User/settings.json")
        assert '"chat.disableAIFeatures": true' in quiet, "an idle tab is quiet here, too"


def test_a_tab_left_alone_sleeps_in_a_container_too(tmp_path):
    with server(tmp_path, "auto", **settings()) as running, chromium() as browser:
        id = running.create("alone")
        opened(running, browser, id)
        slept = until(TTL + 120, lambda: running.phase(id) == "STANDBY")
        print(f"left alone: STANDBY after {slept:.0f} s (TTL {TTL})")
        reasons = [line["reason_code"] for line in running.call("GET", f"/workspaces/{id}/history")["items"]]
        assert "ttl_standby" in reasons, reasons

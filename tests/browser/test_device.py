"""`codehub login`: a program shows a code, and a person confirms it in the browser."""

import os
import re
import subprocess

import pytest
from playwright.sync_api import expect

from codehub import ADMIN, BINARY, PASSWORD
from dashboard import fill, press, sign_in


def login(server, home):
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    asking = subprocess.Popen(
        [BINARY, "login", server.url, "--no-browser"], env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    for line in asking.stderr:
        if found := re.search(r"code=([A-Z]{4}-[A-Z]{4})", line):
            return asking, found.group(1), env
    raise AssertionError("no code was shown")


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_code_is_typed_and_allowed(server, tab, tmp_path, lang):
    asking, code, env = login(server, tmp_path)
    page = tab(server, user=None, lang=lang)
    page.goto("/device")
    sign_in(page, ADMIN, PASSWORD)
    expect(page.get_by_test_id("device-form")).to_be_visible()
    fill(page, code=code.lower().replace("-", " "))
    press(page, "device-continue")
    expect(page.get_by_test_id("device-code")).to_have_text(code)
    expect(page.get_by_test_id("device-machine")).to_have_text(os.uname().nodename)
    press(page, "device-allow")
    expect(page.get_by_test_id("device-decided")).to_have_attribute("data-allowed", "true")
    asking.stderr.read()
    assert asking.wait() == 0
    who = subprocess.run([BINARY, "whoami"], env=env, capture_output=True, text=True)
    assert who.stdout == ADMIN + "\n", who.stderr
    # Used: the page says so, and does nothing.
    page.goto(f"/device?code={code}")
    expect(page.get_by_test_id("device-error")).to_be_visible()
    subprocess.run([BINARY, "logout"], env=env, check=True, stderr=subprocess.DEVNULL)


def test_a_code_is_compared_and_denied(server, tab, tmp_path):
    asking, code, _ = login(server, tmp_path)
    page = tab(server)
    page.goto(f"/device?code={code}")
    expect(page.get_by_test_id("device-code")).to_have_text(code)
    press(page, "device-deny")
    expect(page.get_by_test_id("device-decided")).to_have_attribute("data-allowed", "false")
    asking.stderr.read()
    assert asking.wait() == 3

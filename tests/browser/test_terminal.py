"""Real programs in the built-in terminal."""

import re
import time

import pytest
from playwright.sync_api import expect

from codehub import Wire
from ide import Ide


@pytest.fixture(scope="module")
def workspace(server):
    return server.api.create("terminal")


@pytest.fixture
def ide(server, tab, workspace):
    """A terminal of its own, as large as the page."""
    page = tab(server)
    return fresh_terminal(Ide(page).open(workspace))


def fresh_terminal(ide):
    ide.open_terminal()
    ide.page.get_by_test_id("maximize-terminal").click()
    ide.ready()
    ide.run("PS1='$ '; clear")
    expect(ide.screen).to_have_text(re.compile(r"^\s*\$\s*$"))
    return ide


def compose(page, *steps):
    """Types with an input method: each step is what is being composed, the last is what it becomes."""
    session = page.context.new_cdp_session(page)
    for text in steps:
        args = {"text": text, "selectionStart": len(text), "selectionEnd": len(text)}
        session.send("Input.imeSetComposition", args)
    session.send("Input.insertText", {"text": steps[-1]})


def test_vim_opens_edits_resizes_saves_and_quits(ide):
    page = ide.page
    ide.run("vim -u NONE -N poem.txt")
    ide.sees("poem.txt")
    ide.sees("~")
    ide.type("iroses are red")
    ide.press("Enter")
    ide.type("violets are blue")
    ide.press("Escape")
    ide.sees("violets are blue")
    rows = ide.screen.locator(".row-line")
    before = rows.count()

    page.set_viewport_size({"width": 900, "height": 500})
    expect(rows).not_to_have_count(before)
    # Vim has drawn itself anew: its last line is the terminal's last but one or so, and says where.
    ide.type(":set lines? columns?")
    ide.press("Enter")
    ide.sees(re.compile(rf"lines={rows.count()}\b"))
    ide.press("Enter")
    ide.sees("roses are red")
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(rows).to_have_count(before)

    ide.press("g", "g", "d", "d")
    expect(ide.screen).not_to_contain_text("roses are red")
    ide.type(":wq")
    ide.press("Enter")
    ide.sees("$")
    ide.run("clear; cat poem.txt; echo the end")
    ide.sees(re.compile(r"violets are blue\s*the end"))
    expect(ide.screen).not_to_contain_text("~")


def test_a_narrower_window_wraps_long_lines_anew_and_a_wider_one_joins_them(ide):
    page, line = ide.page, "x" * 40 + "0123456789" * 8 + "end"
    ide.run(f"echo {line}")
    one = ide.screen.locator(".row-line", has_text=re.compile(f"^{line}\\s*$"))
    expect(one).to_have_count(1)
    page.set_viewport_size({"width": 900, "height": 800})
    expect(one).to_have_count(0)
    expect(ide.screen.locator(".row-line", has_text=re.compile(r"end\s*$")).last).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(one).to_have_count(1)


def test_korean_is_composed_typed_and_shown(ide):
    page = ide.page
    ide.type("echo '")
    compose(page, "ㅎ", "하", "한")
    compose(page, "ㄱ", "그", "글")
    ide.type("' > 한글.txt; clear; cat 한글.txt; wc -m < 한글.txt")
    ide.press("Enter")
    ide.sees(re.compile(r"한글\s*3"))
    page.get_by_test_id("maximize-terminal").click()
    expect(page.get_by_role("treeitem", name="한글.txt")).to_be_visible()
    page.get_by_role("treeitem", name="한글.txt").click()
    expect(ide.editor).to_have_value("한글\n")


def test_what_is_being_composed_is_seen_and_sent_once(ide):
    page = ide.page
    ide.keys.focus()
    session = page.context.new_cdp_session(page)
    session.send("Input.imeSetComposition", {"text": "가", "selectionStart": 1, "selectionEnd": 1})
    expect(ide.keys).to_have_class(re.compile("composing"))
    expect(ide.keys).to_have_value("가")
    expect(ide.screen).not_to_contain_text("가")
    session.send("Input.insertText", {"text": "가"})
    expect(ide.screen).to_have_text(re.compile(r"^\s*\$ 가\s*$"))
    ide.press("Backspace")
    expect(ide.screen).to_have_text(re.compile(r"^\s*\$\s*$"))


def test_f1_is_ours_at_the_prompt_and_a_programs_on_its_screen(ide):
    page = ide.page
    ide.press("F1")
    expect(page.get_by_test_id("palette-input")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("palette-input")).to_be_hidden()
    ide.run("printf '\\033[?1049h'; cat -v")
    expect(ide.screen).to_have_text(re.compile(r"^\s*$"))
    ide.press("F1", "Enter")
    ide.sees("^[OP")
    expect(page.get_by_test_id("palette-input")).to_be_hidden()
    ide.press("Control+c")
    ide.run("printf '\\033[?1049l'")


def test_less_and_top_are_usable(ide):
    # 1 and 500 are in the command, too, and what is typed before less listens is not for it.
    ide.run("seq 1 500 | less")
    ide.sees(re.compile(r"\b2\b"))
    ide.press("G")
    ide.sees(re.compile(r"\b499\b"))
    ide.type("/123")
    ide.press("Enter", "g")
    ide.sees(re.compile(r"\b2\b"))
    ide.press("q")
    expect(ide.screen).to_have_text(re.compile(r"\$ seq 1 500 \| less\s*\$\s*$"), use_inner_text=True)
    ide.run("TERM=xterm-256color top")
    ide.sees("PID")
    ide.press("q")
    expect(ide.screen).to_have_text(re.compile(r"\$\s*$"))


def test_a_reload_finds_the_terminal_as_it_was(ide):
    page = ide.page
    ide.run("vim -u NONE -N kept.txt")
    ide.sees("~")  # the name is in the command, too
    ide.type("istill here")
    ide.sees("still here")
    count = page.get_by_test_id("term-tab").count()
    page.reload()
    expect(page.get_by_test_id("term-tab")).to_have_count(count)
    page.get_by_test_id("term-tab").last.click()
    ide.sees("still here")
    ide.type(", and going on")
    ide.sees("still here, and going on")
    ide.press("Escape")
    ide.type(":q!")
    ide.press("Enter")
    ide.sees("$")


def test_a_cut_network_loses_nothing(server, tab, workspace):
    wire = Wire(server)
    page = tab(wire, strict=False)
    ide = fresh_terminal(Ide(page).open(workspace))
    # What is printed is not in the command: it has begun, so all of it has arrived.
    ide.run("echo bef''ore; sleep 2; echo and-''then")
    ide.sees("before")
    page.context.set_offline(True)
    wire.cut()
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "lost")
    expect(page.get_by_test_id("connection-banner")).to_be_visible()
    ide.sees("before")
    wire.mend()
    page.context.set_offline(False)
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "open")
    expect(page.get_by_test_id("connection-banner")).to_be_hidden()
    ide.sees(re.compile(r"before.*\n?.*and-then", re.S))
    ide.run("echo aft''er")
    ide.sees("after")
    wire.close()


def test_an_idle_tab_sends_nothing(ide):
    page, said = ide.page, []
    page.context.new_cdp_session(page)  # keeps the page's network events coming
    page.on("request", lambda request: said.append(request.url))
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.webSocketFrameSent", lambda frame: said.append(frame["response"]["payloadData"]))

    def silent(seconds):
        said.clear()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            page.wait_for_timeout(250)
        return said == []

    # What was typed and written last may still be told and asked about; then there is nothing more to say. That hands were
    # there is told at most every 20 s, so its last word may come at any moment of that.
    assert any(silent(1) for _ in range(20)), said
    assert any(silent(5) for _ in range(2)), said

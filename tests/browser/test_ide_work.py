"""A day's work in the built-in IDE: a repository of thousands of files, a symbol found and renamed in them, the change
looked at and committed, and the repository's tests run."""

import re
import subprocess
import time

import pytest
from playwright.sync_api import expect

from codehub import wait_for
from gallery import home as home_of
from ide import LISTEN, Held, Ide

MODULES = 5000
OLD, NEW = "compute_total", "sum_of_parts"


def git(directory, *arguments):
    done = subprocess.run(["git", "-C", str(directory), *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def repository(home):
    """A Python package of many modules, of which some use one function, with tests that run all of them."""
    project = home / "project"
    (project / "pkg").mkdir(parents=True)
    (project / "pkg" / "__init__.py").write_text("")
    (project / "pkg" / "core.py").write_text(f"def {OLD}(parts):\n    return sum(parts)\n")
    for n in range(MODULES):
        folder = project / "pkg" / f"part{n // 100:02}"
        if n % 100 == 0:
            folder.mkdir()
            (folder / "__init__.py").write_text("")
        uses = f"from pkg.core import {OLD}\n\n\ndef value():\n    return {OLD}([{n}, 1])\n"
        (folder / f"module{n:04}.py").write_text(uses if n % 250 == 0 else f"def value():\n    return {n + 1}\n")
    (project / "tests.py").write_text(
        "import importlib\nimport unittest\n\n\nclass Values(unittest.TestCase):\n    def test_all(self):\n"
        f"        for n in range({MODULES}):\n"
        "            module = importlib.import_module(f'pkg.part{n // 100:02}.module{n:04}')\n"
        "            self.assertEqual(module.value(), n + 1)\n"
    )
    (project / ".gitignore").write_text("__pycache__\nbuild/\n")
    (project / "build").mkdir()
    (project / "build" / "copy.py").write_text(f"{OLD} in a file that git ignores\n")
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "config", "user.name", "Worker")
    git(project, "config", "user.email", "worker@example.com")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "Begin")
    return project


def test_find_rename_look_commit_and_run_the_tests(server, tab):
    if not subprocess.run(["which", "git"], capture_output=True).stdout:
        pytest.skip("no git")
    workspace = server.api.create("real work")
    home = home_of(server, workspace)
    project = repository(home)
    page = tab(server)
    ide = Ide(page).open(workspace)
    expect(page.get_by_test_id("branch")).to_contain_text("main")

    # Go to a file by a few letters of its name.
    page.get_by_test_id("drop-zone").click(position={"x": 60, "y": 200})
    page.keyboard.press("Control+p")
    page.keyboard.type("pkgcore")
    expect(page.get_by_test_id("palette-row").first).to_have_attribute("data-path", "project/pkg/core.py")
    page.keyboard.press("Enter")
    expect(ide.editor).to_have_value(re.compile(OLD))

    # Find the symbol everywhere, from the selection.
    page.keyboard.press("Control+g")
    page.keyboard.type("1:5")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("position")).to_have_text("Ln 1, Col 5")
    for _ in range(len(OLD)):
        page.keyboard.press("Shift+ArrowRight")
    began = time.monotonic()
    page.keyboard.press("Control+Shift+F")
    status = page.get_by_test_id("search-status")
    expect(page.get_by_test_id("search-input")).to_have_value(OLD)
    users = MODULES // 250 + 1
    expect(status).to_contain_text(f"{2 * (users - 1) + 1} lines in {users} files.")
    print(f"searched {MODULES} files in {time.monotonic() - began:.2f} s, as seen in the browser")
    page.locator("[data-testid=search-file][data-path$='module0250.py']").scroll_into_view_if_needed()

    # Rename it in files: every change is shown first, and one is left out and taken in again.
    page.get_by_test_id("search-more").click()
    page.get_by_test_id("search-replace").fill(NEW)
    expect(page.get_by_test_id("search-after").first).to_contain_text(NEW)
    apply = page.get_by_test_id("search-apply")
    lines = 2 * (users - 1) + 1
    expect(apply).to_have_text(f"Replace in {lines} lines")
    page.get_by_test_id("search-line-box").first.uncheck()
    expect(apply).to_have_text(f"Replace in {lines - 1} lines")
    page.get_by_test_id("search-line-box").first.check()
    page.evaluate(LISTEN)
    apply.click()
    page.get_by_test_id("choose-ok").click()
    expect(status).to_have_text("No matches")
    said = page.evaluate("window.passed")
    assert any(f"Replaced {lines} lines in {users} files" in one for one in said), said
    assert OLD not in (project / "pkg" / "part02" / "module0250.py").read_text()
    assert OLD in (project / "build" / "copy.py").read_text(), "what git ignores is left alone"
    # The open file follows, and its changed line is marked.
    expect(ide.editor).to_have_value(re.compile(NEW))
    expect(page.locator(".number.change.modified").first).to_have_text("1")

    # See the difference, side by side and inline.
    page.keyboard.press("Control+Shift+G")
    changed = page.get_by_test_id("git-file")
    expect(changed).to_have_count(users)
    page.locator("[data-testid=git-file][data-path$='core.py']").click()
    expect(page.get_by_test_id("compare-removed")).to_contain_text(f"def {OLD}(parts):")
    expect(page.get_by_test_id("compare-added")).to_contain_text(f"def {NEW}(parts):")
    page.get_by_test_id("diff-mode").click()
    expect(page.locator(".compare.inline")).to_be_visible()
    expect(page.get_by_test_id("compare-added")).to_contain_text(f"def {NEW}(parts):")
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("diff")).to_be_hidden()

    # Stage one, commit it; then the rest at once.
    page.locator("[data-testid=git-changes] li", has_text="core.py").get_by_test_id("git-stage").click()
    expect(page.get_by_test_id("git-staged").get_by_test_id("git-file")).to_have_count(1)
    page.get_by_test_id("git-message").fill("Rename the function")
    page.get_by_test_id("git-commit").click()
    expect(changed).to_have_count(users - 1)
    page.get_by_test_id("git-message").fill("Use its new name")
    page.get_by_test_id("git-commit").click()
    expect(page.get_by_test_id("git-note")).to_have_text("No changes since the last commit.")
    assert git(project, "log", "--format=%s").splitlines() == ["Use its new name", "Rename the function", "Begin"]
    assert git(project, "status", "--porcelain") == ""

    # Its tests still pass.
    ide.run("cd project && python3 -m unittest -q tests; echo result $?")
    # Thousands of modules are compiled: minutes, where others want the machine.
    expect(ide.screen).to_contain_text("result 0", use_inner_text=True, timeout=240_000)
    page.get_by_test_id("side-files").click()
    # A commit made in the terminal is noticed, too.
    ide.run("git checkout -q -b other && echo done switching")
    ide.sees("done switching")
    expect(page.get_by_test_id("branch")).to_contain_text("other")


def test_somebody_is_faster_than_the_server(server, tab):
    workspace = server.api.create("in a hurry")
    project = home_of(server, workspace) / "project"
    project.mkdir()
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "config", "user.name", "Worker")
    git(project, "config", "user.email", "worker@example.com")
    for name in ("wanted.txt", "other.txt"):
        (project / name).write_text(f"{name}\n")
    page = tab(server)
    ide = Ide(page).open(workspace)
    expect(page.get_by_test_id("branch")).to_contain_text("main")

    # Enter before the files are found: what was typed is opened once they are.
    page.get_by_test_id("palette-open").click()
    finding = Held(page, "**/api/find?*")
    page.get_by_test_id("palette-input").fill("wanted")
    finding.wait()
    page.keyboard.press("Enter")
    finding.let_go()
    expect(ide.editor).to_have_value("wanted.txt\n")

    # The next message is written while the page still looks what the last commit has changed.
    page.get_by_test_id("side-git").click()
    page.locator("[data-testid=git-changes] li", has_text="other.txt").get_by_test_id("git-stage").click()
    expect(page.get_by_test_id("git-staged").get_by_test_id("git-file")).to_have_count(1)
    message = page.get_by_test_id("git-message")
    message.fill("The first")
    asking = Held(page, "**/api/git/status?*")
    page.get_by_test_id("git-commit").click()
    asking.wait()
    message.fill("The second")
    asking.let_go()
    expect(page.get_by_test_id("git-file")).to_have_count(1)
    expect(page.get_by_test_id("git-commit")).to_be_enabled()
    expect(message).to_have_value("The second")
    page.get_by_test_id("git-commit").click()
    expect(page.get_by_test_id("git-note")).to_have_text("No changes since the last commit.")
    assert git(project, "log", "--format=%s").splitlines() == ["The second", "The first"]


def test_what_others_wrote_is_not_replaced_and_named(server, tab):
    workspace = server.api.create("replace carefully")
    home = home_of(server, workspace)
    for name in ("a", "b", "c"):
        (home / f"{name}.txt").write_text("colour\n")
    page = tab(server)
    ide = Ide(page).open(workspace)
    ide.edit("c.txt")
    expect(ide.editor).to_have_value("colour\n")
    ide.editor.press("Control+End")
    page.keyboard.type("unsaved")
    page.keyboard.press("Control+Shift+H")
    page.get_by_test_id("search-input").fill("colour")
    page.get_by_test_id("search-replace").fill("color")
    # With both fields filled in: what is found before that is found again.
    expect(page.get_by_test_id("search-after")).to_have_text(["color"] * 3)
    (home / "b.txt").write_text("colour, said somebody else\n")
    page.get_by_test_id("search-apply").click()
    page.get_by_test_id("choose-ok").click()
    failures = page.get_by_test_id("replace-failure")
    expect(failures).to_have_count(2)
    expect(failures.nth(0)).to_contain_text("b.txt: ")
    expect(failures.nth(0)).to_contain_text("changed on disk")
    expect(failures.nth(1)).to_contain_text("c.txt: It has unsaved changes")
    assert (home / "a.txt").read_text() == "color\n"
    assert (home / "b.txt").read_text() == "colour, said somebody else\n"
    assert (home / "c.txt").read_text() == "colour\n"


def test_search_options_and_typing_on(server, tab):
    workspace = server.api.create("search")
    home = home_of(server, workspace)
    (home / "src").mkdir()
    (home / "src" / "one.py").write_text("Total = total + totals\n")
    (home / "two.md").write_text("total(1)\n")
    page = tab(server)
    Ide(page).open(workspace)
    page.get_by_test_id("side-search").click()
    status, field = page.get_by_test_id("search-status"), page.get_by_test_id("search-input")
    lines = page.get_by_test_id("search-line")
    # Typed letter by letter; only what was typed last is shown.
    field.press_sequentially("total")
    expect(status).to_have_text("2 lines in 2 files.")
    expect(lines.first.locator("mark")).to_have_count(3)
    page.get_by_test_id("search-word").click()
    expect(lines.first.locator("mark")).to_have_count(2)
    page.get_by_test_id("search-case").click()
    expect(lines.first.locator("mark")).to_have_count(1)
    page.get_by_test_id("search-word").click()
    page.get_by_test_id("search-regex").click()
    field.fill(r"total\(\d")
    expect(status).to_have_text("1 line in 1 file.")
    field.fill("total(")
    expect(status).to_contain_text("regular expression")
    page.get_by_test_id("search-regex").click()
    field.fill("total")
    page.get_by_text("Where to search").click()
    page.get_by_test_id("search-include").fill("src")
    expect(page.get_by_test_id("search-file")).to_have_text([re.compile("one.py")])
    lines.first.click()
    expect(page.get_by_test_id("open-path")).to_have_text("src/one.py")
    expect(page.get_by_test_id("position")).to_have_text("Ln 1, Col 14")


def test_editing_conveniences(server, tab):
    workspace = server.api.create("editing")
    home = home_of(server, workspace)
    (home / "a.py").write_text("def f():\n    return 1\n")
    page = tab(server)
    ide = Ide(page).open(workspace)
    ide.edit("a.py")
    expect(ide.editor).to_have_value(re.compile("return"))
    ide.editor.press("Control+End")
    # Brackets close themselves and are typed over; between braces Enter opens a block.
    page.keyboard.type("x = g(h[1], 'it')")
    expect(ide.editor).to_have_value("def f():\n    return 1\nx = g(h[1], 'it')")
    page.keyboard.press("Enter")
    page.keyboard.type("y = {")
    page.keyboard.press("Enter")
    page.keyboard.type("1")
    expect(ide.editor).to_have_value(re.compile(r"y = \{\n    1\n\}$"))
    # Comments.
    ide.editor.press("Control+a")
    ide.editor.press("Control+/")
    expect(ide.editor).to_have_value(re.compile(r"^# def f\(\):\n#     return 1\n# x = g"))
    ide.editor.press("Control+/")
    expect(ide.editor).to_have_value(re.compile(r"^def f\(\):\n    return 1\nx = g"))
    ide.editor.press("Control+z")
    expect(ide.editor).to_have_value(re.compile(r"^# def"))
    ide.editor.press("Control+z")
    # Replace in the file.
    ide.editor.press("Control+h")
    page.get_by_test_id("find-input").fill(r"(\w) = ")
    page.get_by_test_id("find-regex").click()
    page.get_by_test_id("replace-input").fill("$1: int = ")
    expect(page.get_by_test_id("find-count")).to_contain_text("2")
    page.get_by_test_id("replace-all").click()
    expect(ide.editor).to_have_value(re.compile(r"\nx: int = g.*\ny: int = \{"))
    page.get_by_test_id("find-input").press("Escape")
    ide.save()
    # Wrapped lines keep text and drawing together.
    ide.editor.press("Control+Home")
    page.keyboard.type(f"# {'word ' * 100}")
    ide.editor.press("Alt+z")
    heights = "() => [document.querySelector('.code-text .line').offsetHeight, document.querySelector('.number').offsetHeight]"
    page.wait_for_function(f"() => {{ const [drawn, numbered] = ({heights})(); return drawn >= 40 && drawn === numbered; }}")
    ide.editor.press("Alt+z")
    # Size of the text, kept for the next time.
    size = "() => parseFloat(getComputedStyle(document.querySelector('.code-input')).fontSize)"
    assert page.evaluate(size) == 13
    ide.editor.press("Alt+=")
    ide.editor.press("Alt+=")
    assert page.evaluate(size) == 15
    page.keyboard.press("F1")
    page.keyboard.type("usual text")
    page.keyboard.press("Enter")
    assert page.evaluate(size) == 13


def test_terminal_links_search_menu_and_ctrl_w(server, tab):
    workspace = server.api.create("terminal comforts")
    home = home_of(server, workspace)
    (home / "app" / "src").mkdir(parents=True)
    (home / "app" / "src" / "main.rs").write_text("fn main() {\n    oops\n}\n")
    page = tab(server)
    ide = Ide(page).open(workspace)
    ide.run("cd app && clear && echo 'error: src/main.rs:2:5: no' && seq 1 300 && echo the''end")
    ide.sees("theend")

    # What scrolled away is found.
    ide.press("Control+Shift+F")
    page.get_by_test_id("term-find-input").locator("visible=true").fill("main.rs")
    count = page.get_by_test_id("term-find-count").locator("visible=true")
    expect(count).to_have_text("1 of 1")
    line = page.locator(".row-line", has_text="error: src/main.rs:2:5: no").locator("visible=true").last
    expect(line).to_be_visible()

    # Ctrl+click opens the place that is named, relative to where the shell is.
    def click(row, text, **how):
        # A row that has just come is still to be put in its place: the click waits for that.
        width = page.locator(".term-ruler").first.evaluate("ruler => ruler.getBoundingClientRect().width / 50")
        row.click(position={"x": width * (row.inner_text().index(text) + 2), "y": row.bounding_box()["height"] / 2}, **how)

    click(line, "src/main.rs", modifiers=["Control"])
    expect(page.get_by_test_id("open-path")).to_have_text("app/src/main.rs")
    expect(page.get_by_test_id("position")).to_have_text("Ln 2, Col 5")

    # The menu offers what is under the mouse.
    ide.press("Control+l")
    ide.run("echo to https://example.com/page.")
    line = page.locator(".row-line", has_text=re.compile(r"^to https://example\.com/page\.")).locator("visible=true").last
    expect(line).to_be_visible()
    click(line, "https", button="right")
    expect(page.get_by_test_id("term-menu-open")).to_have_text("Open https://example.com/page")
    page.keyboard.press("Escape")

    # Ctrl+W in a terminal asks before the tab is closed; closing it otherwise does not.
    asked = []

    def answer(dialog):
        asked.append(dialog.type)
        dialog.dismiss()

    page.on("dialog", answer)
    ide.keys.focus()
    page.keyboard.down("Control")
    page.close(run_before_unload=True)
    wait_for(lambda: page.wait_for_timeout(50) or asked, "the question")
    assert asked == ["beforeunload"] and not page.is_closed()
    page.keyboard.up("Control")
    with page.expect_event("close"):
        page.close(run_before_unload=True)
    assert len(asked) == 1

"""Every part of the built-in IDE, in every look; and what opening it costs."""

import subprocess
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from codehub import PASSWORD, Wire, wait_for
from dashboard import follow
from gallery import home as home_of
from ide import Ide

CHECKS = (Path(__file__).parent / "checks.js").read_text()
# Beyond what can be checked of any page: what assistive technology needs of these widgets.
WIDGETS = """() => {
  const wrong = [];
  const inside = '[role=tab] :is(button, a[href], input, [tabindex]), [role=option] :is(button, a[href], input, [tabindex])';
  for (const element of document.querySelectorAll(inside)) wrong.push(`a control within a control: ${element.outerHTML.slice(0, 100)}`);
  for (const bar of document.querySelectorAll("[role=separator][tabindex]")) {
    const [low, now, high] = ["min", "now", "max"].map((name) => Number(bar.getAttribute(`aria-value${name}`) ?? NaN));
    if (!(low <= now && now <= high)) wrong.push(`a splitter without its place: ${bar.id}`);
  }
  for (const element of document.querySelectorAll("[aria-controls]")) {
    if (!document.getElementById(element.getAttribute("aria-controls"))) wrong.push(`controls nothing: ${element.id}`);
  }
  return wrong;
}"""


@pytest.fixture(scope="module")
def project(server):
    """A workspace with a repository in which something changed."""
    workspace = server.api.create("looks")
    home = home_of(server, workspace)

    def git(*arguments):
        subprocess.run(["git", "-C", str(home / "project"), *arguments], check=True, capture_output=True)

    (home / "project" / "src").mkdir(parents=True)
    for n in range(6):
        text = f"def value_{n}():\n    return {n}\n\nclass Thing:\n    first = value_{n}()\n"
        (home / "project" / "src" / f"a_module_with_a_long_name_{n}.py").write_text(text)
    (home / "project" / "README.md").write_text("# Title\n\nSome **bold** text.\n\n- [ ] open\n- [x] done\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    (home / "bytes.bin").write_bytes(bytes(range(256)) * 64)
    git("init", "--quiet", "--initial-branch=main")
    git("config", "user.name", "A")
    git("config", "user.email", "a@example.com")
    git("add", "--all")
    git("commit", "--quiet", "--message", "Begin")
    changed = home / "project" / "src" / "a_module_with_a_long_name_2.py"
    changed.write_text(changed.read_text().replace("return 2", "return 3") + "more = 1\n")
    (home / "project" / "new.txt").write_text("new\n")
    git("add", "new.txt")
    return workspace


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize("size", ["desktop", "small"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_part_in_every_look(server, tab, shots, project, lang, size, dark):
    page = tab(server, dark=dark, lang=lang, size="phone" if size == "small" else "desktop")
    phone = size == "small"
    if phone:
        page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"/w/{project}/")
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "open")
    wrong = []

    def look(name):
        page.wait_for_timeout(100)
        if shots:
            page.screenshot(path=shots / f"ide-{name}-{size}-{lang}-{'dark' if dark else 'light'}.png")
        wrong.extend(f"{name} {problem}" for problem in page.evaluate(CHECKS) + page.evaluate(WIDGETS))

    def side(name):
        if phone:
            page.get_by_test_id("view-files").click()
        page.get_by_test_id(f"side-{name}").click()

    def go_to(name):
        page.get_by_test_id("palette-open").click()
        page.get_by_test_id("palette-input").fill(name)
        expect(page.get_by_test_id("palette-row").first).to_contain_text(name)
        page.keyboard.press("Enter")
        expect(page.get_by_test_id("open-path")).to_contain_text(name)

    side("files")
    page.locator("[data-path=project] > .row").click()
    expect(page.locator("[role=treeitem][data-path='project/new.txt']")).to_be_visible()
    look("tree")
    side("search")
    page.get_by_test_id("search-more").click()
    page.get_by_test_id("search-input").fill("value_")
    page.get_by_test_id("search-replace").fill("number_")
    expect(page.get_by_test_id("search-after").first).to_be_visible()
    look("search")
    page.get_by_test_id("search-line").nth(1).click()
    expect(page.get_by_test_id("editor").locator("visible=true")).to_be_visible()
    page.keyboard.press("Control+h")
    expect(page.get_by_test_id("replace-input")).to_be_visible()
    look("find")
    page.get_by_test_id("find-close").click()
    side("git")
    expect(page.get_by_test_id("git-file")).to_have_count(2)
    look("git")
    page.get_by_test_id("git-file").last.click()
    expect(page.get_by_test_id("compare-added").first).to_be_visible()
    look("difference")
    page.get_by_test_id("diff-close").click()
    page.get_by_test_id("palette-open").click()
    look("commands")
    page.keyboard.press("Escape")
    go_to("README.md")
    page.get_by_test_id("preview-toggle").click()
    expect(page.get_by_test_id("preview")).to_be_visible()
    look("preview")
    go_to("bytes.bin")
    expect(page.locator(".hex-rows")).to_contain_text("00000010")
    look("bytes")
    assert not wrong, "\n".join(wrong)


def test_what_the_page_costs(server, tab, project):
    page = tab(server)
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    sizes = {}
    names = {}
    session.on("Network.requestWillBeSent", lambda event: names.__setitem__(event["requestId"], event["request"]["url"]))
    session.on("Network.loadingFinished", lambda event: sizes.__setitem__(event["requestId"], event["encodedDataLength"]))
    page.goto(f"/w/{project}/")
    expect(page.get_by_test_id("tree-item").first).to_be_visible()
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "open")
    static = sum(size for id, size in sizes.items() if "/api/" not in names[id] and ".codehub" not in names[id])
    # From the navigation until the files are listed and can be clicked.
    ready = []
    for _ in range(5):
        page.reload()
        expect(page.get_by_test_id("tree-item").first).to_be_visible()
        ready.append(page.evaluate("() => performance.getEntriesByName('codehub-ready')[0]?.startTime ?? null"))
    print(f"{static} bytes of static files; ready after {sorted(ready)[2]:.0f} ms (median of {[round(one) for one in ready]})")
    assert 10_000 < static <= 150_000


def test_an_idle_tab_with_git_and_search_sends_nothing(server, tab, project):
    wire = Wire(server)
    page = tab(wire, strict=False)
    ide = Ide(page).open(project)
    expect(page.get_by_test_id("branch")).to_contain_text("main")
    page.get_by_test_id("side-search").click()
    page.get_by_test_id("search-input").fill("value_")
    expect(page.get_by_test_id("search-status")).to_contain_text("files.")
    page.get_by_test_id("search-line").first.click()
    expect(ide.editor).to_be_visible()
    page.get_by_test_id("side-git").click()
    expect(page.get_by_test_id("git-file").first).to_be_visible()
    # What hands did last is told within 20 s, and what git is asked after that takes a busy machine a while.
    page.wait_for_timeout(25_000)

    def silent():
        before = wire.sent
        page.wait_for_timeout(15_000)
        return wire.sent == before

    assert any(silent() for _ in range(2))
    wire.close()


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_language_and_theme_are_those_of_the_account(server, tab, shots, size):
    """Chosen on the dashboard with one browser; the IDE and every other browser know."""
    name = f"sora-{size}-{time.monotonic_ns()}"
    server.api.call("POST", "/users", {"username": name, "password": PASSWORD, "role": "user"})
    person = (name, PASSWORD)
    workspace = type(server.api)(server.url, *person).create("mine")
    page = tab(server, size=size, user=person)
    page.goto("/")
    for choice in ("lang-ko", "theme-dark"):
        page.locator("details.menu summary").click()
        follow(page, page.get_by_test_id(choice))
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")

    other = tab(server, size=size, user=person)  # knows nothing but who it is
    other.goto("/")
    expect(other.locator("html")).to_have_attribute("lang", "ko")
    expect(other.locator("html")).to_have_attribute("data-theme", "dark")
    other.goto(f"/w/{workspace}/")
    expect(other.locator("html")).to_have_attribute("lang", "ko")
    expect(other.locator("html")).to_have_attribute("data-theme", "dark")
    expect(other.locator("body")).to_have_css("background-color", "rgb(22, 24, 29)")
    if shots:
        other.screenshot(path=shots / f"ide-account-{size}.png")


@pytest.mark.parametrize("part", ["app.js", "highlight.js", "layout.css"])
def test_a_part_that_did_not_arrive_is_fetched_again(server, tab, project, part):
    page = tab(server, strict=False)
    lost = []

    def lose(route):
        lost.append(route.request.url)
        route.abort("failed") if len(lost) == 1 else route.continue_()

    page.route(f"**/assets/{part}", lose)
    Ide(page).open(project)
    # More than once only where the machine's network changed just then, and the browser gave up another part.
    assert len(lost) >= 2, lost


def test_a_part_that_never_arrives_is_not_asked_for_for_ever(server, tab, project):
    page = tab(server, strict=False)
    lost = []

    def lose(route):
        lost.append(route.request.url)
        route.abort("failed")

    page.route("**/assets/app.js", lose)
    page.goto(f"/w/{project}/")
    wait_for(lambda: page.wait_for_timeout(100) or len(lost) >= 4, "all tries")
    page.wait_for_timeout(2000)
    assert len(lost) == 4, lost

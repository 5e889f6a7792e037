"""Files in the built-in IDE: selecting, moving, copying, uploading folders, downloading them, and looking at what is no
text or too much of it."""

import io
import re
import zipfile

import pytest
from playwright.sync_api import expect

from codehub import wait_for
from gallery import home as home_of
from ide import Ide

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc000000301010018dd8db0"
    "0000000049454e44ae426082"
)
PDF = b"%PDF-1.1\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\ntrailer<</Root 1 0 R>>\n"


@pytest.fixture
def place(server, tab, request):
    """An IDE on a home with some files, and that home."""
    workspace = server.api.create(request.node.name[:60])
    home = home_of(server, workspace)
    for name in ("one.txt", "two.txt", "three.txt"):
        (home / name).write_text(f"{name}\n")
    (home / "box" / "inner").mkdir(parents=True)
    (home / "box" / "deep.txt").write_text("deep\n")
    page = tab(server)
    ide = Ide(page).open(workspace)
    ide.home = home
    return ide


def row(ide, path):
    return ide.file(path).locator("> .row")


def test_several_files_are_moved_copied_and_deleted(place):
    ide, page, home = place, place.page, place.home
    row(ide, "one.txt").click()
    expect(ide.editor).to_be_focused()
    row(ide, "two.txt").click(modifiers=["ControlOrMeta"])
    expect(page.locator("[role=treeitem][aria-selected=true]")).to_have_count(2)
    ide.file("two.txt").press("ControlOrMeta+x")
    row(ide, "box").click()
    ide.file("box").press("ControlOrMeta+v")
    # The last thing that moving does.
    expect(ide.file("box/two.txt")).to_be_focused()
    assert sorted(path.name for path in (home / "box").iterdir()) == ["deep.txt", "inner", "one.txt", "two.txt"]
    # The open file went along.
    expect(page.get_by_test_id("open-path")).to_have_text("box/one.txt")

    # Copied beside itself it gets another name.
    row(ide, "box/one.txt").click()
    ide.file("box/one.txt").press("ControlOrMeta+c")
    ide.file("box/one.txt").press("ControlOrMeta+v")
    expect(ide.file("box/one%20copy.txt")).to_be_focused()
    assert (home / "box" / "one copy.txt").read_text() == "one.txt\n"

    # Dragged into a folder, with Ctrl as a copy.
    row(ide, "three.txt").drag_to(row(ide, "box/inner"))
    expect(ide.file("box/inner/three.txt")).to_be_focused()
    assert not (home / "three.txt").exists()
    # What is in the way stays, and is named.
    (home / "box" / "three.txt").write_text("mine\n")
    expect(ide.file("box/three.txt")).to_be_visible()
    row(ide, "box/inner/three.txt").drag_to(row(ide, "box"))
    expect(page.get_by_test_id("toast").filter(has_text="three.txt")).to_contain_text("already exists")
    assert (home / "box" / "three.txt").read_text() == "mine\n"

    # By keyboard alone: a range, then delete.
    ide.file("box/one.txt").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+ArrowDown")
    chosen = [item.get_attribute("data-path") for item in page.locator("[role=treeitem][aria-selected=true]").all()]
    assert len(chosen) == 2
    page.keyboard.press("Delete")
    expect(page.get_by_test_id("dialog")).to_contain_text("Delete 2 items?")
    page.get_by_test_id("choose-ok").click()
    for path in chosen:
        expect(ide.file(path)).to_have_count(0)
    assert (home / "box" / "deep.txt").exists()


def test_a_folder_goes_up_and_comes_down_as_zip(place, tmp_path):
    ide, page, home = place, place.page, place.home
    (tmp_path / "site" / "css").mkdir(parents=True)
    (tmp_path / "site" / "한글.html").write_text("<p>")
    (tmp_path / "site" / "css" / "a.css").write_text("p {}")
    page.get_by_test_id("upload-folder-input").set_input_files(tmp_path / "site")
    arrived = lambda path, text: path.exists() and path.read_text() == text
    wait_for(lambda: arrived(home / "site" / "css" / "a.css", "p {}") and arrived(home / "site" / "한글.html", "<p>"), "the upload")
    expect(ide.file("site")).to_be_visible()
    row(ide, "site").click(button="right")
    with page.expect_download() as download:
        page.get_by_test_id("menu-download-zip").click()
    assert download.value.suggested_filename == "site.zip"
    with zipfile.ZipFile(io.BytesIO(download.value.path().read_bytes())) as packed:
        assert packed.testzip() is None
        assert packed.read("site/css/a.css") == b"p {}"
        assert "site/한글.html" in packed.namelist()


def test_markdown_is_shown_and_cannot_run_or_load(place):
    ide, page, home = place, place.page, place.home
    (home / "pixel.png").write_bytes(PNG)
    (home / "box" / "notes.md").write_text(
        "# Title\n\nSome **bold** text with `code` and a [way](../one.txt).\n\n- [x] done\n- open\n  - inner\n\n"
        "<img src=x onerror=alert(1)><script>alert(2)</script>\n\n[bad](javascript:alert(3)) ![far](https://example.com/a.png)\n\n"
        "![near](../pixel.png)\n\n```js\nlet x = '<b>';\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    row(ide, "box").click()
    ide.edit("box/notes.md")
    page.get_by_test_id("preview-toggle").click()
    shown = page.get_by_test_id("preview")
    expect(shown.get_by_role("heading", name="Title")).to_be_visible()
    expect(shown.locator("strong")).to_have_text("bold")
    expect(shown.locator("ul ul li")).to_have_text("inner")
    expect(shown.locator("td").first).to_have_text("1")
    expect(shown.locator("pre")).to_have_text("let x = '<b>';")
    expect(shown).to_contain_text("<script>alert(2)</script>")
    assert shown.locator("script, [onerror], a[href^=javascript]").count() == 0
    near = shown.locator("img")
    expect(near).to_have_count(1)
    wait_for(lambda: near.evaluate("image => image.naturalWidth") == 1, "the image beside it")
    assert not [url for url in asked if "example.com" in url]
    shown.get_by_text("way").click()
    expect(page.get_by_test_id("open-path")).to_have_text("one.txt")


def test_images_pdf_and_bytes(place):
    ide, page, home = place, place.page, place.home
    (home / "pixel.png").write_bytes(PNG)
    (home / "paper.pdf").write_bytes(PDF)
    (home / "data.bin").write_bytes(bytes(range(256)) * 4096)
    ide.edit("pixel.png")
    image = page.locator(".image-page img")
    wait_for(lambda: image.evaluate("image => image.naturalWidth") == 1, "the image")
    ide.edit("paper.pdf")
    source = page.get_by_test_id("pdf").locator("iframe").get_attribute("src")
    kind, content = page.evaluate("""async (source) => {
        const answer = await fetch(source);
        return [answer.headers.get("content-type"), [...new Uint8Array(await answer.arrayBuffer())]];
    }""", source)
    assert kind == "application/pdf" and bytes(content) == PDF
    ide.edit("data.bin")
    rows = page.locator(".hex-rows")
    expect(rows).to_contain_text("00000040  40 41 42 43 44 45 46 47  48 49 4a 4b 4c 4d 4e 4f  @ABCDEFGHIJKLMNO")
    expect(page.get_by_test_id("bytes-where")).to_have_text("1,048,576 bytes, read-only")
    page.locator(".hex-scroll").evaluate("element => element.scrollTop = element.scrollHeight")
    expect(rows).to_contain_text("000ffff0")
    page.get_by_test_id("bytes-mode").click()
    expect(page.get_by_test_id("bytes-where")).to_have_text("Part 1 of 4, read-only")


def test_what_is_too_large_to_edit_is_read_in_parts(place):
    ide, page, home = place, place.page, place.home
    with (home / "huge.log").open("w") as file:
        for n in range(900_000):
            file.write(f"line {n:07} of the log\n")
    ide.edit("huge.log")
    text = page.get_by_test_id("text-page")
    expect(text).to_have_value(re.compile("^line 0000000"))
    expect(page.get_by_test_id("bytes-view")).to_contain_text("16 MiB")
    page.get_by_test_id("bytes-next").click()
    expect(text).not_to_have_value(re.compile("line 0000000"))
    expect(page.get_by_test_id("bytes-where")).to_contain_text("Part 2 of")


LINE = "the quick brown fox jumps over it {:07}\n"
LINES = 10_000_000 // len(LINE.format(0)) + 1
# The time that handling a key takes, and drawing afterwards; not the wait for the next picture between them.
WATCH = """() => {
  window.work = [];
  let pressed = 0;
  addEventListener("keydown", () => (pressed = performance.now()), true);
  addEventListener("input", () => {
    const handled = performance.now() - pressed;
    requestAnimationFrame(() => {
      const began = performance.now();
      const after = new MessageChannel();
      after.port1.onmessage = () => work.push(handled + performance.now() - began);
      after.port2.postMessage(0);
    });
  });
}"""


def test_a_file_of_ten_megabytes_is_edited_like_a_small_one(place):
    ide, page, home = place, place.page, place.home
    file = home / "big.txt"
    file.write_text("".join(LINE.format(n) for n in range(LINES)))
    ide.edit("big.txt")
    expect(ide.editor).to_have_value(re.compile("0000000"))
    position, save = page.get_by_test_id("position"), page.get_by_test_id("save")
    ide.editor.press("Control+g")
    page.keyboard.type(f"{LINES // 2}")
    page.keyboard.press("Enter")
    expect(position).to_have_text(f"Ln {LINES // 2}, Col 1")
    page.evaluate(WATCH)
    typed = "typing in the middle of a large file, "
    # Others may want the machine as well: the best of a few times says what it takes.
    medians = []
    while len(medians) < 5 and min(medians, default=17) > 16:
        page.evaluate("work = []")
        for letter in typed * 2:
            page.keyboard.type(letter)
            page.wait_for_timeout(20)
        work = sorted(wait_for(lambda: (done := page.evaluate("work")) and len(done) > 60 and done, "keys to be drawn"))
        medians.append(work[len(work) // 2])
        print(f"a key in {file.stat().st_size} bytes: {medians[-1]:.1f} ms median, {work[int(len(work) * 0.9)]:.1f} ms for 9 in 10")
    assert min(medians) <= 16, medians
    expect(save).to_be_enabled()
    # Undone, it is what is on disk; and done again.
    times = 2 * len(medians)
    for _ in range(times * len(typed)):
        page.keyboard.press("Control+z")
    expect(save).to_be_disabled()
    for _ in range(times * len(typed)):
        page.keyboard.press("Control+y")
    expect(save).to_be_enabled()
    # The ends of the file, and a place far from the view: the caret is where it was.
    page.keyboard.press("Control+End")
    expect(position).to_have_text(f"Ln {LINES + 1}, Col 1")
    page.keyboard.type("the end")
    page.keyboard.press("Control+Home")
    page.keyboard.type("the start ")
    page.locator(".window-scroll").evaluate("element => element.scrollTop = 2_000_000")
    page.wait_for_function("() => document.querySelector('.windowed').style.top !== '0px'")
    page.keyboard.type("is here ")
    expect(position).to_have_text("Ln 1, Col 19")
    # Down past every window, by lines and by pages.
    for _ in range(250):
        page.keyboard.press("ArrowDown")
    expect(position).to_have_text("Ln 251, Col 19")
    page.keyboard.press("PageDown")
    page.keyboard.press("PageUp")
    expect(position).to_have_text("Ln 251, Col 19")
    ide.save()
    text = file.read_text()
    assert text.startswith("the start is here the quick") and text.endswith("\nthe end")
    assert text.count(typed) == times and text.count("\n") == LINES
    # All of it at once.
    page.keyboard.press("Control+a")
    page.keyboard.type("x")
    expect(ide.editor).to_have_value("x")
    page.keyboard.press("Control+z")
    expect(save).to_be_disabled()
    ide.editor.press("Control+f")
    page.keyboard.type("it 0123456")
    expect(page.get_by_test_id("find-count")).to_have_text("1 of 1")
    expect(position).to_contain_text("Ln 123457,")

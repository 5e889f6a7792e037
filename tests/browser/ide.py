"""The built-in IDE, as somebody at the keyboard sees it."""

import re

from playwright.sync_api import expect

from codehub import PATIENCE, wait_for

# Everything that is said in passing, for who looks a moment too late.
LISTEN = """() => {
    window.passed = [];
    const said = (changes) => { for (const { addedNodes } of changes) for (const node of addedNodes) window.passed.push(node.textContent); };
    new MutationObserver(said).observe(document.getElementById("toasts"), { childList: true });
}"""


class Held:
    """The next request of a page to an address, which does not leave it until it is let go; or every one until then."""

    def __init__(self, page, address, every=False):
        self.page, self.routes, self.every, self.over = page, [], every, False
        page.route(address, self._take)

    def _take(self, route):
        if self.over or route.request.method != "GET":
            route.fallback()
        else:
            self.routes.append(route)

    def wait(self):
        wait_for(lambda: self.page.wait_for_timeout(20) or self.routes, "the request")
        self.over = not self.every

    def let_go(self, **instead):
        """As it is, or answered instead of the server."""
        self.over = True
        for route in self.routes:
            route.fulfill(**instead) if instead else route.continue_()


class Ide:
    def __init__(self, page):
        self.page = page
        self.screen = page.get_by_test_id("terminal").locator("visible=true").get_by_test_id("term-screen")
        self.keys = page.get_by_test_id("terminal").locator("visible=true").get_by_test_id("term-input")
        self.editor = page.get_by_test_id("editor").locator("visible=true")

    def open(self, id):
        self.page.goto(f"/w/{id}/")
        return self.ready()

    def ready(self):
        """Connected, with a shell that has shown its prompt."""
        expect(self.page.get_by_test_id("connection")).to_have_attribute("data-state", "open")
        expect(self.screen).to_contain_text(re.compile(r"[$#%>]"))
        return self

    def type(self, text):
        self.keys.focus()
        self.page.keyboard.type(text)

    def press(self, *keys):
        self.keys.focus()
        for key in keys:
            self.page.keyboard.press(key)

    def run(self, command):
        self.type(command)
        self.press("Enter")

    def sees(self, text):
        expect(self.screen).to_contain_text(text, use_inner_text=True)

    def file(self, name):
        return self.page.locator(f'[data-testid=tree-item][data-path="{name}"]')

    def edit(self, name):
        self.file(name).locator(".row").first.click()
        expect(self.page.get_by_test_id("open-path")).to_contain_text(name)

    def open_terminal(self):
        """Another one, which is in front: the list may name it a moment before."""
        tabs = self.page.get_by_test_id("term-tab")
        before = tabs.count()
        self.page.get_by_test_id("new-terminal").click()
        expect(tabs).to_have_count(before + 1)
        expect(tabs.nth(before)).to_have_attribute("aria-selected", "true")

    def wakes(self):
        """Connected again, with a click where that is needed: what ended by itself may begin again by itself."""

        def connected():
            self.page.evaluate("document.querySelector('[data-testid=wake]')?.click()")
            return self.page.get_by_test_id("connection").get_attribute("data-state") == "open"

        wait_for(connected, "the page to be connected again", 2 * PATIENCE)

    def save(self):
        self.editor.press("Control+s")
        expect(self.page.get_by_test_id("save")).to_be_disabled()

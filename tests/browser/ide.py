"""The built-in IDE, as somebody at the keyboard sees it."""

import re

from playwright.sync_api import expect


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

    def save(self):
        self.editor.press("Control+s")
        expect(self.page.get_by_test_id("save")).to_be_disabled()

// The find bar: matches in the open file, counted and marked as you type.

import { h, iconButton } from "./dom.js";
import { t } from "./i18n.js";

export class FindBar {
  #matches = [];
  #at = -1;

  /// `surface()` gives the text being searched, or null.
  constructor(surface) {
    this.surface = surface;
    this.input = h("input", {
      type: "text", spellcheck: "false", autocomplete: "off", placeholder: t("findLabel"), "aria-label": t("findLabel"), "data-testid": "find-input",
      oninput: () => this.#search(true), onkeydown: (event) => this.#key(event),
    });
    this.count = h("span", { class: "find-count", role: "status", "data-testid": "find-count" });
    this.caseButton = h("button", {
      type: "button", class: "icon-button case", title: t("findCase"), "aria-label": t("findCase"), "aria-pressed": "false",
      onclick: () => {
        const on = this.caseButton.getAttribute("aria-pressed") !== "true";
        this.caseButton.setAttribute("aria-pressed", String(on));
        this.#search(true);
      },
    }, "Aa");
    this.element = h("div", { class: "find-bar", role: "search", hidden: true, "data-testid": "find-bar" }, this.input, this.caseButton, this.count,
      iconButton("chevronUp", t("findPrevious"), () => this.#go(-1)),
      iconButton("chevronDown", t("findNext"), () => this.#go(1)),
      iconButton("close", t("close"), () => this.close(), { "data-testid": "find-close" }));
  }

  open() {
    const surface = this.surface();
    if (!surface) return;
    const { selectionStart, selectionEnd, value } = surface.area;
    const selected = value.slice(selectionStart, selectionEnd);
    if (selected && !selected.includes("\n")) this.input.value = selected;
    this.element.hidden = false;
    this.input.focus();
    this.input.select();
    this.#search(false);
  }

  close() {
    this.element.hidden = true;
    const surface = this.surface();
    surface?.setMarks(null);
    surface?.focus();
  }

  /// Another file is shown now.
  refresh() {
    if (this.element.hidden) return;
    if (!this.surface()) this.element.hidden = true;
    else this.#search(false);
  }

  #pattern() {
    const text = this.input.value;
    if (!text) return null;
    const exact = this.caseButton.getAttribute("aria-pressed") === "true";
    return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), exact ? "gu" : "giu");
  }

  #search(jump) {
    const surface = this.surface();
    if (!surface) return;
    const pattern = this.#pattern();
    const spans = (text) => (pattern ? [...text.matchAll(pattern)].map((m) => [m.index, m.index + m[0].length]) : []);
    this.#matches = spans(surface.value);
    surface.setMarks(pattern ? spans : null);
    const from = surface.area.selectionStart;
    this.#at = this.#matches.findIndex(([start]) => start >= from);
    if (this.#at < 0 && this.#matches.length) this.#at = 0;
    if (jump && this.#at >= 0) surface.reveal(...this.#matches[this.#at]);
    this.#tell();
  }

  #go(step) {
    const { length } = this.#matches;
    if (!length) return;
    this.#at = (this.#at + step + length) % length;
    this.surface()?.reveal(...this.#matches[this.#at]);
    this.#tell();
  }

  #tell() {
    if (!this.input.value) this.count.textContent = "";
    else if (!this.#matches.length) this.count.textContent = t("findNone");
    else this.count.textContent = t("findCount", { at: this.#at + 1, all: this.#matches.length });
  }

  #key(event) {
    if (event.isComposing) return;
    if (event.key === "Enter") this.#go(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
  }
}

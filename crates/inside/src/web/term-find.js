// Looking for text in a terminal, in what scrolled away too. The lines are asked for when somebody searches, and not kept.

import { h, iconButton } from "./dom.js";
import { t } from "./i18n.js";

export class TerminalFind {
  #found = [];
  #at = -1;
  #round = 0;

  /// `view` has texts(), which resolves to all lines from the oldest, and showLine(number), where null hides the mark.
  constructor(view) {
    this.view = view;
    this.input = h("input", {
      type: "text", spellcheck: "false", autocomplete: "off", autocapitalize: "off", placeholder: t("termFind"), "aria-label": t("termFind"), "data-testid": "term-find-input",
      oninput: () => this.#search(),
      onkeydown: (event) => this.#key(event),
    });
    this.count = h("span", { class: "find-count", role: "status", "data-testid": "term-find-count" });
    this.element = h("div", { class: "find-bar term-find", role: "search", "aria-label": t("termFind"), hidden: true },
      h("div", { class: "find-row" }, this.input, this.count,
        iconButton("chevronUp", t("findPrevious"), () => this.#go(-1)), iconButton("chevronDown", t("findNext"), () => this.#go(1)),
        iconButton("close", t("close"), () => this.close())));
  }

  open() {
    const selected = getSelection().toString();
    if (selected && !selected.includes("\n")) this.input.value = selected;
    this.element.hidden = false;
    this.input.focus();
    this.input.select();
    this.#search();
  }

  close() {
    this.element.hidden = true;
    this.view.showLine(null);
    this.view.focus();
  }

  async #search() {
    const round = ++this.#round;
    const wanted = this.input.value.toLowerCase();
    this.#found = [];
    if (wanted) {
      const lines = await this.view.texts();
      if (round !== this.#round) return;
      this.#found = lines.filter(({ text }) => text.toLowerCase().includes(wanted)).map(({ number }) => number);
    }
    // The latest is what people look for.
    this.#at = this.#found.length - 1;
    this.#show();
  }

  #go(step) {
    const { length } = this.#found;
    if (!length) return;
    this.#at = (this.#at + step + length) % length;
    this.#show();
  }

  #show() {
    const { length } = this.#found;
    this.view.showLine(this.#found[this.#at] ?? null);
    this.count.textContent = !this.input.value ? "" : length ? t("findCount", { at: this.#at + 1, all: length }) : t("findNone");
  }

  #key(event) {
    if (event.isComposing) return;
    if (event.key === "Enter") this.#go(event.shiftKey ? 1 : -1);
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

// The find bar: matches in the open file, counted and marked as you type, and replaced one by one or all at once.

import { h, iconButton } from "./dom.js";
import { t } from "./i18n.js";

/// More matches than this are not counted.
const MOST = 100_000;

export class FindBar {
  #matches = [];
  #at = -1;

  /// `surface()` gives the text being searched, or null.
  constructor(surface) {
    this.surface = surface;
    const field = (label, testid, oninput) => h("input", {
      type: "text", spellcheck: "false", autocomplete: "off", placeholder: label, "aria-label": label, "data-testid": testid,
      oninput, onkeydown: (event) => this.#key(event),
    });
    this.input = field(t("findLabel"), "find-input", () => this.#search(true));
    this.into = field(t("replaceWith"), "replace-input", () => {});
    this.count = h("span", { class: "find-count", role: "status", "data-testid": "find-count" });
    this.caseButton = this.#switch("Aa", t("findCase"), "find-case");
    this.wordButton = this.#switch("ab", t("findWord"), "find-word");
    this.regexButton = this.#switch(".*", t("findRegex"), "find-regex");
    this.replaceRow = h("div", { class: "find-row", hidden: true }, this.into,
      h("button", { type: "button", class: "button small", "data-testid": "replace-one", onclick: () => this.#replaceOne() }, t("replace")),
      h("button", { type: "button", class: "button small", "data-testid": "replace-all", onclick: () => this.#replaceAll() }, t("replaceAll")));
    this.more = iconButton("chevronRight", t("toggleReplace"), () => this.#showReplace(this.replaceRow.hidden), { "aria-expanded": "false", "data-testid": "find-more" });
    this.element = h("div", { class: "find-bar", role: "search", "aria-label": t("findLabel"), hidden: true, "data-testid": "find-bar" },
      h("div", { class: "find-row" }, this.more, this.input, this.caseButton, this.wordButton, this.regexButton, this.count,
        iconButton("chevronUp", t("findPrevious"), () => this.#go(-1)),
        iconButton("chevronDown", t("findNext"), () => this.#go(1)),
        iconButton("close", t("close"), () => this.close(), { "data-testid": "find-close" })),
      this.replaceRow);
  }

  #switch(text, label, testid) {
    const button = h("button", {
      type: "button", class: "icon-button case", title: label, "aria-label": label, "aria-pressed": "false", "data-testid": testid,
      onclick: () => {
        button.setAttribute("aria-pressed", String(!pressed(button)));
        this.#search(true);
      },
    }, text);
    return button;
  }

  #showReplace(show) {
    this.replaceRow.hidden = !show;
    this.more.setAttribute("aria-expanded", String(show));
  }

  open(replace = false) {
    const surface = this.surface();
    if (!surface) return;
    const { start, end } = surface.text.selection();
    const selected = end - start < 1000 ? surface.text.slice(start, end) : "";
    if (selected && !selected.includes("\n")) this.input.value = selected;
    this.element.hidden = false;
    if (replace) this.#showReplace(true);
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

  /// Null without something to look for; throws for an expression that is none.
  #pattern() {
    const text = this.input.value;
    if (!text) return null;
    const source = pressed(this.regexButton) ? text : text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const word = pressed(this.wordButton) ? `(?<![\\p{L}\\p{N}_])(?:${source})(?![\\p{L}\\p{N}_])` : source;
    return new RegExp(word, pressed(this.caseButton) ? "gmu" : "gimu");
  }

  #search(jump) {
    const surface = this.surface();
    if (!surface) return;
    let pattern;
    try {
      pattern = this.#pattern();
    } catch {
      this.#matches = [];
      surface.setMarks(null);
      this.count.textContent = t("badRegex");
      return;
    }
    const spans = (text) => {
      const found = [];
      if (!pattern) return found;
      for (const match of text.matchAll(pattern)) {
        if (match[0]) found.push([match.index, match.index + match[0].length]);
        if (found.length === MOST) break;
      }
      return found;
    };
    this.#matches = spans(surface.value);
    surface.setMarks(pattern ? spans : null);
    const from = surface.text.selection().start;
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

  /// What takes the place of a match; groups only where the search is an expression.
  #replaced(text) {
    const into = pressed(this.regexButton) ? this.into.value : this.into.value.replaceAll("$", "$$$$");
    return text.replace(this.#pattern(), into);
  }

  /// Replaces the match that is selected; otherwise goes to the next one first.
  #replaceOne() {
    const surface = this.surface();
    const match = this.#matches[this.#at];
    if (!surface || !match) return;
    const { start, end } = surface.text.selection();
    if (start !== match[0] || end !== match[1]) {
      surface.reveal(...match);
      return;
    }
    const text = this.#replaced(surface.text.slice(start, end));
    surface.replace(start, end, text);
    surface.text.select(start + text.length, start + text.length);
    this.#search(true);
  }

  #replaceAll() {
    const surface = this.surface();
    if (!surface || !this.#matches.length) return;
    const [start, end] = [this.#matches[0][0], this.#matches.at(-1)[1]];
    const count = this.#matches.length;
    const old = surface.value.slice(start, end);
    let [text, at] = ["", start];
    for (const [from, to] of this.#matches) {
      text += old.slice(at - start, from - start) + this.#replaced(old.slice(from - start, to - start));
      at = to;
    }
    surface.replace(start, end, text);
    this.#search(false);
    this.count.textContent = t("replacedCount", { count });
  }

  #tell() {
    if (!this.input.value) this.count.textContent = "";
    else if (!this.#matches.length) this.count.textContent = t("findNone");
    else this.count.textContent = t("findCount", { at: this.#at + 1, all: this.#matches.length });
  }

  #key(event) {
    if (event.isComposing) return;
    if (event.key === "Enter" && event.target === this.into) this.#replaceOne();
    else if (event.key === "Enter") this.#go(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
  }
}

const pressed = (button) => button.getAttribute("aria-pressed") === "true";

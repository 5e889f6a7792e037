// One box for going places: files by name, ">" for commands, ":" for a line.

import * as api from "./api.js";
import { h, memory } from "./dom.js";
import { icon } from "./icons.js";
import { t } from "./i18n.js";

const MOST_RECENT = 30;
const MOST_SHOWN = 60;
/// How long after a key the server is asked, in ms.
const PAUSE = 60;

export class Palette {
  #recent = memory.get("recent-files", []);
  #asking = null;
  #timer = 0;
  #rows = [];
  #at = 0;
  /// Rows for what stands in the box are still to come; and Enter was pressed meanwhile.
  #pending = false;
  #entered = false;

  /// `on` has open(path), line(line, col), lines() (how many the open file has, or 0), and commands(): { label, keys, run }.
  constructor(on) {
    this.on = on;
    this.dialog = null;
  }

  /// A file was opened: it comes first the next time.
  visited(path) {
    this.#recent = [path, ...this.#recent.filter((other) => other !== path)].slice(0, MOST_RECENT);
    memory.set("recent-files", this.#recent);
  }

  /// `start` is "", ">" or ":".
  open(start) {
    this.dialog?.close();
    const before = document.activeElement;
    this.list = h("div", { class: "palette-list", role: "listbox", id: "palette-list", "aria-label": t("results") });
    this.note = h("p", { class: "palette-note quiet", role: "status", "data-testid": "palette-note" });
    this.input = h("input", {
      type: "text", value: start, spellcheck: "false", autocomplete: "off", autocapitalize: "off", role: "combobox",
      "aria-expanded": "true", "aria-controls": "palette-list", "aria-autocomplete": "list", "aria-label": t("paletteLabel"),
      placeholder: t("palettePlaceholder"), "data-testid": "palette-input",
      oninput: () => this.#ask(), onkeydown: (event) => this.#key(event),
    });
    const dialog = h("dialog", { class: "palette", "aria-label": t("paletteLabel"), "data-testid": "palette",
      onpointerdown: (event) => event.target === dialog && dialog.close() }, this.input, this.list, this.note);
    this.dialog = dialog;
    dialog.addEventListener("close", () => {
      this.#asking?.abort();
      clearTimeout(this.#timer);
      dialog.remove();
      if (this.dialog === dialog) this.dialog = null;
      // What was chosen may have put the focus elsewhere already.
      if (document.activeElement === document.body) before?.focus?.();
    });
    document.body.append(dialog);
    dialog.showModal();
    this.input.focus();
    this.input.setSelectionRange(start.length, start.length);
    this.#ask();
  }

  #ask() {
    this.#asking?.abort();
    clearTimeout(this.#timer);
    const typed = this.input.value;
    this.#entered = false;
    this.#pending = !/^[>:]/.test(typed);
    if (typed.startsWith(">")) this.#commands(typed.slice(1));
    else if (typed.startsWith(":")) this.#line(typed.slice(1));
    else this.#timer = setTimeout(() => this.#files(typed.trim()), typed ? PAUSE : 0);
  }

  #commands(typed) {
    const words = typed.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.on.commands().filter(({ label }) => words.every((word) => label.toLowerCase().includes(word)));
    this.#show(found.map(({ label, keys, run }) => ({ label, detail: keys ?? "", run })), found.length ? "" : t("findNone"));
  }

  #line(typed) {
    const all = this.on.lines();
    const [, line, col] = /^\s*(\d+)?\s*(?:[:,]\s*(\d+))?/.exec(typed);
    if (!all) this.#show([], t("noFileOpen"));
    else if (!line) this.#show([], t("lineHint", { all }));
    else this.#show([{ label: t("goToLineNumber", { line: Math.min(Number(line), all) }), detail: "", run: () => this.on.line(Number(line), Number(col ?? 1)) }], "");
  }

  async #files(typed) {
    // "name:12" opens at a line.
    const [, name, line] = /^(.*?)(?::(\d+))?$/.exec(typed);
    const run = (path) => () => this.on.open(path, line ? Number(line) : null);
    const row = (path) => ({ label: api.shown(api.base(path)), detail: api.shown(api.parent(path)), icon: "file", path, run: run(path) });
    const recent = this.#recent.filter((path) => fits(name, api.shown(path)));
    this.#show(recent.map(row), recent.length ? "" : t("searching"));
    if (recent.length) this.#settled();
    const asking = new AbortController();
    this.#asking = asking;
    try {
      const { files, truncated } = await api.findFiles(name, asking.signal);
      if (asking.signal.aborted) return;
      const all = [...recent, ...files.filter((path) => !recent.includes(path))].slice(0, MOST_SHOWN);
      this.#show(all.map(row), all.length ? (truncated ? t("filesTruncated") : "") : t("findNone"));
    } catch (error) {
      if (asking.signal.aborted) return;
      this.#show(recent.map(row), error.message);
    }
    this.#settled();
  }

  #settled() {
    this.#pending = false;
    if (this.#entered) this.#choose(this.#at);
    this.#entered = false;
  }

  #show(rows, note) {
    this.#rows = rows;
    this.#at = 0;
    this.note.textContent = note;
    this.note.hidden = !note;
    this.list.replaceChildren(...rows.map((row, n) => h("div", {
      role: "option", id: `palette-${n}`, class: "palette-row", "aria-selected": "false", "data-testid": "palette-row", "data-path": row.path,
      onclick: () => this.#choose(n),
    }, row.icon ? icon(row.icon) : null, h("span", { class: "palette-label" }, row.label), h("span", { class: "palette-detail" }, row.detail))));
    this.#mark(0);
  }

  #mark(at) {
    this.#at = at;
    [...this.list.children].forEach((row, n) => row.setAttribute("aria-selected", String(n === at)));
    const row = this.list.children[at];
    if (row) this.input.setAttribute("aria-activedescendant", row.id);
    else this.input.removeAttribute("aria-activedescendant");
    row?.scrollIntoView({ block: "nearest" });
  }

  #choose(n) {
    const row = this.#rows[n];
    if (!row) return;
    this.dialog.close();
    row.run();
  }

  #key(event) {
    if (event.isComposing) return;
    const { length } = this.#rows;
    if (event.key === "ArrowDown" && length) this.#mark((this.#at + 1) % length);
    else if (event.key === "ArrowUp" && length) this.#mark((this.#at - 1 + length) % length);
    else if (event.key === "Enter" && this.#pending) this.#entered = true;
    else if (event.key === "Enter") this.#choose(this.#at);
    else return;
    event.preventDefault();
  }
}

/// Whether the letters are all there, in their order.
function fits(typed, name) {
  let at = 0;
  const lower = name.toLowerCase();
  for (const letter of typed.toLowerCase().replace(/\s/g, "")) {
    at = lower.indexOf(letter, at) + 1;
    if (!at) return false;
  }
  return true;
}

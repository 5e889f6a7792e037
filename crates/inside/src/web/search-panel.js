// Search in files, and replace in those that are chosen. Results come in as the server finds them; typing on stops the
// search before.

import * as api from "./api.js";
import { confirm, toast } from "./dialog.js";
import { $, h, iconButton, memory } from "./dom.js";
import { icon } from "./icons.js";
import { errorText, t } from "./i18n.js";

const PAUSE = 250;

export class SearchPanel {
  #asking = null;
  #timer = 0;
  #files = new Map();
  #query = null;

  /// `on` has open(path, line, col, length), unsaved(path), and replaced(paths).
  constructor(on) {
    this.on = on;
    const field = (key, testid, extra = {}) => h("input", {
      type: "text", spellcheck: "false", autocomplete: "off", autocapitalize: "off", placeholder: t(key), "aria-label": t(key), "data-testid": testid,
      oninput: () => this.#later(), onkeydown: (event) => event.key === "Enter" && !event.isComposing && this.search(), ...extra,
    });
    const old = memory.get("search", {});
    this.input = field("searchLabel", "search-input");
    this.into = field("replaceWith", "search-replace");
    this.include = field("searchInclude", "search-include", { value: old.include ?? "" });
    this.exclude = field("searchExclude", "search-exclude", { value: old.exclude ?? "" });
    const toggle = (text, key, testid) => {
      const button = h("button", {
        type: "button", class: "icon-button case", title: t(key), "aria-label": t(key), "aria-pressed": "false", "data-testid": testid,
        onclick: () => {
          button.setAttribute("aria-pressed", String(!pressed(button)));
          this.search();
        },
      }, text);
      return button;
    };
    this.case = toggle("Aa", "findCase", "search-case");
    this.word = toggle("ab", "findWord", "search-word");
    this.regex = toggle(".*", "findRegex", "search-regex");
    this.ignored = h("input", { type: "checkbox", "data-testid": "search-ignored", onchange: () => this.search() });
    this.replaceRow = h("div", { class: "search-row", hidden: true }, this.into,
      this.apply = h("button", { type: "button", class: "button small", "data-testid": "search-apply", disabled: true, onclick: () => this.#replace() }, t("replace")));
    this.more = iconButton("chevronRight", t("toggleReplace"), () => this.showReplace(this.replaceRow.hidden), { "aria-expanded": "false", "data-testid": "search-more" });
    this.status = h("p", { class: "search-status quiet", role: "status", "data-testid": "search-status" });
    this.failures = h("div", { role: "alert", class: "search-failures" });
    this.results = h("div", { class: "search-results", role: "group", "aria-label": t("results"), "data-testid": "search-results" });
    $("side-search").append(
      h("div", { class: "search-form", role: "search", "aria-label": t("searchLabel") },
        h("div", { class: "search-row" }, this.more, this.input, this.case, this.word, this.regex), this.replaceRow,
        h("details", { open: Boolean(old.include || old.exclude) }, h("summary", {}, t("searchWhere")), this.include, this.exclude,
          h("label", { class: "check" }, this.ignored, h("span", {}, t("searchIgnored"))))),
      this.status, this.failures, this.results);
  }

  /// Shows the panel's field, with what is selected in the text.
  focus(text = "", replace = false) {
    if (replace) this.showReplace(true);
    if (text && !text.includes("\n")) {
      this.input.value = text;
      this.search();
    }
    this.input.focus();
    this.input.select();
  }

  showReplace(show) {
    this.replaceRow.hidden = !show;
    this.more.setAttribute("aria-expanded", String(show));
    this.search();
  }

  #later() {
    clearTimeout(this.#timer);
    this.#asking?.abort();
    this.#timer = setTimeout(() => this.search(), PAUSE);
  }

  async search() {
    clearTimeout(this.#timer);
    this.#asking?.abort();
    this.#files.clear();
    this.results.replaceChildren();
    this.failures.replaceChildren();
    this.#count();
    memory.set("search", { include: this.include.value, exclude: this.exclude.value });
    if (!this.input.value) {
      this.status.textContent = "";
      return;
    }
    const asking = new AbortController();
    this.#asking = asking;
    this.#query = {
      query: this.input.value, regex: pressed(this.regex), case: pressed(this.case), word: pressed(this.word),
      ...(this.replaceRow.hidden ? {} : { replacement: this.into.value }),
    };
    const where = { include: this.include.value, exclude: this.exclude.value, ignored: this.ignored.checked };
    this.status.textContent = t("searching");
    try {
      const done = await api.search({ ...this.#query, ...where }, (file) => !asking.signal.aborted && this.#add(file), asking.signal);
      if (!asking.signal.aborted) this.#done(done);
    } catch (error) {
      if (!asking.signal.aborted) this.status.textContent = errorText(error);
    }
  }

  #done(done) {
    if (!done) {
      this.status.textContent = t("network");
      return;
    }
    const { files, lines, stopped, large } = done;
    const parts = [lines ? t("searchFound", { lines, files }) : t("findNone")];
    if (stopped) parts.push(t(stopped === "time" ? "searchStoppedTime" : "searchStoppedLines"));
    if (large) parts.push(t("searchLarge", { count: large }));
    this.status.textContent = parts.join(" ");
  }

  #add({ file, version, lines, more }) {
    const name = api.shown(api.base(file));
    const entry = { file, version, lines: new Map() };
    const preview = !this.replaceRow.hidden;
    const box = preview ? h("input", {
      type: "checkbox", checked: true, "aria-label": t("replaceInFile", { name }), "data-testid": "search-file-box",
      onchange: () => {
        for (const other of entry.lines.values()) other.checked = box.checked;
        this.#count();
      },
    }) : null;
    const list = h("ul", {});
    for (const line of lines) list.append(this.#line(entry, line, preview));
    if (more) list.append(h("li", { class: "quiet" }, t("searchMore")));
    const head = h("button", {
      type: "button", class: "search-file", "aria-expanded": "true", "data-testid": "search-file", "data-path": file, title: api.shown(file),
      onclick: () => {
        list.hidden = !list.hidden;
        head.setAttribute("aria-expanded", String(!list.hidden));
      },
    }, icon("chevronDown"), h("span", { class: "search-name" }, name), h("span", { class: "search-dir" }, api.shown(api.parent(file))),
      h("span", { class: "search-count" }, String(lines.length)));
    this.#files.set(file, entry);
    this.results.append(h("section", { class: "search-group" }, h("div", { class: "search-head" }, box, head), list));
    this.#count();
  }

  #line(entry, { line, text, spans, column, after }, preview) {
    const box = preview ? h("input", {
      type: "checkbox", checked: true, "aria-label": t("replaceInLine", { line }), "data-testid": "search-line-box", onchange: () => this.#count(),
    }) : null;
    if (box) entry.lines.set(line, box);
    const parts = [];
    let at = 0;
    for (const [start, end] of spans) {
      parts.push(text.slice(at, start), h("mark", {}, text.slice(start, end)));
      at = end;
    }
    parts.push(text.slice(at));
    const length = spans.length ? spans[0][1] - spans[0][0] : 0;
    const button = h("button", {
      type: "button", class: "search-line", "data-testid": "search-line", "data-line": line,
      onclick: () => this.on.open(entry.file, line, column + 1, length),
    }, h("span", { class: "search-number" }, String(line)),
      h("span", { class: "search-text" }, h("span", { class: after === undefined ? "" : "before" }, ...parts),
        after === undefined ? null : h("span", { class: "after", "data-testid": "search-after" }, after)));
    return h("li", {}, box, button);
  }

  #chosen() {
    return [...this.#files.values()]
      .map(({ file, version, lines }) => ({ file, version, lines: [...lines].filter(([, box]) => box.checked).map(([line]) => line) }))
      .filter(({ lines }) => lines.length);
  }

  #count() {
    if (this.replaceRow.hidden) return;
    const lines = this.#chosen().reduce((sum, { lines }) => sum + lines.length, 0);
    this.apply.disabled = lines === 0;
    this.apply.textContent = lines ? t("replaceLines", { count: lines }) : t("replace");
  }

  async #replace() {
    const chosen = this.#chosen();
    const open = chosen.filter(({ file }) => this.on.unsaved(file));
    const files = chosen.filter(({ file }) => !this.on.unsaved(file));
    const lines = files.reduce((sum, { lines }) => sum + lines.length, 0);
    if (files.length && !(await confirm(t("replaceTitle"), t("replaceText", { lines, files: files.length }), t("replace")))) return;
    this.apply.disabled = true;
    try {
      const { replaced, failed } = files.length ? await api.replace({ ...this.#query, files }) : { replaced: [], failed: [] };
      const failures = [...failed.map((one) => [one.file, errorText(one)]), ...open.map(({ file }) => [file, t("replaceUnsaved")])];
      if (replaced.length) toast(t("replacedIn", { lines: replaced.reduce((sum, one) => sum + one.lines, 0), files: replaced.length }));
      this.on.replaced(replaced.map(({ file }) => file));
      await this.search();
      if (failures.length) {
        this.failures.replaceChildren(h("p", {}, t("replaceFailed")),
          h("ul", {}, ...failures.map(([file, why]) => h("li", { "data-testid": "replace-failure" }, `${api.shown(file)}: ${why}`))));
      }
    } catch (error) {
      toast(errorText(error), true);
      this.#count();
    }
  }
}

const pressed = (button) => button.getAttribute("aria-pressed") === "true";

// The text area you type in. A real <textarea> does the editing, so undo, input
// methods, spell services and assistive technology work as everywhere; it is
// transparent, and the coloured text is drawn underneath, only the lines in
// view. Both use the same font and the same white space, so they coincide.

import { h } from "./dom.js";
import { tokenize } from "./highlight.js";
import { t } from "./i18n.js";

const SPARE = 10;
const INDENT_AFTER = /[{([:]\s*$/;

export class Surface {
  #lines = [""];
  #states = [null];
  #frame = 0;
  #tabLeaves = false;

  /// `on` has input() and move().
  constructor(name, rules, on) {
    this.rules = rules;
    this.on = on;
    this.marks = null;
    this.area = h("textarea", {
      class: "code-input", wrap: "off", spellcheck: "false", autocapitalize: "off", autocomplete: "off", autocorrect: "off",
      "aria-label": t("editing", { name }), "aria-multiline": "true", "data-testid": "editor",
      oninput: () => this.#changed(), onscroll: () => this.#draw(), onkeydown: (event) => this.#key(event),
      onblur: () => (this.#tabLeaves = false),
    });
    this.numbers = h("div", { class: "numbers" });
    this.gutter = h("div", { class: "gutter", "aria-hidden": "true" }, this.numbers);
    this.current = h("div", { class: "current-line" });
    this.text = h("div", { class: "code-text" });
    this.element = h("div", { class: "surface" }, this.gutter,
      h("div", { class: "code" }, h("div", { class: "underlay", "aria-hidden": "true" }, this.current, this.text), this.area));
    document.addEventListener("selectionchange", () => document.activeElement === this.area && this.#moved());
    new ResizeObserver(() => this.#draw()).observe(this.element);
  }

  get value() {
    return this.area.value;
  }

  /// Replaces everything, keeping the view where it was.
  set value(text) {
    const { scrollTop, scrollLeft, selectionStart } = this.area;
    this.area.value = text;
    const caret = Math.min(selectionStart, text.length);
    this.area.setSelectionRange(caret, caret);
    this.area.scrollTop = scrollTop;
    this.area.scrollLeft = scrollLeft;
    this.#split();
    this.#draw();
  }

  get lineCount() {
    return this.#lines.length;
  }

  focus() {
    this.area.focus({ preventScroll: true });
    this.#draw();
  }

  setFile(name, rules) {
    this.area.setAttribute("aria-label", t("editing", { name }));
    this.rules = rules;
    this.#states = [null];
    this.#draw();
  }

  /// Line and column of the caret, from one.
  position() {
    const before = this.area.value.slice(0, this.area.selectionEnd);
    const line = before.split("\n").length;
    return { line, col: before.length - before.lastIndexOf("\n") };
  }

  /// Selects a match and brings it into view.
  reveal(start, end) {
    this.area.setSelectionRange(start, end);
    const height = this.#lineHeight();
    const before = this.area.value.slice(0, start);
    const line = before.split("\n").length - 1;
    const top = line * height;
    const { scrollTop, clientHeight } = this.area;
    if (top < scrollTop || top > scrollTop + clientHeight - 2 * height) {
      this.area.scrollTop = Math.max(0, top - clientHeight / 2);
    }
    const left = (before.length - before.lastIndexOf("\n")) * height * 0.4;
    this.area.scrollLeft = left > this.area.clientWidth - 80 ? left - this.area.clientWidth / 2 : 0;
    // The browser tells of it only while the text has the focus, and now the find bar has it.
    this.#moved();
  }

  /// Marks matches in the lines in view: a function from line text to [start, end] pairs.
  setMarks(marks) {
    this.marks = marks;
    this.#draw();
  }

  redraw() {
    this.#draw();
  }

  #changed() {
    this.#split();
    this.#draw();
    this.on.input();
  }

  #moved() {
    this.#draw();
    this.on.move();
  }

  #split() {
    const old = this.#lines;
    this.#lines = this.area.value.split("\n");
    let same = 0;
    const most = Math.min(old.length, this.#lines.length);
    while (same < most && old[same] === this.#lines[same]) same++;
    // The state at the start of line n depends on the lines before it.
    this.#states.length = Math.min(this.#states.length, same + 1);
  }

  #stateAt(line) {
    for (let n = this.#states.length; n <= line; n++) {
      this.#states[n] = tokenize(this.#lines[n - 1], this.#states[n - 1], this.rules).state;
    }
    return this.#states[line];
  }

  #lineHeight() {
    return parseFloat(getComputedStyle(this.area).lineHeight);
  }

  #draw() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#paint();
    });
  }

  #paint() {
    if (!this.element.isConnected || !this.area.clientHeight) return;
    const height = this.#lineHeight();
    const { scrollTop, scrollLeft, clientHeight } = this.area;
    const first = Math.max(0, Math.floor(scrollTop / height) - SPARE);
    const last = Math.min(this.#lines.length, Math.ceil((scrollTop + clientHeight) / height) + SPARE);
    const caret = this.position().line - 1;
    const rows = [];
    const numbers = [];
    let offset = this.marks ? this.#lines.slice(0, first).reduce((sum, line) => sum + line.length + 1, 0) : 0;
    for (let n = first; n < last; n++) {
      const { tokens } = tokenize(this.#lines[n], this.#stateAt(n), this.rules);
      const row = h("div", { class: "line" });
      for (const [kind, text] of tokens) row.append(kind ? h("span", { class: `t-${kind}` }, text) : text);
      this.#mark(row, this.#lines[n], offset);
      offset += this.#lines[n].length + 1;
      rows.push(row);
      numbers.push(h("div", { class: n === caret ? "number active" : "number" }, String(n + 1)));
    }
    const top = first * height - scrollTop;
    this.text.replaceChildren(...rows);
    this.text.style.transform = `translate(${-scrollLeft}px, ${top}px)`;
    this.numbers.replaceChildren(...numbers);
    this.numbers.style.transform = `translateY(${top}px)`;
    this.gutter.style.setProperty("--digits", Math.max(3, String(this.#lines.length).length));
    this.current.style.transform = `translateY(${caret * height - scrollTop}px)`;
    this.current.hidden = this.area.selectionStart !== this.area.selectionEnd;
  }

  #mark(row, line, offset) {
    const found = this.marks?.(line) ?? [];
    if (!found.length) return;
    const layer = h("div", { class: "marks" });
    let at = 0;
    for (const [start, end] of found) {
      layer.append(line.slice(at, start), h("mark", { class: offset + start === this.area.selectionStart ? "current" : "" }, line.slice(start, end)));
      at = end;
    }
    row.prepend(layer);
  }

  // --- keys: Tab indents, Enter keeps the indentation, Escape frees Tab ---

  #key(event) {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") this.#tabLeaves = true;
    else if (event.key === "Tab" && !this.#tabLeaves) {
      event.preventDefault();
      this.#indent(event.shiftKey);
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.#newLine();
    } else if (event.key !== "Shift") this.#tabLeaves = false;
  }

  /// Through the browser's own editing, so that undo knows of it.
  #insert(text) {
    if (text === "") document.execCommand("delete");
    else document.execCommand("insertText", false, text);
  }

  #unit() {
    const tabbed = this.#lines.some((line) => line.startsWith("\t"));
    if (tabbed) return "\t";
    const indents = this.#lines.slice(0, 500).map((line) => /^ +(?=\S)/.exec(line)?.[0].length).filter((n) => n > 1);
    return " ".repeat(indents.some((n) => n % 4 === 2) ? 2 : 4);
  }

  #newLine() {
    const { selectionStart, value } = this.area;
    const start = value.lastIndexOf("\n", selectionStart - 1) + 1;
    const before = value.slice(start, selectionStart);
    const indent = /^[ \t]*/.exec(before)[0];
    this.#insert(`\n${indent}${INDENT_AFTER.test(before) && this.rules && !this.rules.markdown ? this.#unit() : ""}`);
  }

  #indent(back) {
    const { selectionStart, selectionEnd, value } = this.area;
    const unit = this.#unit();
    if (!back && selectionStart === selectionEnd) {
      this.#insert(unit);
      return;
    }
    const from = value.lastIndexOf("\n", selectionStart - 1) + 1;
    const to = selectionEnd > from && value[selectionEnd - 1] === "\n" ? selectionEnd - 1 : selectionEnd;
    const block = value.slice(from, to);
    const changed = block.split("\n").map((line) => {
      if (!back) return line ? unit + line : line;
      return line.replace(/^(?:\t| {1,4})/, (found) => (unit === "\t" || found === "\t" ? "" : found.slice(unit.length)));
    }).join("\n");
    if (changed === block) return;
    this.area.setSelectionRange(from, to);
    this.#insert(changed);
    if (selectionStart === selectionEnd) {
      const caret = Math.max(from, selectionStart + changed.length - block.length);
      this.area.setSelectionRange(caret, caret);
    } else {
      this.area.setSelectionRange(from, from + changed.length);
    }
  }
}

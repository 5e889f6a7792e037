// The text area you type in. A real <textarea> does the editing, so input
// methods, spell services and assistive technology work as everywhere; it is
// transparent, and the coloured text is drawn underneath, only the lines in
// view. Both use the same font and the same white space, so they coincide.
// Large texts are in it in part only (text-window.js).

import { Brackets } from "./brackets.js";
import { h } from "./dom.js";
import { tokenize } from "./highlight.js";
import { t } from "./i18n.js";
import { WholeText } from "./text-whole.js";
import { WindowText } from "./text-window.js";
import { Wrapping } from "./wrapping.js";

const SPARE = 10;
const INDENT_AFTER = /[{([:]\s*$/;

export class Surface {
  #states = [null];
  #frame = 0;
  #tabLeaves = false;
  #shown = [];

  /// `large` texts are edited by the window. `on` has input() and move().
  constructor(name, rules, large, on) {
    this.rules = rules;
    this.large = large;
    this.on = on;
    this.marks = null;
    this.changes = new Map();
    this.area = h("textarea", {
      class: "code-input", wrap: "off", spellcheck: "false", autocapitalize: "off", autocomplete: "off", autocorrect: "off",
      "aria-label": t("editing", { name }), "aria-multiline": "true", "data-testid": "editor",
      onkeydown: (event) => this.#key(event),
      onblur: () => (this.#tabLeaves = false),
    });
    const events = { changed: () => this.#changed(), moved: () => this.#moved(), scrolled: () => this.#draw() };
    this.text = large ? new WindowText(this.area, events) : new WholeText(this.area, events);
    this.brackets = new Brackets(this.text, this.area);
    this.numbers = h("div", { class: "numbers" });
    this.gutter = h("div", { class: "gutter", "aria-hidden": "true" }, this.numbers);
    this.current = h("div", { class: "current-line" });
    this.drawn = h("div", { class: "code-text" });
    this.ruler = h("span", { class: "code-ruler", "aria-hidden": "true" }, "0".repeat(50));
    this.element = h("div", { class: "surface" }, this.gutter,
      h("div", { class: "code" }, h("div", { class: "underlay", "aria-hidden": "true" }, this.current, this.drawn, this.ruler), this.text.element));
    this.wrapping = new Wrapping(this.element.querySelector(".underlay"));
    new ResizeObserver(() => this.relayout()).observe(this.element);
  }

  get value() {
    return this.text.value;
  }

  /// Replaces everything, keeping the view where it was.
  set value(text) {
    this.text.load(text);
    this.#states = [null];
    this.#shown = [];
    this.#draw();
  }

  get lineCount() {
    return this.text.lines.length;
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

  /// Font size or width changed.
  relayout() {
    if (!this.element.isConnected || !this.area.clientHeight) return;
    this.text.layout(this.#lineHeight(), this.#charWidth());
    this.#draw();
  }

  /// Whether long lines go on in the next row; never where the text is large.
  setWrap(on) {
    const wrap = on && !this.large;
    this.wrap = wrap;
    this.area.wrap = wrap ? "soft" : "off";
    this.element.classList.toggle("wrap", wrap);
    this.#draw();
  }

  /// Line and column of the caret, from one.
  position() {
    const { line, col } = this.text.caret();
    return { line: line + 1, col: col + 1 };
  }

  /// Selects a match and brings it into view.
  reveal(start, end) {
    this.text.select(start, end);
    const { scroller } = this.text;
    const height = this.#lineHeight();
    const line = this.text.lineOf(start);
    const top = this.wrap ? this.wrapping.topOf(line, this.text.lines, this.#wrapSize()) * height : line * height;
    if (top < scroller.scrollTop || top > scroller.scrollTop + scroller.clientHeight - 2 * height) {
      scroller.scrollTop = Math.max(0, top - scroller.clientHeight / 2);
    }
    const left = (start - this.text.offsetOf(line)) * this.#charWidth();
    scroller.scrollLeft = left > scroller.clientWidth - 80 ? left - scroller.clientWidth / 2 : 0;
    // The browser tells of it only while the text has the focus, and now the find bar may have it.
    this.#moved();
  }

  /// Puts the caret at a line and column, from one, and selects `length` letters.
  goTo(line, col = 1, length = 0) {
    const at = Math.min(Math.max(line, 1), this.lineCount) - 1;
    const start = this.text.offsetOf(at) + Math.min(Math.max(col, 1) - 1, this.text.lines[at].length);
    this.reveal(start, Math.min(start + length, this.text.offsetOf(at) + this.text.lines[at].length));
  }

  /// Puts `text` in place of a part, so that it can be undone.
  replace(start, end, text) {
    this.text.select(start, end);
    this.text.insert(text);
  }

  /// Marks matches in the lines in view: a function from line text to [start, end] pairs.
  setMarks(marks) {
    this.marks = marks;
    this.#draw();
  }

  /// What changed since the last commit: line numbers from zero to "added", "modified" or "deleted".
  setChanges(changes) {
    this.changes = changes;
    this.#draw();
  }

  redraw() {
    this.#draw();
  }

  #changed() {
    this.#forget();
    this.#draw();
    this.on.input();
  }

  #moved() {
    this.brackets.moved();
    this.#draw();
    this.on.move();
  }

  /// The state at the start of line n depends on the lines before it.
  #forget() {
    if (!this.rules) return;
    const old = this.#shown;
    const now = this.text.lines;
    let same = 0;
    const most = Math.min(old.length, now.length);
    while (same < most && old[same] === now[same]) same++;
    this.#states.length = Math.min(this.#states.length, same + 1);
    this.#shown = now;
  }

  #stateAt(line) {
    if (!this.rules) return null;
    if (!this.#shown.length) this.#shown = this.text.lines;
    for (let n = this.#states.length; n <= line; n++) {
      this.#states[n] = tokenize(this.text.lines[n - 1], this.#states[n - 1], this.rules).state;
    }
    return this.#states[line];
  }

  #lineHeight() {
    return parseFloat(getComputedStyle(this.area).lineHeight);
  }

  #charWidth() {
    return this.ruler.getBoundingClientRect().width / 50 || 8;
  }

  #wrapSize() {
    return { width: this.area.clientWidth, columns: Math.floor((this.area.clientWidth - 8) / this.#charWidth()), height: this.#lineHeight() };
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
    const { lines, scroller } = this.text;
    const height = this.#lineHeight();
    const { scrollTop, scrollLeft, clientHeight } = scroller;
    const caret = this.text.caret().line;
    const tops = this.wrap ? this.wrapping.tops(lines, this.#wrapSize()) : null;
    const topOf = (line) => (tops ? tops[line] : line) * height;
    const lineAt = (top) => (tops ? this.wrapping.lineAt(tops, top / height) : Math.floor(top / height));
    const first = Math.max(0, lineAt(scrollTop) - SPARE);
    const last = Math.min(lines.length, lineAt(scrollTop + clientHeight) + 1 + SPARE);
    const rows = [];
    const numbers = [];
    const { start } = this.marks ? this.text.selection() : { start: -1 };
    let offset = this.marks ? this.text.offsetOf(first) : 0;
    for (let n = first; n < last; n++) {
      const { tokens } = tokenize(lines[n], this.#stateAt(n), this.rules);
      const row = h("div", { class: "line" });
      for (const [kind, text] of tokens) row.append(kind ? h("span", { class: `t-${kind}` }, text) : text);
      this.#mark(row, lines[n], start - offset);
      offset += lines[n].length + 1;
      rows.push(row);
      const change = this.changes.get(n);
      const number = h("div", { class: `number${n === caret ? " active" : ""}${change ? ` change ${change}` : ""}` }, String(n + 1));
      if (tops) number.style.height = row.style.minHeight = `${topOf(n + 1) - topOf(n)}px`;
      numbers.push(number);
    }
    const top = topOf(first) - scrollTop;
    this.drawn.replaceChildren(...rows);
    this.drawn.style.width = tops ? `${this.area.clientWidth}px` : "";
    this.drawn.style.transform = `translate(${-scrollLeft}px, ${top}px)`;
    this.numbers.replaceChildren(...numbers);
    this.numbers.style.transform = `translateY(${top}px)`;
    this.gutter.style.setProperty("--digits", Math.max(3, String(lines.length).length));
    this.current.style.transform = `translateY(${topOf(caret) - scrollTop}px)`;
    this.current.style.height = tops ? `${topOf(caret + 1) - topOf(caret)}px` : "";
    this.current.hidden = this.area.selectionStart !== this.area.selectionEnd;
  }

  #mark(row, line, current) {
    const found = this.marks?.(line) ?? [];
    if (!found.length) return;
    const layer = h("div", { class: "marks" });
    let at = 0;
    for (const [start, end] of found) {
      layer.append(line.slice(at, start), h("mark", { class: start === current ? "current" : "" }, line.slice(start, end)));
      at = end;
    }
    row.prepend(layer);
  }

  // --- keys: Tab indents, Enter keeps the indentation, Escape frees Tab ---

  #key(event) {
    if (this.text.key(event)) {
      event.preventDefault();
      return;
    }
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") this.#tabLeaves = true;
    else if (event.key === "Tab" && !this.#tabLeaves) {
      event.preventDefault();
      this.#indent(event.shiftKey);
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.#newLine();
    } else if (event.key !== "Shift") {
      this.#tabLeaves = false;
      if (this.brackets.key(event.key, this.rules)) event.preventDefault();
    }
  }

  #unit() {
    const lines = this.text.lines.slice(0, 500);
    if (lines.some((line) => line.startsWith("\t"))) return "\t";
    const indents = lines.map((line) => /^ +(?=\S)/.exec(line)?.[0].length).filter((n) => n > 1);
    return " ".repeat(indents.some((n) => n % 4 === 2) ? 2 : 4);
  }

  #newLine() {
    const { start, end } = this.text.selection();
    const line = this.text.lineOf(start);
    const from = this.text.offsetOf(line);
    const before = this.text.lines[line].slice(0, start - from);
    const indent = /^[ \t]*/.exec(before)[0];
    const deeper = INDENT_AFTER.test(before) && this.rules && !this.rules.markdown;
    const after = start === end ? this.text.lines[line].slice(start - from) : "";
    if (deeper && /^[)\]}]/.test(after) && /[([{]\s*$/.test(before)) {
      const inner = `\n${indent}${this.#unit()}`;
      this.text.insert(`${inner}\n${indent}`);
      this.text.select(start + inner.length, start + inner.length);
    } else this.text.insert(`\n${indent}${deeper ? this.#unit() : ""}`);
  }

  /// Changes the lines of the selection, and selects them as before.
  #changeLines(change) {
    const { start, end } = this.text.selection();
    const first = this.text.lineOf(start);
    let last = this.text.lineOf(end);
    if (last > first && this.text.offsetOf(last) === end) last -= 1;
    const from = this.text.offsetOf(first);
    const old = this.text.lines.slice(first, last + 1);
    const [before, after] = [old.join("\n"), change(old).join("\n")];
    if (before === after) return;
    this.replace(from, from + before.length, after);
    if (start === end) {
      const caret = Math.max(from, start + after.length - before.length);
      this.text.select(caret, caret);
    } else this.text.select(from, from + after.length);
    this.#moved();
  }

  #indent(back) {
    const { start, end } = this.text.selection();
    const unit = this.#unit();
    if (!back && start === end) {
      this.text.insert(unit);
      return;
    }
    this.#changeLines((lines) => lines.map((line) => {
      if (!back) return line ? unit + line : line;
      return line.replace(/^(?:\t| {1,4})/, (found) => (unit === "\t" || found === "\t" ? "" : found.slice(unit.length)));
    }));
  }

  /// Makes the lines of the selection comments, or text again where all of them are.
  toggleComment() {
    const block = this.rules?.block?.find(([, , kind]) => kind === "comment") ?? (this.rules?.markdown ? ["<!--", "-->"] : null);
    const mark = this.rules?.line?.[0];
    const [open, close] = mark ? [mark, ""] : block ?? ["#", ""];
    this.#changeLines((lines) => {
      const full = lines.filter((line) => line.trim());
      const isComment = (line) => line.trimStart().startsWith(open) && line.trimEnd().endsWith(close);
      if (full.length && full.every(isComment)) {
        return lines.map((line) => {
          if (!line.trim()) return line;
          const indent = /^\s*/.exec(line)[0];
          const inner = line.slice(indent.length + open.length).replace(/^ /, "");
          return indent + (close ? inner.trimEnd().slice(0, -close.length).replace(/ $/, "") : inner);
        });
      }
      const depth = Math.min(...full.map((line) => /^\s*/.exec(line)[0].length), Infinity);
      return lines.map((line) => {
        if (!line.trim()) return line;
        return `${line.slice(0, depth)}${open} ${line.slice(depth)}${close ? ` ${close}` : ""}`;
      });
    });
  }
}

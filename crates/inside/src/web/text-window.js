// The text of a large file in a text area that holds only the lines around those in view. What is typed there is
// carried over into the list of all lines; scrolling and moving the caret move the window. So a key costs what the
// window costs, however large the file is. Undo is kept here: the browser's knows one window only.

import { h, isMac } from "./dom.js";

/// Lines in the window above and below those in view.
const SPARE = 150;
/// When the view or the caret comes this close to an end of the window, the window moves.
const NEAR = 50;
/// Keys within this many ms are undone together.
const TOGETHER = 700;
const MOST_STEPS = 2000;
/// No splice with more lines than the stack takes.
const MANY = 10000;

/// As WholeText, for large texts.
export class WindowText {
  #first = 0;
  #last = 1;
  #base = 0;
  #known = "";
  /// The selection where it is not all in the window: { anchor, head }, in the whole text.
  #far = null;
  /// The selection that was last put into the text area.
  #placed = "";
  #pressed = false;
  #composing = false;
  #done = [];
  #undone = [];
  #points = 0;
  #point = 0;
  #lineHeight = 20;
  #charWidth = 8;

  constructor(area, on) {
    Object.assign(this, { area, on });
    this.lines = [""];
    this.length = 0;
    this.space = h("div", { class: "window-space" }, area);
    this.element = h("div", { class: "window-scroll", onscroll: () => this.#scrolled() }, this.space);
    this.scroller = this.element;
    area.classList.add("windowed");
    area.addEventListener("input", () => this.#typed());
    area.addEventListener("beforeinput", (event) => this.#before(event));
    area.addEventListener("compositionstart", () => {
      this.#composing = true;
      const { start, end } = this.selection();
      if (this.#far && start !== end) this.#replace(start, end, "");
    });
    area.addEventListener("compositionend", () => (this.#composing = false));
    area.addEventListener("pointerdown", (event) => {
      this.#pressed = true;
      if (!event.shiftKey) this.#far = null;
    });
    addEventListener("pointerup", () => (this.#pressed = false));
    for (const type of ["copy", "cut"]) area.addEventListener(type, (event) => this.#clip(event));
    document.addEventListener("selectionchange", () => document.activeElement === area && this.#moved());
  }

  get value() {
    return this.lines.join("\n");
  }

  load(text) {
    const { start } = this.selection();
    const { scrollTop, scrollLeft } = this.element;
    this.lines = text.split("\n");
    this.length = text.length;
    this.#done = [];
    this.#undone = [];
    this.#point = ++this.#points;
    const caret = Math.min(start, text.length);
    this.#render(this.#firstInView(scrollTop), caret, caret);
    this.element.scrollTop = scrollTop;
    this.element.scrollLeft = scrollLeft;
  }

  differs(saved, point) {
    return saved === null || point !== this.#point;
  }

  point() {
    return this.#point;
  }

  // --- where things are ---

  offsetOf(line) {
    let offset = 0;
    for (let n = 0; n < line; n++) offset += this.lines[n].length + 1;
    return offset;
  }

  #place(offset) {
    let left = Math.max(0, offset);
    const { lines } = this;
    for (let n = 0; n < lines.length; n++) {
      if (left <= lines[n].length) return { line: n, col: left };
      left -= lines[n].length + 1;
    }
    return { line: lines.length - 1, col: lines.at(-1).length };
  }

  lineOf(offset) {
    return this.#place(offset).line;
  }

  slice(start, end) {
    const [from, to] = [this.#place(start), this.#place(end)];
    if (from.line === to.line) return this.lines[from.line].slice(from.col, to.col);
    return [this.lines[from.line].slice(from.col), ...this.lines.slice(from.line + 1, to.line), this.lines[to.line].slice(0, to.col)].join("\n");
  }

  #ends() {
    if (this.#far) return this.#far;
    const { selectionStart, selectionEnd, selectionDirection } = this.area;
    const [start, end] = [this.#base + selectionStart, this.#base + selectionEnd];
    return selectionDirection === "backward" ? { anchor: end, head: start } : { anchor: start, head: end };
  }

  selection() {
    const { anchor, head } = this.#ends();
    return { start: Math.min(anchor, head), end: Math.max(anchor, head) };
  }

  caret() {
    if (this.#far) return this.#place(this.selection().end);
    const before = this.#known.slice(0, this.area.selectionEnd);
    return { line: this.#first + before.split("\n").length - 1, col: before.length - before.lastIndexOf("\n") - 1 };
  }

  // --- the window ---

  /// Font and view have changed, or may have.
  layout(lineHeight, charWidth) {
    this.#lineHeight = lineHeight;
    this.#charWidth = charWidth;
    this.#fit();
    if (!this.#covers()) this.#follow();
  }

  #firstInView(top = this.element.scrollTop) {
    return Math.floor(top / this.#lineHeight);
  }

  #linesInView() {
    return Math.ceil((this.element.clientHeight || 600) / this.#lineHeight);
  }

  #covers(margin = 0) {
    const first = this.#firstInView();
    const last = first + this.#linesInView();
    return (this.#first === 0 || first - margin >= this.#first) && (this.#last === this.lines.length || last + margin <= this.#last);
  }

  #scrolled() {
    // A selection being drawn would break; only what is in view matters more.
    if (!this.#composing && !this.#covers(this.#pressed ? 0 : NEAR)) this.#follow();
    this.on.scrolled();
  }

  #follow() {
    const { anchor, head } = this.#ends();
    this.#render(this.#firstInView(), anchor, head);
  }

  /// Puts the lines around `line` into the text area, with this selection as far as it is among them.
  #render(line, anchor, head) {
    this.#first = Math.max(0, Math.min(line, this.lines.length - 1) - SPARE);
    this.#last = Math.min(this.lines.length, line + this.#linesInView() + SPARE);
    this.#base = this.offsetOf(this.#first);
    this.#known = this.lines.slice(this.#first, this.#last).join("\n");
    if (this.area.value !== this.#known) this.area.value = this.#known;
    this.#fit();
    this.#mark(anchor, head);
  }

  #mark(anchor, head) {
    const inside = (offset) => Math.min(Math.max(offset - this.#base, 0), this.#known.length);
    const [from, to] = [inside(anchor), inside(head)];
    this.area.setSelectionRange(Math.min(from, to), Math.max(from, to), head < anchor ? "backward" : "forward");
    const near = (offset) => offset >= this.#base && offset <= this.#base + this.#known.length;
    this.#far = near(anchor) && near(head) ? null : { anchor, head };
    this.#placed = this.#spot();
  }

  #spot() {
    return `${this.area.selectionStart}-${this.area.selectionEnd}`;
  }

  #fit() {
    const height = this.#lineHeight;
    let widest = 0;
    for (let n = this.#first; n < this.#last; n++) {
      const line = this.lines[n];
      // Wide letters and tabs take more; too wide does no harm.
      const width = /[^\x20-\x7e]/.test(line) ? line.length * 2 + 3 * (line.match(/\t/g)?.length ?? 0) : line.length;
      if (width > widest) widest = width;
    }
    const style = this.area.style;
    style.top = `${this.#first * height}px`;
    style.height = `${(this.#last - this.#first) * height + 16}px`;
    this.space.style.height = `${this.lines.length * height + 16}px`;
    this.space.style.width = `max(100%, ${Math.ceil(widest * this.#charWidth) + 60}px)`;
  }

  /// Selects, and has the window where the selection ends.
  select(start, end) {
    this.#show(start, end);
  }

  #show(anchor, head) {
    const { line } = this.#place(head);
    const inside = line >= this.#first + (this.#first ? NEAR : 0) && line < this.#last - (this.#last < this.lines.length ? NEAR : 0);
    if (inside) this.#mark(anchor, head);
    else {
      const view = this.#linesInView();
      this.element.scrollTop = Math.max(0, (line - view / 2) * this.#lineHeight);
      this.#render(Math.max(0, line - Math.floor(view / 2)), anchor, head);
    }
  }

  #reveal(head) {
    const { line } = this.#place(head);
    const first = this.#firstInView();
    if (line < first || line >= first + this.#linesInView() - 1) {
      this.element.scrollTop = Math.max(0, (line - this.#linesInView() / 2) * this.#lineHeight);
    }
  }

  #moved() {
    if (this.#composing) return;
    if (this.#far) {
      if (this.#spot() === this.#placed) return;
      const { selectionStart, selectionEnd, selectionDirection } = this.area;
      const head = this.#base + (selectionDirection === "backward" ? selectionStart : selectionEnd);
      this.#far = selectionStart === selectionEnd ? null : { anchor: this.#far.anchor, head };
    }
    const { line } = this.caret();
    const atEdge = (this.#first > 0 && line < this.#first + NEAR) || (this.#last < this.lines.length && line > this.#last - NEAR);
    if (atEdge && !this.#pressed) {
      const { anchor, head } = this.#ends();
      this.#render(Math.max(0, line - Math.floor(this.#linesInView() / 2)), anchor, head);
    }
    this.on.moved();
  }

  // --- editing ---

  #typed() {
    const [old, now] = [this.#known, this.area.value];
    const most = Math.min(old.length, now.length);
    let head = 0;
    while (head < most && old.charCodeAt(head) === now.charCodeAt(head)) head++;
    let tail = 0;
    while (tail < most - head && old.charCodeAt(old.length - 1 - tail) === now.charCodeAt(now.length - 1 - tail)) tail++;
    const removed = old.slice(head, old.length - tail);
    const inserted = now.slice(head, now.length - tail);
    if (removed === "" && inserted === "") return;
    this.#known = now;
    this.#swap(this.#first, this.#last - this.#first, now.split("\n"));
    this.length += inserted.length - removed.length;
    this.#record({ at: this.#base + head, removed, inserted });
    this.#far = null;
    this.#fit();
    this.on.changed();
  }

  #swap(from, count, lines) {
    if (lines.length < MANY) this.lines.splice(from, count, ...lines);
    else this.lines = this.lines.slice(0, from).concat(lines, this.lines.slice(from + count));
    if (from <= this.#first) this.#last = Math.min(this.lines.length, this.#last + lines.length - count);
  }

  #record(step) {
    const last = this.#done.at(-1);
    const now = Date.now();
    const before = this.#point;
    this.#undone = [];
    this.#point = ++this.#points;
    const goesOn = last && now - last.time < TOGETHER && !/\n/.test(step.inserted) && step.removed === "" && last.removed === ""
      && step.at === last.at + last.inserted.length;
    if (goesOn) Object.assign(last, { inserted: last.inserted + step.inserted, time: now, point: this.#point });
    else this.#done.push({ ...step, time: now, point: this.#point, before });
    if (this.#done.length > MOST_STEPS) this.#done.shift();
  }

  /// Changes the lines, and shows the place.
  #apply(at, count, text) {
    const [from, to] = [this.#place(at), this.#place(at + count)];
    const lines = (this.lines[from.line].slice(0, from.col) + text + this.lines[to.line].slice(to.col)).split("\n");
    this.#swap(from.line, to.line - from.line + 1, lines);
    this.length += text.length - count;
    const caret = at + text.length;
    const line = this.#place(caret).line;
    this.#render(line < this.#firstInView() || line > this.#firstInView() + this.#linesInView() ? line : this.#firstInView(), caret, caret);
    this.#reveal(caret);
  }

  #replace(start, end, text) {
    const removed = this.slice(start, end);
    if (removed === text) return;
    this.#record({ at: start, removed, inserted: text });
    this.#apply(start, end - start, text);
    this.on.changed();
  }

  insert(text) {
    const { start, end } = this.selection();
    this.#replace(start, end, text);
  }

  #undo() {
    const step = this.#done.pop();
    if (!step) return;
    this.#undone.push(step);
    this.#point = step.before;
    this.#apply(step.at, step.inserted.length, step.removed);
    this.on.changed();
  }

  #redo() {
    const step = this.#undone.pop();
    if (!step) return;
    this.#done.push(step);
    this.#point = step.point;
    this.#apply(step.at, step.removed.length, step.inserted);
    this.on.changed();
  }

  #before(event) {
    if (event.inputType === "historyUndo" || event.inputType === "historyRedo") {
      event.preventDefault();
      if (event.inputType === "historyUndo") this.#undo();
      else this.#redo();
      return;
    }
    if (!this.#far || this.#composing) return;
    const { start, end } = this.selection();
    const text = event.inputType === "insertLineBreak" ? "\n" : event.data ?? event.dataTransfer?.getData("text/plain") ?? "";
    if (event.inputType.startsWith("insert")) this.#replace(start, end, text);
    else if (start !== end) this.#replace(start, end, "");
    else return;
    event.preventDefault();
  }

  #clip(event) {
    const { start, end } = this.selection();
    if (!this.#far || start === end) return;
    event.preventDefault();
    event.clipboardData.setData("text/plain", this.slice(start, end));
    if (event.type === "cut") this.#replace(start, end, "");
  }

  key(event) {
    if (event.isComposing || ["Shift", "Control", "Alt", "Meta"].includes(event.key)) return false;
    const command = isMac ? event.metaKey : event.ctrlKey;
    const key = event.key.toLowerCase();
    if (command && !event.altKey && key === "z") {
      if (event.shiftKey) this.#redo();
      else this.#undo();
      return true;
    }
    if (command && !event.altKey && key === "y") {
      this.#redo();
      return true;
    }
    if (command && !event.altKey && key === "a") {
      this.#far = { anchor: 0, head: this.length };
      this.#mark(0, this.length);
      this.on.moved();
      return true;
    }
    const far = { home: 0, end: this.length, ...(isMac ? { arrowup: 0, arrowdown: this.length } : {}) }[key];
    if (command && far !== undefined) {
      const { anchor } = this.#ends();
      this.#show(event.shiftKey ? anchor : far, far);
      this.#reveal(far);
      this.on.moved();
      return true;
    }
    const pages = { pageup: -1, pagedown: 1 }[key];
    if (pages && !command && !event.altKey) {
      // The text area itself does not scroll, so the browser would not move the caret.
      const { anchor, head } = this.#ends();
      const { line, col } = this.#place(head);
      const to = Math.min(Math.max(line + pages * Math.max(1, this.#linesInView() - 2), 0), this.lines.length - 1);
      const offset = this.offsetOf(to) + Math.min(col, this.lines[to].length);
      this.element.scrollTop += (to - line) * this.#lineHeight;
      this.#show(event.shiftKey ? anchor : offset, offset);
      this.#reveal(offset);
      this.on.moved();
      return true;
    }
    if (this.#far && !command) {
      const { anchor, head } = this.#far;
      const moves = key.startsWith("arrow") || ["home", "end", "pageup", "pagedown"].includes(key);
      // From where the caret is, not from the window's edge.
      if (moves && !event.shiftKey && anchor !== head) this.#show(head, head);
      else this.#show(anchor, head);
      this.#reveal(head);
    }
    return false;
  }
}

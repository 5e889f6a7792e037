// One terminal on the page. The server keeps the real screen and sends rows
// that changed; here they become DOM text, so selecting and copying is the
// browser's own. Lines that scrolled away are fetched when scrolled to.
//
// Typing goes into a small text area that sits at the cursor. It is invisible
// until an input method composes in it, so Korean syllables take shape exactly
// where they will land.

import { dark, h, isMac } from "./dom.js";
import { icon } from "./icons.js";
import { t } from "./i18n.js";
import { cellAt, drawRow, rowText, selectedText } from "./term-draw.js";
import { TerminalFind } from "./term-find.js";
import { encodeKey, encodePaste, MODE } from "./term-keys.js";
import { linkAt } from "./term-links.js";
import { Mouse } from "./term-mouse.js";

const CHUNK = 100;
/// Lines in one answer while searching, as the server allows, and how long they may take to come, in ms.
const BLOCK = 500;
const BLOCK_WITHIN = 3000;
const PASTE_PIECE = 32 * 1024;
const CURSOR_SHAPES = ["block", "underline", "bar"];

export class TerminalView {
  #rows = [];
  #data = [];
  #chunks = new Map();
  #composing = false;
  #frame = 0;
  #following = true;
  #blocks = new Map();
  #marked = null;

  /// `on` has title(view), bell(view) and menu(view, event), and open(view, link) for what was clicked with Ctrl.
  constructor(id, name, socket, on) {
    Object.assign(this, { id, name, socket, on });
    this.title = "";
    this.modes = 0;
    this.rows = 0;
    this.cols = 0;
    this.first = 0;
    this.base = 0;
    this.epoch = -1;
    this.bells = null;
    this.exit = null;
    this.sticky = { ctrl: false };
    this.#build();
  }

  #build() {
    this.ruler = h("span", { class: "term-ruler", "aria-hidden": "true" }, "0".repeat(50));
    this.cursor = h("div", { class: "term-cursor block", "aria-hidden": "true" });
    this.inputArea = h("textarea", {
      class: "term-input", rows: "1", spellcheck: "false", autocapitalize: "off", autocomplete: "off", autocorrect: "off",
      "aria-label": t("terminalInput", { name: this.name }), "data-testid": "term-input",
    });
    this.screen = h("div", { class: "term-screen", "data-testid": "term-screen" });
    this.history = h("div", { class: "term-history" });
    this.found = h("div", { class: "term-found", hidden: true });
    this.finding = new TerminalFind(this);
    this.space = h("div", { class: "term-space" }, this.found, this.history, this.screen, this.cursor, this.inputArea);
    this.scroll = h("div", { class: "term-scroll", tabindex: "-1" }, this.space);
    this.latest = h("button", { type: "button", class: "term-latest", hidden: true, onclick: () => this.#follow() }, icon("chevronDown"), t("backToNow"));
    this.ended = h("div", { class: "term-exit", role: "status", "data-testid": "term-exit", hidden: true });
    this.element = h("div", {
      class: "term", role: "tabpanel", "aria-label": this.name, "data-testid": "terminal", "data-terminal": this.id,
    }, this.ruler, this.scroll, this.latest, this.ended, this.finding.element);

    const area = this.inputArea;
    area.addEventListener("keydown", (event) => this.#key(event));
    area.addEventListener("beforeinput", (event) => this.#beforeInput(event));
    area.addEventListener("input", () => this.#composing || (area.value = ""));
    area.addEventListener("compositionstart", () => this.#compose(true));
    area.addEventListener("compositionupdate", (event) => this.#sizeInput(event.data));
    area.addEventListener("compositionend", (event) => {
      this.#compose(false);
      this.input(event.data);
      setTimeout(() => this.#composing || (area.value = ""));
    });
    area.addEventListener("paste", (event) => {
      event.preventDefault();
      this.paste(event.clipboardData.getData("text/plain"));
    });
    area.addEventListener("focus", () => this.#focused(true));
    area.addEventListener("blur", () => this.#focused(false));

    this.scroll.addEventListener("scroll", () => this.#scrolled());
    this.scroll.addEventListener("keydown", (event) => this.#keyOutside(event));
    this.scroll.addEventListener("mouseup", () => getSelection().isCollapsed && this.focus());
    this.scroll.addEventListener("copy", (event) => this.#copy(event));
    new Mouse(this, this.scroll);
    this.scroll.addEventListener("contextmenu", (event) => event.defaultPrevented || this.on.menu?.(this, event));
    // Before the mouse is a program's: with Ctrl it is the person's.
    this.scroll.addEventListener("mousedown", (event) => {
      if (event.button !== 0 || !(isMac ? event.metaKey : event.ctrlKey)) return;
      const link = linkAt(event.clientX, event.clientY);
      if (!link) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      this.on.open?.(this, link);
    }, true);
    this.scroll.addEventListener("mousemove", (event) => {
      const command = isMac ? event.metaKey : event.ctrlKey;
      this.scroll.classList.toggle("linking", command && Boolean(linkAt(event.clientX, event.clientY)));
    });
  }

  // --- size and connection ---

  cellSize() {
    return { width: this.ruler.getBoundingClientRect().width / 50, height: parseFloat(getComputedStyle(this.screen).lineHeight) };
  }

  /// Rows and columns that fit, or null while invisible.
  fit() {
    const { width, height } = this.cellSize();
    const style = getComputedStyle(this.space);
    const inner = this.scroll.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (!width || inner < width * 2) return null;
    return { rows: Math.max(2, Math.floor((this.scroll.clientHeight - 4) / height)), cols: Math.floor(inner / width + 0.01) };
  }

  attach(size) {
    this.socket.send({ t: "attach", id: this.id, dark: dark.matches, ...size });
  }

  /// Tells the server our size when it differs from the terminal's.
  resize() {
    const size = this.fit();
    if (size && (size.rows !== this.rows || size.cols !== this.cols)) this.socket.send({ t: "size", id: this.id, ...size });
    this.#layout();
  }

  focus() {
    this.inputArea.focus({ preventScroll: true });
  }

  /// Whether a program has the whole screen, and with it all keys.
  get fullScreen() {
    return Boolean(this.modes & MODE.ALT);
  }

  // --- what the server says ---

  update(message) {
    const { rows, cols, lines, cur, modes, first, base, epoch, title, bells, exit } = message;
    if (message.full || epoch !== this.epoch) this.#forgetHistory();
    Object.assign(this, { rows, cols, modes, base, epoch, cur });
    this.#evict(first);
    while (this.#rows.length < rows) {
      const row = h("div", { class: "row-line" });
      this.#rows.push(row);
      this.screen.append(row);
    }
    while (this.#rows.length > rows) this.#rows.pop().remove();
    this.#data.length = rows;
    for (const [number, row] of Object.entries(lines)) {
      this.#data[number] = row;
      drawRow(this.#rows[number], row);
    }
    if (this.title !== title) {
      this.title = title;
      this.on.title(this);
    }
    if (this.bells !== null && bells !== this.bells) this.on.bell(this);
    this.bells = bells;
    if (exit) this.#end(exit);
    this.#layout();
  }

  /// Old lines that were asked for.
  addLines({ epoch, from, lines }) {
    if (epoch !== this.epoch) return;
    const block = `${from} ${lines.length}`;
    if (this.#blocks.has(block)) {
      this.#blocks.get(block)(lines);
      this.#blocks.delete(block);
      return;
    }
    const number = Math.floor(from / CHUNK);
    const chunk = this.#chunks.get(number);
    if (!chunk) return;
    chunk.asked = false;
    chunk.lines = lines.length;
    chunk.start = from;
    chunk.element.replaceChildren(...lines.map((row) => {
      const line = h("div", { class: "row-line" });
      drawRow(line, row);
      return line;
    }));
    this.#layout();
  }

  /// All lines there are, the oldest first: { number, text }. Those that do not come in time are left out.
  async texts() {
    const lines = [];
    const { first, base } = this;
    for (let from = this.modes & MODE.ALT ? base : first; from < base; from += BLOCK) {
      const to = Math.min(from + BLOCK, base);
      const rows = await new Promise((resolve) => {
        this.#blocks.set(`${from} ${to - from}`, resolve);
        if (!this.socket.send({ t: "lines", id: this.id, from, to })) resolve([]);
        setTimeout(() => resolve([]), BLOCK_WITHIN);
      });
      rows.forEach((row, n) => lines.push({ number: from + n, text: rowText(row) }));
    }
    this.#data.forEach((row, n) => lines.push({ number: base + n, text: rowText(row) }));
    return lines;
  }

  /// Marks a line and brings it into view; null takes the mark away.
  showLine(number) {
    this.#marked = number;
    this.found.hidden = number === null;
    if (number === null) return;
    const { height } = this.cellSize();
    const top = (number - (this.modes & MODE.ALT ? this.base : this.first)) * height;
    this.found.style.top = `${top}px`;
    this.found.style.height = `${height}px`;
    if (top < this.scroll.scrollTop || top > this.scroll.scrollTop + this.scroll.clientHeight - 2 * height) {
      this.scroll.scrollTop = Math.max(0, top - this.scroll.clientHeight / 2);
    }
  }

  async copy() {
    await this.#copySelection(new Event("copy"));
  }

  #end(exit) {
    this.exit = exit;
    this.ended.textContent = exit.signal ? t("exitedSignal", exit) : t("exited", exit);
    this.ended.hidden = false;
    this.element.classList.add("ended");
    this.on.title(this);
  }

  // --- drawing ---

  #layout() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#place();
    });
  }

  #place() {
    if (!this.scroll.clientHeight || !this.cur) return;
    const { width, height } = this.cellSize();
    const above = this.modes & MODE.ALT ? 0 : this.base - this.first;
    this.history.hidden = Boolean(this.modes & MODE.ALT);
    this.space.style.height = `${above * height + Math.max(this.scroll.clientHeight, this.rows * height + 4)}px`;
    this.screen.style.top = `${above * height}px`;
    const [row, col, visible, shape] = this.cur;
    const { text, wide } = cellAt(this.#data[row] ?? [0], col);
    const left = col * width;
    const top = (above + row) * height;
    this.cursor.className = `term-cursor ${CURSOR_SHAPES[shape]}`;
    this.cursor.hidden = !visible || Boolean(this.exit);
    this.cursor.textContent = shape === 0 ? text : "";
    this.cursor.style.width = `${width * (wide ? 2 : 1)}px`;
    for (const element of [this.cursor, this.inputArea]) {
      element.style.transform = `translate(${left}px, ${top}px)`;
    }
    for (const chunk of this.#chunks.values()) chunk.element.style.top = `${(chunk.start - this.first) * height}px`;
    if (this.#following) this.scroll.scrollTop = this.scroll.scrollHeight;
    else this.#fetchVisible();
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroll;
    this.#following = scrollTop + clientHeight >= scrollHeight - 4;
    this.latest.hidden = this.#following;
    if (!this.#following) this.#fetchVisible();
  }

  #follow() {
    this.#following = true;
    this.latest.hidden = true;
    this.#layout();
    this.focus();
  }

  #fetchVisible() {
    if (this.modes & MODE.ALT) return;
    const { height } = this.cellSize();
    const top = this.first + Math.floor(this.scroll.scrollTop / height);
    const bottom = top + Math.ceil(this.scroll.clientHeight / height);
    for (let n = Math.floor((top - CHUNK) / CHUNK); n <= Math.floor(bottom / CHUNK); n++) {
      const from = Math.max(n * CHUNK, this.first);
      const to = Math.min((n + 1) * CHUNK, this.base);
      if (from < to) this.#fetch(n, from, to);
    }
  }

  #fetch(number, from, to) {
    let chunk = this.#chunks.get(number);
    if (!chunk) {
      chunk = { element: h("div", { class: "term-chunk" }), start: from, lines: 0, asked: false };
      this.#chunks.set(number, chunk);
      this.history.append(chunk.element);
    }
    if (chunk.asked || chunk.start + chunk.lines >= to) return;
    chunk.asked = this.socket.send({ t: "lines", id: this.id, from, to });
  }

  #forgetHistory() {
    this.#chunks.clear();
    this.history.replaceChildren();
  }

  /// Lines before `first` are gone on the server; keep what is seen in place.
  #evict(first) {
    const gone = first - this.first;
    this.first = first;
    if (gone <= 0 || this.#following) return;
    for (const [number, chunk] of this.#chunks) {
      if ((number + 1) * CHUNK > first) continue;
      chunk.element.remove();
      this.#chunks.delete(number);
    }
    this.scroll.scrollTop -= gone * this.cellSize().height;
    if (this.#marked !== null) this.found.style.top = `${(this.#marked - first) * this.cellSize().height}px`;
  }

  // --- input ---

  input(text) {
    if (!text) return;
    if (this.sticky.ctrl && text.length === 1) {
      this.sticky.release?.();
      const code = text.toUpperCase().charCodeAt(0);
      if (code >= 64 && code < 96) text = String.fromCharCode(code - 64);
    }
    if (!this.socket.send({ t: "in", id: this.id, d: text })) this.socket.poke();
    if (!this.#following) this.#follow();
  }

  paste(text) {
    const bytes = encodePaste(text, this.modes);
    for (let at = 0; at < bytes.length; at += PASTE_PIECE) this.input(bytes.slice(at, at + PASTE_PIECE));
  }

  #key(event) {
    if (event.isComposing || event.keyCode === 229) return;
    const ctrl = event.ctrlKey && !event.altKey && !event.metaKey;
    const letter = event.key.toLowerCase();
    if (ctrl && event.shiftKey && (letter === "c" || letter === "v")) {
      if (letter === "c") this.#copySelection(event);
      return; // Ctrl+Shift+V pastes by itself
    }
    // In a full-screen program Ctrl+V is the program's (block selection in vim).
    if (ctrl && letter === "v" && !(this.modes & MODE.ALT)) return;
    if (event.shiftKey && event.key === "Insert") return;
    if (event.shiftKey && (event.key === "PageUp" || event.key === "PageDown")) {
      this.scroll.scrollBy(0, (event.key === "PageUp" ? -1 : 1) * this.scroll.clientHeight * 0.9);
      event.preventDefault();
      return;
    }
    const bytes = encodeKey(event, this.modes, isMac);
    if (bytes === null) return;
    event.preventDefault();
    event.stopPropagation();
    this.input(bytes);
  }

  /// Keys while text is selected: copy, or back to typing.
  #keyOutside(event) {
    if (event.target === this.inputArea || event.isComposing) return;
    const copies = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "c";
    if (copies && !getSelection().isCollapsed) return this.#copySelection(event);
    if (["Control", "Shift", "Alt", "Meta"].includes(event.key) || event.metaKey) return;
    getSelection().removeAllRanges();
    this.focus();
    this.#key(event);
  }

  #beforeInput(event) {
    if (event.isComposing || this.#composing) return;
    const text = { insertText: event.data, insertReplacementText: event.data, insertLineBreak: "\r", deleteContentBackward: "\x7f" }[event.inputType];
    if (text) this.input(text.replaceAll("\n", "\r"));
    if (!event.inputType.includes("omposition")) event.preventDefault();
  }

  #compose(on) {
    this.#composing = on;
    this.inputArea.classList.toggle("composing", on);
    if (!on) this.inputArea.style.width = "";
  }

  #sizeInput(text) {
    const columns = [...text].reduce((sum, char) => sum + (char > "\u1100" ? 2 : 1), 0);
    this.inputArea.style.width = `${Math.max(columns, 1) + 0.5}ch`;
  }

  #focused(on) {
    this.element.classList.toggle("focused", on);
    if (this.modes & MODE.FOCUS && !this.exit) this.socket.send({ t: "in", id: this.id, d: on ? "\x1b[I" : "\x1b[O" });
    if (on) this.resize();
  }

  /// Copies and returns to typing, so that the next Ctrl+C interrupts again.
  async #copySelection(event) {
    const text = selectedText(this.space);
    if (!text) return;
    event.preventDefault();
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      document.execCommand("copy"); // no clipboard access: plain http, or refused
    }
    getSelection().removeAllRanges();
    this.focus();
  }

  #copy(event) {
    const text = selectedText(this.space);
    if (!text) return;
    event.clipboardData.setData("text/plain", text);
    event.preventDefault();
  }
}

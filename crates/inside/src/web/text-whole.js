// The text of a file in a text area that holds all of it. The browser does the editing and keeps the undo history.

/// What a text area can be asked for, with the whole text as its value. `on` has changed(), moved() and scrolled().
export class WholeText {
  constructor(area, on) {
    this.area = area;
    this.element = area;
    this.scroller = area;
    this.lines = [""];
    area.addEventListener("input", () => {
      this.lines = area.value.split("\n");
      on.changed();
    });
    area.addEventListener("scroll", () => on.scrolled());
    document.addEventListener("selectionchange", () => document.activeElement === area && on.moved());
  }

  get value() {
    return this.area.value;
  }

  /// Replaces everything, keeping the view where it was.
  load(text) {
    const { area } = this;
    const { scrollTop, scrollLeft, selectionStart } = area;
    area.value = text;
    const caret = Math.min(selectionStart, text.length);
    area.setSelectionRange(caret, caret);
    area.scrollTop = scrollTop;
    area.scrollLeft = scrollLeft;
    this.lines = text.split("\n");
  }

  get length() {
    return this.area.value.length;
  }

  /// Whether the text is not the one that was saved.
  differs(saved) {
    return this.area.value !== saved;
  }

  /// What `differs` can be asked with later, for texts that are slow to compare.
  point() {
    return null;
  }

  selection() {
    return { start: this.area.selectionStart, end: this.area.selectionEnd };
  }

  select(start, end) {
    this.area.setSelectionRange(start, end);
  }

  slice(start, end) {
    return this.area.value.slice(start, end);
  }

  /// Line and column of the caret, from zero.
  caret() {
    const before = this.area.value.slice(0, this.area.selectionEnd);
    return { line: before.split("\n").length - 1, col: before.length - before.lastIndexOf("\n") - 1 };
  }

  offsetOf(line) {
    let offset = 0;
    for (let n = 0; n < line; n++) offset += this.lines[n].length + 1;
    return offset;
  }

  lineOf(offset) {
    return this.area.value.slice(0, offset).split("\n").length - 1;
  }

  /// In place of the selection, as if typed: undo knows of it.
  insert(text) {
    const before = document.activeElement;
    if (before !== this.area) this.area.focus({ preventScroll: true });
    if (text === "") {
      if (this.area.selectionStart !== this.area.selectionEnd) document.execCommand("delete");
    } else document.execCommand("insertText", false, text);
    if (before !== this.area) before?.focus?.();
  }

  /// True when the key was for the text as a whole.
  key() {
    return false;
  }

  layout() { /* the browser does */ }
}

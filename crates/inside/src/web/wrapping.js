// How many rows each line takes when long lines are wrapped. Short plain lines take one; others are measured once, in
// the same font and width, and remembered.

import { h } from "./dom.js";

const PLAIN = /^[\x20-\x7e]*$/;
const MOST_KNOWN = 50000;

export class Wrapping {
  #known = new Map();
  #for = "";

  constructor(host) {
    this.box = h("div", { class: "code-text measure" });
    host.append(this.box);
  }

  /// The first row of each line, and one more: the number of rows.
  tops(lines, { width, columns, height }) {
    const size = `${width} ${height}`;
    if (this.#for !== size || this.#known.size > MOST_KNOWN) this.#known.clear();
    this.#for = size;
    const short = (line) => line.length <= columns && PLAIN.test(line);
    const unknown = [...new Set(lines.filter((line) => !short(line) && !this.#known.has(line)))];
    if (unknown.length) this.#measure(unknown, width, height);
    const tops = new Array(lines.length + 1);
    tops[0] = 0;
    for (let n = 0; n < lines.length; n++) tops[n + 1] = tops[n] + (short(lines[n]) ? 1 : this.#known.get(lines[n]));
    return tops;
  }

  #measure(lines, width, height) {
    const rows = lines.map((line) => h("div", { class: "line" }, line || " "));
    this.box.style.width = `${width}px`;
    this.box.replaceChildren(...rows);
    lines.forEach((line, n) => this.#known.set(line, Math.max(1, Math.round(rows[n].offsetHeight / height))));
    this.box.replaceChildren();
  }

  topOf(line, lines, size) {
    return this.tops(lines, size)[line];
  }

  /// The line that a row belongs to.
  lineAt(tops, row) {
    let [low, high] = [0, tops.length - 2];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (tops[middle] <= row) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }
}

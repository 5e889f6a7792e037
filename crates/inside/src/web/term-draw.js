// One row of a terminal as DOM. See terminal::encode on the server for the
// format: [wrapped, run, …], a run being text or [text, fg, bg, flags].

const BOLD = 1, DIM = 2, ITALIC = 4, UNDERLINE = 8, INVERSE = 16, WIDE = 32;

export function drawRow(element, row) {
  const [wrapped, ...runs] = row;
  element.replaceChildren(...runs.map(drawRun));
  element.classList.toggle("wrapped", wrapped === 1);
}

function drawRun(run) {
  if (typeof run === "string") return document.createTextNode(run);
  const [text, fg, bg, flags] = run;
  const span = document.createElement("span");
  paint(span, fg, bg, flags);
  if (typeof text === "string") {
    span.textContent = text;
    return span;
  }
  // Cells whose glyph may have any width get a box of the exact one.
  const kind = flags & WIDE ? "cell wide" : "cell";
  for (const cell of text) {
    const box = document.createElement("span");
    box.className = kind;
    box.textContent = cell;
    span.append(box);
  }
  return span;
}

function paint(span, fg, bg, flags) {
  // Bold makes the eight base colours bright, as terminals always have.
  let front = flags & BOLD && fg >= 0 && fg < 8 ? fg + 8 : fg;
  let back = bg;
  if (flags & INVERSE) [front, back] = [back, front];
  const style = span.style;
  if (flags & INVERSE || front >= 0) style.color = colour(front, flags & INVERSE ? "--term-bg" : "--term-fg");
  if (flags & INVERSE || back >= 0) style.backgroundColor = colour(back, flags & INVERSE ? "--term-fg" : "--term-bg");
  const classes = [];
  // Palettes are made for text on the page's background; on a coloured one a
  // neutral text colour may vanish, so there it is chosen for contrast.
  if (back >= 0 && NEUTRAL.has(front)) {
    style.color = "";
    classes.push(groundClass(back));
  }
  if (flags & BOLD) classes.push("bold");
  if (flags & DIM) classes.push("dim");
  if (flags & ITALIC) classes.push("italic");
  if (flags & UNDERLINE) classes.push("underline");
  if (classes.length) span.className = classes.join(" ");
}

const NEUTRAL = new Set([-1, 0, 7, 8, 15]);

function groundClass(back) {
  if (back < 16) return back % 8 === 0 ? "on-dark" : "on-hue";
  const rgb = back < 256 ? PALETTE_RGB[back] : [(back >> 16) & 255, (back >> 8) & 255, back & 255];
  return 0.3 * rgb[0] + 0.59 * rgb[1] + 0.11 * rgb[2] > 128 ? "on-light" : "on-dark";
}

function colour(value, fallback) {
  if (value < 0) return `var(${fallback})`;
  if (value < 16) return `var(--term-${value})`;
  if (value < 256) return `rgb(${PALETTE_RGB[value].join(" ")})`;
  return `#${(value & 0xffffff).toString(16).padStart(6, "0")}`;
}

const PALETTE_RGB = (() => {
  const palette = [];
  const step = [0, 95, 135, 175, 215, 255];
  for (let i = 0; i < 216; i++) palette[16 + i] = [step[Math.floor(i / 36)], step[Math.floor(i / 6) % 6], step[i % 6]];
  for (let i = 0; i < 24; i++) palette[232 + i] = [8 + i * 10, 8 + i * 10, 8 + i * 10];
  return palette;
})();

/// The text of a row, without its colours.
export function rowText(row) {
  return row.slice(1).map((run) => {
    const text = Array.isArray(run) ? run[0] : run;
    return Array.isArray(text) ? text.join("") : text;
  }).join("").trimEnd();
}

/// The text in one cell and whether it is wide; for drawing the cursor over it.
export function cellAt(row, column) {
  let at = 0;
  for (const run of row.slice(1)) {
    const [text, , , flags] = typeof run === "string" ? [run, -1, -1, 0] : run;
    const width = flags & WIDE ? 2 : 1;
    const length = text.length * width;
    if (column < at + length) return { text: text[Math.floor((column - at) / width)], wide: width === 2 };
    at += length;
  }
  return { text: " ", wide: false };
}

/// The selected text, with lines that merely wrapped joined again.
export function selectedText(root) {
  const selection = getSelection();
  if (!selection.rangeCount || selection.isCollapsed) return "";
  const range = selection.getRangeAt(0);
  let text = "";
  let first = true;
  let joined = false;
  for (const row of root.querySelectorAll(".row-line")) {
    if (!range.intersectsNode(row)) continue;
    const part = document.createRange();
    part.selectNodeContents(row);
    if (row.contains(range.startContainer)) part.setStart(range.startContainer, range.startOffset);
    if (row.contains(range.endContainer)) part.setEnd(range.endContainer, range.endOffset);
    const wraps = row.classList.contains("wrapped");
    if (!first && !joined) text += "\n";
    text += wraps ? part.toString() : part.toString().trimEnd();
    joined = wraps;
    first = false;
  }
  return text;
}

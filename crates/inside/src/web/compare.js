// Two versions of a file, side by side or one below the other.

import { pairLines } from "./diff.js";
import { h } from "./dom.js";
import { t } from "./i18n.js";

/// More rows are not drawn: nobody reads them, and the browser stalls.
const MOST_ROWS = 5000;
/// Lines shown around a change.
const AROUND = 3;

/// `labels` name the two; `inline` shows removed lines above added ones instead of beside them.
export function comparison(before, after, { labels = [t("versionOnDisk"), t("versionYours")], inline = false } = {}) {
  const [left, right] = [before.split("\n"), after.split("\n")];
  const rows = sideBySide(pairLines(left, right));
  const changed = rows.map(([a, b, same]) => !same);
  const near = rows.map((_, n) => changed.slice(Math.max(0, n - AROUND), n + AROUND + 1).some(Boolean));
  const body = h("div", { class: "compare-lines" });
  for (let n = 0; n < rows.length;) {
    if (body.childElementCount > MOST_ROWS) {
      body.append(h("div", { class: "compare-gap" }, t("compareMore")));
      break;
    }
    if (!near[n]) {
      const from = n;
      while (n < rows.length && !near[n]) n++;
      body.append(h("div", { class: "compare-gap" }, t("unchangedLines", { count: n - from })));
      continue;
    }
    if (inline && !rows[n][2]) {
      const from = n;
      while (n < rows.length && !rows[n][2]) n++;
      const run = rows.slice(from, Math.min(n, from + MOST_ROWS));
      body.append(...run.filter(([a]) => a !== null).map(([a]) => cell(left, a, "removed")), ...run.filter(([, b]) => b !== null).map(([, b]) => cell(right, b, "added")));
      continue;
    }
    const [a, b, same] = rows[n++];
    if (inline) body.append(cell(right, b, ""));
    else body.append(cell(left, a, same ? "" : "removed"), cell(right, b, same ? "" : "added"));
  }
  return h("div", { class: inline ? "compare inline" : "compare", role: "group", "aria-label": t("compare"), tabindex: "0", "data-testid": "compare" },
    h("div", { class: "compare-head" }, h("span", {}, labels[0]), h("span", {}, labels[1])), body);
}

/// Lines that were replaced stand beside what replaced them.
function sideBySide(pairs) {
  const rows = [];
  let [gone, come] = [[], []];
  const flush = () => {
    for (let n = 0; n < Math.max(gone.length, come.length); n++) rows.push([gone[n] ?? null, come[n] ?? null, false]);
    [gone, come] = [[], []];
  };
  for (const [a, b] of pairs) {
    if (a !== null && b !== null) {
      flush();
      rows.push([a, b, true]);
    } else if (a !== null) gone.push(a);
    else come.push(b);
  }
  flush();
  return rows;
}

function cell(lines, at, kind) {
  if (at === null) return h("div", { class: "compare-line missing" });
  return h("div", { class: `compare-line ${kind}`, "data-testid": kind ? `compare-${kind}` : null },
    h("span", { class: "compare-number", "aria-hidden": "true" }, String(at + 1)), h({ added: "ins", removed: "del" }[kind] ?? "span", { class: "compare-text" }, lines[at] || " "));
}

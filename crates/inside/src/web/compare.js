// Two versions of a file side by side: the one on disk and the one that is not saved yet.

import { pairLines } from "./diff.js";
import { h } from "./dom.js";
import { t } from "./i18n.js";

/// Lines shown around a change.
const AROUND = 3;

export function comparison(onDisk, yours) {
  const [left, right] = [onDisk.split("\n"), yours.split("\n")];
  const rows = sideBySide(pairLines(left, right));
  const changed = rows.map(([a, b, same]) => !same);
  const near = rows.map((_, n) => changed.slice(Math.max(0, n - AROUND), n + AROUND + 1).some(Boolean));
  const body = h("div", { class: "compare-lines" });
  for (let n = 0; n < rows.length;) {
    if (!near[n]) {
      const from = n;
      while (n < rows.length && !near[n]) n++;
      body.append(h("div", { class: "compare-gap" }, t("unchangedLines", { count: n - from })));
      continue;
    }
    const [a, b, same] = rows[n++];
    body.append(cell(left, a, same ? "" : "removed"), cell(right, b, same ? "" : "added"));
  }
  return h("div", { class: "compare", role: "group", "aria-label": t("compare"), tabindex: "0", "data-testid": "compare" },
    h("div", { class: "compare-head" }, h("span", {}, t("versionOnDisk")), h("span", {}, t("versionYours"))), body);
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
    h("span", { class: "compare-number", "aria-hidden": "true" }, String(at + 1)), h("span", { class: "compare-text" }, lines[at] || " "));
}

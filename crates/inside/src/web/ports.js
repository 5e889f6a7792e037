// What listens in the workspace and can be opened in the browser: a list beside the files, and a word when a new port
// answers. Said once for each port and page; a port that nobody wants to hear of is remembered.

import { offer, toast } from "./dialog.js";
import { $, h, iconButton, memory } from "./dom.js";
import { icon } from "./icons.js";
import { t } from "./i18n.js";

const MUTED = "ports-muted";

export class Ports {
  /// Those that somebody was told of.
  #told = new Set();

  constructor() {
    this.note = h("p", { class: "quiet git-note", role: "status", "data-testid": "ports-note" });
    this.list = h("ul", { class: "port-list", "data-testid": "port-list" });
    this.count = h("span", { class: "search-count", hidden: true, "data-testid": "port-count" });
    $("side-ports-tab").append(" ", this.count);
    $("side-ports").append(h("div", { class: "pane-head" }, h("h2", {}, t("ports"))), this.note, this.list);
  }

  focus() {
    (this.list.querySelector("a") ?? $("side-ports-tab")).focus();
  }

  /// What listens now: { port, process, label, url } each; `known` if none of it is news.
  take(ports, known) {
    for (const one of ports) {
      if (!this.#told.has(one.port) && !known && !memory.get(MUTED, []).includes(one.port)) this.#tell(one);
      this.#told.add(one.port);
    }
    this.#draw(ports);
    return this;
  }

  #tell({ port, url }) {
    offer(t("portAnswers", { port }), [
      [t("portOpen"), () => open(url, "_blank", "noopener"), "port-open", "primary"],
      [t("portCopy"), () => this.#copy(url), "port-copy"],
      [t("portNever"), () => memory.set(MUTED, [...memory.get(MUTED, []), port]), "port-never"],
    ], `port-${port}`);
  }

  async #copy(url) {
    try {
      await navigator.clipboard.writeText(url);
      toast(t("portCopied"));
    } catch {
      toast(url);
    }
  }

  #draw(ports) {
    this.count.textContent = ports.length;
    this.count.hidden = !ports.length;
    this.note.textContent = ports.length ? "" : t("portsNone");
    this.note.hidden = Boolean(ports.length);
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.list.replaceChildren(...ports.map((one) => this.#row(one)));
    if (focused) (this.list.querySelector(`[data-key="${focused}"]`) ?? this.list.querySelector("a") ?? $("side-ports-tab")).focus();
  }

  #row({ port, process, label, url }) {
    const link = h("a", {
      class: "git-file", href: url, target: "_blank", rel: "noopener", title: url, "data-testid": "port", "data-port": port,
      "data-key": `open-${port}`, "aria-label": `${t("portOpen")}: ${port} ${label || process}`,
    }, icon("open"), h("span", { class: "search-name" }, String(port)), h("span", { class: "search-dir" }, label || process));
    return h("li", {}, link, iconButton("copy", `${t("portCopy")}: ${port}`, () => this.#copy(url), { "data-key": `copy-${port}`, "data-testid": "port-row-copy" }));
  }
}

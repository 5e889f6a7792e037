// What changed in a file, in front of the editor: side by side or one below the other.

import * as api from "./api.js";
import { comparison } from "./compare.js";
import { $, h, iconButton, narrow, preference } from "./dom.js";
import { icon } from "./icons.js";
import { errorText, t } from "./i18n.js";

export class DiffView {
  #file = null;

  /// `on` has open(path) and closed().
  constructor(git, on) {
    Object.assign(this, { git, on });
    this.title = h("h2", { class: "diff-title", "data-testid": "diff-title" });
    this.mode = h("button", {
      type: "button", class: "button small", "data-testid": "diff-mode",
      onclick: () => {
        preference.set("diff-inline", !this.#inline());
        this.#draw();
      },
    });
    this.body = h("div", { class: "diff-body" });
    this.element = h("section", {
      class: "diff-view", hidden: true, "aria-label": t("showDiff"), "data-testid": "diff",
      onkeydown: (event) => event.key === "Escape" && this.close(),
    }, h("div", { class: "bytes-head" }, this.title, this.mode,
      h("button", { type: "button", class: "button small", "data-testid": "diff-open", onclick: () => this.#open() }, icon("file"), t("openFile")),
      iconButton("close", t("close"), () => this.close(), { "data-testid": "diff-close" })), this.body);
    $("editor-host").append(this.element);
  }

  #inline() {
    return preference.get("diff-inline", narrow.matches);
  }

  /// `staged` shows what will be committed; otherwise what is not staged yet. `text` is what an open editor has.
  async show(file, staged, text = null) {
    this.#file = file;
    this.title.textContent = api.shown(file.path);
    this.element.hidden = false;
    this.body.replaceChildren(h("p", { class: "quiet" }, t("loading")));
    try {
      const working = async () => (file.working === "D" ? "" : text ?? (await api.read(file.path)).text);
      // Without something staged the index is what was committed.
      const [left, right] = await Promise.all(staged
        ? [api.git.file(file.path, "head"), api.git.file(file.path, "index")]
        : [file.working === "?" ? "" : api.git.file(file.path, "index"), working()]);
      if (this.#file !== file) return;
      this.sides = [left, right].map((side) => side.replaceAll("\r\n", "\n"));
      this.labels = staged ? [t("lastCommit"), t("stagedVersion")] : [t("lastStaged"), t("workingVersion")];
      this.#draw();
      this.body.firstElementChild?.focus();
    } catch (error) {
      if (this.#file === file) this.body.replaceChildren(h("p", { class: "quiet", role: "alert" }, errorText(error)));
    }
  }

  #draw() {
    this.mode.textContent = t(this.#inline() ? "diffSide" : "diffInline");
    if (!this.sides) return;
    this.body.replaceChildren(comparison(...this.sides, { labels: this.labels, inline: this.#inline() }));
  }

  #open() {
    const { path } = this.#file;
    this.close();
    this.on.open(path);
  }

  close() {
    if (this.element.hidden) return;
    this.element.hidden = true;
    this.#file = null;
    this.sides = null;
    this.body.replaceChildren();
    this.on.closed();
  }
}

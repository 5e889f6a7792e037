// The git side of the page: what changed, staging, committing, and discarding after a question.

import * as api from "./api.js";
import { confirm, toast } from "./dialog.js";
import { $, h, iconButton } from "./dom.js";
import { errorText, t } from "./i18n.js";
import { letter } from "./git.js";

/// More rows than this are counted, not drawn.
const MOST_ROWS = 500;

export class GitPanel {
  /// `on` has diff(file, staged), discarded(paths) and unsaved(path).
  constructor(git, on) {
    Object.assign(this, { git, on });
    this.select = h("select", { "aria-label": t("repository"), "data-testid": "git-repository", onchange: () => git.choose(this.select.value) });
    this.branch = h("span", { class: "git-branch", "data-testid": "git-branch" });
    this.message = h("textarea", {
      rows: "3", placeholder: t("commitMessage"), "aria-label": t("commitMessage"), "data-testid": "git-message",
      oninput: () => this.#button(),
      onkeydown: (event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && this.#commit(),
    });
    this.button = h("button", { type: "button", class: "button primary", "data-testid": "git-commit", onclick: () => this.#commit() });
    this.problem = h("pre", { class: "git-problem", role: "alert", "data-testid": "git-problem", hidden: true });
    this.form = h("div", { class: "git-form" }, this.message, this.button, this.problem);
    this.lists = h("div", { class: "git-lists" });
    this.note = h("p", { class: "quiet git-note", role: "status", "data-testid": "git-note" });
    $("side-git").append(
      h("div", { class: "git-head" }, this.select, this.branch, iconButton("refresh", t("refresh"), () => git.look(), { "data-testid": "git-refresh" })),
      this.form, this.note, this.lists);
  }

  focus() {
    if (this.git.repository !== null) this.message.focus();
    this.git.look();
  }

  refresh() {
    const { git } = this;
    const known = git.repository !== null;
    this.select.replaceChildren(...git.repositories.map((path) => h("option", { value: path, selected: path === git.repository }, path ? api.shown(path) : t("home"))));
    this.select.hidden = git.repositories.length < 2;
    this.form.hidden = !known;
    const { status } = git;
    this.branch.textContent = known ? branchText(status) : "";
    const files = status?.files ?? [];
    this.staged = files.filter((file) => file.staged !== ".");
    this.working = files.filter((file) => file.working !== ".");
    this.note.textContent = !git.available ? t("noGit") : !known ? t("noRepository") : !files.length ? t("noChanges") : status.truncated ? t("gitTruncated") : "";
    this.note.hidden = !this.note.textContent;
    this.#button();
    // What is asked again and again is mostly the same, and a button that is replaced while it is pressed is not clicked.
    const drawn = JSON.stringify([git.repository, files]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    // What has the focus is drawn anew: it goes to the same button again.
    const focused = this.lists.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.lists.replaceChildren(this.#list("stagedChanges", this.staged, true), this.#list("changes", this.working, false));
    if (focused) (this.lists.querySelector(`[data-key="${CSS.escape(focused)}"]`) ?? this.lists.querySelector("button"))?.focus();
  }

  #button() {
    const all = !this.staged?.length;
    this.button.textContent = t(all ? "commitAll" : "commit");
    this.button.disabled = !this.message.value.trim() || !(this.staged?.length || this.working?.length) || this.busy;
  }

  #list(title, files, staged) {
    if (!files.length) return h("div", { hidden: true });
    const paths = files.map(({ path }) => path);
    const all = staged
      ? [iconButton("minus", t("unstageAll"), () => this.#act("unstage", paths), { "data-testid": "git-unstage-all", "data-key": "unstage-all" })]
      : [iconButton("undo", t("discardAll"), () => this.#discard(files), { "data-key": "discard-all" }),
        iconButton("plus", t("stageAll"), () => this.#act("stage", paths), { "data-testid": "git-stage-all", "data-key": "stage-all" })];
    return h("section", { "data-testid": staged ? "git-staged" : "git-changes" },
      h("div", { class: "git-section" }, h("h2", {}, t(title)), h("span", { class: "search-count" }, String(files.length)), ...all),
      h("ul", {}, ...files.slice(0, MOST_ROWS).map((file) => this.#row(file, staged)),
        files.length > MOST_ROWS ? h("li", { class: "quiet" }, t("andMore", { count: files.length - MOST_ROWS })) : null));
  }

  #row(file, staged) {
    const name = api.shown(api.base(file.path));
    const mark = letter(staged ? { staged: file.staged, working: "." } : { staged: ".", working: file.working });
    const dir = api.shown(api.parent(file.path)).slice(this.git.repository ? api.shown(this.git.repository).length + 1 : 0);
    const key = (what) => `${what} ${staged} ${file.path}`;
    const open = h("button", {
      type: "button", class: "git-file", title: api.shown(file.path), "aria-label": `${name}, ${t(`git_${mark}`)}, ${t("showDiff")}`,
      "data-testid": "git-file", "data-path": file.path, "data-key": key("open"), onclick: () => this.on.diff(file, staged),
    }, h("span", { class: "search-name" }, name), h("span", { class: "search-dir" }, dir));
    const buttons = staged
      ? [iconButton("minus", t("unstageFile", { name }), () => this.#act("unstage", [file.path]), { "data-testid": "git-unstage", "data-key": key("unstage") })]
      : [iconButton("undo", t("discardFile", { name }), () => this.#discard([file]), { "data-testid": "git-discard", "data-key": key("discard") }),
        iconButton("plus", t("stageFile", { name }), () => this.#act("stage", [file.path]), { "data-testid": "git-stage", "data-key": key("stage") })];
    return h("li", {}, open, ...buttons, h("span", { class: `badge badge-${badgeKind(mark)}`, title: t(`git_${mark}`), "aria-hidden": "true" }, mark));
  }

  async #act(what, paths) {
    try {
      await this.git.act(what, paths);
    } catch (error) {
      toast(errorText(error), true);
    }
  }

  async #discard(files) {
    const names = files.length === 1 ? api.shown(api.base(files[0].path)) : t("fileCount", { count: files.length });
    const created = files.some(({ working }) => working === "?");
    if (!(await confirm(t("discardTitle", { name: names }), t(created ? "discardTextNew" : "discardText"), t("discardChanges")))) return;
    const paths = files.map(({ path }) => path);
    await this.#act("discard", paths);
    this.on.discarded(paths);
  }

  async #commit() {
    const message = this.message.value.trim();
    if (!message || this.button.disabled) return;
    this.busy = true;
    this.problem.hidden = true;
    this.#button();
    try {
      if (!this.staged.length) await this.git.act("stage", this.working.map(({ path }) => path));
      const { id } = await this.git.commit(message);
      // Unless somebody writes the next one already.
      if (this.message.value.trim() === message) this.message.value = "";
      toast(t("committed", { id }));
    } catch (error) {
      this.problem.textContent = errorText(error);
      this.problem.hidden = false;
    } finally {
      this.busy = false;
      this.#button();
    }
  }
}

export function branchText({ branch, head, ahead, behind }) {
  const name = branch ?? t("detached", { head });
  const counts = [ahead ? t("ahead", { count: ahead }) : "", behind ? t("behind", { count: behind }) : ""].filter(Boolean);
  return counts.length ? `${name} (${counts.join(", ")})` : name;
}

export const badgeKind = (mark) => ({ A: "added", U: "added", D: "deleted", "!": "conflict" })[mark] ?? "modified";

// The open files: tabs, saving, closing, and what the status line says.

import * as api from "./api.js";
import { choose, toast } from "./dialog.js";
import { Document } from "./document.js";
import { Drafts } from "./drafts.js";
import { $, arrowKeys, h, isMac, memory, preference } from "./dom.js";
import { changesBetween } from "./git.js";
import { FindBar } from "./find.js";
import { icon } from "./icons.js";
import { t } from "./i18n.js";

/// How long after the last key a file is saved by itself, in ms.
const AUTO_SAVE_AFTER = 1000;
const FONT_SIZE = 13;
const FONT_SIZES = [9, 32];
/// How long after the last key changes are marked, in ms; and the largest text for which they are.
const MARK_AFTER = 300;
const MARK_LIMIT = 512 * 1024;
/// What Document.draft says where a draft is in this tab only.
const NOT_KEPT = ["full", "quota", "unavailable"];

export class Editor {
  #tabs = new Map();
  #autoSaves = new Map();
  #drafts = new Drafts();
  #marking = new Map();

  /// `on` has watch(), shown(path), saved(path), base(path) (the lines as committed, or null), and changed() for what is saved, kept or neither.
  constructor(on) {
    this.on = on;
    this.active = null;
    this.workspace = "CodeHub";
    this.remembered = memory.get("open-files", {});
    this.find = new FindBar(() => this.active?.surface ?? null);
    const key = isMac ? "⌘" : "Ctrl+";
    this.welcome = h("div", { class: "welcome" }, h("img", { src: "assets/icon.svg", width: "56", height: "56", alt: "" }),
      h("p", {}, t("welcome")), h("p", { class: "quiet" }, t("welcomeKeys", { file: `${key}P`, save: `${key}S`, commands: "F1" })));
    $("editor-host").append(this.welcome, this.find.element);
    arrowKeys($("tabs"), '[role="tab"]', (tab) => this.activate(this.byPath(tab.dataset.path)));
    $("preview-button").addEventListener("click", () => this.togglePreview());
    this.setFontSize(preference.get("font-size", FONT_SIZE));
    $("save-button").addEventListener("click", () => this.save());
    $("find-button").addEventListener("click", () => this.find.open());
    const autoSave = () => {
      $("auto-save").setAttribute("aria-pressed", String(preference.get("auto-save", false)));
      this.#autoSaveAll();
    };
    $("auto-save").addEventListener("click", () => {
      preference.set("auto-save", !preference.get("auto-save", false));
      toast(t(preference.get("auto-save", false) ? "autoSaveOn" : "autoSaveOff"));
      autoSave();
    });
    // Another tab of the same person.
    addEventListener("storage", autoSave);
    autoSave();
    // What is kept is there when the page comes back, so nothing has to be asked.
    addEventListener("beforeunload", (event) => {
      if (this.documents().some((doc) => doc.dirty && doc.draft !== "kept")) event.preventDefault();
    });
    const keepAll = () => {
      for (const doc of this.documents()) if (doc.draft === "pending") doc.keepDraft();
    };
    addEventListener("pagehide", keepAll);
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && keepAll());
    // The browser may have cleared what was kept: somebody did so by hand, or signed in elsewhere.
    const checkAll = () => {
      for (const doc of this.documents()) doc.checkDraft();
    };
    addEventListener("focus", checkAll);
    document.addEventListener("visibilitychange", checkAll);
    this.#drafts.lost = checkAll;
    this.#show();
  }

  setWorkspace(name) {
    this.workspace = name;
    this.#show();
  }

  documents() {
    return [...this.#tabs.keys()];
  }

  byPath(path) {
    return this.documents().find((doc) => doc.path === path);
  }

  /// Opens the files that were open last time, and those with something unsaved.
  async restore() {
    const { paths = [], active } = this.remembered;
    const drafts = await this.#drafts.paths();
    const known = await Promise.all(paths.map((path) => drafts.includes(path) || api.stat(path).then(() => true, () => false)));
    for (const path of new Set([...paths.filter((_, n) => known[n]), ...drafts])) this.open(path, false);
    const doc = this.byPath(active) ?? this.documents()[0];
    if (doc && !this.active) this.activate(doc, false);
  }

  async open(path, focus = true) {
    let doc = this.byPath(path);
    if (!doc) {
      const on = {
        changed: (doc) => this.#refresh(doc),
        moved: () => this.#status(),
        typed: (doc) => {
          this.#autoSave(doc);
          this.markChanges(doc);
        },
        made: (doc) => doc.surface.setWrap(preference.get("wrap", false)),
        follow: (doc, target) => this.#follow(doc, target),
      };
      doc = new Document(path, on, this.#drafts);
      this.#tabs.set(doc, this.#makeTab(doc));
      $("tabs").append(this.#tabs.get(doc));
      $("editor-host").insertBefore(doc.element, this.find.element);
      doc.element.hidden = true;
      doc.loaded = doc.load();
      this.on.watch();
    }
    if (focus) this.activate(doc);
    const from = document.activeElement;
    await doc.loaded;
    // Who has gone elsewhere meanwhile goes on there.
    if (focus && this.active === doc && [from, document.body].includes(document.activeElement)) doc.focus();
  }

  activate(doc, focus = true) {
    this.active = doc ?? null;
    for (const [other, tab] of this.#tabs) {
      other.element.hidden = other !== doc;
      tab.setAttribute("aria-selected", String(other === doc));
      tab.tabIndex = other === doc ? 0 : -1;
    }
    if (doc) {
      this.#tabs.get(doc).scrollIntoView({ block: "nearest", inline: "nearest" });
      if (focus) doc.focus();
      this.on.shown(doc.path);
    }
    this.find.refresh();
    this.#show();
  }

  /// Opens a file at a line and column, from one.
  async openAt(path, line, col = 1, length = 0) {
    await this.open(path);
    const doc = this.byPath(path);
    if (!doc?.surface || !line) return;
    if (doc.previewing) doc.togglePreview();
    doc.surface.goTo(line, col, length);
    doc.focus();
  }

  /// A link in a preview.
  #follow(doc, target) {
    const path = api.resolve(api.parent(doc.path), target);
    if (path) this.open(path);
  }

  togglePreview() {
    if (this.active?.canPreview || this.active?.previewing) this.active.togglePreview();
  }

  toggleWrap() {
    const wrap = !preference.get("wrap", false);
    preference.set("wrap", wrap);
    for (const doc of this.documents()) doc.surface?.setWrap(wrap);
    toast(t(this.active?.surface?.large && wrap ? "wrapNotLarge" : wrap ? "wrapOn" : "wrapOff"));
  }

  changeFontSize(step) {
    this.setFontSize(step === 0 ? FONT_SIZE : preference.get("font-size", FONT_SIZE) + step);
  }

  setFontSize(size) {
    const px = Math.min(Math.max(size, FONT_SIZES[0]), FONT_SIZES[1]);
    preference.set("font-size", px);
    const style = document.documentElement.style;
    style.setProperty("--font-size", `${px}px`);
    style.setProperty("--font-line", `${Math.round(px * 1.54)}px`);
    for (const doc of this.documents()) doc.surface?.relayout();
  }

  /// Marks what changed since the last commit, a moment after the last key.
  markChanges(doc = null) {
    for (const one of doc ? [doc] : this.documents()) {
      clearTimeout(this.#marking.get(one));
      this.#marking.set(one, setTimeout(async () => {
        if (!one.surface || one.surface.text.length > MARK_LIMIT) return;
        const base = await this.on.base(one.path);
        if (one.surface) one.surface.setChanges(base ? changesBetween(base, one.surface.text.lines) : new Map());
      }, MARK_AFTER));
    }
  }

  async save() {
    const doc = this.active;
    if (!doc?.surface) return;
    if (await doc.save()) {
      const message = $("status-message");
      message.textContent = t("saved");
      setTimeout(() => (message.textContent = ""), 2500);
      this.on.saved(doc.path);
    }
  }

  /// What is true of all that is not saved, as the status line says it of one file: "draftsKept", "draftsNotKept" where
  /// one is in this tab only, or null where nothing is or that is not known yet.
  unsaved() {
    const drafts = this.documents().filter((doc) => doc.dirty).map((doc) => doc.draft);
    if (drafts.some((draft) => NOT_KEPT.includes(draft))) return "draftsNotKept";
    return drafts.length && drafts.every((draft) => draft === "kept") ? "draftsKept" : null;
  }

  /// The workspace can be reached again: what waited to be saved by itself is saved.
  connected() {
    this.#autoSaveAll();
  }

  #autoSaveAll() {
    for (const doc of this.documents()) if (doc.dirty) this.#autoSave(doc);
  }

  #autoSave(doc) {
    clearTimeout(this.#autoSaves.get(doc));
    if (!preference.get("auto-save", false)) return;
    this.#autoSaves.set(doc, setTimeout(() => {
      // A conflict is the person's to decide, and a closed file's draft was, too.
      if (doc.dirty && !doc.conflicted && this.#tabs.has(doc)) doc.save({ quiet: true }).then(() => this.on.saved(doc.path));
    }, AUTO_SAVE_AFTER));
  }

  async close(doc) {
    if (doc.dirty) {
      const answer = await choose(t("unsavedTitle", { name: doc.name }), t("unsavedText"),
        [["cancel", t("cancel")], ["discard", t("discard")], ["save", t("save"), "primary"]]);
      if (answer === null || answer === "cancel") return;
      if (answer === "save" && !(await doc.save())) return;
      if (answer === "discard") doc.discard();
    }
    this.#drop(doc);
  }

  /// A file or folder was renamed here; open files follow it.
  moved(from, to) {
    for (const doc of this.documents()) {
      if (doc.path !== from && !doc.path.startsWith(`${from}/`)) continue;
      doc.setPath(to + doc.path.slice(from.length));
      this.#refresh(doc);
    }
    this.#show();
    this.on.watch();
  }

  /// A file or folder was deleted here; unchanged files close.
  removed(path) {
    for (const doc of this.documents()) {
      if (doc.path !== path && !doc.path.startsWith(`${path}/`)) continue;
      if (doc.dirty) doc.check();
      else this.#drop(doc);
    }
  }

  /// These files changed on disk, or may have.
  changedOnDisk(paths) {
    for (const doc of this.documents()) if (paths.includes(doc.path)) doc.check();
  }

  #drop(doc) {
    const docs = this.documents();
    const next = docs[docs.indexOf(doc) + 1] ?? docs[docs.indexOf(doc) - 1];
    this.#tabs.get(doc).remove();
    this.#tabs.delete(doc);
    clearTimeout(this.#marking.get(doc));
    this.#marking.delete(doc);
    doc.element.remove();
    if (this.active === doc) this.activate(next);
    this.on.watch();
    this.#show();
  }

  #makeTab(doc) {
    const label = h("span", { class: "tab-label" }, doc.name);
    return h("div", {
      role: "tab", class: "tab", tabindex: "-1", "aria-selected": "false", "data-testid": "editor-tab", "data-path": doc.path, title: api.shown(doc.path),
      onclick: () => this.activate(doc),
      onauxclick: (event) => event.button === 1 && this.close(doc),
      onkeydown: (event) => event.key === "Delete" && this.close(doc),
    }, label, h("span", { class: "dirty-dot", "aria-hidden": "true" }),
      h("span", {
        class: "icon-button tab-close", "aria-hidden": "true", title: t("closeFile", { name: doc.name }), "data-testid": "tab-close",
        onclick: (event) => {
          event.stopPropagation();
          this.close(doc);
        },
      }, icon("close")));
  }

  #refresh(doc) {
    const tab = this.#tabs.get(doc);
    if (!tab) return;
    tab.dataset.path = doc.path;
    tab.title = api.shown(doc.path);
    tab.querySelector(".tab-label").textContent = doc.name;
    tab.classList.toggle("dirty", doc.dirty);
    tab.setAttribute("aria-label", doc.dirty ? `${doc.name}, ${t("unsaved")}` : doc.name);
    if (doc === this.active) this.#show();
    this.markChanges(doc);
    this.on.changed();
  }

  #show() {
    const doc = this.active;
    this.welcome.hidden = Boolean(doc);
    $("tabs").hidden = this.#tabs.size === 0;
    $("save-button").hidden = !doc?.surface;
    $("find-button").hidden = !doc?.surface;
    $("auto-save").hidden = !doc?.surface;
    $("preview-button").hidden = !doc?.canPreview;
    $("preview-button").setAttribute("aria-pressed", String(Boolean(doc?.previewing)));
    $("save-button").disabled = !doc?.dirty;
    $("open-path").textContent = doc ? api.shown(doc.path) : "";
    document.title = doc ? `${doc.dirty ? "● " : ""}${doc.name} — ${this.workspace}` : this.workspace;
    memory.set("open-files", { paths: this.documents().map((doc) => doc.path), active: doc?.path });
    this.#status();
  }

  #status() {
    const doc = this.active;
    $("status-position").textContent = doc?.surface ? t("position", doc.surface.position()) : "";
    $("status-format").textContent = doc?.surface ? `UTF-8 ${doc.eol === "\n" ? "LF" : "CRLF"}` : "";
    $("status-language").textContent = doc?.surface ? doc.language.name : "";
    const draft = doc?.dirty ? doc.draft : "none";
    const failed = NOT_KEPT.includes(draft);
    $("status-draft").dataset.state = draft;
    $("status-draft").textContent = draft === "kept" ? t("draftKept") : failed ? t("draftNotKept") : "";
  }
}

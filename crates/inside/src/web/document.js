// One open file: its text, the version it was loaded at, the draft that keeps
// what is not saved, and what to do when the file on disk and the text here
// part ways.

import * as api from "./api.js";
import { comparison } from "./compare.js";
import { confirm, toast } from "./dialog.js";
import { h } from "./dom.js";
import { icon } from "./icons.js";
import { errorText, t } from "./i18n.js";
import { languageOf } from "./languages.js";
import { markdown } from "./markdown.js";
import { Surface } from "./surface.js";
import { BytesView } from "./bytes-view.js";

const PDF = /\.pdf$/i;
const IMAGE = /\.(?:png|jpe?g|gif|webp|avif|bmp|ico)$/i;
/// Beyond this, colours are not worth the wait.
const COLOUR_LIMIT = 512 * 1024;
/// Beyond this, the text area holds a part of the text only (text-window.js).
const LARGE = 256 * 1024;
/// Browsers draw nothing taller than what this many lines are.
const MOST_LINES = 1_000_000;
/// How long a file may be missing before it counts as deleted, in ms.
const SETTLE = 400;
/// What the server says where something that is no file has the name.
const OCCUPIED = ["IS_A_DIRECTORY", "NOT_A_FILE"];
/// What reading says of a file that is there and cannot be shown.
const UNSHOWN = ["TOO_LARGE", "BINARY", "NOT_UTF8"];
/// How long after a key a draft is written, in ms; large texts take longer to write.
const draftDelay = (length) => 200 + length / 2000;

export class Document {
  #draftTimer = 0;

  /// `on` has changed(doc), moved(doc), typed(doc), made(doc) for a new surface and follow(doc, target) for a link; `drafts` keeps what is not saved.
  constructor(path, on, drafts) {
    this.on = on;
    this.drafts = drafts;
    /// "none", "pending", "kept", or why what is not saved is in this page only (see NotKept).
    this.draft = "none";
    this.conflicted = false;
    this.dirty = false;
    this.version = null;
    this.eol = "\n";
    this.savedText = null;
    this.savedPoint = null;
    this.saving = null;
    this.surface = null;
    this.notice = h("div", { class: "notice-slot" });
    this.body = h("div", { class: "document-body" }, h("p", { class: "quiet" }, t("loading")));
    this.compared = h("div", { class: "compare-slot", hidden: true });
    this.element = h("div", { class: "document", role: "tabpanel" }, this.notice, this.compared, this.body);
    this.setPath(path);
  }

  setPath(path) {
    if (this.path && this.path !== path && this.draft !== "none") {
      this.drafts.drop(this.path);
      this.path = path;
      this.keepDraft();
    }
    this.path = path;
    this.name = api.shown(api.base(path));
    this.language = languageOf(this.name);
    this.element.setAttribute("aria-label", this.name);
    this.surface?.setFile(this.name, this.#rules());
  }

  async load() {
    if (IMAGE.test(this.name)) return this.#showImage();
    if (PDF.test(this.name)) return this.#showPdf();
    const taken = this.drafts.take(this.path);
    const read = await api.read(this.path).catch((error) => ({ error }));
    const draft = await taken;
    if (!read.error) {
      this.#accept(read.text, read.version);
      if (draft && this.surface) this.#restore(draft, read.version);
    } else if (draft) this.#restoreWithoutFile(draft, read.error);
    else this.#showProblem(read.error);
  }

  /// What was typed before the page, the browser or the workspace ended.
  #restore(draft, version) {
    if (draft.text === this.savedText) {
      this.drafts.drop(this.path);
      return;
    }
    this.version = draft.version;
    this.surface.value = draft.text;
    this.draft = "kept";
    this.#setDirty(true);
    if (draft.version === version) toast(t("draftRestored", { name: this.name }));
    else this.#conflict();
  }

  /// The file is gone, or cannot be read now; what was typed is here all the same.
  #restoreWithoutFile(draft, error) {
    this.#accept("", error.code === "NOT_FOUND" ? null : draft.version);
    this.eol = draft.eol;
    this.savedText = null;
    this.surface.value = draft.text;
    this.draft = "kept";
    this.#setDirty(true);
    if (error.code === "NOT_FOUND") this.#notice(t("deletedOnDisk"), { deleted: true });
    else toast(errorText(error), true);
  }

  focus() {
    if (this.preview) this.preview.focus();
    else this.surface?.focus();
  }

  /// Saves over the version that was loaded, or over `over`: { version }, or {} for whatever is on disk. `quiet`
  /// leaves out what a banner says anyway.
  async save({ over = null, quiet = false } = {}) {
    if (!this.surface || this.saving) return this.saving;
    this.saving = this.#save(over, quiet).finally(() => (this.saving = null));
    return this.saving;
  }

  async #save(over, quiet) {
    const text = this.surface.value;
    const point = this.surface.text.point();
    const condition = over ?? (this.version ? { version: this.version } : { create: true });
    try {
      const { version } = await this.#write(this.#outgoing(text), condition);
      this.#saved(text, point, version);
      return true;
    } catch (error) {
      if (OCCUPIED.includes(error.code)) {
        this.version = null;
        this.#cannotShow(error);
        return false;
      }
      if (error.code === "CHANGED_ON_DISK" || error.code === "EXISTS") return this.#conflict();
      if (["DELETED_ON_DISK", "NOT_FOUND"].includes(error.code)) {
        this.version = null;
        this.#notice(t("deletedOnDisk"), { deleted: true });
      } else if (!quiet) toast(errorText(error), true, error.code);
      return false;
    }
  }

  /// A file that was deleted with its folder is created with its folder.
  async #write(text, condition) {
    try {
      return await api.save(this.path, text, condition);
    } catch (error) {
      if (error.code !== "NOT_FOUND" || !condition.create || !this.path.includes("/")) throw error;
      const parts = this.path.split("/");
      for (let n = 1; n < parts.length; n++) {
        await api.mkdir(parts.slice(0, n).join("/")).catch((problem) => {
          if (problem.code !== "EXISTS") throw problem;
        });
      }
      return api.save(this.path, text, condition);
    }
  }

  /// This text is on disk now, as this version.
  #saved(text, point, version) {
    this.version = version;
    this.savedText = text;
    this.savedPoint = point;
    this.#clearNotice();
    this.#typed();
  }

  /// Looks whether the file on disk is still the one that was loaded.
  async check() {
    if (!this.surface || this.saving) return;
    const known = this.version;
    let version = await this.#diskVersion();
    if (version === null) {
      // Perhaps it is just being replaced, or renamed by us: look once more.
      await new Promise((resolve) => setTimeout(resolve, SETTLE));
      version = await this.#diskVersion();
    }
    // Saved meanwhile: what was asked before says nothing about that, and saving is noticed by itself.
    if (version === undefined || this.saving || this.version !== known || version === known) return;
    if (version === null || OCCUPIED.includes(version)) {
      this.version = null;
      this.savedText = null;
      this.#typed();
      this.#cannotShow({ code: version ?? "NOT_FOUND" });
    } else if (this.dirty) {
      if (!this.conflicted) this.#notice(t("changedOnDisk"));
    } else if (await this.reload(false)) toast(t("reloaded", { name: this.name }));
  }

  /// Null when the file is gone, one of OCCUPIED when something else has its name, undefined when that cannot be said.
  async #diskVersion() {
    try {
      const { kind, version } = await api.stat(this.path);
      return { file: version, dir: "IS_A_DIRECTORY" }[kind] ?? "NOT_A_FILE";
    } catch (error) {
      return error.code === "NOT_FOUND" ? null : undefined;
    }
  }

  /// Takes what is on disk, instead of what is here. False when it cannot be read, or when something was typed or saved
  /// until it came and that is not to be given up (`all`).
  async reload(all = true) {
    const known = this.version;
    try {
      const { text, version } = await api.read(this.path);
      if (!all && (this.dirty || this.saving || this.version !== known)) {
        if (this.dirty && this.version === known && !this.conflicted) this.#notice(t("changedOnDisk"));
        return false;
      }
      this.#clearNotice();
      this.#accept(text, version);
      return true;
    } catch (error) {
      toast(errorText(error), true);
      return false;
    }
  }

  /// What is not saved is not wanted.
  discard() {
    clearTimeout(this.#draftTimer);
    this.draft = "none";
    return this.drafts.drop(this.path);
  }

  /// Writes the draft now.
  async keepDraft() {
    clearTimeout(this.#draftTimer);
    this.#draftTimer = 0;
    if (!this.surface || !this.dirty) return;
    const text = this.surface.value;
    const point = this.surface.text.point();
    const { path, version, eol } = this;
    let outcome = "kept";
    try {
      await this.drafts.keep(path, { text, version, eol });
    } catch ({ reason }) {
      outcome = reason;
    }
    // More was typed meanwhile, or it was saved: then this says nothing about what is here now.
    if (!this.dirty || path !== this.path || this.surface.text.differs(text, point)) return;
    if (outcome !== "kept" && outcome !== this.draft) toast(t(`draft_${outcome}`, { name: this.name }), true);
    this.draft = outcome;
    this.on.changed(this);
  }

  /// Writes the draft again where it is gone from the browser.
  async checkDraft() {
    if (this.draft === "kept" && !(await this.drafts.has(this.path)) && this.draft === "kept") await this.keepDraft();
  }

  #typed() {
    const dirty = this.surface.text.differs(this.savedText, this.savedPoint);
    const before = this.draft;
    if (dirty) {
      if (this.draft === "none" || this.draft === "kept") this.draft = "pending";
      // Counted from the first key, so that long typing is kept on the way.
      if (!this.#draftTimer) this.#draftTimer = setTimeout(() => this.keepDraft(), draftDelay(this.surface.text.length));
    } else if (this.draft !== "none") this.discard();
    if (this.dirty !== dirty) this.#setDirty(dirty);
    else if (this.draft !== before) this.on.changed(this);
    if (dirty) this.on.typed(this);
  }

  #accept(text, version) {
    if (text.length > LARGE && text.split("\n", MOST_LINES + 1).length > MOST_LINES) {
      this.surface = null;
      this.#setDirty(false);
      return this.#showBytes("text", t("tooManyLines"));
    }
    this.version = version;
    if (this.preview) this.togglePreview();
    const crlf = (text.match(/\r\n/g) ?? []).length;
    const all = (text.match(/\n/g) ?? []).length;
    // A text area knows only "\n"; what the file uses comes back when saving.
    this.eol = crlf > all / 2 ? "\r\n" : "\n";
    this.savedText = text.replaceAll("\r\n", "\n").replaceAll("\r", "\n");
    this.coloured = text.length <= COLOUR_LIMIT;
    const large = text.length > LARGE;
    if (!this.surface || this.surface.large !== large) {
      this.surface = new Surface(this.name, this.#rules(), large, {
        input: () => this.#typed(),
        move: () => this.on.moved(this),
      });
      this.body.replaceChildren(this.surface.element);
      this.on.made(this);
    }
    this.surface.value = this.savedText;
    this.savedPoint = this.surface.text.point();
    if (this.draft !== "none") this.discard();
    this.#setDirty(false);
    this.on.changed(this);
  }

  #rules() {
    return this.coloured ? this.language.rules : null;
  }

  #outgoing(text) {
    return this.eol === "\n" ? text : text.replaceAll("\n", this.eol);
  }

  #setDirty(dirty) {
    if (this.dirty === dirty) return;
    this.dirty = dirty;
    this.on.changed(this);
  }

  /// The file on disk is not the one this text is based on: shows both and lets the person choose. True when it
  /// turns out that they are the same.
  async #conflict() {
    let disk;
    try {
      disk = await api.read(this.path);
    } catch (error) {
      this.#cannotShow(error);
      return false;
    }
    const text = disk.text.replaceAll("\r\n", "\n").replaceAll("\r", "\n");
    if (text === this.surface.value) {
      this.#saved(text, this.surface.text.point(), disk.version);
      return true;
    }
    this.#notice(t("changedOnDisk"), { version: disk.version });
    this.compared.replaceChildren(comparison(text, this.surface.value));
    this.compared.hidden = false;
    this.body.hidden = true;
    return false;
  }

  /// What is on disk cannot be read: it is gone, no file, or nothing that can be shown.
  #cannotShow(error) {
    if (error.code === "NOT_FOUND") this.#notice(t("deletedOnDisk"), { deleted: true });
    else if (error.code === "IS_A_DIRECTORY") this.#notice(t("folderOnDisk"), { unseen: true, occupied: true });
    else if (error.code === "NOT_A_FILE") this.#notice(t("notFileOnDisk"), { unseen: true, occupied: true });
    else if (UNSHOWN.includes(error.code)) this.#notice(t("changedUnseen", { why: errorText(error) }), { unseen: true });
    else this.#notice(t("changedOnDisk"));
  }

  async #useDisk() {
    if (this.dirty && !(await confirm(t("useDiskTitle", { name: this.name }), t("useDiskText"), t("discardMine")))) return;
    await this.reload();
  }

  /// Over a version that was never shown: the person is asked where it could not have been, and what comes meanwhile
  /// stays.
  async #overwriteUnseen() {
    try {
      const { version } = await api.read(this.path);
      await this.save({ over: { version } });
    } catch (error) {
      if (!UNSHOWN.includes(error.code)) return this.#cannotShow(error);
      const { version } = await api.stat(this.path).catch(() => ({}));
      const why = errorText(error);
      if (!version || !(await confirm(t("useYoursTitle", { name: this.name }), t("useYoursText", { why }), t("useYours")))) return;
      await this.save({ over: { version } });
    }
  }

  /// `version` is the one on disk that is shown: only that is written over. What is there and not shown (`unseen`) is
  /// written over after a question, what is no file (`occupied`) never.
  #notice(message, { deleted = false, version = null, unseen = false, occupied = false } = {}) {
    this.#clearNotice();
    this.conflicted = true;
    const button = (label, action, testid) => h("button", { type: "button", class: "button small", "data-testid": testid, onclick: action }, label);
    const overwrite = () => {
      if (deleted) this.save({ over: { create: true } });
      else if (version) this.save({ over: { version } });
      else this.#overwriteUnseen();
    };
    const keep = () => {
      this.#clearNotice();
      this.focus();
    };
    this.notice.replaceChildren(h("div", { class: "notice", role: "alert", "data-testid": "disk-notice" },
      icon("warning"), h("span", {}, message),
      h("span", { class: "notice-buttons" },
        deleted || version || unseen ? null : button(t("compare"), () => this.#conflict(), "notice-compare"),
        deleted || unseen ? null : button(t("useDisk"), () => this.#useDisk(), "notice-reload"),
        occupied ? null : button(deleted ? t("save") : t("useYours"), overwrite, "notice-overwrite"),
        button(t("keepEditing"), keep, "notice-keep"))));
  }

  #clearNotice() {
    this.conflicted = false;
    this.notice.replaceChildren();
    this.compared.replaceChildren();
    this.compared.hidden = true;
    this.body.hidden = false;
  }

  #showProblem(error) {
    if (UNSHOWN.includes(error.code)) return this.#showBytes(error.code === "TOO_LARGE" ? "text" : "hex", errorText(error));
    this.body.replaceChildren(h("div", { class: "problem-page", "data-testid": "open-problem" },
      icon("warning"), h("h3", {}, t("cannotOpen")), h("p", {}, errorText(error))));
    this.on.changed(this);
  }

  #showImage() {
    const image = h("img", { src: `${api.inlineUrl(this.path)}&t=${Date.now()}`, alt: t("image", { name: this.name }) });
    this.body.replaceChildren(h("div", { class: "image-page" }, image));
    this.on.changed(this);
  }

  #showPdf() {
    const url = `${api.inlineUrl(this.path)}&t=${Date.now()}`;
    this.body.replaceChildren(h("div", { class: "pdf-page", "data-testid": "pdf" },
      h("div", { class: "bytes-head" }, h("span", {}, this.name),
        h("a", { class: "button small", href: url, target: "_blank", rel: "noopener" }, t("openInTab")),
        h("a", { class: "button small", href: api.downloadUrl(this.path), download: "" }, icon("download"), t("download"))),
      h("iframe", { src: url, title: t("image", { name: this.name }) })));
    this.on.changed(this);
  }

  /// A part at a time, to be read only: as text, or as bytes.
  #showBytes(mode, why) {
    this.body.replaceChildren(new BytesView(this.path, this.name, mode, why).element);
    this.on.changed(this);
  }

  // --- the preview of Markdown ---

  get canPreview() {
    return Boolean(this.surface && !this.surface.large && this.language.rules?.markdown);
  }

  get previewing() {
    return Boolean(this.preview);
  }

  /// Shows what the text will look like, instead of the text, or the text again.
  togglePreview() {
    if (this.preview) {
      this.preview.remove();
      this.preview = null;
      this.surface.element.hidden = false;
      this.surface.relayout();
      this.focus();
    } else if (this.canPreview) {
      this.preview = h("div", { class: "preview", tabindex: "0", role: "document", "aria-label": t("previewOf", { name: this.name }), "data-testid": "preview" },
        markdown(this.surface.value, { image: (target) => this.#imageAt(target), open: (target) => this.on.follow(this, target) }));
      this.surface.element.hidden = true;
      this.body.append(this.preview);
      this.preview.focus();
    }
    this.on.changed(this);
  }

  /// The address of an image beside this file; null for those of other servers, which are not asked.
  #imageAt(target) {
    if (/^[a-z][a-z0-9+.-]*:|^\/\//i.test(target)) return null;
    const path = api.resolve(api.parent(this.path), target);
    return path === null || !IMAGE.test(path) ? null : api.inlineUrl(path);
  }
}

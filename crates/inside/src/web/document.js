// One open file: its text, the version it was loaded at, and what to do when
// the file on disk and the text here part ways.

import * as api from "./api.js";
import { toast } from "./dialog.js";
import { h } from "./dom.js";
import { icon } from "./icons.js";
import { errorText, t } from "./i18n.js";
import { languageOf } from "./languages.js";
import { Surface } from "./surface.js";

const IMAGE = /\.(?:png|jpe?g|gif|webp|avif|bmp|ico)$/i;
/// Beyond this, colours are not worth the wait.
const COLOUR_LIMIT = 512 * 1024;
/// How long a file may be missing before it counts as deleted, in ms.
const SETTLE = 400;

export class Document {
  /// `on` has changed(doc) and moved(doc).
  constructor(path, on) {
    this.on = on;
    this.dirty = false;
    this.version = null;
    this.eol = "\n";
    this.saving = null;
    this.surface = null;
    this.notice = h("div", { class: "notice-slot" });
    this.body = h("div", { class: "document-body" }, h("p", { class: "quiet" }, t("loading")));
    this.element = h("div", { class: "document", role: "tabpanel" }, this.notice, this.body);
    this.setPath(path);
  }

  setPath(path) {
    this.path = path;
    this.name = api.shown(api.base(path));
    this.language = languageOf(this.name);
    this.element.setAttribute("aria-label", this.name);
    this.surface?.setFile(this.name, this.#rules());
  }

  async load() {
    if (IMAGE.test(this.name)) return this.#showImage();
    try {
      const { text, version } = await api.read(this.path);
      this.#accept(text, version);
    } catch (error) {
      this.#showProblem(error);
    }
  }

  focus() {
    this.surface?.focus();
  }

  /// Saves. `force` overwrites whatever is on disk.
  async save(force = false) {
    if (!this.surface || this.saving) return this.saving;
    this.saving = this.#save(force).finally(() => (this.saving = null));
    return this.saving;
  }

  async #save(force) {
    const text = this.surface.value;
    const condition = force ? {} : this.version ? { version: this.version } : { create: true };
    try {
      const { version } = await api.save(this.path, this.#outgoing(text), condition);
      this.version = version;
      this.savedText = text;
      this.#setDirty(this.surface.value !== text);
      this.notice.replaceChildren();
      return true;
    } catch (error) {
      if (error.code === "CHANGED_ON_DISK" || error.code === "EXISTS") this.#conflict(t("changedOnDisk"));
      else if (error.code === "DELETED_ON_DISK") {
        this.version = null;
        this.#conflict(t("deletedOnDisk"), true);
      } else toast(errorText(error), true);
      return false;
    }
  }

  /// Looks whether the file on disk is still the one that was loaded.
  async check() {
    if (!this.surface || this.saving) return;
    let version = await this.#diskVersion();
    if (version === null) {
      // Perhaps it is just being replaced, or renamed by us: look once more.
      await new Promise((resolve) => setTimeout(resolve, SETTLE));
      version = await this.#diskVersion();
    }
    if (version === undefined || this.saving || version === this.version) return;
    if (version === null) {
      this.version = null;
      this.#setDirty(true);
      this.#conflict(t("deletedOnDisk"), true);
    } else if (this.dirty) {
      this.#conflict(t("changedOnDisk"));
    } else {
      await this.reload();
      toast(t("reloaded", { name: this.name }));
    }
  }

  /// Null when the file is gone, undefined when that cannot be said.
  async #diskVersion() {
    try {
      return (await api.stat(this.path)).version;
    } catch (error) {
      return error.code === "NOT_FOUND" ? null : undefined;
    }
  }

  async reload() {
    this.notice.replaceChildren();
    await this.load();
  }

  #accept(text, version) {
    this.version = version;
    const crlf = (text.match(/\r\n/g) ?? []).length;
    const all = (text.match(/\n/g) ?? []).length;
    // A text area knows only "\n"; what the file uses comes back when saving.
    this.eol = crlf > all / 2 ? "\r\n" : "\n";
    this.savedText = text.replaceAll("\r\n", "\n").replaceAll("\r", "\n");
    this.coloured = text.length <= COLOUR_LIMIT;
    if (!this.surface) {
      this.surface = new Surface(this.name, this.#rules(), {
        input: () => this.#setDirty(this.surface.value !== this.savedText),
        move: () => this.on.moved(this),
      });
      this.body.replaceChildren(this.surface.element);
    }
    this.surface.value = this.savedText;
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

  #conflict(message, deleted = false) {
    const button = (label, action, testid) => h("button", { type: "button", class: "button small", "data-testid": testid, onclick: action }, label);
    const keep = () => {
      this.notice.replaceChildren();
      this.focus();
    };
    this.notice.replaceChildren(h("div", { class: "notice", role: "alert", "data-testid": "disk-notice" },
      icon("warning"), h("span", {}, message),
      h("span", { class: "notice-buttons" },
        deleted ? null : button(t("reload"), () => this.reload(), "notice-reload"),
        button(deleted ? t("save") : t("overwrite"), () => this.save(true), "notice-overwrite"),
        button(t("keepEditing"), keep, "notice-keep"))));
  }

  #showProblem(error) {
    const download = h("a", { class: "button primary", href: api.downloadUrl(this.path), download: "", "data-testid": "problem-download" },
      icon("download"), t("download"));
    const offer = ["TOO_LARGE", "BINARY", "NOT_UTF8"].includes(error.code);
    this.body.replaceChildren(h("div", { class: "problem-page", "data-testid": "open-problem" },
      icon("warning"), h("h3", {}, t("cannotOpen")), h("p", {}, errorText(error)), offer ? download : null));
    this.on.changed(this);
  }

  #showImage() {
    const image = h("img", { src: `${api.imageUrl(this.path)}&t=${Date.now()}`, alt: t("image", { name: this.name }) });
    this.body.replaceChildren(h("div", { class: "image-page" }, image));
    this.on.changed(this);
  }
}

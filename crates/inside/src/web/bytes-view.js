// Files that cannot be edited here, a part at a time: binary ones as bytes, those that are too large as text. Only what
// is in view is fetched.

import * as api from "./api.js";
import { h } from "./dom.js";
import { icon } from "./icons.js";
import { errorText, t } from "./i18n.js";

const ROW = 16;
const HEIGHT = 20;
const CHUNK = 64 * 1024;
const MOST_CHUNKS = 32;
/// Taller than this, browsers stop drawing.
const MOST_PIXELS = 8_000_000;
/// Of a text, this much at a time.
const PAGE = 256 * 1024;

export class BytesView {
  #chunks = new Map();
  #frame = 0;
  #size = 0;
  #page = 0;

  /// `mode` is "hex" or "text"; `why` says why it cannot be edited.
  constructor(path, name, mode, why) {
    Object.assign(this, { path, name });
    this.toggle = h("button", { type: "button", class: "button small", "data-testid": "bytes-mode", onclick: () => this.#show(this.mode === "hex" ? "text" : "hex") });
    this.where = h("span", { class: "quiet", role: "status", "data-testid": "bytes-where" });
    this.before = h("button", { type: "button", class: "button small", onclick: () => this.#go(this.#page - 1) }, t("earlierPart"));
    this.after = h("button", { type: "button", class: "button small", "data-testid": "bytes-next", onclick: () => this.#go(this.#page + 1) }, t("laterPart"));
    this.space = h("div", { class: "hex-space" });
    this.rows = h("pre", { class: "hex-rows" });
    this.scroll = h("div", { class: "hex-scroll", tabindex: "0", role: "region", "aria-label": t("bytesOf", { name }), onscroll: () => this.#draw() }, this.space, this.rows);
    this.text = h("textarea", { class: "text-page", readonly: true, wrap: "off", spellcheck: "false", "aria-label": t("partOf", { name }), "data-testid": "text-page" });
    this.element = h("div", { class: "bytes-view", "data-testid": "bytes-view" },
      h("div", { class: "bytes-head" }, h("span", { class: "why" }, why), this.where, this.before, this.after, this.toggle,
        h("a", { class: "button small", href: api.downloadUrl(path), download: "", "data-testid": "problem-download" }, icon("download"), t("download"))),
      this.scroll, this.text);
    new ResizeObserver(() => this.#draw()).observe(this.scroll);
    this.#show(mode);
  }

  #show(mode) {
    this.mode = mode;
    this.toggle.textContent = t(mode === "hex" ? "showAsText" : "showAsBytes");
    this.scroll.hidden = mode !== "hex";
    for (const element of [this.text, this.before, this.after]) element.hidden = mode === "hex";
    if (mode === "hex") this.#draw();
    else this.#go(this.#page);
  }

  // --- a part of the text ---

  async #go(page) {
    try {
      const { bytes, size } = await api.bytes(this.path, page * PAGE, PAGE);
      this.#page = page;
      this.#size = size;
      const last = Math.max(0, Math.ceil(size / PAGE) - 1);
      this.text.value = new TextDecoder().decode(bytes);
      this.text.scrollTop = 0;
      this.before.disabled = page === 0;
      this.after.disabled = page >= last;
      this.where.textContent = t("partAt", { at: page + 1, all: last + 1 });
    } catch (error) {
      this.where.textContent = errorText(error);
    }
  }

  // --- bytes ---

  #draw() {
    if (this.#frame || this.mode !== "hex") return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#paint();
    });
  }

  async #chunk(number) {
    if (!this.#chunks.has(number)) {
      this.#chunks.set(number, api.bytes(this.path, number * CHUNK, CHUNK));
      if (this.#chunks.size > MOST_CHUNKS) this.#chunks.delete(this.#chunks.keys().next().value);
    }
    return this.#chunks.get(number);
  }

  async #paint() {
    if (!this.scroll.clientHeight) return;
    try {
      if (!this.#size) this.#size = (await this.#chunk(0)).size;
      const all = Math.ceil(this.#size / ROW);
      const pixels = Math.min(all * HEIGHT, MOST_PIXELS);
      this.space.style.height = `${pixels}px`;
      const view = Math.ceil(this.scroll.clientHeight / HEIGHT);
      const most = Math.max(1, pixels - this.scroll.clientHeight);
      const part = Math.min(1, this.scroll.scrollTop / most);
      const first = pixels < all * HEIGHT ? Math.round(part * Math.max(0, all - view + 1)) : Math.floor(this.scroll.scrollTop / HEIGHT);
      const lines = [];
      for (let row = first; row < Math.min(all, first + view); row++) lines.push(await this.#row(row));
      this.rows.textContent = lines.join("\n");
      this.rows.style.transform = `translateY(${this.scroll.scrollTop}px)`;
      this.where.textContent = t("bytesAll", { count: this.#size.toLocaleString() });
    } catch (error) {
      this.#chunks.clear();
      this.where.textContent = errorText(error);
    }
  }

  async #row(row) {
    const from = row * ROW;
    const { bytes } = await this.#chunk(Math.floor(from / CHUNK));
    const part = bytes.subarray(from % CHUNK, (from % CHUNK) + ROW);
    const hex = [...part].map((byte) => byte.toString(16).padStart(2, "0"));
    const letters = [...part].map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    const halves = [hex.slice(0, 8).join(" ").padEnd(23), hex.slice(8).join(" ").padEnd(23)].join("  ");
    return `${from.toString(16).padStart(8, "0")}  ${halves}  ${letters}`;
  }
}

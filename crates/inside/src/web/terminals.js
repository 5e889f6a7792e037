// The terminal panel: one tab per terminal on the server. The list comes from
// the server, so a reloaded page, or a second one, finds them all again.

import { confirm, menu, toast } from "./dialog.js";
import { $, arrowKeys, dark, h, isMac, memory } from "./dom.js";
import { icon } from "./icons.js";
import { t } from "./i18n.js";
import { MODE } from "./term-keys.js";
import { fileOf, linkAt, seenFromHere } from "./term-links.js";
import { TerminalView } from "./terminal.js";

const FALLBACK_SIZE = { rows: 24, cols: 80 };

/// Whether what is typed now goes into a text.
const typesSomewhere = () => Boolean(document.activeElement?.matches("input, textarea, [contenteditable]"));

export class Terminals {
  #views = new Map();
  #wanted = false;
  #known = false;
  #met = false;
  #asked = null;
  #next = null;

  /// `on` has open(path, line, col) for a file that a terminal names.
  constructor(socket, on) {
    this.socket = socket;
    this.on = on;
    this.active = null;
    /// The one that was in front before the page was loaded anew.
    this.front = memory.get("terminal", null);
    this.host = $("term-host");
    this.empty = h("div", { class: "term-empty" }, h("p", {}, t("noTerminal")),
      h("button", { type: "button", class: "button", onclick: () => this.open(true) }, icon("plus"), t("newTerminal")));
    this.host.append(this.empty);
    $("new-terminal").addEventListener("click", () => this.open(true));
    $("find-terminal").addEventListener("click", () => this.find());
    arrowKeys($("term-tabs"), '[role="tab"]', (tab) => this.activate(Number(tab.dataset.terminal), false));
    socket.on("terms", ({ terms }) => this.#sync(terms));
    socket.on("opened", ({ id }) => {
      // Only where the person still waits for it: who types elsewhere by now would type into a shell.
      const waiting = this.#asked && (document.activeElement === this.#asked || !typesSomewhere());
      this.#asked = null;
      // The list that has it may come after this word.
      if (this.#views.has(id)) this.activate(id, Boolean(waiting));
      else this.#next = { id, from: waiting ? document.activeElement : null };
    });
    socket.on("screen", (message) => this.#views.get(message.id)?.update(message));
    socket.on("lines", (message) => this.#views.get(message.id)?.addLines(message));
    socket.on("error", ({ message }) => toast(message, true));
    socket.on("state", (state) => {
      this.host.classList.toggle("offline", state !== "open");
      this.#asked = this.#next = null;
      if (state === "open") this.#known = false;
    });
    // Dragging a border makes many sizes; programs need only the last.
    let settling = 0;
    new ResizeObserver(() => {
      clearTimeout(settling);
      settling = setTimeout(() => this.#current()?.resize(), 80);
    }).observe(this.host);
    dark.addEventListener("change", () => this.#attachAll());
    this.#touchKeys();
    this.#guard();
  }

  /// Ctrl+W deletes a word in a shell and closes the tab of a browser, which pages cannot change. But they see Ctrl go
  /// down before it, and may ask.
  #guard() {
    if (isMac) return;
    let held = false;
    addEventListener("keydown", (event) => (held = event.key === "Control"), true);
    for (const type of ["keyup", "blur", "pointerdown"]) addEventListener(type, () => (held = false), true);
    addEventListener("beforeunload", (event) => {
      if (held && document.activeElement?.classList.contains("term-input")) event.preventDefault();
    });
  }

  /// The panel became visible: there should be a terminal in it.
  shown() {
    this.#wanted = true;
    if (this.#known && this.#views.size === 0) this.open(true);
    requestAnimationFrame(() => this.#current()?.resize());
  }

  /// A new terminal; `asked` by the person, who then goes on in it.
  open(asked) {
    const size = this.#size();
    this.#asked = asked ? document.activeElement : null;
    if (!this.socket.send({ t: "open", dark: dark.matches, ...size })) this.socket.poke();
  }

  focus() {
    this.#current()?.focus();
  }

  activate(id, focus = true) {
    if (!this.#views.has(id)) return;
    this.active = id;
    memory.set("terminal", id);
    for (const [other, { element, tab }] of this.#views) {
      element.hidden = other !== id;
      tab.setAttribute("aria-selected", String(other === id));
      tab.tabIndex = other === id ? 0 : -1;
      if (other === id) tab.classList.remove("rang");
    }
    const view = this.#current();
    view.resize();
    if (focus) view.focus();
  }

  async close(id) {
    const view = this.#views.get(id);
    if (view.modes & MODE.ALT && !view.exit && !(await confirm(t("closeTerminal", { name: view.name }), t("closeTerminalAsk"), t("close")))) return;
    this.socket.send({ t: "close", id });
  }

  #current() {
    return this.#views.get(this.active);
  }

  #size() {
    return this.#current()?.fit() ?? this.#measure() ?? FALLBACK_SIZE;
  }

  /// The size a terminal here would have, before there is one.
  #measure() {
    const probe = new TerminalView(0, "", this.socket, {});
    this.host.append(probe.element);
    const size = probe.fit();
    probe.element.remove();
    return size;
  }

  #sync(terms) {
    const first = !this.#known;
    this.#known = true;
    const ids = new Set(terms.map(({ id }) => id));
    for (const [id, view] of this.#views) {
      if (ids.has(id)) continue;
      view.element.remove();
      view.tab.remove();
      this.#views.delete(id);
    }
    for (const { id, name } of terms) {
      if (!this.#views.has(id)) this.#add(id, name);
      else if (first) this.#views.get(id).attach(this.#size());
    }
    this.empty.hidden = this.#views.size > 0;
    if (!this.#views.has(this.active)) {
      this.active = null;
      const next = this.#views.has(this.front) ? this.front : [...this.#views.keys()].at(-1);
      if (next !== undefined) this.activate(next, false);
    }
    this.front = null;
    if (this.#views.has(this.#next?.id)) {
      this.activate(this.#next.id, this.#next.from === document.activeElement);
      this.#next = null;
    }
    // Connected again: what has the focus keeps it, whatever opens by itself. A page that was just loaded has none.
    if (first && terms.length === 0 && this.#wanted) this.open(!this.#met && document.activeElement === document.body);
    this.#met = true;
  }

  #add(id, name) {
    const view = new TerminalView(id, `${name} ${id}`, this.socket, {
      title: (view) => this.#retitle(view),
      bell: (view) => this.#bell(view),
      menu: (view, event) => this.#menu(view, event),
      open: (view, link) => this.#open(view, link),
    });
    view.tab = h("div", {
      role: "tab", class: "tab", tabindex: "-1", "aria-selected": "false", "data-testid": "term-tab", "data-terminal": id,
      onclick: () => this.activate(id),
      onkeydown: (event) => {
        if (event.key === "Delete") this.close(id);
        else if (event.key === "Enter") this.activate(id);
      },
      onauxclick: (event) => event.button === 1 && this.close(id),
    }, icon("terminal"), h("span", { class: "tab-label" }, view.name),
      h("span", {
        class: "icon-button tab-close", "aria-hidden": "true", title: t("closeTerminal", { name: view.name }), "data-testid": "term-close",
        onclick: (event) => {
          event.stopPropagation();
          this.close(id);
        },
      }, icon("close")));
    view.element.hidden = true;
    this.#views.set(id, view);
    $("term-tabs").append(view.tab);
    this.host.append(view.element);
    view.attach(this.#size());
  }

  /// Whether a program has the whole of the one in front.
  get fullScreen() {
    return Boolean(this.#current()?.fullScreen);
  }

  /// The text in front, in what scrolled away too.
  find() {
    this.#current()?.finding.open();
  }

  async #open(view, { url, path, line, col }) {
    if (url) {
      open(seenFromHere(url), "_blank", "noopener,noreferrer");
      return;
    }
    const file = await fileOf(view.id, path).catch(() => null);
    if (file) this.on.open(file, line, col);
    else toast(t("noSuchFile", { name: path }), true);
  }

  #menu(view, event) {
    const link = linkAt(event.clientX, event.clientY);
    const selected = !getSelection().isCollapsed;
    event.preventDefault();
    menu(event.clientX, event.clientY, [
      ...(link ? [["link", t(link.url ? "openLink" : "openFileNamed", { name: link.url ?? link.path }), () => this.#open(view, link), "term-menu-open"], null] : []),
      ...(selected ? [["copy", t("termCopy"), () => view.copy(), "term-menu-copy"]] : []),
      ["paste", t("termPaste"), () => this.#paste(view), "term-menu-paste"],
      ["search", t("termFind"), () => view.finding.open(), "term-menu-find"],
      null,
      ["plus", t("newTerminal"), () => this.open(true), "term-menu-new"],
    ], view.inputArea);
  }

  async #paste(view) {
    try {
      view.paste(await navigator.clipboard.readText());
    } catch {
      toast(t("termPasteKeys"), true);
    }
    view.focus();
  }

  #attachAll() {
    for (const view of this.#views.values()) view.attach(this.#size());
  }

  #retitle(view) {
    view.tab.querySelector(".tab-label").textContent = view.title || view.name;
    view.tab.title = view.title || view.name;
    view.tab.classList.toggle("ended", Boolean(view.exit));
  }

  #bell(view) {
    if (view.id !== this.active) view.tab.classList.add("rang");
    view.element.classList.add("ringing");
    setTimeout(() => view.element.classList.remove("ringing"), 160);
  }

  /// Keys a phone's keyboard lacks.
  #touchKeys() {
    const send = (text) => () => {
      this.#current()?.input(text);
      this.focus();
    };
    const arrow = (letter) => () => send(`\x1b${(this.#current()?.modes ?? 0) & MODE.APP_CURSOR ? "O" : "["}${letter}`)();
    const ctrl = h("button", {
      type: "button", "aria-pressed": "false",
      onclick: () => {
        const view = this.#current();
        if (!view) return;
        view.sticky.ctrl = !view.sticky.ctrl;
        view.sticky.release = () => {
          view.sticky.ctrl = false;
          ctrl.setAttribute("aria-pressed", "false");
        };
        ctrl.setAttribute("aria-pressed", String(view.sticky.ctrl));
        view.focus();
      },
    }, "Ctrl");
    const key = (label, action) => h("button", { type: "button", onclick: action }, label);
    $("touch-keys").append(key("Esc", send("\x1b")), key("Tab", send("\t")), ctrl, key("↑", arrow("A")), key("↓", arrow("B")),
      key("←", arrow("D")), key("→", arrow("C")), key("|", send("|")), key("/", send("/")), key("~", send("~")));
  }
}

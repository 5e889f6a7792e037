// Panes: sizes, hiding, and the one-pane-at-a-time view on phones.

import { $, arrowKeys, memory, narrow } from "./dom.js";

const SIDES = ["files", "search", "git", "ports"];

export class Layout {
  /// `on` has terminalShown().
  constructor(on) {
    this.on = on;
    this.state = { sidebar: 260, terminal: 280, showSidebar: true, showTerminal: true, side: "files", ...memory.get("layout", {}) };
    this.maximized = false;
    this.#splitter($("sidebar-split"), "sidebar", (event) => event.clientX, 1, ["ArrowLeft", "ArrowRight"]);
    this.#splitter($("terminal-split"), "terminal", (event) => -event.clientY, 1, ["ArrowDown", "ArrowUp"]);
    $("toggle-sidebar").addEventListener("click", () => this.toggleSidebar());
    $("toggle-terminal").addEventListener("click", () => this.toggleTerminal());
    $("hide-terminal").addEventListener("click", () => this.toggleTerminal(false));
    $("maximize-terminal").addEventListener("click", () => {
      this.maximized = !this.maximized;
      this.apply();
    });
    for (const tab of SIDES) $(`side-${tab}-tab`).addEventListener("click", () => this.side(tab));
    arrowKeys($("side-tabs"), '[role="tab"]', (tab) => this.side(tab.dataset.side));
    for (const button of $("view-switch").children) button.addEventListener("click", () => this.view(button.dataset.view));
    narrow.addEventListener("change", () => this.apply());
    this.apply();
  }

  toggleSidebar() {
    if (narrow.matches) this.view(document.body.dataset.view === "files" ? "editor" : "files");
    else this.state.showSidebar = !this.state.showSidebar;
    this.apply();
  }

  toggleTerminal(show = !this.terminalVisible()) {
    if (narrow.matches) this.view(show ? "terminal" : "editor");
    else this.state.showTerminal = show;
    if (!show) this.maximized = false;
    this.apply();
    return show;
  }

  terminalVisible() {
    return narrow.matches ? document.body.dataset.view === "terminal" : this.state.showTerminal;
  }

  /// Shows the files, the search or git beside the editor.
  side(name) {
    this.state.side = name;
    if (narrow.matches) document.body.dataset.view = "files";
    else this.state.showSidebar = true;
    this.apply();
  }

  /// Which pane a phone shows.
  view(name) {
    document.body.dataset.view = name;
    this.apply();
  }

  apply() {
    const { sidebar, terminal, showSidebar, showTerminal } = this.state;
    const body = document.body;
    body.classList.toggle("no-sidebar", !showSidebar);
    body.classList.toggle("no-terminal", !showTerminal);
    body.classList.toggle("terminal-max", this.maximized && showTerminal);
    body.style.setProperty("--sidebar", `${sidebar}px`);
    body.style.setProperty("--terminal", `${terminal}px`);
    $("maximize-terminal").setAttribute("aria-pressed", String(this.maximized));
    $("toggle-sidebar").setAttribute("aria-expanded", String(showSidebar));
    $("toggle-terminal").setAttribute("aria-expanded", String(this.terminalVisible()));
    for (const button of $("view-switch").children) button.setAttribute("aria-pressed", String(button.dataset.view === body.dataset.view));
    this.sides();
    for (const [bar, value, most] of [["sidebar-split", sidebar, innerWidth], ["terminal-split", terminal, innerHeight]]) {
      $(bar).setAttribute("aria-valuenow", String(value));
      $(bar).setAttribute("aria-valuemax", String(Math.max(value, Math.round(most * 0.75))));
    }
    memory.set("layout", this.state);
    if (this.terminalVisible()) this.on.terminalShown();
  }

  /// Shows one of the sides. What this server does not have is not shown, whatever was shown last.
  sides() {
    const chosen = $(`side-${this.state.side}-tab`).hidden ? "files" : this.state.side;
    for (const side of SIDES) {
      const shown = side === chosen;
      $(`side-${side}`).hidden = !shown;
      $(`side-${side}-tab`).setAttribute("aria-selected", String(shown));
      $(`side-${side}-tab`).tabIndex = shown ? 0 : -1;
    }
  }

  #splitter(bar, name, place, sign, [less, more]) {
    const limit = (value) => Math.round(Math.min(Math.max(value, 120), (name === "sidebar" ? innerWidth : innerHeight) * 0.75));
    const set = (value) => {
      this.state[name] = limit(value);
      this.apply();
    };
    bar.setAttribute("aria-valuemin", "120");
    bar.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      bar.setPointerCapture(event.pointerId);
      const from = place(event);
      const start = this.state[name];
      const move = (event) => set(start + sign * (place(event) - from));
      bar.addEventListener("pointermove", move);
      bar.addEventListener("lostpointercapture", () => bar.removeEventListener("pointermove", move), { once: true });
    });
    bar.addEventListener("keydown", (event) => {
      if (event.key !== less && event.key !== more) return;
      event.preventDefault();
      set(this.state[name] + (event.key === more ? 20 : -20));
    });
  }
}

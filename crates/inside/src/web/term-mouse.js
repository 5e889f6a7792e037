// Mouse reports for programs that ask for them (vim with mouse=a, htop, …).
// Holding Shift keeps the mouse for selecting text, as in other terminals.

import { MODE } from "./term-keys.js";

const WHEEL_LINES = 3;

export class Mouse {
  #down = null;
  #last = "";

  /// `view` has screen, cellSize(), modes, rows, cols, input(text).
  constructor(view, area) {
    this.view = view;
    area.addEventListener("mousedown", (event) => this.#press(event));
    addEventListener("mouseup", (event) => this.#release(event));
    area.addEventListener("mousemove", (event) => this.#move(event));
    area.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    area.addEventListener("contextmenu", (event) => this.#wants(event, MODE.PRESS) && event.preventDefault());
  }

  #wants(event, mode) {
    return Boolean(this.view.modes & mode) && !event.shiftKey;
  }

  #press(event) {
    if (!this.#wants(event, MODE.PRESS)) return;
    event.preventDefault();
    this.view.focus();
    this.#down = event.button;
    this.#report(event, event.button, true);
  }

  #release(event) {
    if (this.#down === null) return;
    const button = this.#down;
    this.#down = null;
    this.#report(event, button, false);
  }

  #move(event) {
    const held = this.#down !== null;
    if (!(held && this.#wants(event, MODE.DRAG)) && !this.#wants(event, MODE.MOVE)) return;
    const cell = this.#cell(event).join();
    if (cell === this.#last) return;
    this.#last = cell;
    this.#report(event, 32 + (held ? this.#down : 3), true);
  }

  #wheel(event) {
    const { modes } = this.view;
    if (this.#wants(event, MODE.PRESS)) {
      event.preventDefault();
      this.#report(event, event.deltaY < 0 ? 64 : 65, true);
    } else if (modes & MODE.ALT) {
      // Nothing to scroll back to in a full-screen program: move its cursor.
      event.preventDefault();
      const key = `\x1b${modes & MODE.APP_CURSOR ? "O" : "["}${event.deltaY < 0 ? "A" : "B"}`;
      this.view.input(key.repeat(WHEEL_LINES));
    }
  }

  #cell(event) {
    const box = this.view.screen.getBoundingClientRect();
    const { width, height } = this.view.cellSize();
    const clamp = (n, most) => Math.min(Math.max(Math.floor(n) + 1, 1), most);
    return [clamp((event.clientX - box.left) / width, this.view.cols), clamp((event.clientY - box.top) / height, this.view.rows)];
  }

  #report(event, button, pressed) {
    const [col, row] = this.#cell(event);
    const code = button + (event.altKey ? 8 : 0) + (event.ctrlKey ? 16 : 0);
    if (this.view.modes & MODE.SGR) {
      this.view.input(`\x1b[<${code};${col};${row}${pressed ? "M" : "m"}`);
    } else if (col <= 95 && row <= 95) {
      // The old encoding; larger numbers would not survive UTF-8.
      const old = pressed ? code : 3;
      this.view.input(`\x1b[M${String.fromCharCode(32 + old, 32 + col, 32 + row)}`);
    }
  }
}

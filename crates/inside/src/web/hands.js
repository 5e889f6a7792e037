// Hands on the page are activity: typing, clicking and scrolling are told to the server, at most every 20 s and
// within half the time after which the workspace sleeps. What happens in between is told when that is over, so a
// workspace never sleeps sooner after the last key than its settings say. An untouched page tells nothing.

const AT_MOST_EVERY = 20000;
/// Not "scroll": that also happens by itself, when a terminal prints.
const SIGNS = ["keydown", "input", "pointerdown", "wheel", "touchmove"];

export class Hands {
  #timer = 0;
  #untold = false;
  #interval = AT_MOST_EVERY;

  /// `tell` passes it on.
  constructor(tell) {
    this.tell = tell;
    const moved = (event) => event.isTrusted && this.#moved();
    for (const sign of SIGNS) addEventListener(sign, moved, { capture: true, passive: true });
    // A dragged scroll bar or selection.
    addEventListener("pointermove", (event) => event.buttons && moved(event), { capture: true, passive: true });
  }

  /// How long without activity the workspace stays awake, in seconds; 0 is for ever.
  sleepsAfter(seconds) {
    const before = this.#interval;
    this.#interval = seconds ? Math.min(AT_MOST_EVERY, seconds * 500) : AT_MOST_EVERY;
    if (!this.#timer || this.#interval >= before) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#say(), this.#interval);
  }

  #moved() {
    this.#untold = true;
    if (!this.#timer) this.#say();
  }

  #say() {
    this.#timer = 0;
    if (!this.#untold) return;
    this.#untold = false;
    this.tell();
    this.#timer = setTimeout(() => this.#say(), this.#interval);
  }
}

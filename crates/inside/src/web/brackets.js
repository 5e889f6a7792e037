// Brackets and quotes that close themselves. A closing one that came by itself is typed over, and goes with the opening
// one when that is deleted at once.

const PAIRS = { "(": ")", "[": "]", "{": "}", '"': '"', "'": "'", "`": "`" };

export class Brackets {
  /// Closing ones right of the caret that came by themselves.
  #pending = "";
  #ours = false;

  constructor(text, area) {
    Object.assign(this, { text, area });
  }

  /// The caret moved; unless by us, what is pending is over.
  moved() {
    if (!this.#ours && this.#pending && this.#after(1) !== this.#pending[0]) this.#pending = "";
  }

  #after(count) {
    const { end } = this.text.selection();
    return this.text.slice(end, end + count);
  }

  #type(inserted, back) {
    this.#ours = true;
    this.text.insert(inserted);
    const { end } = this.text.selection();
    this.text.select(end - back, end - back);
    this.#ours = false;
  }

  /// True when the key was dealt with. Where there are no rules, the text is prose, and nothing closes itself.
  key(key, rules) {
    if (key.length > 1 && key !== "Backspace") {
      this.#pending = "";
      return false;
    }
    if (!rules || rules.markdown) return false;
    const { start, end } = this.text.selection();
    if (key === "Backspace") {
      const pair = start === end && this.#pending && PAIRS[this.text.slice(start - 1, start)];
      if (!pair || pair !== this.#pending[0] || this.#after(1) !== pair) return false;
      this.#pending = this.#pending.slice(1);
      this.text.select(start - 1, start + 1);
      this.text.insert("");
      return true;
    }
    if (start === end && this.#pending[0] === key && this.#after(1) === key) {
      this.#pending = this.#pending.slice(1);
      this.text.select(start + 1, start + 1);
      return true;
    }
    const close = PAIRS[key];
    if (!close) return false;
    const quote = close === key;
    if (start !== end) {
      const inner = this.text.slice(start, end);
      if (inner.includes("\n")) return false;
      this.text.insert(key + inner + close);
      this.text.select(start + 1, end + 1);
      return true;
    }
    const before = this.text.slice(Math.max(0, start - 1), start);
    // Only where nothing follows that it would have to enclose.
    if (!/^(?:$|[\s)\]}>,;:])/.test(this.#after(1))) return false;
    if (quote && (/[\w"'`\\]/.test(before) || (key === "'" && rules.lifetimes))) return false;
    this.#type(key + close, 1);
    this.#pending = close + this.#pending;
    return true;
  }
}

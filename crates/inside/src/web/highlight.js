// A line-by-line tokenizer. It knows enough to colour comments, strings,
// numbers and words in common languages, and never enough to be slow: a line is
// scanned once, left to right, and the only state carried to the next line is
// which multi-line comment or string is still open.

const NUMBER = /(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)[a-zA-Z0-9_]*/y;
const WORD = /[\p{L}_$][\p{L}\p{N}_$]*/uy;
const LONGEST_LINE = 2000;

/// Tokens of one line as [class or null, text] pairs, and the state after it.
export function tokenize(line, state, rules) {
  if (!rules || line.length > LONGEST_LINE) return { tokens: [[null, line]], state: rules ? state : null };
  if (rules.markdown) return markdown(line, state);
  return new Scanner(line, state, rules).run();
}

class Scanner {
  constructor(line, state, rules) {
    Object.assign(this, { line, state, rules, at: 0, plainFrom: 0, tokens: [] });
  }

  run() {
    if (this.state) this.#closeBlock(0);
    else if (this.rules.preprocessor && /^\s*#/.test(this.line)) this.#preprocessor();
    else if (this.rules.keys) this.#key();
    while (this.at < this.line.length) this.#step();
    this.#plain(this.line.length);
    return { tokens: this.tokens, state: this.state };
  }

  #step() {
    const { line, rules } = this;
    const char = line[this.at];
    for (const open of rules.block ?? []) {
      if (line.startsWith(open[0], this.at)) {
        this.state = { end: open[1], kind: open[2] };
        this.#closeBlock(open[0].length);
        return;
      }
    }
    for (const mark of rules.line ?? []) {
      if (line.startsWith(mark, this.at) && (!rules.spaceBeforeComment || this.at === 0 || /\s/.test(line[this.at - 1]))) {
        this.#emit("comment", line.length);
        return;
      }
    }
    if (rules.quotes?.includes(char)) return this.#string(char);
    if (rules.lifetimes && char === "'") return this.#lifetime();
    if (rules.tags && char === "<") return this.#tag();
    if (rules.variables && char === "$") return this.#match(/\$(?:\{[^}]*\}?|\([^)]*\)?|[\w@*#?!$-])\w*/y, "variable");
    if (rules.decorators && char === "@") return this.#match(/@[\w.]+/y, "meta");
    if (rules.css && (char === "#" || char === "@" || char === ".")) return this.#match(/[#@.][\w-]+/y, char === "@" ? "keyword" : "type");
    if (char >= "0" && char <= "9") return this.#match(NUMBER, "number");
    this.#word();
  }

  #word() {
    WORD.lastIndex = this.at;
    const found = WORD.exec(this.line)?.[0];
    if (!found) {
      this.at += 1;
      return;
    }
    const { rules, line } = this;
    const known = rules.ignoreCase ? found.toLowerCase() : found;
    const after = line.slice(this.at + found.length);
    const end = this.at + found.length;
    if (rules.words.has(known)) this.#emit("keyword", end);
    else if (rules.constants.has(known)) this.#emit("constant", end);
    else if (rules.css && /^[\w-]*\s*:/.test(after)) this.#match(/[\w-]+/y, "key");
    else if (/^!?\s*\(/.test(after) && !rules.keys) this.#emit("function", end);
    else if (/^[A-Z][A-Za-z0-9]*[a-z]/.test(found) && !rules.keys) this.#emit("type", end);
    else this.at = end;
  }

  #string(quote) {
    let i = this.at + 1;
    while (i < this.line.length && this.line[i] !== quote) i += this.line[i] === "\\" ? 2 : 1;
    if (i >= this.line.length && this.rules.multiline?.includes(quote)) {
      this.state = { end: quote, kind: "string" };
      this.#emit("string", this.line.length);
      return;
    }
    const end = Math.min(i + 1, this.line.length);
    const isKey = this.rules.keys && /^\s*:/.test(this.line.slice(end));
    this.#emit(isKey ? "key" : "string", end);
  }

  #lifetime() {
    if (/^'(?:\\.[^']*|[^'\\])'/.test(this.line.slice(this.at))) this.#match(/'(?:\\.[^']*|[^'\\])'/y, "string");
    else this.#match(/'\w*/y, "variable");
  }

  #tag() {
    this.#match(/<[\/!?]?[\w:-]*/y, "keyword");
    const end = this.line.indexOf(">", this.at);
    const stop = end < 0 ? this.line.length : end;
    while (this.at < stop) {
      const char = this.line[this.at];
      if (char === '"' || char === "'") this.#string(char);
      else if (/[\w:@-]/.test(char)) this.#match(/[\w:@.-]+/y, "key");
      else this.at += 1;
    }
    if (end >= 0) this.#emit("keyword", this.at + 1);
  }

  #preprocessor() {
    this.#match(/\s*#\s*\w+/y, "meta");
  }

  #key() {
    const section = /^\s*\[.*\]\s*(?=$|[#;])/.exec(this.line);
    if (section && !this.rules.block?.some(([open]) => open === "/*")) return this.#emit("type", section[0].length);
    const key = /^\s*(?:- )?\s*[\w."'\/-][\w ."'\/-]*?(?=\s*[=:](?:\s|$|[^\s]))/.exec(this.line);
    if (key && !this.line.trimStart().startsWith('"') && !this.line.trimStart().startsWith("#")) this.#emit("key", key[0].length);
  }

  #closeBlock(skip) {
    const end = this.line.indexOf(this.state.end, this.at + skip);
    const { kind } = this.state;
    if (end < 0) {
      this.#emit(kind, this.line.length);
    } else {
      const stop = end + this.state.end.length;
      this.state = null;
      this.#emit(kind, stop);
    }
  }

  #match(pattern, kind) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.line);
    if (found?.[0]) this.#emit(kind, this.at + found[0].length);
    else this.at += 1;
  }

  #plain(end) {
    if (end > this.plainFrom) this.tokens.push([null, this.line.slice(this.plainFrom, end)]);
  }

  #emit(kind, end) {
    this.#plain(this.at);
    this.tokens.push([kind, this.line.slice(this.at, end)]);
    this.at = end;
    this.plainFrom = end;
  }
}

function markdown(line, state) {
  if (/^\s*(?:```|~~~)/.test(line)) return { tokens: [["meta", line]], state: state ? null : { end: "", kind: "string" } };
  if (state) return { tokens: [["string", line]], state };
  if (/^#{1,6}\s/.test(line)) return { tokens: [["keyword", line]], state };
  if (/^\s*>/.test(line)) return { tokens: [["comment", line]], state };
  const tokens = [];
  const pattern = /(`[^`]+`)|(\*\*[^*]+\*\*|__[^_]+__)|(\[[^\]]*\]\([^)]*\))|(^\s*(?:[-*+]|\d+\.)\s)/g;
  let at = 0;
  for (const found of line.matchAll(pattern)) {
    if (found.index > at) tokens.push([null, line.slice(at, found.index)]);
    const kind = found[1] ? "string" : found[2] ? "constant" : found[3] ? "function" : "keyword";
    tokens.push([kind, found[0]]);
    at = found.index + found[0].length;
  }
  tokens.push([null, line.slice(at)]);
  return { tokens, state };
}

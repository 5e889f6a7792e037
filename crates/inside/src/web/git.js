// What git says of the repository somebody works in: asked when something may have changed, never by the clock.

import * as api from "./api.js";
import { pairLines } from "./diff.js";
import { memory } from "./dom.js";

/// Things that change together are asked about once, in ms.
const SETTLE = 300;
/// While a program changes files all the time, git is asked this seldom, and never more than a fifth of the time.
const AT_MOST_EVERY = 1500;
/// Looking for repositories walks folders.
const LOOK_AT_MOST_EVERY = 15000;

export class Git {
  #timer = 0;
  #asking = null;
  #again = false;
  #next = 0;
  #running = false;
  #missed = false;
  #files = new Map();
  #folders = new Set();
  #bases = new Map();

  /// `changed()` is called with all news.
  constructor(changed) {
    this.changed = changed;
    /// Encoded paths of the repositories there are.
    this.repositories = [];
    /// The one that is shown, or null.
    this.repository = null;
    /// False where there is no git.
    this.available = true;
    this.status = null;
    this.wanted = memory.get("repository", null);
  }

  /// Looks for repositories, then at the one that is shown.
  async look() {
    try {
      this.repositories = await api.git.repositories();
    } catch { /* the next time */ }
    if (!this.repositories.includes(this.wanted)) this.wanted = this.repositories[0] ?? null;
    await this.#ask();
  }

  /// Shows this repository.
  choose(repository) {
    this.wanted = repository;
    memory.set("repository", repository);
    return this.#ask();
  }

  /// The file that is worked on: its repository is the one to show.
  follow(path) {
    const inside = this.repositories.filter((root) => root === "" || path.startsWith(`${root}/`));
    const own = inside.sort((a, b) => b.length - a.length)[0];
    if (own !== undefined && own !== this.wanted) this.choose(own);
  }

  /// Something may have changed.
  refresh() {
    if (this.#running) this.#missed = true;
    else if (!this.#timer) this.#timer = setTimeout(() => this.#run(), Math.max(SETTLE, this.#next - Date.now()));
  }

  async #run() {
    this.#timer = 0;
    this.#running = true;
    const [began, looks] = [Date.now(), this.repository === null];
    await (looks ? this.look() : this.#ask());
    this.#next = Date.now() + Math.max(looks ? LOOK_AT_MOST_EVERY : AT_MOST_EVERY, 4 * (Date.now() - began));
    this.#running = false;
    const missed = this.#missed;
    this.#missed = false;
    if (missed) this.refresh();
  }

  async #ask() {
    if (this.#asking) {
      this.#again = true;
      return this.#asking;
    }
    this.#asking = this.#read().finally(() => (this.#asking = null));
    await this.#asking;
    if (this.#again) {
      this.#again = false;
      await this.#ask();
    }
  }

  async #read() {
    if (this.wanted === null) {
      this.#take({ available: this.available, repository: null });
      return;
    }
    try {
      this.#take(await api.git.status(this.wanted));
    } catch { /* the workspace sleeps, or git is slow: what is shown stays */ }
  }

  #take({ available, repository, status }) {
    const before = `${this.repository} ${this.status?.head}`;
    this.available = available;
    this.repository = repository;
    this.status = status ?? null;
    this.#files = new Map((status?.files ?? []).map((file) => [file.path, file]));
    this.#folders = new Set();
    for (const { path } of status?.files ?? []) {
      for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1)) this.#folders.add(path.slice(0, at));
    }
    if (before !== `${repository} ${this.status?.head}`) this.#bases.clear();
    this.changed();
  }

  /// The letter a file or folder is marked with in the tree, or null.
  badge(path, folder) {
    if (folder) return this.#folders.has(path) && path !== this.repository ? "•" : null;
    const file = this.#files.get(path);
    return file ? letter(file) : null;
  }

  /// What is to be watched so that commits in a terminal are noticed.
  watched() {
    return this.repository === null ? null : { dir: api.join(this.repository, ".git"), files: ["index", "HEAD"], list: false };
  }

  contains(path) {
    return this.repository !== null && (this.repository === "" || path.startsWith(`${this.repository}/`));
  }

  /// The lines of a file as they were committed last; null where git does not know them.
  async base(path) {
    if (!this.contains(path) || this.#files.get(path)?.working === "?" || !this.status?.head) return null;
    if (!this.#bases.has(path)) this.#bases.set(path, api.git.file(path, "head").then((text) => text.replaceAll("\r\n", "\n").split("\n"), () => null));
    return this.#bases.get(path);
  }

  async act(what, paths) {
    try {
      await api.git.change(what, this.repository, paths);
    } finally {
      await this.#ask();
    }
  }

  async commit(message) {
    try {
      return await api.git.commit(this.repository, message);
    } finally {
      this.#bases.clear();
      await this.#ask();
    }
  }
}

/// One letter for what happened to a file, as git's users know them.
export function letter({ staged, working }) {
  const one = working === "." ? staged : working;
  return one === "?" ? "U" : one === "U" ? "!" : one;
}

/// What changed between two lists of lines: numbers of new lines to "added", "modified", or "deleted" before them.
export function changesBetween(before, now) {
  const changes = new Map();
  let [gone, come] = [0, []];
  let at = 0;
  const flush = () => {
    come.forEach((line, n) => changes.set(line, n < gone ? "modified" : "added"));
    if (gone && !come.length) changes.set(Math.min(at, now.length - 1), "deleted");
    [gone, come] = [0, []];
  };
  for (const [left, right] of pairLines(before, now)) {
    if (left !== null && right !== null) {
      at = right;
      flush();
    } else if (left !== null) gone += 1;
    else come.push(right);
  }
  at = now.length - 1;
  flush();
  return changes;
}

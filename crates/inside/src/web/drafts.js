// What was typed and not saved, kept in the browser: per workspace, file and tab, with the version it is based on. It
// outlives the workspace's sleep, a lost network, and the end of tab and browser.
//
// IndexedDB, because it is written at once (localStorage may be written seconds later), holds whole files, and
// orders what several tabs do. Tabs do not share drafts, so none can overwrite another's. A tab is known by a name
// that survives a reload; drafts of a tab that is gone belong to whoever opens the file next.

const DATABASE = "codehub-ide";
const STORE = "drafts";
/// For one workspace. Beyond it nothing is thrown away: the new draft is refused, and the page says so.
export const MOST_DRAFTS = 100;
export const MOST_TEXT = 20 * 1024 * 1024;
/// Drafts nobody came back for, also of workspaces that no longer exist.
const FORGET_AFTER = 60 * 24 * 3600 * 1000;
/// How long other tabs have to say that they are there, in ms.
const ANSWER_WITHIN = 200;

/// Why a draft is not kept: "full", "quota" or "unavailable".
export class NotKept extends Error {
  constructor(reason) {
    super(reason);
    this.reason = reason;
  }
}

const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

const committed = (transaction) => new Promise((resolve, reject) => {
  transaction.oncomplete = () => resolve();
  transaction.onabort = () => reject(transaction.error ?? new NotKept("full"));
});

export class Drafts {
  #database = null;
  #order = Promise.resolve();
  #tab;
  #alive = new Set();
  #asked = 0;
  #settled;

  constructor(workspace = location.pathname) {
    this.workspace = workspace;
    /// Called when what was kept may be gone.
    this.lost = null;
    this.#tab = tabName();
    this.#settled = this.#settle();
  }

  /// Keeps { text, version, eol } of a file, instead of what was kept of it. Rejects with NotKept.
  keep(path, draft) {
    return this.#inOrder(async (database) => {
      const transaction = database.transaction(STORE, "readwrite");
      const store = transaction.objectStore(STORE);
      const finished = committed(transaction);
      const own = [this.workspace, path, this.#tab];
      let count = 1;
      let size = draft.text.length;
      store.index("size").openKeyCursor(IDBKeyRange.bound([this.workspace], [this.workspace, []])).onsuccess = ({ target }) => {
        const cursor = target.result;
        if (cursor) {
          const mine = cursor.primaryKey[1] === path && cursor.primaryKey[2] === this.#tab;
          if (!mine) [count, size] = [count + 1, size + cursor.key[1]];
          cursor.continue();
        } else if (count > MOST_DRAFTS || size > MOST_TEXT) transaction.abort();
        else store.put({ workspace: own[0], path, tab: own[2], ...draft, size: draft.text.length, at: Date.now() });
      };
      await finished;
    });
  }

  /// Whether this tab's draft of the file is there. Browsers may clear it under an open page.
  async has(path) {
    try {
      const key = [this.workspace, path, this.#tab];
      return (await this.#inOrder((database) => done(database.transaction(STORE).objectStore(STORE).getKey(key)))) !== undefined;
    } catch {
      return false;
    }
  }

  /// Nothing of this file is unsaved any more.
  drop(path) {
    return this.#inOrder(async (database) => {
      const transaction = database.transaction(STORE, "readwrite");
      transaction.objectStore(STORE).delete([this.workspace, path, this.#tab]);
      await committed(transaction);
    }).catch(() => { /* then it is offered once more, and found to be saved */ });
  }

  /// The draft of a file: this tab's own, or the newest of a tab that is gone, which becomes this one's.
  async take(path) {
    try {
      const all = await this.#of(path);
      const own = all.find((draft) => draft.tab === this.#tab);
      if (own || !all.length) return own ?? null;
      await this.#whoIsThere();
      const left = all.filter((draft) => !this.#alive.has(draft.tab)).sort((a, b) => b.at - a.at)[0];
      if (!left) return null;
      await this.#inOrder(async (database) => {
        const transaction = database.transaction(STORE, "readwrite");
        const store = transaction.objectStore(STORE);
        store.put({ ...left, tab: this.#tab });
        store.delete([left.workspace, left.path, left.tab]);
        await committed(transaction);
      });
      return left;
    } catch {
      return null;
    }
  }

  /// The files that have a draft for this tab.
  async paths() {
    try {
      await this.#settled;
      const keys = await this.#inOrder((database) => done(database.transaction(STORE).objectStore(STORE)
        .getAllKeys(IDBKeyRange.bound([this.workspace], [this.workspace, []]))));
      if (keys.some(([, , tab]) => tab !== this.#tab)) await this.#whoIsThere();
      const free = keys.filter(([, , tab]) => tab === this.#tab || !this.#alive.has(tab));
      return [...new Set(free.map(([, path]) => path))];
    } catch {
      return [];
    }
  }

  #of(path) {
    const range = IDBKeyRange.bound([this.workspace, path], [this.workspace, path, []]);
    return this.#inOrder((database) => done(database.transaction(STORE).objectStore(STORE).getAll(range)));
  }

  /// One after the other, so that what is dropped last stays dropped.
  #inOrder(work) {
    const result = this.#order.then(async () => {
      await this.#settled;
      try {
        this.#database ??= await open();
        // Closed by the browser: perhaps because it clears what is stored.
        this.#database.onclose = () => {
          this.#database = null;
          this.lost?.();
        };
        return await work(this.#database);
      } catch (error) {
        if (error instanceof NotKept) throw error;
        // Closed before we were told: the next one opens it anew.
        if (error?.name === "InvalidStateError") this.#database = null;
        throw new NotKept(error?.name === "QuotaExceededError" ? "quota" : "unavailable");
      }
    });
    this.#order = result.catch(() => {});
    return result;
  }

  // --- other tabs ---

  /// A duplicated tab has its original's name, and takes one of its own.
  async #settle() {
    if (typeof BroadcastChannel === "undefined") return;
    this.channel = new BroadcastChannel(`codehub-drafts:${this.workspace}`);
    this.channel.onmessage = ({ data }) => {
      if (data === "who") this.channel.postMessage({ here: this.#tab });
      else if (data?.here) this.#alive.add(data.here);
    };
    await this.#whoIsThere();
    if (this.#alive.has(this.#tab)) this.#tab = tabName(true);
  }

  async #whoIsThere() {
    if (!this.channel || Date.now() - this.#asked < 10 * ANSWER_WITHIN) return;
    this.#alive.clear();
    this.channel.postMessage("who");
    await new Promise((resolve) => setTimeout(resolve, ANSWER_WITHIN));
    this.#asked = Date.now();
  }
}

function tabName(anew = false) {
  const key = "codehub-ide:tab";
  const name = [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  try {
    const known = sessionStorage.getItem(key);
    if (known && !anew) return known;
    sessionStorage.setItem(key, name);
  } catch { /* storage is off: after a reload the drafts are those of a tab that is gone */ }
  return name;
}

async function open() {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => {
    const store = request.result.createObjectStore(STORE, { keyPath: ["workspace", "path", "tab"] });
    store.createIndex("size", ["workspace", "size"]);
    store.createIndex("at", "at");
  };
  const database = await done(request);
  database.onversionchange = () => database.close();
  const transaction = database.transaction(STORE, "readwrite");
  transaction.objectStore(STORE).index("at").openCursor(IDBKeyRange.upperBound(Date.now() - FORGET_AFTER)).onsuccess = ({ target }) => {
    target.result?.delete();
    target.result?.continue();
  };
  return database;
}

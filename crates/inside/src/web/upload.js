// Uploads: files and folders, picked or dropped, one after another, each streamed from disk.

import * as api from "./api.js";
import { choose, toast } from "./dialog.js";
import { $, h } from "./dom.js";
import { errorText, t } from "./i18n.js";
import { DRAGGED } from "./tree.js";

export class Uploads {
  #queue = Promise.resolve();
  #target = null;

  /// `transfer(paths, dir, copy)` moves or copies what was dragged from the tree itself.
  constructor(tree, transfer) {
    Object.assign(this, { tree, transfer });
    for (const input of [$("upload-input"), $("upload-folder-input")]) {
      input.addEventListener("change", () => {
        this.add(this.#target ?? tree.target(), [...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })));
        input.value = "";
      });
    }
    this.#dropping($("tree-scroll"));
  }

  pick(dir, folder = false) {
    this.#target = dir;
    $(folder ? "upload-folder-input" : "upload-input").click();
  }

  /// `files` are { file, path }, the path below `dir` with "/" between its parts.
  add(dir, files) {
    this.#queue = this.#queue.then(() => this.#all(dir, files));
    return this.#queue;
  }

  async #all(dir, files) {
    let done = 0;
    const made = new Set();
    for (const { file, path } of files) {
      try {
        const target = api.join(dir.path, api.encode(path));
        await this.#folders(dir.path, api.parent(target), made);
        if (await this.#one(target, file)) done += 1;
      } catch (error) {
        toast(t("uploadFailed", { name: path, why: errorText(error) }), true);
        if (error.code === "NETWORK") break;
      }
    }
    if (done) toast(t("uploaded", { count: done }));
    await this.tree.reload(dir.path);
  }

  /// The folders between `dir` and `folder`, and itself.
  async #folders(dir, folder, made) {
    if (folder === dir || made.has(folder) || folder.length < dir.length) return;
    await this.#folders(dir, api.parent(folder), made);
    await api.mkdir(folder).catch((error) => {
      if (error.code !== "EXISTS") throw error;
    });
    made.add(folder);
  }

  /// False when the person chose to skip it.
  async #one(path, file) {
    const bar = h("progress", { max: "1", value: "0", "aria-label": t("uploading", { name: file.name }) });
    const line = h("div", { class: "transfer" }, h("span", {}, t("uploading", { name: file.name })), bar);
    $("transfers").append(line);
    const progress = (part) => (bar.value = part);
    try {
      // Ask before sending, not after: the file may be large.
      let condition = { create: true };
      if (await exists(path)) {
        const answer = await choose(t("overwriteTitle", { name: file.name }), t("overwriteText"),
          [["skip", t("skip")], ["replace", t("replace"), "danger"]]);
        if (answer !== "replace") return false;
        condition = {};
      }
      await api.upload(path, file, condition, progress);
      return true;
    } finally {
      line.remove();
    }
  }

  async #dropped(dir, dropped) {
    const files = [];
    for (const { entry, file } of dropped) {
      try {
        if (entry?.isDirectory) files.push(...(await filesIn(entry, entry.name)));
        else if (file) files.push({ file, path: file.name });
      } catch (error) {
        toast(t("uploadFailed", { name: entry?.name ?? file?.name, why: error.message }), true);
      }
    }
    if (files.length) this.add(dir, files);
  }

  #dropping(zone) {
    let marked = null;
    const mark = (element) => {
      if (marked === element) return;
      marked?.classList.remove("drop-target");
      marked = element;
      marked?.classList.add("drop-target");
    };
    const dirAt = (event) => {
      const node = this.tree.nodeAt(event.target);
      if (!node) return this.tree.root;
      return node.kind === "dir" ? node : this.tree.find(api.parent(node.path));
    };
    zone.addEventListener("dragover", (event) => {
      const own = event.dataTransfer.types.includes(DRAGGED);
      if (!own && !event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = own && !event.ctrlKey && !event.altKey ? "move" : "copy";
      mark(dirAt(event).item ?? zone);
    });
    zone.addEventListener("dragleave", (event) => zone.contains(event.relatedTarget) || mark(null));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      mark(null);
      const dir = dirAt(event);
      const own = event.dataTransfer.getData(DRAGGED);
      if (own) {
        this.transfer(JSON.parse(own), dir, event.ctrlKey || event.altKey);
        return;
      }
      const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
      // Both have to be asked for now: afterwards the browser has forgotten them.
      const dropped = items.map((item) => ({ entry: item.webkitGetAsEntry?.(), file: item.getAsFile() }));
      this.#dropped(dir, dropped);
    });
    // A file dropped beside the tree would replace the page.
    for (const type of ["dragover", "drop"]) {
      addEventListener(type, (event) => event.dataTransfer?.types.includes("Files") && event.preventDefault());
    }
  }
}

/// All files in a dropped folder, as { file, path }.
async function filesIn(entry, path) {
  if (entry.isFile) return [{ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path }];
  const reader = entry.createReader();
  const files = [];
  for (;;) {
    // A hundred at a time, until there are none.
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) return files;
    for (const inner of entries) files.push(...(await filesIn(inner, `${path}/${inner.name}`)));
  }
}

async function exists(path) {
  try {
    await api.stat(path);
    return true;
  } catch (error) {
    if (error.code === "NOT_FOUND") return false;
    throw error;
  }
}

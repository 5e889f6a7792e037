// Uploads: picked or dropped, one after another, each streamed from disk.

import * as api from "./api.js";
import { choose, toast } from "./dialog.js";
import { $, h } from "./dom.js";
import { errorText, t } from "./i18n.js";

export class Uploads {
  #queue = Promise.resolve();
  #target = null;

  constructor(tree) {
    this.tree = tree;
    const input = $("upload-input");
    input.addEventListener("change", () => {
      this.add(this.#target ?? tree.target(), [...input.files]);
      input.value = "";
    });
    this.#dropping($("tree-scroll"));
  }

  pick(dir) {
    this.#target = dir;
    $("upload-input").click();
  }

  add(dir, files) {
    this.#queue = this.#queue.then(() => this.#all(dir, files));
    return this.#queue;
  }

  async #all(dir, files) {
    let done = 0;
    for (const file of files) {
      try {
        if (await this.#one(api.join(dir.path, encodeURIComponent(file.name)), file)) done += 1;
      } catch (error) {
        toast(t("uploadFailed", { name: file.name, why: errorText(error) }), true);
      }
    }
    if (done) toast(t("uploaded", { count: done }));
    await this.tree.reload(dir.path);
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
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
      mark(dirAt(event).item ?? zone);
    });
    zone.addEventListener("dragleave", (event) => zone.contains(event.relatedTarget) || mark(null));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      mark(null);
      const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
      if (items.some((item) => item.webkitGetAsEntry?.()?.isDirectory)) toast(t("noFolders"), true);
      const files = items.filter((item) => !item.webkitGetAsEntry?.()?.isDirectory).map((item) => item.getAsFile());
      if (files.length) this.add(dirAt(event), files);
    });
    // A file dropped beside the tree would replace the page.
    for (const type of ["dragover", "drop"]) {
      addEventListener(type, (event) => event.dataTransfer?.types.includes("Files") && event.preventDefault());
    }
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

// What can be done to files and folders: create, rename, move, copy, delete, download.

import * as api from "./api.js";
import { askName, confirm, menu, toast } from "./dialog.js";
import { h } from "./dom.js";
import { errorText, t } from "./i18n.js";

export class TreeActions {
  constructor(tree, editor, uploads) {
    Object.assign(this, { tree, editor, uploads });
    /// What was cut or copied: { paths, cut }.
    this.clipboard = null;
  }

  menu(node, x, y, opener) {
    const items = [];
    const nodes = node === this.tree.root ? [] : this.tree.nodesFor(node);
    const paste = this.clipboard && node.kind === "dir" ? [["paste", t("paste"), () => this.paste(node), "menu-paste"]] : [];
    const clip = nodes.length ? [null,
      ["cut", t("cut"), () => this.cut(nodes), "menu-cut"],
      ["copy", t("copy"), () => this.copy(nodes), "menu-copy"], ...paste] : paste;
    if (nodes.length > 1) {
      menu(x, y, [...clip.slice(1), null, ["trash", `${t("removeCount", { count: nodes.length })} (Del)`, () => this.remove(nodes), "menu-delete"]], opener);
      return;
    }
    if (node.kind === "dir") {
      items.push(
        ["filePlus", t("newFile"), () => this.create(node, false), "menu-new-file"],
        ["folderPlus", t("newFolder"), () => this.create(node, true), "menu-new-folder"],
        ["upload", t("uploadHere"), () => this.uploads.pick(node), "menu-upload"],
        ["folderUp", t("uploadFolder"), () => this.uploads.pick(node, true), "menu-upload-folder"],
        null,
        ["download", t("downloadZip"), () => this.download(api.zipUrl(node.path)), "menu-download-zip"],
        ["download", t("downloadTar"), () => this.download(api.downloadUrl(node.path)), "menu-download"],
      );
    } else {
      items.push(
        ["file", t("open"), () => this.editor.open(node.path), "menu-open"],
        ["download", t("download"), () => this.download(api.downloadUrl(node.path)), "menu-download"],
      );
    }
    items.push(...clip);
    if (node !== this.tree.root) {
      items.push(
        null,
        ["pencil", `${t("rename")} (F2)`, () => this.rename(node), "menu-rename"],
        ["trash", `${t("remove")} (Del)`, () => this.remove([node]), "menu-delete"],
      );
    }
    menu(x, y, items, opener);
  }

  /// True when the key meant something.
  key(node, event) {
    if (event.ctrlKey || event.metaKey) {
      const key = event.key.toLowerCase();
      if (key === "x") this.cut(this.tree.nodesFor(node));
      else if (key === "c") this.copy(this.tree.nodesFor(node));
      else if (key === "v" && this.clipboard) this.paste(this.tree.target());
      else return false;
      return true;
    }
    if (event.key === "F2") this.rename(node);
    else if (event.key === "Delete") this.remove(this.tree.nodesFor(node));
    else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) {
      const box = node.row.getBoundingClientRect();
      this.menu(node, box.left + 24, box.bottom, node.item);
    } else return false;
    event.preventDefault();
    return true;
  }

  async create(dir, folder) {
    const name = await askName(
      t(folder ? "newFolder" : "newFile"), t("inFolder", { name: dir.path ? api.shown(dir.path) : t("home") }),
      "", t("create"), localized((name) => {
        const path = api.join(dir.path, encodeURIComponent(name));
        return folder ? api.mkdir(path) : api.save(path, "", { create: true });
      }));
    if (!name) return;
    const path = api.join(dir.path, encodeURIComponent(name));
    if (dir !== this.tree.root && !dir.open) await this.tree.toggle(dir, true);
    else await this.tree.reload(dir.path);
    await this.tree.reveal(path);
    if (!folder) this.editor.open(path);
  }

  async rename(node) {
    const dir = api.parent(node.path);
    let to = null;
    await askName(t("rename"), t("inFolder", { name: dir ? api.shown(dir) : t("home") }), node.name, t("rename"),
      localized(async (name) => {
        if (name === node.name) return;
        const path = api.join(dir, encodeURIComponent(name));
        await api.rename(node.path, path);
        to = path;
      }));
    if (!to) return;
    this.editor.moved(node.path, to);
    await this.tree.reload(dir);
    await this.tree.reveal(to);
    this.tree.selected?.item?.focus();
  }

  async remove(nodes) {
    const one = nodes.length === 1;
    const title = one ? t("deleteTitle", { name: nodes[0].name }) : t("deleteTitleCount", { count: nodes.length });
    const text = one ? t(nodes[0].kind === "dir" ? "deleteFolder" : "deleteFile") : t("deleteMany", { names: some(nodes.map(({ name }) => name)) });
    if (!(await confirm(title, text, t("remove")))) return;
    for (const { path } of nodes) {
      try {
        await api.remove(path);
        this.editor.removed(path);
      } catch (error) {
        toast(errorText(error), true);
      }
    }
    await this.#reload(nodes.map(({ path }) => api.parent(path)));
  }

  // --- moving and copying ---

  cut(nodes) {
    this.#clip(nodes, true);
  }

  copy(nodes) {
    this.#clip(nodes, false);
  }

  #clip(nodes, cut) {
    this.clipboard = { paths: nodes.map(({ path }) => path), cut };
    toast(t(cut ? "cutDone" : "copyDone", { count: nodes.length }));
  }

  async paste(dir) {
    const { paths, cut } = this.clipboard;
    if (cut) this.clipboard = null;
    await this.transfer(paths, dir, !cut);
  }

  /// Moves or copies into a folder. Nothing is replaced: a copy gets another name, a move says what is in the way.
  async transfer(paths, dir, copy) {
    let done = 0;
    let last = null;
    for (const path of paths) {
      const to = api.join(dir.path, api.base(path));
      if (!copy && to === path) continue;
      try {
        if (copy) last = await this.#copyTo(path, dir.path);
        else {
          await api.rename(path, to);
          this.editor.moved(path, to);
          last = to;
        }
        done += 1;
      } catch (error) {
        toast(`${api.shown(api.base(path))}: ${errorText(error)}`, true);
      }
    }
    if (dir !== this.tree.root && !dir.open) await this.tree.toggle(dir, true);
    await this.#reload([dir.path, ...(copy ? [] : paths.map(api.parent))]);
    if (!done) return;
    toast(t(copy ? "copiedCount" : "movedCount", { count: done, name: dir.path ? api.shown(dir.path) : t("home") }));
    await this.tree.reveal(last);
    this.tree.selected?.item?.focus();
  }

  async #copyTo(path, dir) {
    const name = api.base(path);
    for (let n = 0; ; n++) {
      const to = api.join(dir, n ? copyName(name, n) : name);
      try {
        // A folder cannot be copied onto itself, which is another refusal than "there is one".
        if (to === path) continue;
        await api.copy(path, to);
        return to;
      } catch (error) {
        if (error.code !== "EXISTS" || n > 100) throw error;
      }
    }
  }

  async #reload(dirs) {
    await Promise.all([...new Set(dirs)].map((dir) => this.tree.reload(dir)));
  }

  download(url) {
    const link = h("a", { href: url, download: "" });
    document.body.append(link);
    link.click();
    link.remove();
  }
}

/// "notes copy.txt", "notes copy 2.txt"; names are encoded.
function copyName(name, n) {
  const dot = name.lastIndexOf(".");
  const [stem, end] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, ""];
  return `${stem}${encodeURIComponent(n === 1 ? " copy" : ` copy ${n}`)}${end}`;
}

const some = (names) => (names.length > 5 ? `${names.slice(0, 5).join(", ")}, …` : names.join(", "));

/// The dialog shows what is thrown; let it be in the person's language.
const localized = (attempt) => async (name) => {
  try {
    await attempt(name);
  } catch (error) {
    throw new Error(errorText(error));
  }
};

// What can be done to a file or folder: create, rename, delete, download.

import * as api from "./api.js";
import { askName, confirm, menu, toast } from "./dialog.js";
import { h } from "./dom.js";
import { errorText, t } from "./i18n.js";

export class TreeActions {
  constructor(tree, editor, uploads) {
    Object.assign(this, { tree, editor, uploads });
  }

  menu(node, x, y, opener) {
    const items = [];
    if (node.kind === "dir") {
      items.push(
        ["filePlus", t("newFile"), () => this.create(node, false), "menu-new-file"],
        ["folderPlus", t("newFolder"), () => this.create(node, true), "menu-new-folder"],
        ["upload", t("uploadHere"), () => this.uploads.pick(node), "menu-upload"],
        null,
        ["download", t("downloadTar"), () => this.download(node), "menu-download"],
      );
    } else {
      items.push(
        ["file", t("open"), () => this.editor.open(node.path), "menu-open"],
        ["download", t("download"), () => this.download(node), "menu-download"],
      );
    }
    if (node !== this.tree.root) {
      items.push(
        null,
        ["pencil", `${t("rename")} (F2)`, () => this.rename(node), "menu-rename"],
        ["trash", `${t("remove")} (Del)`, () => this.remove(node), "menu-delete"],
      );
    }
    menu(x, y, items, opener);
  }

  /// True when the key meant something.
  key(node, event) {
    if (event.key === "F2") this.rename(node);
    else if (event.key === "Delete") this.remove(node);
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

  async remove(node) {
    const sure = await confirm(t("deleteTitle", { name: node.name }),
      t(node.kind === "dir" ? "deleteFolder" : "deleteFile"), t("remove"));
    if (!sure) return;
    try {
      await api.remove(node.path);
      this.editor.removed(node.path);
    } catch (error) {
      toast(errorText(error), true);
    }
    await this.tree.reload(api.parent(node.path));
  }

  download(node) {
    const link = h("a", { href: api.downloadUrl(node.path), download: "" });
    document.body.append(link);
    link.click();
    link.remove();
  }
}

/// The dialog shows what is thrown; let it be in the person's language.
const localized = (attempt) => async (name) => {
  try {
    await attempt(name);
  } catch (error) {
    throw new Error(errorText(error));
  }
};

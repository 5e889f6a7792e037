// The file tree. Directories load when opened; a listing that comes again is
// merged, so what was open, selected or focused stays so.

import * as api from "./api.js";
import { toast } from "./dialog.js";
import { $, h, memory } from "./dom.js";
import { icon } from "./icons.js";
import { badgeKind } from "./git-panel.js";
import { errorText, t } from "./i18n.js";

/// What rows that are dragged are known by; other pages have no such thing.
export const DRAGGED = "application/x-codehub-paths";

export class Tree {
  /// `on` has open(node), menu(node, x, y, opener), key(node, event), drop(paths, dir, copy), watch(), and badge(path, folder)
  /// for the letter a file is marked with, or null.
  constructor(on) {
    this.on = on;
    this.list = $("tree");
    this.root = { path: "", name: t("home"), kind: "dir", open: true, depth: 0, children: new Map(), group: this.list };
    this.selected = null;
    /// All that is selected, by path; `selected` is the one that was chosen last.
    this.chosen = new Set();
    this.remembered = new Set(memory.get("open-dirs", []));
    this.list.addEventListener("keydown", (event) => this.#keys(event));
    this.list.addEventListener("focusin", (event) => this.#focused(event));
    $("tree-scroll").addEventListener("contextmenu", (event) => {
      event.preventDefault();
      const node = this.nodeAt(event.target) ?? this.root;
      if (node !== this.root && !this.chosen.has(node.path)) this.select(node);
      this.on.menu(node, event.clientX, event.clientY, node.item ?? this.list);
    });
  }

  /// Lists a directory again, if it is shown. Quiet about one that vanished.
  async reload(path) {
    const node = this.find(path);
    if (!node || node.kind !== "dir") return;
    try {
      const listing = await api.list(path);
      this.#merge(node, listing);
    } catch (error) {
      if (error.code === "NOT_FOUND") this.#shut(node);
      else if (error.code !== "NETWORK") toast(errorText(error), true);
    }
  }

  async reloadAll() {
    await Promise.all(this.openDirs().map((path) => this.reload(path)));
  }

  openDirs() {
    const dirs = [];
    const visit = (node) => {
      if (node.kind !== "dir" || !node.open) return;
      dirs.push(node.path);
      node.children.forEach(visit);
    };
    visit(this.root);
    return dirs;
  }

  find(path) {
    let node = this.root;
    for (const key of path ? path.split("/") : []) {
      node = node?.children?.get(key);
    }
    return node;
  }

  nodeAt(element) {
    const item = element.closest?.('[role="treeitem"]');
    return item ? this.find(item.dataset.path) : null;
  }

  /// Where new things go: the selected directory, or the one around the selection.
  target() {
    const node = this.selected;
    if (!node || !this.find(node.path)) return this.root;
    return node.kind === "dir" ? node : this.find(api.parent(node.path));
  }

  async toggle(node, open = !node.open) {
    if (node.open === open) return;
    node.open = open;
    node.item.setAttribute("aria-expanded", String(open));
    node.glyph.replaceChildren(icon(open ? "folderOpen" : "folder"));
    this.#remember();
    if (open) {
      node.group = h("ul", { role: "group" });
      node.item.append(node.group);
      await this.reload(node.path);
    } else {
      node.group.remove();
      node.children = new Map();
    }
    this.on.watch();
  }

  select(node) {
    this.#choose([node.path]);
    this.selected = node;
    this.anchor = node;
  }

  #choose(paths) {
    for (const path of this.chosen) this.find(path)?.item?.setAttribute("aria-selected", "false");
    this.chosen = new Set(paths);
    for (const path of this.chosen) this.find(path)?.item?.setAttribute("aria-selected", "true");
  }

  /// Adds one to what is selected, or takes it away.
  #also(node) {
    const paths = new Set(this.chosen);
    if (!paths.delete(node.path)) paths.add(node.path);
    this.#choose(paths);
    this.selected = this.anchor = node;
  }

  /// Selects everything from the one that was chosen before to this one.
  #range(node) {
    const items = [...this.list.querySelectorAll('[role="treeitem"]')];
    const from = items.indexOf(this.anchor?.item ?? node.item);
    const to = items.indexOf(node.item);
    if (from < 0) return this.select(node);
    this.#choose(items.slice(Math.min(from, to), Math.max(from, to) + 1).map((item) => item.dataset.path));
    this.selected = node;
  }

  /// What an action on `node` is for: all that is selected if it is among that, otherwise itself. Nothing that is in a
  /// folder which is selected as well.
  nodesFor(node) {
    if (!this.chosen.has(node.path)) return [node];
    const paths = [...this.chosen];
    return paths.filter((path) => !paths.some((other) => path.startsWith(`${other}/`))).map((path) => this.find(path)).filter(Boolean);
  }

  /// Draws the letters of changed files anew.
  refreshBadges() {
    const visit = (node) => {
      if (node.badge) this.#badge(node);
      node.children.forEach(visit);
    };
    visit(this.root);
  }

  #badge(node) {
    const mark = this.on.badge(node.path, node.kind === "dir");
    if (node.mark === mark) return;
    node.mark = mark;
    node.badge.textContent = mark ?? "";
    node.badge.className = mark ? `badge badge-${badgeKind(mark)}` : "badge";
    node.row.dataset.badge = mark ? badgeKind(mark) : "";
    const words = mark === "•" ? t("gitFolder") : mark ? t(`git_${mark}`) : "";
    node.badge.title = words;
    node.item.setAttribute("aria-label", words ? `${node.name}, ${words}` : node.name);
  }

  /// Opens the directories around `path` and selects it.
  async reveal(path) {
    const parts = path.split("/");
    for (let i = 1; i < parts.length; i++) {
      const dir = this.find(parts.slice(0, i).join("/"));
      if (!dir) return;
      await this.toggle(dir, true);
    }
    const node = this.find(path);
    if (!node) return;
    this.select(node);
    node.row.scrollIntoView({ block: "nearest" });
  }

  #shut(node) {
    if (node === this.root || !node.open) return;
    node.open = false;
    node.group.remove();
    node.children = new Map();
  }

  #merge(node, { entries, truncated }) {
    if (!node.open) return;
    const old = node.children;
    node.children = new Map();
    const items = [];
    for (const entry of entries) {
      let child = old.get(entry.key);
      if (!child || child.kind !== entry.kind || child.link !== entry.link) child = this.#make(node, entry);
      node.children.set(entry.key, child);
      items.push(child.item);
    }
    if (entries.length === 0) items.push(h("li", { class: "tree-note", role: "none" }, t("emptyFolder")));
    if (truncated) items.push(h("li", { class: "tree-note", role: "none" }, t("tooMany")));
    for (const item of items) item.style.setProperty("--depth", node.depth);
    this.#place(node.group, items);
    if (this.selected && !this.find(this.selected.path)) this.selected = null;
    for (const path of this.chosen) if (!this.find(path)) this.chosen.delete(path);
    if (!this.list.querySelector('[tabindex="0"]')) {
      this.list.querySelector('[role="treeitem"]')?.setAttribute("tabindex", "0");
    }
    for (const child of node.children.values()) {
      if (child.kind === "dir" && !child.open && this.remembered.delete(child.path)) this.toggle(child, true);
    }
  }

  /// Puts items in order, touching only what moved, so that focus survives.
  #place(group, items) {
    const keep = new Set(items);
    for (const item of [...group.children]) if (!keep.has(item)) item.remove();
    items.forEach((item, i) => {
      if (group.children[i] !== item) group.insertBefore(item, group.children[i] ?? null);
    });
  }

  #make(parent, entry) {
    const node = {
      path: api.join(parent.path, entry.key), name: entry.name, kind: entry.kind, link: entry.link,
      depth: parent.depth + 1, open: false, children: new Map(),
    };
    node.glyph = h("span", { class: "glyph" }, icon(glyph(entry)));
    const more = h("button", {
      type: "button", class: "icon-button more", tabindex: "-1",
      "aria-label": t("more", { name: entry.name }), "data-testid": "tree-more",
      onclick: (event) => {
        event.stopPropagation();
        this.select(node);
        const box = more.getBoundingClientRect();
        this.on.menu(node, box.left, box.bottom + 2, node.item);
      },
    }, icon("more"));
    node.row = h("div", {
      class: "row", title: entry.name,
      draggable: "true",
      onclick: (event) => {
        node.item.focus();
        if (event.shiftKey) this.#range(node);
        else if (event.ctrlKey || event.metaKey) this.#also(node);
        else {
          this.select(node);
          this.#activate(node);
        }
      },
      ondragstart: (event) => {
        const paths = this.nodesFor(node).map(({ path }) => path);
        event.dataTransfer.setData(DRAGGED, JSON.stringify(paths));
        event.dataTransfer.effectAllowed = "copyMove";
      },
    }, h("span", { class: "twisty" }, entry.kind === "dir" ? icon("chevronRight") : null), node.glyph,
      h("span", { class: "label" }, entry.name), entry.link && entry.kind !== "link" ? h("span", { class: "link-mark" }, icon("link")) : null,
      node.badge = h("span", { class: "badge", "aria-hidden": "true" }), more);
    node.item = h("li", {
      role: "treeitem", tabindex: "-1", "aria-selected": "false", "aria-level": node.depth,
      "aria-expanded": entry.kind === "dir" ? "false" : null, "aria-label": entry.name,
      "data-path": node.path, "data-kind": entry.kind, "data-testid": "tree-item", class: entry.name.startsWith(".") ? "hidden-file" : "",
    }, node.row);
    this.#badge(node);
    return node;
  }

  #activate(node) {
    if (node.kind === "dir") this.toggle(node);
    else this.on.open(node);
  }

  #focused(event) {
    const node = this.nodeAt(event.target);
    if (!node || event.target !== node.item) return;
    this.list.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
    node.item.setAttribute("tabindex", "0");
  }

  #keys(event) {
    const node = this.nodeAt(event.target);
    if (!node || event.target !== node.item || event.altKey) return;
    if (event.ctrlKey || event.metaKey) {
      if (event.key === " ") this.#also(node);
      else if (!this.on.key(node, event)) return;
      event.preventDefault();
      return;
    }
    const items = [...this.list.querySelectorAll('[role="treeitem"]')];
    const at = items.indexOf(node.item);
    const go = (item) => {
      if (!item) return;
      item.focus();
      if (event.shiftKey && event.key.startsWith("Arrow")) this.#range(this.nodeAt(item));
      else this.select(this.nodeAt(item));
    };
    switch (event.key) {
      case "ArrowDown": go(items[at + 1]); break;
      case "ArrowUp": go(items[at - 1]); break;
      case "Home": go(items[0]); break;
      case "End": go(items.at(-1)); break;
      case "ArrowRight":
        if (node.kind === "dir" && !node.open) this.toggle(node, true);
        else if (node.kind === "dir") go(items[at + 1]);
        break;
      case "ArrowLeft":
        if (node.open) this.toggle(node, false);
        else go(this.find(api.parent(node.path))?.item);
        break;
      case "Enter":
      case " ": this.#activate(node); break;
      default:
        if (!this.on.key(node, event)) this.#typeAhead(items, at, event.key, go);
        return;
    }
    event.preventDefault();
  }

  #typeAhead(items, at, key, go) {
    if (key.length !== 1) return;
    const next = [...items.slice(at + 1), ...items.slice(0, at + 1)];
    go(next.find((item) => item.getAttribute("aria-label").toLowerCase().startsWith(key.toLowerCase())));
  }

  #remember() {
    memory.set("open-dirs", this.openDirs().filter(Boolean));
  }
}

function glyph({ kind }) {
  return { dir: "folder", file: "file", link: "link" }[kind] ?? "file";
}

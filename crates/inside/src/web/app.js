// Puts the parts together: who tells whom what, and the keys that work anywhere.

import * as api from "./api.js";
import { Banner } from "./banner.js";
import { dismiss } from "./dialog.js";
import { $, dress, isMac, narrow } from "./dom.js";
import { Editor } from "./editor.js";
import { Hands } from "./hands.js";
import { language, t } from "./i18n.js";
import { Layout } from "./layout.js";
import { Socket } from "./socket.js";
import { Terminals } from "./terminals.js";
import { Tree } from "./tree.js";
import { TreeActions } from "./tree-actions.js";
import { Uploads } from "./upload.js";
import { Workspace } from "./workspace.js";

document.documentElement.lang = language;
dress(document.body);

const socket = new Socket();
const terminals = new Terminals(socket);
const layout = new Layout({ terminalShown: () => terminals.shown() });
const editor = new Editor({
  watch,
  shown: (path) => {
    if (narrow.matches) layout.view("editor");
    tree?.reveal(path);
  },
  changed: () => banner?.refresh(),
});
const tree = new Tree({
  open: (node) => editor.open(node.path),
  menu: (...where) => actions.menu(...where),
  key: (...what) => actions.key(...what),
  watch,
});
const uploads = new Uploads(tree);
const actions = new TreeActions(tree, editor, uploads);

$("new-file").addEventListener("click", () => actions.create(tree.target(), false));
$("new-folder").addEventListener("click", () => actions.create(tree.target(), true));
$("upload").addEventListener("click", () => uploads.pick(tree.target()));
$("refresh").addEventListener("click", () => tree.reloadAll());

// --- changes on disk -------------------------------------------------------

let watchTimer = 0;
let watching = "";

/// Tells the server which directories and files are in view. A hidden page
/// watches nothing; when it shows again it asks anew, and everything it asks
/// for counts as changed, so it catches up by itself.
function watch() {
  clearTimeout(watchTimer);
  watchTimer = setTimeout(() => {
    const wanted = document.visibilityState === "visible" ? wantedDirs() : [];
    const message = JSON.stringify(wanted);
    if (message !== watching && socket.send({ t: "watch", dirs: wanted })) watching = message;
  }, 50);
}

function wantedDirs() {
  const dirs = new Map(tree.openDirs().map((dir) => [dir, { dir, files: [], list: true }]));
  for (const { path } of editor.documents()) {
    const dir = api.parent(path);
    if (!dirs.has(dir)) dirs.set(dir, { dir, files: [], list: false });
    dirs.get(dir).files.push(api.base(path));
  }
  return [...dirs.values()];
}

socket.on("fs", ({ dirs, files }) => {
  for (const dir of dirs) tree.reload(dir);
  editor.changedOnDisk(files);
});
document.addEventListener("visibilitychange", watch);

// --- the connection and the workspace ---------------------------------------

const hands = new Hands(() => {
  // A moment later: what moves while a button is being pressed is not pressed.
  if (socket.send({ t: "active" })) setTimeout(() => workspace.wasUsed(), 500);
});
const workspace = new Workspace(({ state, ttlSeconds }) => {
  hands.sleepsAfter(ttlSeconds);
  // Woken elsewhere, or restarted: connect again in place.
  if (state === "running") socket.poke();
  banner.refresh();
});
const banner = new Banner(socket, workspace, () => editor.unsaved());

socket.on("state", (state) => {
  $("connection").textContent = t({ open: "connected", connecting: "connecting" }[state] ?? "disconnected");
  $("connection").dataset.state = state;
  if (state === "open") {
    watching = "";
    watch();
    editor.connected();
    dismiss("WORKSPACE_STANDBY");
  }
  banner.refresh();
});

// --- keys ------------------------------------------------------------------

addEventListener("keydown", (event) => {
  const command = isMac ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey;
  if (!command || event.altKey || event.shiftKey || document.querySelector("dialog[open]")) return;
  const inTerminal = document.activeElement?.classList.contains("term-input");
  const key = event.key.toLowerCase();
  if (key === "s" && !inTerminal) editor.save();
  else if (key === "f" && !inTerminal && editor.active?.surface) editor.find.open();
  else if (key === "b" && !inTerminal) layout.toggleSidebar();
  else if (key === "j" && (!inTerminal || isMac)) toggleTerminal();
  else if (key === "`") toggleTerminal();
  else return;
  event.preventDefault();
}, true);

function toggleTerminal() {
  if (layout.toggleTerminal()) terminals.focus();
  else editor.active?.focus();
}

// --- start -----------------------------------------------------------------

api.info().then(({ name, dashboard }) => {
  if (name) {
    $("workspace-name").textContent = name;
    editor.setWorkspace(name);
  }
  if (dashboard) {
    $("brand").href = dashboard;
    $("brand").title = t("dashboard");
    banner.dashboard = dashboard;
  }
}, () => { /* a name is not worth a complaint */ });
await tree.reload("");
await editor.restore();
if (narrow.matches && !editor.active) layout.view("files");
watch();

// Puts the parts together: who tells whom what, and the keys that work anywhere.

import * as api from "./api.js";
import { Banner } from "./banner.js";
import { dismiss } from "./dialog.js";
import { $, dress, isMac, narrow } from "./dom.js";
import { DiffView } from "./diff-view.js";
import { Editor } from "./editor.js";
import { Git } from "./git.js";
import { branchText, GitPanel } from "./git-panel.js";
import { Hands } from "./hands.js";
import { icon } from "./icons.js";
import { language, t } from "./i18n.js";
import { Layout } from "./layout.js";
import { Palette } from "./palette.js";
import { SearchPanel } from "./search-panel.js";
import { Socket } from "./socket.js";
import { Terminals } from "./terminals.js";
import { Tree } from "./tree.js";
import { TreeActions } from "./tree-actions.js";
import { Uploads } from "./upload.js";
import { Workspace } from "./workspace.js";

document.documentElement.lang = language;
dress(document.body);

const socket = new Socket();
const terminals = new Terminals(socket, { open: (...place) => editor.openAt(...place) });
const layout = new Layout({ terminalShown: () => terminals.shown() });
const editor = new Editor({
  watch,
  shown: (path) => {
    if (narrow.matches) layout.view("editor");
    tree?.reveal(path);
    palette?.visited(path);
    git?.follow(path);
    diff?.close();
  },
  saved: () => git.refresh(),
  base: async (path) => git.base(path),
  changed: () => banner?.refresh(),
});
const tree = new Tree({
  open: (node) => editor.open(node.path),
  menu: (...where) => actions.menu(...where),
  key: (...what) => actions.key(...what),
  badge: (path, folder) => git?.badge(path, folder) ?? null,
  watch,
});
const uploads = new Uploads(tree, (...what) => actions.transfer(...what));
const actions = new TreeActions(tree, editor, uploads);

$("new-file").addEventListener("click", () => actions.create(tree.target(), false));
$("new-folder").addEventListener("click", () => actions.create(tree.target(), true));
$("upload").addEventListener("click", () => uploads.pick(tree.target()));
$("upload-folder").addEventListener("click", () => uploads.pick(tree.target(), true));
$("refresh").addEventListener("click", () => {
  tree.reloadAll();
  git.refresh();
});

// --- search and git ----------------------------------------------------------

const search = new SearchPanel({
  open: (...place) => editor.openAt(...place),
  unsaved: (path) => Boolean(editor.byPath(path)?.dirty),
  replaced: (paths) => {
    editor.changedOnDisk(paths);
    git.refresh();
  },
});
const git = new Git(() => {
  $("status-branch").hidden = git.repository === null;
  $("status-branch").replaceChildren(icon("branch"), git.status ? branchText(git.status) : "");
  $("status-branch").setAttribute("aria-label", git.status ? t("branchIs", { name: branchText(git.status) }) : "");
  gitPanel.refresh();
  tree.refreshBadges();
  editor.markChanges();
  watch();
});
const diff = new DiffView(git, { open: (path) => editor.open(path), closed: () => editor.active?.focus() });
const gitPanel = new GitPanel(git, {
  diff: (file, staged) => {
    if (narrow.matches) layout.view("editor");
    diff.show(file, staged, editor.byPath(file.path)?.surface?.value);
  },
  discarded: (paths) => {
    editor.changedOnDisk(paths);
    tree.reloadAll();
  },
});
const palette = new Palette({
  open: (path, line) => editor.openAt(path, line),
  line: (line, col) => {
    editor.active?.surface?.goTo(line, col);
    editor.active?.focus();
  },
  lines: () => editor.active?.surface?.lineCount ?? 0,
  commands: () => commands.filter(({ when }) => !when || when()),
});
$("status-branch").addEventListener("click", () => showGit());
$("palette-button").addEventListener("click", () => palette.open(">"));
for (const [side, panel] of [["search", search], ["git", gitPanel]]) $(`side-${side}-tab`).addEventListener("click", () => panel.focus());

function showSearch(replace) {
  const surface = editor.active?.surface;
  const { start, end } = surface?.text.selection() ?? { start: 0, end: 0 };
  layout.side("search");
  search.focus(end - start < 200 ? surface?.text.slice(start, end) ?? "" : "", replace);
}

function showGit() {
  layout.side("git");
  gitPanel.focus();
}

function showFiles() {
  layout.side("files");
  (tree.selected?.item ?? tree.list.querySelector("[role=treeitem]"))?.focus();
}

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
  const own = git.watched();
  if (own && !dirs.has(own.dir)) dirs.set(own.dir, own);
  return [...dirs.values()];
}

socket.on("fs", ({ dirs, files }) => {
  for (const dir of dirs) tree.reload(dir);
  editor.changedOnDisk(files);
  git.refresh();
});
addEventListener("focus", () => git.refresh());
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

const mod = isMac ? "⌘" : "Ctrl+";
const shift = isMac ? "⇧⌘" : "Ctrl+Shift+";
const hasText = () => Boolean(editor.active?.surface && !editor.active.previewing);

/// What can be done from anywhere: `key` is for the keys below, `keys` is how they are written.
const commands = [
  { label: t("goToFile"), keys: `${mod}P`, key: "p", run: () => palette.open("") },
  { label: t("showCommands"), keys: `F1, ${shift}P`, key: "shift+p", anywhere: true, run: () => palette.open(">") },
  { label: t("goToLine"), keys: "Ctrl+G", key: "g", when: hasText, run: () => palette.open(":") },
  { label: t("searchLabel"), keys: `${shift}F`, key: "shift+f", run: () => showSearch(false) },
  { label: t("replaceInFiles"), keys: `${shift}H`, key: "shift+h", run: () => showSearch(true) },
  { label: t("showFiles"), keys: `${shift}E`, key: "shift+e", run: () => showFiles() },
  { label: t("showGit"), keys: `${shift}G`, key: "shift+g", run: () => showGit() },
  { label: t("save"), keys: `${mod}S`, key: "s", run: () => editor.save() },
  { label: t("findInFile"), keys: `${mod}F`, key: "f", when: hasText, run: () => editor.find.open() },
  { label: t("replaceInFile1"), keys: isMac ? "⌥⌘F" : "Ctrl+H", key: isMac ? "alt+f" : "h", when: hasText, run: () => editor.find.open(true) },
  { label: t("toggleComment"), keys: `${mod}/`, key: "/", when: hasText, run: () => editor.active.surface.toggleComment() },
  { label: t("toggleWrap"), keys: isMac ? "⌥Z" : "Alt+Z", run: () => editor.toggleWrap() },
  { label: t("fontLarger"), keys: isMac ? "⌥+" : "Alt+=", run: () => editor.changeFontSize(1) },
  { label: t("fontSmaller"), keys: isMac ? "⌥-" : "Alt+-", run: () => editor.changeFontSize(-1) },
  { label: t("fontReset"), run: () => editor.changeFontSize(0) },
  { label: t("preview"), keys: `${shift}V`, key: "shift+v", when: () => editor.active?.canPreview, run: () => editor.togglePreview() },
  { label: t("newFile"), run: () => actions.create(tree.target(), false) },
  { label: t("newFolder"), run: () => actions.create(tree.target(), true) },
  { label: t("upload"), run: () => uploads.pick(tree.target()) },
  { label: t("uploadFolder"), run: () => uploads.pick(tree.target(), true) },
  { label: t("closeThisFile"), when: () => editor.active, run: () => editor.close(editor.active) },
  { label: t("newTerminal"), run: () => { layout.toggleTerminal(true); terminals.open(true); } },
  { label: t("termFind"), keys: t("termFindKeys", { keys: `${shift}F` }), run: () => { layout.toggleTerminal(true); terminals.find(); } },
  { label: t("toggleFilesCommand"), keys: `${mod}B`, key: "b", run: () => layout.toggleSidebar() },
  { label: t("toggleTerminalCommand"), keys: `${mod}J`, key: "j", run: () => toggleTerminal() },
];

addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.isComposing) return;
  const inTerminal = document.activeElement?.classList.contains("term-input");
  const run = shortcut(event, inTerminal);
  if (!run) return;
  event.preventDefault();
  run();
}, true);

// A browser that gives the focus back when a dialog closes may leave the caret where it was: nothing typed would arrive.
document.addEventListener("close", () => {
  const { activeElement: field } = document;
  if (field?.selectionStart != null) field.setSelectionRange(field.selectionStart, field.selectionEnd);
}, true);

/// What a key does, or null. A terminal keeps the keys that programs in it use.
function shortcut(event, inTerminal) {
  const command = isMac ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey;
  const key = event.key.toLowerCase();
  // A shell has no use for it; programs that take the whole screen have.
  if (event.key === "F1" && !(inTerminal && terminals.fullScreen)) return () => palette.open(">");
  // By place, not by letter: with Alt a Mac types other letters.
  if (event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey && !inTerminal) {
    return { KeyZ: () => editor.toggleWrap(), Equal: () => editor.changeFontSize(1), Minus: () => editor.changeFontSize(-1) }[event.code] ?? null;
  }
  // On a Mac Ctrl+G, because ⌘G finds again in browsers.
  const goToLine = event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey && key === "g";
  if (goToLine && !inTerminal && hasText()) return () => palette.open(":");
  if (!command) return null;
  if (inTerminal && key === "f" && event.shiftKey && !event.altKey) return () => terminals.find();
  if (key === "`" && !event.shiftKey && !event.altKey) return toggleTerminal;
  if (key === "j" && isMac && !event.shiftKey && !event.altKey) return toggleTerminal;
  const name = `${event.altKey ? "alt+" : ""}${event.shiftKey ? "shift+" : ""}${event.altKey ? event.code.replace("Key", "").toLowerCase() : key}`;
  const found = commands.find((one) => one.key === name);
  // Outside a text the browser's own find is better than none; everywhere else a key that does nothing here is the browser's.
  if (!found || (inTerminal && !found.anywhere) || (found.when && !found.when())) return null;
  return found.run;
}

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
// For whoever measures how long opening takes.
performance.mark("codehub-ready");
await editor.restore();
git.look();
if (narrow.matches && !editor.active) layout.view("files");
watch();

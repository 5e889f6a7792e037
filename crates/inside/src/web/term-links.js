// Addresses and file names in what a terminal shows: Ctrl+click, or the menu, opens them.

import * as api from "./api.js";

const URL_TEXT = /https?:\/\/[^\s'"<>`|\\^{}]*[^\s'"<>`|\\^{}.,;:!?)\]]/g;
/// As compilers, tests and Python's tracebacks write places.
const PLACES = [
  /File "(?<path>[^"]+)", line (?<line>\d+)/g,
  /(?<path>(?:~\/|\.{0,2}\/)?[\p{L}\p{N}_.@+-]+(?:\/[\p{L}\p{N}_.@+-]+)*)(?::(?<line>\d+)(?::(?<col>\d+))?|\((?<line2>\d+)(?:,(?<col2>\d+))?\))?/gu,
];

/// What is written at a point of the screen: { url } or { path, line, col }, or null.
export function linkAt(x, y) {
  const place = document.caretPositionFromPoint?.(x, y);
  const range = place ? null : document.caretRangeFromPoint?.(x, y);
  const [node, offset] = place ? [place.offsetNode, place.offset] : [range?.startContainer, range?.startOffset];
  const row = (node?.nodeType === Node.TEXT_NODE ? node.parentElement : node)?.closest?.(".row-line");
  if (!row) return null;
  const before = document.createRange();
  before.setStart(row, 0);
  before.setEnd(node, offset);
  let column = before.toString().length;
  let text = row.textContent;
  // A long line goes on in the next row.
  for (let at = row; at.previousElementSibling?.classList.contains("wrapped");) {
    at = at.previousElementSibling;
    text = at.textContent + text;
    column += at.textContent.length;
  }
  for (let at = row; at.classList.contains("wrapped") && at.nextElementSibling;) {
    at = at.nextElementSibling;
    text += at.textContent;
  }
  const hit = (pattern) => [...text.matchAll(pattern)].find((found) => column >= found.index && column <= found.index + found[0].length);
  const url = hit(URL_TEXT);
  if (url) return { url: url[0] };
  for (const pattern of PLACES) {
    const found = hit(pattern)?.groups;
    // A word is a file's name only if it looks like one.
    if (found && /[./]|:\d/.test(`${found.path}${found.line ? `:${found.line}` : ""}`) && /[^.\/]/.test(found.path)) {
      return { path: found.path, line: Number(found.line ?? found.line2 ?? 0) || null, col: Number(found.col ?? found.col2 ?? 1) };
    }
  }
  return null;
}

/// What names the workspace's own machine leads to the port's address, where workspaces have names and ports have addresses.
export function seenFromHere(url) {
  const at = URL.canParse(url) ? new URL(url) : null;
  const inside = at?.protocol === "http:" && ["localhost", "127.0.0.1", "0.0.0.0", "[::1]", "[::]"].includes(at.hostname);
  if (!inside || !/^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\./.test(location.hostname)) return url;
  return `${location.protocol}//${at.port || 80}-${location.host}${at.pathname}${at.search}${at.hash}`;
}

/// The encoded path of a file that a terminal's text names; null where there is no such file in the home.
export async function fileOf(terminal, written) {
  const { folder, home } = await api.terminal(terminal);
  let path;
  if (written.startsWith("~/")) path = api.encode(written.slice(2));
  else if (written.startsWith("/")) path = written.startsWith(`${home}/`) ? api.encode(written.slice(home.length)) : null;
  else path = folder === null ? null : api.resolve(folder, written.replaceAll("%", "%25"));
  if (!path) return null;
  return api.stat(path).then(({ kind }) => (kind === "file" ? path : null), () => null);
}

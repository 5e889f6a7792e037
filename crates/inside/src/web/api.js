// The file interface of the server. Paths are encoded part by part and joined
// by "/", exactly as the server hands them out; "" is the home directory.

import { t } from "./i18n.js";

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function request(method, url, options = {}) {
  let response;
  try {
    response = await fetch(url, { method, credentials: "same-origin", ...options });
  } catch {
    throw new ApiError(0, "NETWORK", t("network"));
  }
  if (response.ok) return response;
  throw await failure(response.status, () => response.json());
}

export async function failure(status, json) {
  try {
    const { error } = await json();
    return new ApiError(status, error.code, error.message);
  } catch {
    return new ApiError(status, "HTTP", `HTTP ${status}`);
  }
}

const at = (name, path) => `api/${name}?path=${path}`;

export const info = async () => (await request("GET", "api/info")).json();
export const list = async (path) => (await request("GET", at("tree", path))).json();
export const terminal = async (id) => (await request("GET", `api/terminal?id=${id}`)).json();
export const stat = async (path) => (await request("GET", at("stat", path))).json();
export const mkdir = (path) => request("POST", at("mkdir", path));
export const rename = (path, to) => request("POST", `${at("rename", path)}&to=${to}`);
export const copy = (path, to) => request("POST", `${at("copy", path)}&to=${to}`);
export const remove = (path) => request("DELETE", at("file", path));
export const downloadUrl = (path) => at("download", path);
export const zipUrl = (path) => `${at("download", path)}&as=zip`;
/// An image or a PDF, to be shown.
export const inlineUrl = (path) => `${at("download", path)}&inline=1`;

const post = (url, body, options = {}) =>
  request("POST", url, { headers: { "content-type": "application/json" }, body: JSON.stringify(body), ...options });

/// Calls `found` with each file that has matches, and resolves to what the server says at the end; null when it said
/// nothing, as when the connection broke.
export async function search(query, found, signal) {
  const response = await post("api/search", query, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return null;
    const lines = (text + value).split("\n");
    text = lines.pop();
    for (const line of lines) {
      const message = JSON.parse(line);
      if (message.done) return message.done;
      found(message);
    }
  }
}
export const replace = async (request) => (await post("api/replace", request)).json();
export const findFiles = async (typed, signal) => (await request("GET", `api/find?q=${encodeURIComponent(typed)}`, { signal })).json();

/// A part of a file as bytes, and the size of all of it.
export async function bytes(path, from, count) {
  const response = await request("GET", at("download", path), { headers: { range: `bytes=${from}-${from + count - 1}` }, cache: "no-store" });
  const size = Number(/\/(\d+)$/.exec(response.headers.get("content-range") ?? "")?.[1] ?? response.headers.get("content-length"));
  return { bytes: new Uint8Array(await response.arrayBuffer()), size };
}

export const git = {
  repositories: async () => (await (await request("GET", "api/git/repositories")).json()).repositories,
  status: async (path) => (await request("GET", at("git/status", path))).json(),
  file: async (path, from) => {
    const response = await request("GET", `${at("git/file", path)}&at=${from}`, { cache: "no-store" });
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await response.arrayBuffer());
  },
  change: (what, repository, paths) => post(`api/git/${what}`, { repository, paths }),
  commit: async (repository, message) => (await post("api/git/commit", { repository, message })).json(),
};

export async function read(path) {
  const response = await request("GET", at("file", path), { cache: "no-store" });
  // Not text(): that would drop a byte order mark, and saving would lose it.
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(await response.arrayBuffer());
  return { text, version: response.headers.get("etag")?.replaceAll('"', "") };
}

/// `condition` is { version }, { create: true } or {} for "whatever is there".
export async function save(path, text, condition) {
  const headers = { "content-type": "application/octet-stream", ...conditions(condition) };
  return (await request("PUT", at("file", path), { headers, body: text })).json();
}

/// Like save, for files of any size, with progress from 0 to 1.
export function upload(path, file, condition, onprogress) {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open("PUT", at("file", path));
    xhr.setRequestHeader("content-type", "application/octet-stream");
    for (const [name, value] of Object.entries(conditions(condition))) xhr.setRequestHeader(name, value);
    xhr.upload.onprogress = (event) => event.lengthComputable && onprogress(event.loaded / event.total);
    xhr.onload = async () => {
      if (xhr.status < 300) resolve(JSON.parse(xhr.responseText));
      else reject(await failure(xhr.status, async () => JSON.parse(xhr.responseText)));
    };
    xhr.onerror = () => reject(new ApiError(0, "NETWORK", t("network")));
    xhr.onabort = xhr.onerror;
    xhr.send(file);
  });
}

function conditions({ version, create }) {
  if (version) return { "if-match": `"${version}"` };
  return create ? { "if-none-match": "*" } : {};
}

export const join = (dir, name) => (dir ? `${dir}/${name}` : name);
export const parent = (path) => path.split("/").slice(0, -1).join("/");
export const base = (path) => path.split("/").at(-1);

/// The path of `target`, as a link in the folder `dir` writes it; null where it leaves the home.
export function resolve(dir, target) {
  const parts = target.startsWith("/") ? [] : dir.split("/").filter(Boolean);
  const clean = target.split(/[?#]/, 1)[0];
  for (const part of clean.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") parts.push(encodeURIComponent(safely(part)));
    else if (parts.pop() === undefined) return null;
  }
  return parts.join("/");
}

function safely(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/// The encoded form of a path that a person would write.
export const encode = (path) => path.split("/").filter(Boolean).map(encodeURIComponent).join("/");

/// For people. Names that are not UTF-8 show replacement characters.
export function shown(path) {
  const bytes = [];
  for (let i = 0; i < path.length; i++) {
    if (path[i] === "%") {
      bytes.push(Number.parseInt(path.slice(i + 1, i + 3), 16));
      i += 2;
    } else {
      bytes.push(path.charCodeAt(i));
    }
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

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
export const stat = async (path) => (await request("GET", at("stat", path))).json();
export const mkdir = (path) => request("POST", at("mkdir", path));
export const rename = (path, to) => request("POST", `${at("rename", path)}&to=${to}`);
export const remove = (path) => request("DELETE", at("file", path));
export const downloadUrl = (path) => at("download", path);
export const imageUrl = (path) => `${at("download", path)}&inline=image`;

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

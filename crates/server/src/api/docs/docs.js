// Draws the OpenAPI document as a page. Everything is put in as text, never as markup.
"use strict";

const METHODS = ["get", "post", "patch", "put", "delete"];

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
}

const nameOf = (ref) => ref.split("/").pop();

// `words` and paragraphs, as the descriptions use them.
function prose(text) {
  return (text || "").split("\n\n").filter(Boolean).map((paragraph) =>
    el("p", {}, paragraph.split(/(`[^`]+`)/).map((part) =>
      part.startsWith("`") ? el("code", {}, part.slice(1, -1)) : part)));
}

// A schema in a few words, with a link where it has a name.
function shape(schema) {
  if (!schema) return "";
  if (schema.$ref) { const name = nameOf(schema.$ref); return el("a", { href: "#schema-" + name }, name); }
  const many = schema.oneOf || schema.anyOf || schema.allOf;
  if (many) return el("span", {}, many.flatMap((one, i) => (i ? [" or ", shape(one)] : [shape(one)])));
  if (schema.enum) return schema.enum.join(" | ");
  const type = [].concat(schema.type || "object");
  if (type.includes("array")) return el("span", {}, "list of ", shape(schema.items));
  if (schema.additionalProperties && schema.additionalProperties !== true)
    return el("span", {}, "map of ", shape(schema.additionalProperties));
  return type.join(" or ") + (schema.format ? " (" + schema.format + ")" : "");
}

function table(heads, rows) {
  return el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", {}, head)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell))))));
}

function fields(schema) {
  const required = new Set(schema.required || []);
  const rows = Object.entries(schema.properties || {}).map(([name, property]) =>
    [el("code", {}, name + (required.has(name) ? "" : "?")), shape(property), prose(property.description)]);
  return rows.length ? table(["field", "type", "description"], rows) : el("p", {}, shape(schema));
}

function contentOf(content) {
  const [type, media] = Object.entries(content || {})[0] || [];
  return type ? [shape(media.schema), type === "application/json" ? "" : " as " + type] : "";
}

function operation(path, method, op, schemas) {
  const body = el("div", { class: "body" }, prose(op.description));
  if (op.parameters && op.parameters.length)
    body.append(el("h3", {}, "Parameters"), table(["name", "in", "type", "description"], op.parameters.map((p) =>
      [el("code", {}, p.name + (p.required ? "" : "?")), p.in, shape(p.schema), prose(p.description)])));
  if (op.requestBody) {
    const schema = (Object.values(op.requestBody.content)[0] || {}).schema || {};
    const known = schema.$ref ? schemas[nameOf(schema.$ref)] : schema;
    body.append(el("h3", {}, "Body"), fields(known || {}));
    if (known && known.example) body.append(el("pre", {}, JSON.stringify(known.example, null, 2)));
  }
  body.append(el("h3", {}, "Answers"), table(["status", "meaning", "body"],
    Object.entries(op.responses || {}).map(([status, r]) => [status, prose(r.description), contentOf(r.content)])));
  body.append(tryIt(path, method, op, schemas));
  const details = el("details", { id: method + path, "data-text": (method + " " + path + " " + (op.summary || "")).toLowerCase() },
    el("summary", {}, el("span", { class: "method " + method }, method), el("code", {}, path),
      el("span", { class: "text" }, op.summary || "")), body);
  return details;
}

// Sends the request for real, with the session of whoever looks at this page.
function tryIt(path, method, op, schemas) {
  const form = el("form", { class: "try" }, el("h3", {}, "Try it"));
  const field = (name, label, input) => {
    input.setAttribute("name", name);
    form.append(el("label", {}, el("span", {}, label), input));
    return input;
  };
  const inputs = (op.parameters || []).filter((p) => p.in === "path" || p.in === "query").map((p) =>
    [p, field(p.name, p.name + (p.required ? "" : " (optional)"), el("input", p.required ? { required: "" } : {}))]);
  let text;
  if (op.requestBody) {
    const schema = (Object.values(op.requestBody.content)[0] || {}).schema || {};
    const known = schema.$ref ? schemas[nameOf(schema.$ref)] : schema;
    text = field("body", "body (JSON)", el("textarea", { rows: "5", spellcheck: "false" }));
    text.value = known && known.example ? JSON.stringify(known.example, null, 2) : "{}";
  }
  const note = "Uses your session" + (method === "get" ? "." : " and really does it.");
  const answer = el("pre", { hidden: "", tabindex: "0", "aria-live": "polite" });
  form.append(el("p", {}, el("button", {}, "Send request"), " ", el("small", {}, note)), answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const query = new URLSearchParams();
    let url = path;
    for (const [p, input] of inputs) {
      if (p.in === "path") url = url.replace("{" + p.name + "}", encodeURIComponent(input.value));
      else if (input.value) query.set(p.name, input.value);
    }
    const options = { method: method.toUpperCase(), headers: { accept: "application/json" } };
    if (text) Object.assign(options, { body: text.value, headers: { accept: "application/json", "content-type": "application/json" } });
    answer.hidden = false;
    answer.textContent = "…";
    const most = 100_000;
    const stop = new AbortController();
    try {
      const response = await fetch(url + (query.size ? "?" + query : ""), { ...options, signal: stop.signal });
      answer.textContent = response.status + " " + response.statusText + "\n";
      const reader = response.body ? response.body.pipeThrough(new TextDecoderStream()).getReader() : null;
      let said = "";
      // What never ends is read for a moment.
      const end = setTimeout(() => stop.abort(), 5000);
      for (let part = reader && await reader.read(); part && !part.done && said.length < most; part = await reader.read()) {
        said += part.value;
        answer.textContent = response.status + " " + response.statusText + "\n" + said.slice(0, most);
      }
      clearTimeout(end);
      try { said = JSON.stringify(JSON.parse(said), null, 2); } catch { /* not JSON: shown as it is */ }
      answer.textContent = response.status + " " + response.statusText + "\n" + said.slice(0, most);
    } catch (error) {
      if (error.name !== "AbortError") answer.textContent += String(error);
    }
  });
  return form;
}

function draw(doc) {
  const schemas = (doc.components || {}).schemas || {};
  document.getElementById("version").textContent = doc.info.version;
  const main = document.getElementById("main");
  const contents = document.getElementById("contents");
  main.replaceChildren(...prose(doc.info.description));
  main.append(el("p", {}, el("a", { href: "/api/v1/openapi.json" }, "openapi.json")));
  for (const tag of doc.tags || []) {
    const section = el("section", { id: "tag-" + tag.name }, el("h2", {}, tag.name), prose(tag.description));
    for (const [path, item] of Object.entries(doc.paths))
      for (const method of METHODS)
        if (item[method] && (item[method].tags || []).includes(tag.name))
          section.append(operation(path, method, item[method], schemas));
    main.append(section);
    contents.append(el("a", { href: "#tag-" + tag.name }, tag.name));
  }
  const section = el("section", { id: "schemas" }, el("h2", {}, "schemas"));
  for (const [name, schema] of Object.entries(schemas))
    section.append(el("details", { id: "schema-" + name, "data-text": name.toLowerCase() },
      el("summary", {}, el("code", {}, name)), el("div", { class: "body" }, prose(schema.description), fields(schema))));
  main.append(section);
  contents.append(el("a", { href: "#schemas" }, "schemas"));
  openTarget();
}

// A link to something folded away unfolds it.
function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") { target.open = true; target.scrollIntoView(); }
}

window.addEventListener("hashchange", openTarget);
document.getElementById("filter").addEventListener("input", (event) => {
  const wanted = event.target.value.trim().toLowerCase();
  for (const details of document.querySelectorAll("details"))
    details.hidden = !details.dataset.text.includes(wanted);
});

fetch("/api/v1/openapi.json")
  .then((response) => { if (!response.ok) throw new Error("status " + response.status); return response.json(); })
  .then(draw)
  .catch((error) => { document.getElementById("status").textContent = "The OpenAPI document could not be loaded: " + error.message; });

// Markdown as elements. Every piece of text becomes a text node and every element is made here, so nothing a file
// contains can run or load: HTML in it is shown as it is written, and images of other servers are links.

import { h } from "./dom.js";

const FENCE = /^(\s*)(`{3,}|~{3,})\s*([\w+-]*)/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const RULE = /^\s{0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const TABLE_LINE = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const DEEPEST = 12;

/// `links` has image(target), an address or null, and open(target) for links to files.
export function markdown(text, links) {
  const root = h("div", { class: "markdown" });
  root.append(...blocks(text.replaceAll("\r", "").split("\n"), links, 0));
  return root;
}

function blocks(lines, links, depth) {
  const out = [];
  let at = 0;
  const collect = (test) => {
    const from = at;
    while (at < lines.length && test(lines[at])) at++;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    const heading = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$/.exec(line);
    if (!line.trim()) at++;
    else if (fence) {
      at++;
      const code = collect((next) => !(next.trim().startsWith(fence[2]) && !next.trim().slice(fence[2].length).trim()));
      at++;
      out.push(h("pre", {}, h("code", {}, code.join("\n"))));
    } else if (heading) {
      at++;
      out.push(title(heading[1].length, inline(heading[2], links)));
    } else if (RULE.test(line)) {
      at++;
      out.push(h("hr"));
    } else if (/^\s{0,3}>/.test(line)) {
      const inner = collect((next) => /^\s{0,3}>/.test(next)).map((next) => next.replace(/^\s{0,3}> ?/, ""));
      out.push(h("blockquote", {}, ...nested(inner, links, depth)));
    } else if (ITEM.test(line)) out.push(list());
    else if (/^(?: {4}|\t)/.test(line)) {
      const code = collect((next) => /^(?: {4}|\t)/.test(next)).map((next) => next.replace(/^(?: {4}|\t)/, ""));
      out.push(h("pre", {}, h("code", {}, code.join("\n"))));
    } else if (line.includes("|") && TABLE_LINE.test(lines[at + 1] ?? "") && lines[at + 1].includes("-")) out.push(table());
    else {
      const first = at;
      const paragraph = collect((next) => next.trim() && (at === first || !starts(next)) && !/^\s{0,3}(?:=+|-+)\s*$/.test(next));
      const under = /^\s{0,3}(=+|-+)\s*$/.exec(lines[at] ?? "");
      if (under && paragraph.length) at++;
      const content = inline(paragraph.join("\n"), links);
      out.push(under && paragraph.length ? title(under[1][0] === "=" ? 1 : 2, content) : h("p", {}, ...content));
      if (!paragraph.length) at++;
    }
  }
  return out;

  function starts(next) {
    return FENCE.test(next) || /^\s{0,3}(?:#{1,6}\s|>)/.test(next) || ITEM.test(next);
  }

  function list() {
    const [, indent, mark] = ITEM.exec(lines[at]);
    const ordered = /\d/.test(mark);
    const element = h(ordered ? "ol" : "ul", { start: ordered && parseInt(mark, 10) !== 1 ? parseInt(mark, 10) : null });
    while (at < lines.length) {
      const item = ITEM.exec(lines[at]);
      if (!item || item[1].length > indent.length + 1 || item[1].length < indent.length || /\d/.test(item[2]) !== ordered) break;
      at++;
      const width = item[1].length + item[2].length + 1;
      const inner = [item[3]];
      while (at < lines.length) {
        const next = lines[at];
        const deeper = /^\s*/.exec(next)[0].length >= Math.min(width, indent.length + 2);
        if (next.trim() ? !deeper && (ITEM.test(next) || starts(next) || !lines[at - 1].trim()) : !/^\s+\S/.test(lines[at + 1] ?? "")) break;
        inner.push(next.slice(Math.min(width, /^\s*/.exec(next)[0].length)));
        at++;
      }
      if (!lines[at]?.trim() && ITEM.exec(lines[at + 1] ?? "")?.[1].length === indent.length) at++;
      element.append(listItem(inner));
    }
    return element;
  }

  function listItem(inner) {
    const task = /^\[([ xX])\]\s+(.*)$/.exec(inner[0]);
    if (task) inner[0] = task[2];
    const content = nested(inner, links, depth);
    // A short item needs no paragraph around it.
    const flat = content[0]?.tagName === "P" ? [...content[0].childNodes, ...content.slice(1)] : content;
    const box = task ? h("input", { type: "checkbox", disabled: true, checked: task[1] !== " ", "aria-label": task[2] }) : null;
    return h("li", { class: task ? "task" : "" }, box, ...flat);
  }

  function table() {
    const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
    const head = cells(lines[at]);
    at += 2;
    const rows = collect((next) => next.includes("|") && next.trim()).map(cells);
    return h("table", {}, h("thead", {}, h("tr", {}, ...head.map((cell) => h("th", {}, ...inline(cell, links))))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, ...head.map((_, n) => h("td", {}, ...inline(row[n] ?? "", links)))))));
  }
}

/// The page has a first heading of its own, so those of the text come below it.
const title = (level, content) => h(`h${Math.min(level + 1, 6)}`, { class: `title-${level}` }, ...content);

const nested = (lines, links, depth) => (depth < DEEPEST ? blocks(lines, links, depth + 1) : [lines.join("\n")]);

const INLINE = new RegExp([
  /(?<code>(?<tick>`+)(?<inner>.+?)(?<!`)\k<tick>(?!`))/,
  /!\[(?<alt>[^\]]*)\]\(\s*<?(?<src>[^\s)>]+)>?[^)]*\)/,
  /\[(?<label>(?:[^[\]]|\[[^\]]*\])*)\]\(\s*<?(?<href>[^\s)>]+)>?[^)]*\)/,
  /<(?<auto>https?:\/\/[^\s>]+)>/,
  /(?<bare>https?:\/\/[^\s<>)\]]*[^\s<>)\].,;:!?'"])/,
  /(?<strong>\*\*(?=\S)(?<strongText>.+?)\*\*|__(?=\S)(?<strongText2>.+?)__)/,
  /(?<em>\*(?=[^\s*])(?<emText>[^*]+?)\*|(?<![\w])_(?=[^\s_])(?<emText2>[^_]+?)_(?!\w))/,
  /(?<strike>~~(?<strikeText>.+?)~~)/,
  /(?<break> {2,}\n|\\\n)/,
  /\\(?<escaped>[\\`*_{}[\]()#+.!|~>-])/,
].map((part) => part.source).join("|"), "gs");

function inline(text, links, depth = 0) {
  if (depth > 6) return [text];
  const out = [];
  let at = 0;
  const inner = (part) => inline(part, links, depth + 1);
  for (const found of text.matchAll(INLINE)) {
    const g = found.groups;
    if (found.index > at) out.push(text.slice(at, found.index));
    at = found.index + found[0].length;
    if (g.code) out.push(h("code", {}, g.inner.replaceAll("\n", " ").trim() || g.inner));
    else if (g.src !== undefined) out.push(image(g.alt, g.src, links));
    else if (g.href !== undefined) out.push(link(inner(g.label), g.href, links));
    else if (g.auto ?? g.bare) out.push(link([g.auto ?? g.bare], g.auto ?? g.bare, links));
    else if (g.strong) out.push(h("strong", {}, ...inner(g.strongText ?? g.strongText2)));
    else if (g.em) out.push(h("em", {}, ...inner(g.emText ?? g.emText2)));
    else if (g.strike) out.push(h("del", {}, ...inner(g.strikeText)));
    else if (g.break) out.push(h("br"));
    else out.push(g.escaped);
  }
  out.push(text.slice(at));
  return out.filter((part) => part !== "");
}

function image(alt, target, links) {
  const address = links.image(target);
  return address ? h("img", { src: address, alt }) : link([alt || target], target, links);
}

function link(content, target, links) {
  if (/^(?:https?|mailto):/i.test(target)) return h("a", { href: target, target: "_blank", rel: "noopener noreferrer" }, ...content);
  // Whatever else has a scheme could be code.
  if (/^[a-z][a-z0-9+.-]*:|^\/\/|^#/i.test(target)) return h("span", {}, ...content);
  return h("a", {
    href: "#", onclick: (event) => {
      event.preventDefault();
      links.open(target);
    },
  }, ...content);
}

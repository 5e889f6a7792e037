// Small helpers over the DOM. Text is always set as text, never as markup.

import { icon } from "./icons.js";
import { t } from "./i18n.js";

export const $ = (id) => document.getElementById(id);

/// Builds an element: h("button", { class: "x", onclick: f, "aria-label": "…" }, child, "text").
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "dataset") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function iconButton(name, label, onclick, props = {}) {
  return h("button", {
    type: "button", class: "icon-button", title: label, "aria-label": label, onclick, ...props,
  }, icon(name));
}

/// Fills in icons and words for the static part of the page.
export function dress(root) {
  for (const element of root.querySelectorAll("[data-icon], [data-text], [data-label]")) {
    const { icon: name, text, label } = element.dataset;
    if (name) element.append(icon(name));
    if (text) element.append(h("span", {}, t(text)));
    if (label) {
      element.setAttribute("aria-label", t(label));
      if (element.tagName === "BUTTON") element.title = t(label);
    }
  }
}

/// Moves focus among siblings with the arrow keys, as toolbars and tab lists do.
export function arrowKeys(container, selector, onmove) {
  container.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const edge = { Home: 0, End: -1 }[event.key];
    if (step === undefined && edge === undefined) return;
    const items = [...container.querySelectorAll(selector)];
    const at = items.indexOf(document.activeElement);
    if (at < 0) return;
    event.preventDefault();
    const next = edge === undefined ? items[(at + step + items.length) % items.length] : items.at(edge);
    next.focus();
    onmove?.(next);
  });
}

/// Remembers small things between visits; works without storage too.
const remembering = (prefix) => ({
  get(key, fallback) {
    try {
      return JSON.parse(localStorage.getItem(prefix + key)) ?? fallback;
    } catch {
      return fallback;
    }
  },
  set(key, value) {
    try {
      localStorage.setItem(prefix + key, JSON.stringify(value));
    } catch { /* storage is off or full: nothing is lost but comfort */ }
  },
});
/// Of this workspace.
export const memory = remembering(`codehub-ide:${location.pathname}:`);
/// Of this person, in every workspace.
export const preference = remembering("codehub-ide:");

export const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
/// Whether colours are for a dark background: as chosen on the dashboard, else as the system says.
export const dark = {
  get matches() {
    const { theme } = document.documentElement.dataset;
    return theme === "dark" || (theme !== "light" && darkSystem.matches);
  },
  addEventListener: (...listener) => darkSystem.addEventListener(...listener),
};
export const narrow = matchMedia("(max-width: 760px)");

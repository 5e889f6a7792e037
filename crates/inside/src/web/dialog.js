// Questions, menus and passing messages. Dialogs are <dialog> elements, so the
// browser keeps focus inside and Escape closes them.

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { t } from "./i18n.js";

function show(dialog) {
  const before = document.activeElement;
  document.body.append(dialog);
  dialog.showModal();
  dialog.addEventListener("close", () => {
    dialog.remove();
    before?.focus?.();
  });
}

/// Asks to choose; resolves to the chosen value, or null when dismissed.
/// `choices` are [value, label, kind] with kind "primary", "danger" or nothing.
export function choose(title, text, choices) {
  return new Promise((resolve) => {
    let answer = null;
    const buttons = choices.map(([value, label, kind]) => h("button", {
      type: "button",
      class: `button ${kind ?? ""}`,
      "data-testid": `choose-${value}`,
      onclick: () => {
        answer = value;
        dialog.close();
      },
    }, label));
    const dialog = h("dialog", { class: "dialog", "aria-label": title, "data-testid": "dialog" },
      h("h3", {}, title), text ? h("p", {}, text) : null, h("div", { class: "dialog-buttons" }, ...buttons));
    dialog.addEventListener("close", () => resolve(answer));
    show(dialog);
    buttons.at(-1).focus();
  });
}

export const confirm = async (title, text, label) =>
  (await choose(title, text, [["cancel", t("cancel")], ["ok", label, "danger"]])) === "ok";

/// Asks for a file name; `check` is called with it and may throw, which keeps
/// the dialog open with the reason. Resolves to the name or null.
export function askName(title, hint, initial, action, attempt) {
  return new Promise((resolve) => {
    let answer = null;
    const error = h("p", { class: "dialog-error", role: "alert" });
    const input = h("input", {
      type: "text", value: initial, spellcheck: "false", autocomplete: "off", autocapitalize: "off",
      "aria-label": t("name"), "data-testid": "name-input",
    });
    const submit = h("button", { type: "submit", class: "button primary", "data-testid": "name-ok" }, action);
    const form = h("form", {
      onsubmit: async (event) => {
        event.preventDefault();
        const name = input.value.trim();
        if (!name || name === "." || name === ".." || name.includes("/")) {
          error.textContent = t("badName");
          return;
        }
        submit.disabled = true;
        try {
          await attempt(name);
          answer = name;
          dialog.close();
        } catch (problem) {
          error.textContent = problem.message;
        } finally {
          submit.disabled = false;
        }
      },
    }, h("h3", {}, title), h("label", {}, h("span", { class: "hint" }, hint), input), error,
      h("div", { class: "dialog-buttons" },
        h("button", { type: "button", class: "button", onclick: () => dialog.close() }, t("cancel")), submit));
    const dialog = h("dialog", { class: "dialog", "aria-label": title, "data-testid": "dialog" }, form);
    dialog.addEventListener("close", () => resolve(answer));
    show(dialog);
    input.focus();
    const dot = initial.lastIndexOf(".");
    input.setSelectionRange(0, dot > 0 ? dot : initial.length);
  });
}

/// A menu at a point; `items` are [icon, label, action, testid], null a line.
export function menu(x, y, items, opener) {
  const list = h("div", { class: "menu", role: "menu", "data-testid": "menu" });
  const close = (refocus) => {
    list.remove();
    removeEventListener("pointerdown", outside, true);
    removeEventListener("blur", away);
    if (refocus) opener?.focus();
  };
  const outside = (event) => list.contains(event.target) || close(false);
  const away = () => close(false);
  for (const item of items) {
    if (!item) {
      list.append(h("hr"));
      continue;
    }
    const [name, label, action, testid] = item;
    list.append(h("button", {
      type: "button", role: "menuitem", tabindex: "-1", "data-testid": testid,
      onclick: () => {
        close(true);
        action();
      },
    }, icon(name), label));
  }
  list.addEventListener("keydown", (event) => {
    const buttons = [...list.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    if (event.key === "ArrowDown") buttons[(at + 1) % buttons.length].focus();
    else if (event.key === "ArrowUp") buttons.at(at - 1).focus();
    else if (event.key === "Escape" || event.key === "Tab") close(true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  document.body.append(list);
  const box = list.getBoundingClientRect();
  list.style.left = `${Math.max(4, Math.min(x, innerWidth - box.width - 4))}px`;
  list.style.top = `${Math.max(4, Math.min(y, innerHeight - box.height - 4))}px`;
  list.querySelector("button").focus();
  addEventListener("pointerdown", outside, true);
  addEventListener("blur", away);
}

/// Takes away the messages about something that is over.
export function dismiss(about) {
  for (const item of document.querySelectorAll(`.toast[data-about="${about}"]`)) item.remove();
}

/// A message with something to do about it: `actions` are [label, action, testid, kind]. It stays for a while.
export function offer(text, actions, about) {
  dismiss(about);
  const close = () => item.remove();
  const buttons = actions.map(([label, action, testid, kind]) => h("button", {
    type: "button", class: `button small ${kind ?? ""}`, "data-testid": testid,
    onclick: () => {
      close();
      action();
    },
  }, label));
  const item = h("div", { class: "toast offer", "data-testid": "offer", "data-about": about },
    h("span", {}, text),
    h("button", { type: "button", class: "icon-button", "aria-label": t("close"), onclick: close }, icon("close")),
    h("div", { class: "offer-buttons" }, ...buttons));
  document.getElementById("toasts").append(item);
  setTimeout(close, 30000);
}

/// A message that passes by; problems stay longer. `about` is what `dismiss` knows it by.
export function toast(text, problem = false, about = null) {
  const close = () => item.remove();
  const item = h("div", { class: `toast ${problem ? "problem" : ""}`, "data-testid": "toast", "data-about": about },
    icon(problem ? "warning" : "check"), h("span", {}, text),
    h("button", { type: "button", class: "icon-button", "aria-label": t("close"), onclick: close }, icon("close")));
  document.getElementById("toasts").append(item);
  setTimeout(close, problem ? 10000 : 3000);
}

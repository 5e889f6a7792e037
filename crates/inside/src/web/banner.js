// The line below the top: what is wrong with the connection and what to do about it, and the word before the
// workspace sleeps.

import { toast } from "./dialog.js";
import { $, h } from "./dom.js";
import { errorText, language, t } from "./i18n.js";

const ahead = new Intl.RelativeTimeFormat(language, { numeric: "always" });
const rightNow = new Intl.RelativeTimeFormat(language, { numeric: "auto" }).format(0, "second");

export class Banner {
  #waking = false;
  #problem = null;
  #shown = "";
  #tick = 0;
  #before = null;
  #pressed = false;

  /// `unsaved()` names the sentence about what is not saved: "draftsKept", "draftsNotKept", or null.
  constructor(socket, workspace, unsaved) {
    this.socket = socket;
    this.workspace = workspace;
    this.unsaved = unsaved;
    this.element = $("banner");
    this.dashboard = null;
    addEventListener("focusin", ({ target }) => {
      if (!this.element.contains(target)) this.#before = target;
    });
    // A button that is replaced between press and release is not clicked.
    this.element.addEventListener("pointerdown", (event) => (this.#pressed = event.button === 0));
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => this.#pressed && setTimeout(() => this.#released()), true);
  }

  /// Something changed: the connection, the workspace, or time.
  refresh() {
    if (this.#pressed) return;
    clearTimeout(this.#tick);
    const { state } = this.socket;
    if (state === "open") this.#problem = null;
    if (this.#waking) this.#show("waking", t("waking"));
    else if (state === "open") this.#warn();
    else if (this.#problem) this.#show("problem", errorText(this.#problem), ...this.#wayOut(this.#problem.code));
    else if (state !== "connecting" || !this.element.hidden) this.#explain();
  }

  #released() {
    this.#pressed = false;
    this.refresh();
  }

  /// Why there is no connection: the workspace is asleep (asking does not wake it), or the network is gone.
  #explain() {
    const { state } = this.workspace;
    if (state === "asleep" || state === "stopping") {
      const drafts = this.unsaved();
      const kept = drafts ? ` ${t(drafts)}` : "";
      this.#show(state + kept, t(state === "asleep" ? "asleep" : "stopping") + kept, this.#button(t("wake"), () => this.#wake(), "wake"));
    } else if (["starting", "restoring"].includes(state)) this.#show(state, t("waking"));
    else if (["archived", "archiving", "not_started", "broken", "gone"].includes(state)) {
      this.#show(state, t(`is_${state}`), this.#link());
    } else if (state === "signed_out") {
      this.#show(state, t("signedOut"), this.#button(t("retry"), () => this.#again(), "retry"));
    } else {
      const often = this.socket.state === "down";
      this.#show(`lost ${often}`, t(often ? "lostOften" : "lost"), this.#button(t("retry"), () => this.#again(), "retry"));
    }
  }

  #warn() {
    const seconds = this.workspace.secondsLeft();
    if (seconds === null) {
      this.element.hidden = true;
      this.#shown = "";
      return;
    }
    const text = t("sleepsSoon", { when: seconds ? ahead.format(seconds, "second") : rightNow });
    if (this.#shown === "warning") {
      this.element.firstChild.textContent = text;
    } else {
      this.#show("warning", text, this.#button(t("keepAwake"), () => this.#keepAwake(), "keep-awake"));
      // Said once, not every second.
      this.element.firstChild.setAttribute("aria-live", "off");
    }
    this.#tick = setTimeout(() => this.refresh(), 250);
  }

  #show(what, text, ...buttons) {
    this.element.hidden = false;
    if (this.#shown === what) return;
    this.#shown = what;
    this.element.dataset.shows = what.split(" ")[0];
    this.element.replaceChildren(h("span", { "data-testid": "banner-text" }, text), ...buttons.filter(Boolean));
  }

  /// Pressing it gives the focus back to where it was: the button goes, and the person was typing.
  #button(label, action, testid) {
    const onclick = () => {
      this.#before?.focus({ preventScroll: true });
      action();
    };
    return h("button", { type: "button", class: "button small", "data-testid": testid, onclick }, label);
  }

  #link() {
    return this.dashboard && h("a", { class: "button small", href: this.dashboard, "data-testid": "banner-dashboard" }, t("openDashboard"));
  }

  /// What helps where waking did not.
  #wayOut(code) {
    const again = this.#button(t("retry"), () => this.#wake(), "wake");
    return ["ARCHIVED", "NOT_STARTED", "BROKEN", "LIMIT_REACHED", "NOT_FOUND"].includes(code) ? [this.#link(), again] : [again];
  }

  #again() {
    this.workspace.listen();
    this.socket.poke();
  }

  /// In place: the page, and everything typed in it, stays.
  async #wake() {
    this.#waking = true;
    this.#problem = null;
    this.refresh();
    try {
      await this.workspace.wake();
    } catch (error) {
      this.#problem = error;
    }
    this.#waking = false;
    this.#again();
    this.refresh();
  }

  async #keepAwake() {
    try {
      await this.workspace.keepAwake();
      toast(t("keptAwake"));
    } catch (error) {
      toast(errorText(error), true);
    }
  }
}

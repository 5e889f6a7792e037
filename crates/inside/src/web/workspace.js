// The workspace around this page: does it run, when will it sleep, and waking it. All of it is answered below the
// page's own path by whoever stands in front of the workspace, also while the workspace itself cannot answer.
//
// The news are a stream that only the server speaks on, so an untouched page learns of the coming sleep without
// sending anything. A hidden page holds no stream: browsers have few connections per server.

import { ApiError, failure } from "./api.js";
import { t } from "./i18n.js";

const OWN = ".codehub/";
const PORTS = "event: ports\ndata: ";
const FIRST_DELAY = 1000;
const LONGEST_DELAY = 30000;
/// The server speaks at least every 25 s; after this much silence the stream is dead.
const SILENCE = 70000;
const HIDDEN_FOR = 15000;
/// How long waking may take before it counts as failed.
const WAKE_WITHIN = 180000;

export class Workspace {
  #stream = null;
  #delay = FIRST_DELAY;
  #retry = 0;
  #silence = 0;
  #hide = 0;
  #missing = false;
  #heard = false;
  #skew = 0;

  /// "running", "asleep", "starting", "stopping", "restoring", "archiving", "archived", "broken", "not_started",
  /// "gone", "signed_out", or "unknown" while nobody says.
  state = "unknown";
  ttlSeconds = 0;
  /// When it will sleep, in ms of the server's clock; only where that is near.
  stopsAt = null;

  /// `changed(workspace)` is called with all news of it, `ports(list)` with what listens in it.
  constructor(changed, ports) {
    Object.assign(this, { changed, ports });
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.#hide);
      if (document.visibilityState === "visible") this.listen();
      else this.#hide = setTimeout(() => this.#close(), HIDDEN_FOR);
    });
    addEventListener("pagehide", () => this.#close());
    addEventListener("pageshow", () => this.listen());
    addEventListener("online", () => this.listen());
    this.listen();
  }

  /// Listens now, unless it does or there is nobody to listen to.
  async listen() {
    if (this.#stream || this.#missing || document.visibilityState !== "visible") return;
    clearTimeout(this.#retry);
    const stream = new AbortController();
    this.#stream = stream;
    let signedOut = false;
    try {
      const response = await fetch(`${OWN}events?ports`, { signal: stream.signal, credentials: "same-origin", cache: "no-store" });
      // Without CodeHub in front of it, a page has no news of sleep, and needs none. With it, that is the end.
      this.#missing = response.status === 404;
      if (this.#missing && this.#heard) this.state = "gone";
      signedOut = response.status === 401;
      if (response.ok) await this.#read(response.body.pipeThrough(new TextDecoderStream()).getReader());
    } catch { /* no network, or closed by us */ }
    if (this.#stream !== stream) return;
    this.#close();
    if (this.state === "gone") this.#missing = true;
    else this.state = signedOut ? "signed_out" : "unknown";
    this.stopsAt = null;
    this.changed(this);
    // Asking again helps only after somebody has signed in.
    if (!signedOut && !this.#missing) this.#retry = setTimeout(() => this.listen(), this.#delay);
    this.#delay = Math.min(this.#delay * 2, LONGEST_DELAY);
  }

  async #read(reader) {
    let text = "";
    for (;;) {
      clearTimeout(this.#silence);
      this.#silence = setTimeout(() => this.#stream?.abort(), SILENCE);
      const { done, value } = await reader.read();
      if (done) return;
      this.#delay = FIRST_DELAY;
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) {
        if (event.startsWith("data: ")) this.#take(JSON.parse(event.slice(6)));
        else if (event.startsWith(PORTS)) this.ports(JSON.parse(event.slice(PORTS.length)));
      }
    }
  }

  /// Seconds until it sleeps, counted as the dashboard does; null where that is not near.
  secondsLeft() {
    if (this.stopsAt === null) return null;
    return Math.max(0, Math.floor(this.stopsAt / 1000) - Math.floor((Date.now() + this.#skew) / 1000));
  }

  /// Somebody has just done something here, so the sleep that was announced has moved.
  wasUsed() {
    if (this.stopsAt === null) return;
    this.stopsAt = null;
    this.changed(this);
  }

  /// Wakes it, and resolves when it runs. Rejects with an ApiError that says why not.
  async wake() {
    for (const end = Date.now() + WAKE_WITHIN; Date.now() < end;) {
      const response = await this.#post("wake");
      if (response.status !== 202) return;
      // Each question is held while it may still help; this is for one that is not.
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    throw new ApiError(0, "SLOW", t("wakeSlow"));
  }

  /// Keeps it awake for an hour. Rejects with an ApiError that says why not.
  async keepAwake() {
    await this.#post("keep-awake");
    this.wasUsed();
  }

  async #post(name) {
    let response;
    try {
      response = await fetch(OWN + name, { method: "POST", credentials: "same-origin" });
    } catch {
      throw new ApiError(0, "NETWORK", t("network"));
    }
    if (response.ok) return response;
    throw await failure(response.status, () => response.json());
  }

  #take({ state, ttl_seconds: ttl, stops_at: stopsAt, now }) {
    this.#heard = true;
    this.#skew = Date.parse(now) - Date.now();
    this.state = state;
    this.ttlSeconds = ttl;
    this.stopsAt = stopsAt ? Date.parse(stopsAt) : null;
    this.changed(this);
  }

  #close() {
    clearTimeout(this.#silence);
    clearTimeout(this.#retry);
    const stream = this.#stream;
    this.#stream = null;
    stream?.abort();
  }
}

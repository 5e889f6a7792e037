// The page's one WebSocket. Reconnects by itself, but only while somebody can
// see the page; it never sends anything to keep alive.
//
// A connection can die without a word (a laptop slept, a network changed), and
// a browser may notice only minutes later. So when something was sent and
// nothing came back for a while, it asks "are you there", once; without an
// answer it starts over. An idle page sends nothing and so asks nothing.

const FIRST_DELAY = 500;
const LONGEST_DELAY = 20000;
const GIVE_UP_AFTER = 8;
/// How long after something was sent an answer may take, in ms.
const PATIENCE = 3000;

export class Socket {
  #handlers = new Map();
  #ws = null;
  #timer = 0;
  #failures = 0;
  #doubt = 0;

  /// "connecting", "open", "lost" (trying again) or "down" (waiting for the person).
  state = "connecting";

  constructor() {
    const wake = () => document.visibilityState === "visible" && this.poke();
    document.addEventListener("visibilitychange", wake);
    addEventListener("online", wake);
    addEventListener("pageshow", wake);
    this.#connect();
  }

  on(type, handler) {
    if (!this.#handlers.has(type)) this.#handlers.set(type, []);
    this.#handlers.get(type).push(handler);
  }

  /// True when it went out. Input typed without a connection is not kept: it
  /// would run later, out of sight.
  send(message) {
    if (this.#ws?.readyState === WebSocket.OPEN) {
      this.#ws.send(JSON.stringify(message));
      if (!this.#doubt) this.#doubt = setTimeout(() => this.#probe(), PATIENCE);
      return true;
    }
    return false;
  }

  /// Somebody is here: connect now rather than at the next try.
  poke() {
    if (this.#ws) return;
    clearTimeout(this.#timer);
    this.#failures = Math.min(this.#failures, 3);
    this.#connect();
  }

  #connect() {
    const url = new URL("ws", document.baseURI);
    url.protocol = url.protocol.replace("http", "ws");
    const ws = new WebSocket(url);
    this.#ws = ws;
    ws.onopen = () => {
      this.#failures = 0;
      this.#become("open");
    };
    ws.onmessage = (event) => {
      this.#trust();
      const message = JSON.parse(event.data);
      this.#emit(message.t, message);
    };
    ws.onclose = () => this.#ws === ws && this.#lose();
  }

  #probe() {
    this.#ws?.send(JSON.stringify({ t: "probe" }));
    this.#doubt = setTimeout(() => this.#lose(), PATIENCE);
  }

  #trust() {
    clearTimeout(this.#doubt);
    this.#doubt = 0;
  }

  #lose() {
    this.#trust();
    const dead = this.#ws;
    this.#ws = null;
    dead?.close();
    this.#failures += 1;
    this.#retryLater();
  }

  #retryLater() {
    if (this.#failures > GIVE_UP_AFTER) {
      this.#become("down");
      return;
    }
    this.#become("lost");
    // Whether there is a network, only trying tells: what the browser says of it comes late, or not at all.
    if (document.visibilityState !== "visible") return;
    const delay = Math.min(FIRST_DELAY * 2 ** (this.#failures - 1), LONGEST_DELAY);
    this.#timer = setTimeout(() => this.#connect(), delay * (0.8 + 0.4 * Math.random()));
  }

  #become(state) {
    this.state = state;
    this.#emit("state", state);
  }

  #emit(type, value) {
    for (const handler of this.#handlers.get(type) ?? []) handler(value);
  }
}

// A browser gives up what it is loading when the machine's network changes: a container starts, a VPN connects. This page
// would then stand there without a part of itself and say nothing, so it is loaded again, a few times within a minute.
{
  const LATELY = 60_000;
  const TRIES = 3;
  const KEY = "codehub-reloaded";

  const again = () => {
    const now = Date.now();
    const lately = JSON.parse(sessionStorage.getItem(KEY) ?? "[]").filter((at) => now - at < LATELY);
    if (lately.length >= TRIES) return;
    sessionStorage.setItem(KEY, JSON.stringify([...lately, now]));
    location.reload();
  };

  addEventListener("error", ({ target }) => {
    const from = target instanceof HTMLScriptElement ? target.src : target.rel === "stylesheet" ? target.href : "";
    if (from.includes("/assets/")) setTimeout(again, 300);
  }, true);
}

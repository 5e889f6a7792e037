// Asks again every two seconds whether something listens now, as no navigation does: it wakes nothing and is no activity.
const ask = async () => {
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href, { method: "HEAD", redirect: "manual", cache: "no-store" });
      if (answer.status === 503) return;
      if (answer.headers.get("x-codehub-port") !== "silent") return location.reload();
    } catch {
      // The server itself is away for a moment.
    }
  }
  setTimeout(ask, 2000);
};
setTimeout(ask, 2000);

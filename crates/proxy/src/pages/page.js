// Follows the workspace this page waits for, and loads again when there is something new to show.
(() => {
  const id = document.body.dataset.follows;
  const events = new EventSource("/api/v1/events");
  events.addEventListener("workspace_updated", (event) => {
    const workspace = JSON.parse(event.data);
    if (workspace.id !== id) return;
    const bar = document.querySelector("progress");
    if (bar && workspace.progress && workspace.progress.total) {
      bar.max = workspace.progress.total;
      bar.value = workspace.progress.done;
    }
    const settled = ["RUNNING", "ERROR"].includes(workspace.phase) || workspace.desired_state !== "RUNNING";
    if (workspace.operation === "NONE" && settled) location.reload();
  });
  events.addEventListener("workspace_deleted", (event) => {
    if (JSON.parse(event.data).id === id) location.reload();
  });
})();

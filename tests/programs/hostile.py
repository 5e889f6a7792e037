"""A workspace's web program that wants more than its workspace.

GET /healthz              200
GET /sw.js?ALLOW&ALLOW…   a service worker's script, with a Service-Worker-Allowed header for each ALLOW (percent-encoded;
                          {base} is the workspace's base path)
GET anything else         a page
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

# Takes over whatever it controls and says so, but leaves the workspace's own pages alone.
WORKER = """
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(clients.claim()));
self.addEventListener("fetch", (event) => {
  if (new URL(event.request.url).pathname.endsWith("/mine")) event.respondWith(new Response("worker of my own"));
});
"""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        script = path.endswith("/sw.js")
        body = (WORKER if script else "<!doctype html><title>workspace</title><p>workspace").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if script else "text/html")
        for number, allow in enumerate(query.split("&") if script and query else ()):
            name = ("Service-Worker-Allowed", "SERVICE-WORKER-ALLOWED", "service-worker-allowed")[number % 3]
            base = self.headers["X-Forwarded-Prefix"] + "/"
            self.send_header(name, unquote(allow).replace("{base}", base))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, form, *args):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1] if len(sys.argv) > 1 else os.environ["PORT"])
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()

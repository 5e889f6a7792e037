"""A workspace's web program for a hostile page: it serves an empty page to run scripts on, counts what reaches it, and
says whatever it is asked to.

GET /healthz          200
GET /seen             every request that came but those for this and /healthz, as JSON: [method, path, cookie, …]
GET /headers?{json}   a page with these headers: [[name, value], …] (percent-encoded)
GET /sw.js            a service worker that answers everything it controls
GET /slow             a byte every tenth of a second, for a long while
GET anything else     a page
POST anything         200
WebSocket anywhere    is accepted and kept
"""

import base64
import hashlib
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

SEEN = []
WORKER = """
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(clients.claim()));
self.addEventListener("fetch", (event) => event.respondWith(new Response("worker")));
"""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path.endswith("/healthz"):
            return self.say("ok", "text/plain")
        if path.endswith("/seen"):
            return self.say(json.dumps(SEEN), "application/json")
        SEEN.append([self.command, self.path, self.headers.get("Cookie", "")])
        if self.headers.get("Upgrade", "").lower() == "websocket":
            return self.websocket()
        if path.endswith("/sw.js"):
            return self.say(WORKER, "text/javascript", [("Service-Worker-Allowed", "/")])
        if path.endswith("/slow"):
            return self.slow()
        more = json.loads(unquote(query)) if path.endswith("/headers") else []
        self.say("<!doctype html><title>hostile</title><p id=page>page", "text/html", more)

    def do_POST(self):
        SEEN.append([self.command, self.path, self.headers.get("Cookie", "")])
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.say("taken", "text/plain")

    def say(self, text, kind, more=()):
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        for name, value in more:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def slow(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for _ in range(600):
            self.wfile.write(b"x")
            self.wfile.flush()
            time.sleep(0.1)

    def websocket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)):
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        while self.rfile.read(1):
            pass

    def log_message(self, form, *args):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1] if len(sys.argv) > 1 else os.environ["PORT"])
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever).start()

"""The smallest web program a workspace can run in the tests: reads and writes files in its home.

GET /healthz        200
GET /pid            its process id
GET /env            its environment, a line each
GET /read?NAME      a file's content, or 404
GET /write?NAME=TEXT   appends a line durably, then answers: an acknowledged write
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

HOME = os.environ["HOME"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        status, body = 200, b"ok"
        if path == "/pid":
            body = str(os.getpid()).encode()
        elif path == "/env":
            body = "\n".join(f"{k}={v}" for k, v in os.environ.items()).encode()
        elif path == "/read":
            try:
                with open(os.path.join(HOME, unquote(query)), "rb") as file:
                    body = file.read()
            except FileNotFoundError:
                status, body = 404, b""
        elif path == "/write":
            name, _, text = query.partition("=")
            with open(os.path.join(HOME, unquote(name)), "ab") as file:
                file.write(unquote(text).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, form, *args):
        print("served", form % args, flush=True)


if __name__ == "__main__":
    port = int(sys.argv[1] if len(sys.argv) > 1 else os.environ["PORT"])
    print("listening on", port, flush=True)
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()

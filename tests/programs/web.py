"""The smallest web program a workspace can run in the tests: reads and writes files in its home.

GET /healthz        200
GET /pid            its process id
GET /env            its environment, a line each
GET /read?NAME      a file's content, or 404
GET /write?NAME=TEXT   appends a line durably, then answers: an acknowledged write
GET /echo           a WebSocket that sends back what it gets (messages shorter than 126 bytes)
"""

import base64
import hashlib
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

HOME = os.environ["HOME"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def echo(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "websocket")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while head := self.rfile.read(2):
            length = head[1] & 0x7F
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[n % 4] for n, byte in enumerate(self.rfile.read(length)))
            self.wfile.write(bytes([head[0], length]) + data)
            if head[0] & 0x0F == 8:
                return

    def do_GET(self):
        if self.headers.get("Upgrade") == "websocket":
            return self.echo()
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

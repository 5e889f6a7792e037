"""A CodeHub of its own for a test: started from the built binary on a free port, with a data directory
that is thrown away, and ended together with its workspaces."""

import json
import os
import re
import signal
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("CODEHUB_BIN", ROOT / "target/debug/codehub"))
ADMIN, PASSWORD = "admin", "correct horse battery"

# How long anything may take on a busy machine. Nothing waits this long when things go well.
PATIENCE = 30

# Whether the certificate is right is the browser's to say.
ANY_CERTIFICATE = ssl.create_default_context()
ANY_CERTIFICATE.check_hostname = False
ANY_CERTIFICATE.verify_mode = ssl.CERT_NONE


class Server:
    """`settings` are environment variables; `admin=False` leaves the first run to the test."""

    def __init__(self, admin=True, **settings):
        self._directory = tempfile.TemporaryDirectory(prefix="codehub-browser-")
        self.data = Path(self._directory.name)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("CODEHUB_", "TTL_", "LIMITS_", "PROXY_", "TLS_"))}
        environment |= {"CODEHUB_DATA_DIR": str(self.data), "CODEHUB_LISTEN": "127.0.0.1:0"}
        environment |= {"IDE": "builtin", "LOG_FORMAT": "human", "NO_COLOR": "1", "LANG": "C.UTF-8"}
        # Workspaces begin and end without waiting for the next round.
        environment |= {"COORDINATOR_IDLE_INTERVAL": "1s", "COORDINATOR_ACTIVE_INTERVAL": "1s"}
        if admin:
            environment |= {"CODEHUB_ADMIN_USERNAME": ADMIN, "CODEHUB_ADMIN_PASSWORD": PASSWORD}
        environment |= {name: str(value) for name, value in settings.items()}
        self._environment, self._sessions = environment, {}
        self._begin()
        pattern = r"(http://\S+/setup\?token=\S+)" if not admin else r"url=\W*(https?://[\w.]+(?::[1-9]\d*)?)"
        found = wait_for(lambda: re.search(pattern, "".join(self.output)) or self._died(), "the server to start")
        self.link = found.group(1)
        self.url = re.match(r"https?://[^/]+", self.link).group(0)
        # By https the tests themselves go around names, and around somebody in front who ends TLS.
        scheme = "https" if "TLS_CERT" in environment else "http"
        self.direct = self.url if self.url.startswith("http:") else f"{scheme}://{environment['CODEHUB_LISTEN']}"
        wait_for(self._ready, "the server to answer")
        if admin:
            self.api = Api(self.direct, ADMIN, PASSWORD, self.url)

    def _begin(self):
        self.process = subprocess.Popen(
            [BINARY], env=self._environment, cwd=self.data, text=True, encoding="utf-8",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        self.output = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def at(self, id):
        """Where a workspace is: an origin of its own, unless the server was started otherwise."""
        return self.api.get(id)["url"]

    def kill(self):
        """What a power cut does to the server; its workspaces go on."""
        self.process.kill()
        self.process.wait()

    def begin_again(self):
        """After `kill`: the same data, at the same address."""
        self._environment["CODEHUB_LISTEN"] = f"127.0.0.1:{urlsplit(self.url).port}"
        self._begin()
        wait_for(self._ready, "the server to answer again")

    def kill_ide(self, id):
        """What the kernel does when a workspace's memory runs out."""
        record = json.loads((self.data / "instances" / f"{id}.json").read_text())
        os.killpg(record["process"]["pid"], signal.SIGKILL)

    def session(self, username, password):
        """The cookie of somebody who signed in; once each, for passwords are slow to check."""
        if username not in self._sessions:
            self._sessions[username] = Api(self.direct, username, password, self.url).cookie
        return self._sessions[username]

    def _read(self):
        for line in self.process.stdout:
            self.output.append(line)

    def _died(self):
        if self.process.poll() is not None:
            raise AssertionError("the server ended:\n" + "".join(self.output))

    def _ready(self):
        self._died()
        try:
            return urllib.request.urlopen(self.direct + "/healthz", timeout=5, context=ANY_CERTIFICATE).status == 200
        except OSError:
            return False

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        # Workspaces outlive their server: end those that were left running, session by session.
        for record in (self.data / "instances").glob("*.json"):
            try:
                pid = (json.loads(record.read_text()).get("process") or {}).get("pid")
            except (OSError, ValueError):
                continue  # it was just ending by itself
            if pid and pid > 1:
                for send in (os.killpg, os.kill):
                    try:
                        send(pid, signal.SIGKILL)
                    except (ProcessLookupError, PermissionError):
                        pass
        self._reader.join(5)
        for _ in range(50):
            try:
                self._directory.cleanup()
                return
            except OSError:
                time.sleep(0.1)


class Api:
    """The HTTP API, for what a test needs but is not about."""

    def __init__(self, url, username, password, public=None):
        self.url, self.public = url, public or url
        body = {"username": username, "password": password}
        request = self._request("POST", "/auth/login", body)
        with urllib.request.urlopen(request, timeout=PATIENCE, context=ANY_CERTIFICATE) as answer:
            self.cookie = answer.headers["Set-Cookie"].split(";")[0]

    def _request(self, method, path, body):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Host": urlsplit(self.public).netloc, "Origin": self.public, "Content-Type": "application/json"}
        if hasattr(self, "cookie"):
            headers["Cookie"] = self.cookie
        return urllib.request.Request(f"{self.url}/api/v1{path}", data, headers, method=method)

    def call(self, method, path, body=None):
        try:
            with urllib.request.urlopen(self._request(method, path, body), timeout=PATIENCE, context=ANY_CERTIFICATE) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None
        return json.loads(text) if text else None

    def create(self, name, until="RUNNING", **fields):
        wish = until if until in ("RUNNING", "STANDBY", "ARCHIVED") else "RUNNING"
        id = self.call("POST", "/workspaces", {"name": name, "desired_state": wish, **fields})["id"]
        self.wait(id, until)
        return id

    def get(self, id):
        return self.call("GET", f"/workspaces/{id}")

    def wait(self, id, *phases):
        def settled():
            now = self.get(id)
            return now if now["phase"] in phases and now["operation"] == "NONE" else None

        return wait_for(settled, f"the workspace to be {' or '.join(phases)}")

    def delete(self, id):
        """Also one that something is just being done to, which is refused until that is over."""

        def asked():
            try:
                self.call("DELETE", f"/workspaces/{id}")
            except AssertionError as refused:
                if " 409 " not in str(refused):
                    raise
                return False
            return True

        wait_for(asked, "the workspace to be deleted")

    def act(self, id, verb, *phases):
        self.call("POST", f"/workspaces/{id}/{verb}", {})
        return self.wait(id, *phases)


def wait_for(look, what, seconds=PATIENCE):
    """What `look` returns, once that is something."""
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.05)


class Wire:
    """Stands between browser and server, and can be cut like a network cable."""

    def __init__(self, server):
        import socket

        self._socket = socket
        self.session = server.session
        self._to = ("127.0.0.1", urlsplit(server.url).port)
        self._open, self._whole, self._lock = set(), True, threading.Lock()
        # How many bytes the browser has sent.
        self.sent = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://localhost:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = self._socket.create_connection(self._to)
            except OSError:
                near.close()
                continue
            with self._lock:
                if self._whole:
                    self._open |= {near, far}
                else:
                    near.close()
                    far.close()
                    continue
            for way in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._pump, args=way, daemon=True).start()

    def _pump(self, source, sink, up):
        try:
            while data := source.recv(65536):
                if up:
                    self.sent += len(data)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(self._socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        with self._lock:
            self._whole = False
            ends, self._open = self._open, set()
        for end in ends:
            try:
                end.shutdown(self._socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def mend(self):
        self._whole = True

    def close(self):
        self._listener.close()
        self.cut()

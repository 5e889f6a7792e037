"""How much CodeHub adds to a start, how quickly a sleeping workspace answers, what a thousand idle ones cost.

Drives the release binary like anybody else would. The program in the workspaces is the built-in IDE, which
starts in milliseconds, so what is left is CodeHub's own time.
"""

import http.client
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import tempfile
import time

import report

ROOT = pathlib.Path(__file__).parent.parent
BINARY = ROOT / "target" / "release" / "codehub"
PASSWORD = "correct horse battery"
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "31"))
IDLE = 1000
WATCH_SECONDS = int(os.environ.get("BENCH_WATCH_SECONDS", "60"))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    def __init__(self, directory, **settings):
        self.port = free_port()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": directory,
            "CODEHUB_LISTEN": f"127.0.0.1:{self.port}",
            "PROXY_ORIGINS": "path",
            "CODEHUB_DATA_DIR": f"{directory}/data",
            "CODEHUB_ADMIN_USERNAME": "bench",
            "CODEHUB_ADMIN_PASSWORD": PASSWORD,
            "LIMITS_MAX_RUNNING_PER_USER": "0",
            "TTL_STANDBY_SECONDS": "86400",
            "TTL_ARCHIVE_SECONDS": "86400",
            "PROCESS_SANDBOX": "never",
            "IDE": "builtin",
            "LOG": "warn",
            **settings,
        }
        self.process = subprocess.Popen([BINARY], env=environment, stdout=subprocess.DEVNULL, cwd=directory)
        self.cookie = None
        until(lambda: self.ask("GET", "/readyz")[0] == 200)
        status, headers, _ = self.ask("POST", "/api/v1/auth/login", {"username": "bench", "password": PASSWORD})
        assert status == 200
        self.cookie = headers["session"]

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=130)
        headers = dict(headers or {}, Origin=f"http://127.0.0.1:{self.port}")
        if self.cookie:
            headers["Cookie"] = self.cookie
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        headers = {k.lower(): v for k, v in answer.getheaders()}
        # There are several cookies: one is the session.
        for cookie in answer.headers.get_all("Set-Cookie") or []:
            if cookie.startswith("session="):
                headers["session"] = cookie.split(";")[0]
        return answer.status, headers, content

    def call(self, method, path, body=None):
        status, _, content = self.ask(method, "/api/v1" + path, body)
        assert status < 300, (method, path, status, content)
        return json.loads(content) if content else None

    def create(self, name, desired):
        return self.call("POST", "/workspaces?wait=60", {"name": name, "desired_state": desired})["id"]

    def go(self, workspace, verb, phase):
        found = self.call("POST", f"/workspaces/{workspace}/{verb}?wait=60", {})
        assert found["phase"] == phase, found

    def cpu_seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def until(done, seconds=30, pause=0.001):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if done():
                return
        except OSError:
            pass
        time.sleep(pause)
    raise TimeoutError


def healthy(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", "/healthz")
    found = connection.getresponse().status == 200
    connection.close()
    return found


def bare_start(directory):
    """The program by itself: from spawning it to its first healthy answer, in milliseconds."""
    port = free_port()
    begun = time.perf_counter()
    process = subprocess.Popen([BINARY, "ide", "--port", str(port), "--home", directory], stdout=subprocess.DEVNULL)
    until(lambda: healthy(port))
    spent = (time.perf_counter() - begun) * 1000
    process.kill()
    process.wait()
    return spent


def hub_start(server, workspace):
    """The same through CodeHub: from asking for it to "RUNNING, container ready"."""
    begun = time.perf_counter()
    server.go(workspace, "start", "RUNNING")
    spent = (time.perf_counter() - begun) * 1000
    server.go(workspace, "stop", "STANDBY")
    return spent


def hub_wake(server, workspace):
    """Opening a sleeping workspace in the browser: from the request to the IDE's own page."""
    begun = time.perf_counter()
    status, _, content = server.ask("GET", f"/w/{workspace}/", headers={"Sec-Fetch-Mode": "navigate", "Accept": "text/html"})
    spent = (time.perf_counter() - begun) * 1000
    assert status == 200 and b"assets/" in content, status
    until(lambda: server.call("GET", f"/workspaces/{workspace}")["operation"] == "NONE")
    server.go(workspace, "stop", "STANDBY")
    return spent


def idle_share(server, seconds):
    before, begun = server.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    return (server.cpu_seconds() - before) / (time.monotonic() - begun) * 100


def middle(samples):
    return statistics.median(samples), statistics.quantiles(samples, n=20)[18]


def main():
    with tempfile.TemporaryDirectory() as directory:
        server = Server(directory)
        try:
            measure(server, directory)
        finally:
            server.stop()


def measure(server, directory):
    one = server.create("one", "STANDBY")
    bare, started, woken = [], [], []
    for _ in range(ROUNDS):
        bare.append(bare_start(directory))
        started.append(hub_start(server, one))
        woken.append(hub_wake(server, one))
    time.sleep(35)  # Until the controller is calm again.
    idle_with_one = idle_share(server, WATCH_SECONDS / 2)

    for number in range(IDLE):
        server.call("POST", "/workspaces", {"name": f"idle {number}", "desired_state": "STANDBY" if number % 2 else "ARCHIVED"})
    until(lambda: server.call("GET", "/workspaces?phase=PENDING&limit=1")["total"] == 0, 600, 1)
    started_among_many = [hub_start(server, one) for _ in range(ROUNDS)]
    time.sleep(35)
    idle_with_many = idle_share(server, WATCH_SECONDS)

    rows = [
        ("the program by itself: spawn → first healthy answer", *middle(bare)),
        ("CodeHub: `start?wait` on STANDBY → RUNNING", *middle(started)),
        (f"the same, among {IDLE:,} idle workspaces", *middle(started_among_many)),
        ("opening a STANDBY workspace: request → the IDE's page", *middle(woken)),
    ]
    table = "\n".join(f"| {what} | {p50:.0f} | {p95:.0f} |" for what, p50, p95 in rows)
    added = rows[1][1] - rows[0][1]
    body = f"""
| milliseconds, {ROUNDS} rounds interleaved | p50 | p95 |
|---|---|---|
{table}

CodeHub adds {added:.0f} ms (p50) to the program's own start; among {IDLE:,} idle workspaces a start takes
{rows[2][1] / rows[1][1]:.2f}× of what it takes alone.

| the whole server process while nobody does anything | share of one core |
|---|---|
| 1 workspace | {idle_with_one:.2f} % |
| {IDLE + 1:,} workspaces (half STANDBY, half ARCHIVED) | {idle_with_many:.2f} % |
"""
    report.write("life", "A workspace's life", body)
    print(body)


if __name__ == "__main__":
    main()

"""How much CodeHub adds to a start in a container, and how its API answers while thirty start at once.

Needs root: it starts a Docker engine of its own (scripts/docker-engine), and uses no registry. The program in the
containers is the built-in IDE. Rounds with and without CodeHub take turns, on the same engine, network and volume.
"""

import os
import statistics
import subprocess
import tempfile
import time

import life
import report

SCRIPTS = life.ROOT / "scripts"
IMAGE = "codehub/ide:test-shell"
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "21"))
AT_ONCE = 30


class Engine:
    def __init__(self, directory):
        self.directory = directory
        line = subprocess.run([SCRIPTS / "docker-engine", "start", directory], check=True, capture_output=True, text=True)
        self.host = line.stdout.strip().split("=", 1)[1].split()[0]
        subprocess.run([SCRIPTS / "test-images", self.host, life.BINARY], check=True, stdout=subprocess.DEVNULL)

    def docker(self, *words):
        ran = subprocess.run(["docker", "-H", self.host, *words], check=True, capture_output=True, text=True)
        return ran.stdout.strip()

    def stop(self):
        subprocess.run([SCRIPTS / "docker-engine", "stop", self.directory], check=False)


def bare_run(engine, network, volume):
    """`docker run` by itself: from the command to the program's first healthy answer, in milliseconds."""
    port = life.free_port()
    begun = time.perf_counter()
    engine.docker("run", "-d", "--init", "--name", "bare", "--network", network, "-p", f"127.0.0.1:{port}:8080",
                  "-v", f"{volume}:/home/coder", IMAGE)
    life.until(lambda: life.healthy(port))
    spent = (time.perf_counter() - begun) * 1000
    engine.docker("rm", "-f", "bare")
    return spent


def starts(engine, server):
    one = server.create("one", "RUNNING")
    network = engine.docker("network", "ls", "--format", "{{.Name}}", "--filter", "label=codehub.instance")
    volume = engine.docker("volume", "ls", "-q", "--filter", f"label=codehub.workspace={one}")
    server.go(one, "stop", "STANDBY")
    bare, woken, added = [], [], []
    for _ in range(ROUNDS):
        bare.append(bare_run(engine, network, volume))
        woken.append(life.hub_wake(server, one))
        added.append(woken[-1] - bare[-1])
    server.call("DELETE", f"/workspaces/{one}")
    return bare, woken, statistics.median(added)


def many(server):
    """Starts thirty, and asks the API all the while: how long until all run, and its answers in milliseconds."""
    ids = [server.create(f"many {number}", "STANDBY") for number in range(AT_ONCE)]
    answers = []

    def timed(method, path, body=None):
        begun = time.perf_counter()
        found = server.call(method, path, body)
        answers.append((time.perf_counter() - begun) * 1000)
        return found

    begun = time.monotonic()
    for workspace in ids:
        timed("POST", f"/workspaces/{workspace}/start", {})
    while timed("GET", "/workspaces?phase=RUNNING&limit=1")["total"] < AT_ONCE:
        timed("GET", f"/workspaces/{ids[len(answers) % AT_ONCE]}")
        assert time.monotonic() - begun < 240
        time.sleep(0.01)
    spent = time.monotonic() - begun
    assert not server.call("GET", "/workspaces?phase=ERROR&limit=1")["total"]
    for workspace in ids:
        server.call("DELETE", f"/workspaces/{workspace}")
    life.until(lambda: server.call("GET", "/workspaces?limit=1")["total"] == 0, 120, 0.2)
    return spent, answers


def main():
    with tempfile.TemporaryDirectory() as directory:
        engine = Engine(f"{directory}/engine")
        settings = dict(RUNTIME="docker", DOCKER_HOST=engine.host, RUNTIME_IMAGE=IMAGE, RUNTIME_PULL="never",
                        RUNTIME_MEMORY="256m", LIMITS_MAX_RUNNING_GLOBAL="0")
        server = life.Server(directory, **settings)
        try:
            measure(engine, server)
        finally:
            server.stop()
            engine.stop()


def measure(engine, server):
    bare, woken, added = starts(engine, server)
    spent, answers = many(server)
    rows = [("`docker run` → first healthy answer", *life.middle(bare)),
            ("opening a STANDBY workspace: request → the IDE's page", *life.middle(woken))]
    table = "\n".join(f"| {what} | {p50:.0f} | {p95:.0f} |" for what, p50, p95 in rows)
    hundredths = statistics.quantiles(answers, n=100)
    body = f"""
`bench/run docker`, on an engine of its own, with the built-in IDE in the containers.

| milliseconds, {ROUNDS} rounds interleaved | p50 | p95 |
|---|---|---|
{table}

Through CodeHub it takes {added:+.0f} ms (median of the rounds' differences): CodeHub decides and checks more, but asks
the engine itself, while `docker run` has a client program to start. At most +150 ms are allowed.

{AT_ONCE} workspaces asked for at once: all RUNNING after {spent:.1f} s; meanwhile the API answered
{len(answers)} requests, p50 {hundredths[49]:.1f} ms, p99 {hundredths[98]:.1f} ms.
"""
    report.write("docker", "Starts in containers", body)
    print(body)


if __name__ == "__main__":
    main()

"""Three replicas among 10,000 workspaces: how late event streams hear, how soon the leader acts, what idling costs.

Needs PostgreSQL and Redis; run it as `scripts/services bench/run replicas`. Everything (three servers, the
database, Redis and 500 clients) shares this machine.
"""

import hashlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time
import uuid
from datetime import datetime

import life
import report

LOAD = life.ROOT / "target" / "release" / "codehub-load"
REPLICAS = 3
WORKSPACES = 10_000
USERS = 500
STREAMS = 500
WAKES = int(os.environ.get("BENCH_ROUNDS", "100"))
WATCH_SECONDS = int(os.environ.get("BENCH_WATCH_SECONDS", "60"))
IDLE_INTERVAL = 15


class Cluster:
    def __init__(self, directory):
        self.directory = directory
        server, _ = os.environ["CODEHUB_TEST_POSTGRES"].rsplit("/", 1)
        name = f"bench_{uuid.uuid4().hex}"
        psql(os.environ["CODEHUB_TEST_POSTGRES"], f"CREATE DATABASE {name}")
        self.url = f"{server}/{name}"
        self.servers = []
        # A Redis of its own, because it is killed later.
        self.redis_port = life.free_port()
        self.redis = subprocess.Popen(
            ["redis-server", "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
            stdout=subprocess.DEVNULL, cwd=directory)
        for _ in range(REPLICAS):
            self.servers.append(life.Server(
                directory,
                DATABASE_URL=self.url,
                REDIS_URL=f"redis://127.0.0.1:{self.redis_port}",
                COORDINATOR_IDLE_INTERVAL=f"{IDLE_INTERVAL}s",
            ))

    def sql(self, text):
        return psql(self.url, text)

    def leader(self):
        """The leader, and the others."""
        pid = int(self.sql("SELECT holder FROM leader").rsplit(":", 1)[1])
        leads = [server for server in self.servers if server.process.pid == pid]
        return leads[0], [server for server in self.servers if server.process.pid != pid]

    def stop(self):
        for server in self.servers:
            server.stop()
        self.redis.kill()
        self.redis.wait()


def psql(url, text):
    done = subprocess.run(["psql", url, "-v", "ON_ERROR_STOP=1", "-qAt"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def populate(cluster, directory):
    """Twenty workspaces for each of 500 people, copied from one that the controller made."""
    server = cluster.servers[0]
    made = server.create("pattern", "STANDBY")
    columns = [
        line for line in cluster.sql(
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_name = 'workspaces' AND is_generated = 'NEVER'").splitlines()
        # Without a slug, which is unique among one person's: the next start gives them one.
        if line not in ("id", "owner_user_id", "slug")
    ]
    tokens = [f"chp_{uuid.uuid4().hex}{uuid.uuid4().hex}" for _ in range(USERS)]
    people = [str(uuid.uuid4()) for _ in range(USERS)]
    rows = [(str(uuid.uuid4()), person) for person in people for _ in range(WORKSPACES // USERS)]
    statements = []
    for n, (person, token) in enumerate(zip(people, tokens)):
        digest = hashlib.sha256(token.encode()).hexdigest()
        statements.append(
            f"INSERT INTO users (id, username, username_key, password_hash, role, created_at, updated_at) "
            f"VALUES ('{person}', 'person {n}', 'person {n}', '', 'user', 0, 0);"
            f"INSERT INTO api_tokens (id, user_id, name, secret_hash, created_at) "
            f"VALUES ('{uuid.uuid4()}', '{person}', 'bench', '\\x{digest}', 0);")
    values = ",".join(f"('{row}'::UUID, '{person}'::UUID)" for row, person in rows)
    named = ", ".join(f'"{column}"' for column in columns)
    statements.append(
        f"INSERT INTO workspaces (id, owner_user_id, {named}) SELECT new.id, new.owner, {named} "
        f"FROM workspaces, (VALUES {values}) AS new (id, owner) WHERE workspaces.id = '{made}'; ANALYZE;")
    users = pathlib.Path(directory, "data/homes/users")
    pattern = next(users.glob(f"*/workspaces/{made}/home-*"))
    for row, person in rows:
        (users / person / "workspaces" / row / pattern.name).mkdir(parents=True)
    cluster.sql("\n".join(statements))
    return tokens


def hear(cluster, tokens, rounds):
    """500 event streams over three replicas: milliseconds from before a change is sent until each has it."""
    file = pathlib.Path(cluster.directory, "tokens")
    file.write_text("\n".join(tokens) + "\n")
    servers = [f"http://127.0.0.1:{server.port}" for server in cluster.servers]
    done = subprocess.run(
        [LOAD, "events", file, str(STREAMS), str(WORKSPACES // USERS), str(rounds), *servers],
        capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["missed"] == 0, found
    return found


def wake(cluster, workspace):
    """From a wish on a replica that does not lead to the leader's first step, by the database's clock."""
    _, others = cluster.leader()
    took = []
    for n in range(WAKES):
        server = others[n % len(others)]
        if n % 2:
            server.go(workspace, "start", "RUNNING")
        else:
            server.go(workspace, "stop", "STANDBY")
        lines = server.call("GET", f"/workspaces/{workspace}/history?limit=20")["items"]
        wish = next(at for at, line in enumerate(lines) if line["actor"].startswith("user"))
        moments = [datetime.fromisoformat(lines[at]["at"]).timestamp() for at in (wish, wish - 1)]
        took.append((moments[1] - moments[0]) * 1000)
        time.sleep(0.02)
    return took


def idle(cluster):
    """Processor milliseconds per idle interval: the leader's, and what the others take anyway."""
    leader, others = cluster.leader()
    before = [server.cpu_seconds() for server in (leader, *others)]
    begun = time.monotonic()
    time.sleep(WATCH_SECONDS)
    ticks = (time.monotonic() - begun) / IDLE_INTERVAL
    spent = [(server.cpu_seconds() - was) / ticks * 1000 for server, was in zip((leader, *others), before)]
    return spent[0], statistics.mean(spent[1:])


def memory_mib(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def query_milliseconds(server, query):
    """The mean of all times this query ran in that process."""
    _, _, text = server.ask("GET", "/metrics")
    found = {}
    for line in text.decode().splitlines():
        for part in ("sum", "count"):
            if line.startswith(f'codehub_db_query_seconds_{part}{{query="{query}"}}'):
                found[part] = float(line.rsplit(" ", 1)[1])
    return found["sum"] / found["count"] * 1000


def percentiles(samples):
    samples = sorted(samples)
    return samples[len(samples) // 2], samples[min(len(samples) - 1, int(len(samples) * 0.99))], samples[-1]


def main():
    directory = tempfile.mkdtemp()
    cluster = None
    try:
        cluster = Cluster(directory)
        measure(cluster, directory)
    finally:
        if cluster:
            cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)


def measure(cluster, directory):
    tokens = populate(cluster, directory)
    one = hear(cluster, tokens[:1], 40)
    many = hear(cluster, tokens, 2 * USERS)
    workspace = cluster.servers[0].create("woken", "RUNNING")
    cluster.servers[0].go(workspace, "start", "RUNNING")
    woken = percentiles(wake(cluster, workspace))
    cluster.servers[0].go(workspace, "stop", "STANDBY")
    time.sleep(35)  # Until the controller is calm again.
    leads, follows = idle(cluster)
    leader, _ = cluster.leader()
    ttl = query_milliseconds(leader, "ttl_expire")
    memory = max(memory_mib(server) for server in cluster.servers)
    size = int(cluster.sql("SELECT pg_database_size(current_database())")) / 2**20
    cluster.redis.kill()
    cluster.redis.wait()
    time.sleep(5)
    cluster.servers[0].go(workspace, "start", "RUNNING")
    without = percentiles(wake(cluster, workspace))
    cluster.servers[0].go(workspace, "stop", "STANDBY")

    body = f"""
Three replicas, {WORKSPACES:,} workspaces of {USERS} people, PostgreSQL, Redis and all clients on the same machine.

| milliseconds | p50 | p99 | longest |
|---|---|---|---|
| a change → all {STREAMS} event streams of one person ({one["events"]:,} events) | {one["p50"]} | {one["p99"]} | {one["max"]} |
| a change → the stream of that person, {STREAMS} people's open ({many["events"]:,} events) | {many["p50"]} | {many["p99"]} | {many["max"]} |
| a wish on a replica → the leader's first step ({WAKES} wishes) | {woken[0]:.1f} | {woken[1]:.1f} | {woken[2]:.1f} |
| the same without Redis | {without[0]:.1f} | {without[1]:.1f} | {without[2]:.1f} |

A change is timed from before its request is sent until its bytes have arrived; a wish and the step by the database's
clock. While nobody does anything the leader spends {leads:.0f} ms of processor time per tick of {IDLE_INTERVAL} s, all of
its duties included; the other replicas spend {follows:.0f} ms in the same time. Looking for TTLs that ran out takes
{ttl:.1f} ms on average, from asking for a connection to the commit. After all this the largest replica has {memory:.0f} MiB
in memory, and the database takes {size:.0f} MiB of disk.
"""
    report.write("replicas", "Replicas", body)
    print(body)


if __name__ == "__main__":
    main()

"""A CodeHub that looks lived in: workspaces in every state, people, a token, and a project to show."""

from types import SimpleNamespace

from codehub import PASSWORD

GUEST = ("jisoo", PASSWORD)
NOWHERE = "01900000-0000-7000-8000-000000000000"

FILES = {
    "README.md": "# Tide tables\n\nHigh and low water for any harbour, from a handful of constituents.\n",
    "src/main.py": '''"""High and low water from tidal constituents."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Constituent:
    name: str
    amplitude: float  # metres
    speed: float  # degrees per hour
    phase: float  # degrees


HARBOUR = [
    Constituent("M2", 2.91, 28.984, 142.0),
    Constituent("S2", 1.07, 30.000, 183.5),
    Constituent("K1", 0.39, 15.041, 294.0),
]


def height(hour: float) -> float:
    """Height above mean sea level, in metres."""
    return sum(c.amplitude * math.cos(math.radians(c.speed * hour - c.phase)) for c in HARBOUR)


if __name__ == "__main__":
    for hour in range(0, 25, 3):
        print(f"{hour:02d}:00  {height(hour):+5.2f} m  {'▇' * round(4 + height(hour) * 2)}")
''',
    "src/harbours.csv": "name,latitude,longitude\nIncheon,37.45,126.60\nBrest,48.38,-4.49\n",
    "tests/test_height.py": "from main import height\n\n\ndef test_it_moves():\n    assert height(0) != height(6)\n",
    "notes.txt": "Ask the harbour master about the datum.\n",
}


def make(start, **settings):
    """Each person may run one workspace, and does: so the limit can be seen."""
    server = start(LIMITS_MAX_RUNNING_PER_USER=1, PROXY_WAKE_HOLD="2s", **settings)
    api = server.api
    api.call("POST", "/users", {"username": GUEST[0], "password": GUEST[1], "role": "user"})
    api.call("POST", "/users", {"username": "minho", "password": PASSWORD, "role": "user"})
    api.call("POST", "/auth/tokens", {"name": "backup script"})
    broken = api.create("reading-list", description="Papers, and a script that fetches them")
    api.act(broken, "archive", "ARCHIVED")
    api.act(broken, "start", "RUNNING")
    # The older archive is still there: a way back.
    lose_archives(server, broken, api.act(broken, "archive", "ARCHIVED")["archive_key"].split("/")[1])
    api.wait(broken, "ERROR")
    archived = api.create("thesis", description="Last year's, kept just in case")
    for path, text in FILES.items():
        (home(server, archived) / path).parent.mkdir(exist_ok=True)
        (home(server, archived) / path).write_text(text)
    (home(server, archived) / "한국어 이름.txt").symlink_to("notes.txt")
    api.act(archived, "archive", "ARCHIVED")
    standby = api.create("playground", until="STANDBY")
    running = api.create("tide-tables", description="High and low water for any harbour", memo="Deploy on Fridays? No.")
    return SimpleNamespace(server=server, running=running, standby=standby, archived=archived, broken=broken)


def home(server, id):
    """The home of a running workspace."""
    return next(server.data.glob(f"homes/users/*/workspaces/{id}/home"))


def lose_archives(server, id, archive=""):
    """What a failing disk does, to all archives of a workspace or to one. Returns how to undo it."""
    files = [path for path in (server.data / "archives").rglob("*") if path.is_file()]
    lost = [path for path in files if id in str(path) and archive in str(path)]
    assert lost, "there is an archive to lose"
    moved = [(path, path.with_name(path.name + ".away")) for path in lost]
    for path, away in moved:
        path.rename(away)
    return lambda: [away.rename(path) for path, away in moved]


def put_files(page, id):
    """Puts the project into a running workspace."""
    page.goto(f"/open/{id}")
    send = "([method, path, body]) => fetch(path, { method, body }).then((answer) => answer.status)"
    for folder in ("src", "tests"):
        page.evaluate(send, ["POST", f"api/mkdir?path={folder}", None])
    for path, text in FILES.items():
        assert page.evaluate(send, ["PUT", f"api/file?path={path}", text]) < 300, path

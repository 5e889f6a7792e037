#!/usr/bin/env python3
"""What a page of 50 costs SQLite among few and among very many workspaces: with every match counted, as it was
until migration 7, and with the count that stops at 1,000. Also how long migration 7 itself takes.

    bench/list.py [ROWS…]        1000 and 100000 unless said

Statements and schema only, in memory: the driver and the server come on top of both columns alike.
"""
import pathlib
import sqlite3
import sys
import time

MIGRATIONS = pathlib.Path(__file__).parent.parent / "migrations/sqlite"
OWNER = "01890a5d-ac96-774b-bcce-b302099a8057"
ROUNDS = 15

FILL = """
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2),
    w (i, phase) AS (SELECT i, CASE WHEN i % 100 = 0 THEN 'RUNNING' WHEN i % 10 < 3 THEN 'STANDBY'
                                    WHEN i % 10 = 9 THEN 'DELETED' ELSE 'ARCHIVED' END FROM n)
INSERT INTO workspaces (id, owner_user_id, name, name_key, description, memo, image_ref, home_store_key,
    desired_state, desired_changed_at, last_access_at, conditions, phase, phase_changed_at, operation, error_count,
    home_ctx, progress, instance_backend, storage_backend, created_at, updated_at, revision, deleted_at)
SELECT printf('01890a5d-ac96-774b-bcce-%012x', i), ?1, 'w', 'w', '', '', '', '', phase, 1, 1, '{}', phase, 1, 'NONE', 0,
    '{}', 'null', '', '', 1, 1, 1, CASE WHEN phase = 'DELETED' THEN 1 END
FROM w"""


def before(rows):
    """A database of the version before migration 7."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    for path in sorted(MIGRATIONS.glob("*.sql")):
        if int(path.name[:4]) < 7:
            db.executescript(path.read_text())
    db.execute(
        "INSERT INTO users (id, username, username_key, password_hash, role, created_at, updated_at)"
        " VALUES (?, 'u', 'u', '', 'user', 1, 1)",
        (OWNER,),
    )
    db.execute(FILL, (OWNER, rows))
    return db


def best(db, statements):
    def once():
        started = time.perf_counter()
        for sql in statements:
            db.execute(sql).fetchall()
        return (time.perf_counter() - started) * 1000

    return min(once() for _ in range(ROUNDS))


for rows in [int(word) for word in sys.argv[1:]] or [1_000, 100_000]:
    db = before(rows)
    figures = {}
    for what, narrowed in (("everybody's", ""), ("one owner's", f" AND owner_user_id = '{OWNER}'")):
        living = f"workspaces WHERE deleted_at IS NULL{narrowed}"
        page = f"SELECT * FROM {living} ORDER BY id DESC LIMIT 51"
        figures[what] = (page, living, best(db, [f"SELECT count(*) FROM {living}", page]))
    started = time.perf_counter()
    db.executescript("BEGIN;" + (MIGRATIONS / "0007_names_and_labels.sql").read_text() + "COMMIT;")
    migrated = (time.perf_counter() - started) * 1000
    for what, (page, living, was) in figures.items():
        counted = f"SELECT count(*) FROM (SELECT 1 FROM {living} LIMIT 1001)"
        print(f"{rows} workspaces, {what}: {was:.2f} ms before, {best(db, [counted, page]):.2f} ms after")
    print(f"{rows} workspaces: migration 7 takes {migrated:.0f} ms")

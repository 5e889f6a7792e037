-- Who serves, and since when somebody leads.

-- Renewed by whoever leads: an old one means that the leader is frozen or cut off. Apart from the epoch,
-- which every write of a leader locks, so that a slow write never looks like a dead leader.
CREATE TABLE leader_heartbeat (
    only    INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
    beat_at INTEGER NOT NULL
) STRICT;

INSERT INTO leader_heartbeat (only, beat_at) VALUES (1, 0);

CREATE TABLE replicas (
    name       TEXT    NOT NULL PRIMARY KEY,
    version    TEXT    NOT NULL,
    -- all, api, coordinator
    role       TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

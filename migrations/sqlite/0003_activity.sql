-- Keep-awake leases, and how a workspace's activity is told.

-- NULL is the deployment's mode.
ALTER TABLE workspaces ADD COLUMN activity_mode TEXT CHECK (activity_mode IN ('traffic', 'connections'));
-- The end of the longest lease, which counts like an activity then; NULL is none.
ALTER TABLE workspaces ADD COLUMN held_until INTEGER;

CREATE TABLE workspace_holds (
    id           TEXT    NOT NULL PRIMARY KEY,
    workspace_id TEXT    NOT NULL REFERENCES workspaces (id),
    user_id      TEXT    NOT NULL REFERENCES users (id),
    reason       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    until        INTEGER NOT NULL
) STRICT;

CREATE INDEX workspace_holds_workspace ON workspace_holds (workspace_id, until);

DROP INDEX workspaces_ttl_standby;
DROP INDEX workspaces_ttl_standby_own;
CREATE INDEX workspaces_ttl_standby
    ON workspaces (max(last_access_at, phase_changed_at, coalesce(held_until, 0)))
    WHERE rests = 1 AND phase = 'RUNNING' AND standby_ttl_seconds IS NULL;
CREATE INDEX workspaces_ttl_standby_own
    ON workspaces (max(last_access_at, phase_changed_at, coalesce(held_until, 0)) + standby_ttl_seconds * 1000000)
    WHERE rests = 1 AND phase = 'RUNNING' AND standby_ttl_seconds > 0;

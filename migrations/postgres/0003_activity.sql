-- Keep-awake leases, and how a workspace's activity is told.

-- NULL is the deployment's mode.
ALTER TABLE workspaces ADD COLUMN activity_mode TEXT CHECK (activity_mode IN ('traffic', 'connections'));
-- The end of the longest lease, which counts like an activity then; NULL is none.
ALTER TABLE workspaces ADD COLUMN held_until BIGINT;

CREATE TABLE workspace_holds (
    id           UUID   NOT NULL PRIMARY KEY,
    workspace_id UUID   NOT NULL REFERENCES workspaces (id),
    user_id      UUID   NOT NULL REFERENCES users (id),
    reason       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    until        BIGINT NOT NULL
);

CREATE INDEX workspace_holds_workspace ON workspace_holds (workspace_id, until);

-- `greatest` leaves out what is NULL.
DROP INDEX workspaces_ttl_standby;
DROP INDEX workspaces_ttl_standby_own;
CREATE INDEX workspaces_ttl_standby ON workspaces (greatest(last_access_at, phase_changed_at, held_until))
    WHERE rests AND phase = 'RUNNING' AND standby_ttl_seconds IS NULL;
CREATE INDEX workspaces_ttl_standby_own
    ON workspaces ((greatest(last_access_at, phase_changed_at, held_until) + standby_ttl_seconds * 1000000))
    WHERE rests AND phase = 'RUNNING' AND standby_ttl_seconds > 0;

-- People see the mode. Leases are told by whoever writes them: not every one moves `held_until`.
DROP TRIGGER workspaces_changed ON workspaces;
CREATE TRIGGER workspaces_changed AFTER UPDATE ON workspaces
    FOR EACH ROW WHEN (
        (OLD.phase, OLD.operation, OLD.error_reason, OLD.progress, OLD.desired_state, OLD.deleted_at,
         OLD.name, OLD.description, OLD.memo, OLD.standby_ttl_seconds, OLD.archive_ttl_seconds,
         OLD.activity_mode)
        IS DISTINCT FROM
        (NEW.phase, NEW.operation, NEW.error_reason, NEW.progress, NEW.desired_state, NEW.deleted_at,
         NEW.name, NEW.description, NEW.memo, NEW.standby_ttl_seconds, NEW.archive_ttl_seconds,
         NEW.activity_mode)
    )
    EXECUTE FUNCTION codehub_tell_workspace();

-- Slugs and labels of workspaces, language and theme of users. Lists of words that grow (roles, reasons of
-- errors, operations, modes) leave the schema, and an account may be without a password. A version that is
-- older than this goes on working beside it: what it does not know has a default.

ALTER TABLE users
    ALTER COLUMN password_hash DROP NOT NULL,
    DROP CONSTRAINT users_role_check,
    -- NULL is what the browser asks for.
    ADD COLUMN language TEXT,
    ADD COLUMN theme TEXT;
UPDATE users SET password_hash = NULL WHERE password_hash = '';

-- Takes its indexes with it. The list of reasons that only a person may clear was part of it.
ALTER TABLE workspaces DROP COLUMN active;
ALTER TABLE workspaces
    DROP CONSTRAINT workspaces_error_reason_check,
    DROP CONSTRAINT workspaces_operation_check,
    DROP CONSTRAINT workspaces_activity_mode_check,
    -- Unique among the owner's living workspaces; empty until the next start for rows that were made before,
    -- or by an older version beside this one.
    ADD COLUMN slug TEXT NOT NULL DEFAULT '',
    ADD COLUMN labels JSONB NOT NULL DEFAULT '{}',
    -- The error is one that only a person may clear.
    ADD COLUMN failed BOOLEAN NOT NULL DEFAULT FALSE;

-- Nobody waits to be told of this.
ALTER TABLE workspaces DISABLE TRIGGER workspaces_changed;
UPDATE workspaces SET failed = TRUE
WHERE error_reason IN ('Timeout', 'ImagePullFailed', 'ContainerWithoutVolume', 'ArchiveCorrupted',
    'DataLost', 'RetryExceeded');
ALTER TABLE workspaces ENABLE TRIGGER workspaces_changed;

ALTER TABLE workspaces
    -- The controller has something to do: an operation is under way, or a wish is not fulfilled and does
    -- not wait for a person.
    ADD COLUMN active BOOLEAN NOT NULL GENERATED ALWAYS AS (
        operation <> 'NONE'
        OR (phase <> desired_state AND NOT (phase = 'ERROR' AND deleted_at IS NULL AND failed))
    ) STORED;

COMMENT ON COLUMN workspaces.instance_backend IS 'a backend of this deployment by name (docker-1), not by kind';
COMMENT ON COLUMN workspaces.storage_backend IS 'a backend of this deployment by name (docker-1), not by kind';

-- What people list: everything, one owner's, one phase's; each page begins at an id.
CREATE INDEX workspaces_living ON workspaces (id) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX workspaces_slug ON workspaces (owner_user_id, slug) WHERE deleted_at IS NULL AND slug <> '';
CREATE INDEX workspaces_active ON workspaces (id) WHERE active;
CREATE INDEX workspaces_quiet ON workspaces (observed_at NULLS FIRST, id)
    WHERE NOT active AND phase <> 'RUNNING' AND phase <> 'DELETED';
-- Spelled as the statements are.
DROP INDEX workspaces_ttl_standby;
DROP INDEX workspaces_ttl_standby_own;
CREATE INDEX workspaces_ttl_standby
    ON workspaces (greatest(last_access_at, phase_changed_at, coalesce(held_until, 0)))
    WHERE rests AND phase = 'RUNNING' AND standby_ttl_seconds IS NULL;
CREATE INDEX workspaces_ttl_standby_own
    ON workspaces ((greatest(last_access_at, phase_changed_at, coalesce(held_until, 0)) + standby_ttl_seconds * 1000000))
    WHERE rests AND phase = 'RUNNING' AND standby_ttl_seconds > 0;

-- People see labels.
DROP TRIGGER workspaces_changed ON workspaces;
CREATE TRIGGER workspaces_changed AFTER UPDATE ON workspaces
    FOR EACH ROW WHEN (
        (OLD.phase, OLD.operation, OLD.error_reason, OLD.progress, OLD.desired_state, OLD.deleted_at,
         OLD.name, OLD.description, OLD.memo, OLD.standby_ttl_seconds, OLD.archive_ttl_seconds,
         OLD.activity_mode, OLD.labels)
        IS DISTINCT FROM
        (NEW.phase, NEW.operation, NEW.error_reason, NEW.progress, NEW.desired_state, NEW.deleted_at,
         NEW.name, NEW.description, NEW.memo, NEW.standby_ttl_seconds, NEW.archive_ttl_seconds,
         NEW.activity_mode, NEW.labels)
    )
    EXECUTE FUNCTION codehub_tell_workspace();

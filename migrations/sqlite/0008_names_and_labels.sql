-- Slugs and labels of workspaces, language and theme of users. Lists of words that grow (roles, reasons of
-- errors) leave the schema, and an account may be without a password: SQLite changes such a thing only by
-- making the table anew, so `users` and `workspaces` are, with all their rows. Foreign keys are not enforced
-- on the connection that does this; the end of the file makes sure that none is broken. It is one
-- transaction: after a crash in the middle, everything is as it was before.

-- Fails where another process has done all this meanwhile: whoever comes second must not do it again.
ALTER TABLE users ADD COLUMN language TEXT;

CREATE TABLE new_users (
    id            TEXT    NOT NULL PRIMARY KEY,
    username      TEXT    NOT NULL,
    -- The name in lower case: names are compared without case, in any alphabet.
    username_key  TEXT    NOT NULL,
    -- NULL: cannot sign in by password.
    password_hash TEXT,
    role          TEXT    NOT NULL,
    disabled      INTEGER NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1)),
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    -- The row stays: deleted workspaces and the history still name their owner.
    deleted_at    INTEGER,
    -- NULL is what the browser asks for.
    language      TEXT,
    theme         TEXT
) STRICT;

INSERT INTO new_users (id, username, username_key, password_hash, role, disabled, created_at, updated_at,
    deleted_at)
SELECT id, username, username_key, nullif(password_hash, ''), role, disabled, created_at, updated_at,
    deleted_at
FROM users;

CREATE TABLE new_workspaces (
    id                  TEXT    NOT NULL PRIMARY KEY,
    owner_user_id       TEXT    NOT NULL REFERENCES users (id),
    name                TEXT    NOT NULL,
    -- The name in lower case, for searching in any alphabet.
    name_key            TEXT    NOT NULL,
    -- Unique among the owner's living workspaces; empty until the next start for rows that were made before.
    slug                TEXT    NOT NULL DEFAULT '',
    labels              TEXT    NOT NULL DEFAULT '{}' CHECK (json_valid(labels)),
    description         TEXT    NOT NULL,
    memo                TEXT    NOT NULL,
    image_ref           TEXT    NOT NULL,
    home_store_key      TEXT    NOT NULL,
    -- NULL is the deployment's default, 0 is never.
    standby_ttl_seconds INTEGER CHECK (standby_ttl_seconds >= 0),
    archive_ttl_seconds INTEGER CHECK (archive_ttl_seconds >= 0),
    -- NULL is the deployment's mode.
    activity_mode       TEXT,
    desired_state       TEXT    NOT NULL
        CHECK (desired_state IN ('RUNNING', 'STANDBY', 'ARCHIVED', 'DELETED')),
    desired_changed_at  INTEGER NOT NULL,
    deleted_at          INTEGER,
    last_access_at      INTEGER NOT NULL,
    -- The end of the longest lease, which counts like an activity then; NULL is none.
    held_until          INTEGER,

    conditions          TEXT    NOT NULL CHECK (json_valid(conditions)),
    observed_at         INTEGER,
    phase               TEXT    NOT NULL CHECK (
        phase IN ('PENDING', 'ARCHIVED', 'STANDBY', 'RUNNING', 'ERROR', 'DELETING', 'DELETED')),
    phase_changed_at    INTEGER NOT NULL,
    operation           TEXT    NOT NULL,
    op_started_at       INTEGER,
    op_moved_at         INTEGER,
    op_id               TEXT,
    archive_key         TEXT,
    error_reason        TEXT,
    error_message       TEXT,
    -- The error is one that only a person may clear.
    failed              INTEGER NOT NULL DEFAULT 0 CHECK (failed IN (0, 1)),
    error_count         INTEGER NOT NULL CHECK (error_count >= 0),
    next_retry_at       INTEGER,
    home_ctx            TEXT    NOT NULL CHECK (json_valid(home_ctx)),
    progress            TEXT    CHECK (json_valid(progress)),
    -- Backends of this deployment by name (`docker-1`), not by kind.
    instance_backend    TEXT    NOT NULL,
    storage_backend     TEXT    NOT NULL,

    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    revision            INTEGER NOT NULL,

    -- The controller has something to do: an operation is under way, or a wish is not fulfilled and
    -- does not wait for a person.
    active              INTEGER NOT NULL GENERATED ALWAYS AS (
        operation <> 'NONE'
        OR (phase <> desired_state AND NOT (phase = 'ERROR' AND deleted_at IS NULL AND failed))
    ) VIRTUAL,
    -- It takes one of the places that are limited: it runs, or is meant to.
    takes_place         INTEGER NOT NULL GENERATED ALWAYS AS (
        phase = 'RUNNING' OR desired_state = 'RUNNING'
    ) VIRTUAL,
    -- A TTL may end this state: it is what was asked for, and nothing is under way.
    rests               INTEGER NOT NULL GENERATED ALWAYS AS (
        operation = 'NONE' AND deleted_at IS NULL AND phase = desired_state
    ) VIRTUAL,

    CHECK (phase <> 'ERROR' OR operation = 'NONE'),
    CHECK ((deleted_at IS NULL) = (desired_state <> 'DELETED')),
    CHECK ((error_reason IS NULL) = (error_message IS NULL))
) STRICT;

INSERT INTO new_workspaces (id, owner_user_id, name, name_key, description, memo, image_ref, home_store_key,
    standby_ttl_seconds, archive_ttl_seconds, activity_mode, desired_state, desired_changed_at, deleted_at,
    last_access_at, held_until, conditions, observed_at, phase, phase_changed_at, operation, op_started_at,
    op_moved_at, op_id, archive_key, error_reason, error_message, failed, error_count, next_retry_at, home_ctx,
    progress, instance_backend, storage_backend, created_at, updated_at, revision)
SELECT id, owner_user_id, name, name_key, description, memo, image_ref, home_store_key,
    standby_ttl_seconds, archive_ttl_seconds, activity_mode, desired_state, desired_changed_at, deleted_at,
    last_access_at, held_until, conditions, observed_at, phase, phase_changed_at, operation, op_started_at,
    op_moved_at, op_id, archive_key, error_reason, error_message,
    coalesce(error_reason, '') IN ('Timeout', 'ImagePullFailed', 'ContainerWithoutVolume', 'ArchiveCorrupted',
        'DataLost', 'RetryExceeded'),
    error_count, next_retry_at, home_ctx,
    progress, instance_backend, storage_backend, created_at, updated_at, revision
FROM workspaces;

-- A row that is not zero ends the migration, and nothing has happened.
CREATE TABLE lost (rows INTEGER NOT NULL CHECK (rows = 0)) STRICT;
INSERT INTO lost SELECT (SELECT count(*) FROM users) - (SELECT count(*) FROM new_users);
INSERT INTO lost SELECT (SELECT count(*) FROM workspaces) - (SELECT count(*) FROM new_workspaces);

DROP TABLE workspaces;
DROP TABLE users;
ALTER TABLE new_users RENAME TO users;
ALTER TABLE new_workspaces RENAME TO workspaces;

INSERT INTO lost SELECT count(*) FROM pragma_foreign_key_check;
DROP TABLE lost;

CREATE UNIQUE INDEX users_name ON users (username_key) WHERE deleted_at IS NULL;

-- What people list: everything, one owner's, one phase's; each page begins at an id.
CREATE INDEX workspaces_living ON workspaces (id) WHERE deleted_at IS NULL;
CREATE INDEX workspaces_owner ON workspaces (owner_user_id, id) WHERE deleted_at IS NULL;
CREATE INDEX workspaces_phase ON workspaces (phase, id) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX workspaces_slug ON workspaces (owner_user_id, slug) WHERE deleted_at IS NULL AND slug <> '';
-- What the controller looks at; and when nothing is going on, not what runs (that is looked at anyway), and
-- not what has been deleted and is gone.
CREATE INDEX workspaces_active ON workspaces (id) WHERE active;
CREATE INDEX workspaces_quiet ON workspaces (observed_at, id)
    WHERE NOT active AND phase <> 'RUNNING' AND phase <> 'DELETED';
CREATE INDEX workspaces_error ON workspaces (error_reason, id) WHERE error_reason IS NOT NULL;
-- What the limits count.
CREATE INDEX workspaces_places ON workspaces (owner_user_id, id) WHERE takes_place;
-- Whose home an archive is: a workspace can be made from another's.
CREATE INDEX workspaces_archive ON workspaces (archive_key) WHERE archive_key IS NOT NULL;
-- What the TTLs compare, apart for the deployment's default and for a workspace's own, so that "the
-- oldest" is one look at each.
CREATE INDEX workspaces_ttl_standby
    ON workspaces (max(last_access_at, phase_changed_at, coalesce(held_until, 0)))
    WHERE rests AND phase = 'RUNNING' AND standby_ttl_seconds IS NULL;
CREATE INDEX workspaces_ttl_standby_own
    ON workspaces (max(last_access_at, phase_changed_at, coalesce(held_until, 0)) + standby_ttl_seconds * 1000000)
    WHERE rests AND phase = 'RUNNING' AND standby_ttl_seconds > 0;
CREATE INDEX workspaces_ttl_archive ON workspaces (phase_changed_at)
    WHERE rests AND phase = 'STANDBY' AND archive_ttl_seconds IS NULL;
CREATE INDEX workspaces_ttl_archive_own ON workspaces (phase_changed_at + archive_ttl_seconds * 1000000)
    WHERE rests AND phase = 'STANDBY' AND archive_ttl_seconds > 0;

-- The whole schema of the first release.
--
-- Times are microseconds since 1970 (UTC), ids canonical lower-case UUIDs, contexts JSON. Whatever a
-- CHECK can say about the rules of the domain it says, so that no other tool can write past them.

CREATE TABLE users (
    id            TEXT    NOT NULL PRIMARY KEY,
    username      TEXT    NOT NULL,
    -- The name in lower case: names are compared without case, in any alphabet.
    username_key  TEXT    NOT NULL,
    password_hash TEXT    NOT NULL,
    role          TEXT    NOT NULL CHECK (role IN ('user', 'admin')),
    disabled      INTEGER NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1)),
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    -- The row stays: deleted workspaces and the history still name their owner.
    deleted_at    INTEGER
) STRICT;

CREATE UNIQUE INDEX users_name ON users (username_key) WHERE deleted_at IS NULL;

CREATE TABLE sessions (
    id          TEXT    NOT NULL PRIMARY KEY,
    user_id     TEXT    NOT NULL REFERENCES users (id),
    secret_hash BLOB    NOT NULL UNIQUE,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    -- When the end was last moved: moved at most once a minute.
    renewed_at  INTEGER NOT NULL
) STRICT;

CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_end ON sessions (expires_at);

CREATE TABLE api_tokens (
    id           TEXT    NOT NULL PRIMARY KEY,
    user_id      TEXT    NOT NULL REFERENCES users (id),
    name         TEXT    NOT NULL,
    secret_hash  BLOB    NOT NULL UNIQUE,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER
) STRICT;

CREATE INDEX api_tokens_user ON api_tokens (user_id, id);

CREATE TABLE login_attempts (
    key             TEXT    NOT NULL PRIMARY KEY,
    failures        INTEGER NOT NULL CHECK (failures > 0),
    last_failure_at INTEGER NOT NULL,
    forget_at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX login_attempts_end ON login_attempts (forget_at);

CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row, for ever. Taking the lease increments the epoch; every write of the coordinator names it.
CREATE TABLE leader (
    only     INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
    epoch    INTEGER NOT NULL,
    holder   TEXT    NOT NULL,
    taken_at INTEGER NOT NULL
) STRICT;

INSERT INTO leader (only, epoch, holder, taken_at) VALUES (1, 0, '', 0);

CREATE TABLE workspaces (
    id                  TEXT    NOT NULL PRIMARY KEY,
    owner_user_id       TEXT    NOT NULL REFERENCES users (id),
    name                TEXT    NOT NULL,
    -- The name in lower case, for searching in any alphabet.
    name_key            TEXT    NOT NULL,
    description         TEXT    NOT NULL,
    memo                TEXT    NOT NULL,
    image_ref           TEXT    NOT NULL,
    home_store_key      TEXT    NOT NULL,
    -- NULL is the deployment's default, 0 is never.
    standby_ttl_seconds INTEGER CHECK (standby_ttl_seconds >= 0),
    archive_ttl_seconds INTEGER CHECK (archive_ttl_seconds >= 0),
    desired_state       TEXT    NOT NULL
        CHECK (desired_state IN ('RUNNING', 'STANDBY', 'ARCHIVED', 'DELETED')),
    desired_changed_at  INTEGER NOT NULL,
    deleted_at          INTEGER,
    last_access_at      INTEGER NOT NULL,

    conditions          TEXT    NOT NULL CHECK (json_valid(conditions)),
    observed_at         INTEGER,
    phase               TEXT    NOT NULL CHECK (
        phase IN ('PENDING', 'ARCHIVED', 'STANDBY', 'RUNNING', 'ERROR', 'DELETING', 'DELETED')),
    phase_changed_at    INTEGER NOT NULL,
    operation           TEXT    NOT NULL CHECK (
        operation IN ('NONE', 'PROVISIONING', 'CREATE_EMPTY_ARCHIVE', 'RESTORING', 'STARTING',
                      'STOPPING', 'ARCHIVING', 'DELETING')),
    op_started_at       INTEGER,
    op_moved_at         INTEGER,
    op_id               TEXT,
    archive_key         TEXT,
    error_reason        TEXT    CHECK (
        error_reason IN ('Timeout', 'ImagePullFailed', 'ContainerWithoutVolume', 'ArchiveCorrupted',
                         'DataLost', 'ActionFailed', 'Unreachable', 'RetryExceeded')),
    error_message       TEXT,
    error_count         INTEGER NOT NULL CHECK (error_count >= 0),
    next_retry_at       INTEGER,
    home_ctx            TEXT    NOT NULL CHECK (json_valid(home_ctx)),
    progress            TEXT    CHECK (json_valid(progress)),
    instance_backend    TEXT    NOT NULL,
    storage_backend     TEXT    NOT NULL,

    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    revision            INTEGER NOT NULL,

    -- The controller has something to do: an operation is under way, or a wish is not fulfilled and
    -- does not wait for a person.
    active              INTEGER NOT NULL GENERATED ALWAYS AS (
        operation <> 'NONE' OR (
            phase <> desired_state
            AND NOT (
                phase = 'ERROR'
                AND deleted_at IS NULL
                AND coalesce(error_reason, '') IN (
                    'Timeout', 'ImagePullFailed', 'ContainerWithoutVolume', 'ArchiveCorrupted',
                    'DataLost', 'RetryExceeded')
            )
        )
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

-- What people list.
CREATE INDEX workspaces_owner ON workspaces (owner_user_id, id) WHERE deleted_at IS NULL;
CREATE INDEX workspaces_phase ON workspaces (phase, id) WHERE deleted_at IS NULL;
-- What the controller looks at.
CREATE INDEX workspaces_active ON workspaces (id) WHERE active = 1;
CREATE INDEX workspaces_observed ON workspaces (observed_at, id);
CREATE INDEX workspaces_error ON workspaces (error_reason, id) WHERE error_reason IS NOT NULL;
-- What the limits count.
CREATE INDEX workspaces_places ON workspaces (owner_user_id, id) WHERE takes_place = 1;
-- What the TTLs compare, apart for the deployment's default and for a workspace's own, so that "the
-- oldest" is one look at each.
CREATE INDEX workspaces_ttl_standby ON workspaces (max(last_access_at, phase_changed_at))
    WHERE rests = 1 AND phase = 'RUNNING' AND standby_ttl_seconds IS NULL;
CREATE INDEX workspaces_ttl_standby_own
    ON workspaces (max(last_access_at, phase_changed_at) + standby_ttl_seconds * 1000000)
    WHERE rests = 1 AND phase = 'RUNNING' AND standby_ttl_seconds > 0;
CREATE INDEX workspaces_ttl_archive ON workspaces (phase_changed_at)
    WHERE rests = 1 AND phase = 'STANDBY' AND archive_ttl_seconds IS NULL;
CREATE INDEX workspaces_ttl_archive_own ON workspaces (phase_changed_at + archive_ttl_seconds * 1000000)
    WHERE rests = 1 AND phase = 'STANDBY' AND archive_ttl_seconds > 0;

-- The history: only ever appended to.
CREATE TABLE workspace_events (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id TEXT    NOT NULL REFERENCES workspaces (id),
    at           INTEGER NOT NULL,
    from_phase   TEXT    NOT NULL,
    to_phase     TEXT    NOT NULL,
    operation    TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    actor        TEXT    NOT NULL
) STRICT;

CREATE INDEX workspace_events_workspace ON workspace_events (workspace_id, id);

-- When the collector first saw that nothing refers to something.
CREATE TABLE gc_sightings (
    item       TEXT    NOT NULL PRIMARY KEY,
    first_seen INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

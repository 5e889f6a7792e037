-- The whole schema of the first release.
--
-- Times are microseconds since 1970 (UTC): the same numbers as in every other dialect, and sums of them
-- can be indexed (a timestamptz plus an interval cannot). `to_timestamp(t / 1e6)` shows them to people.
-- Whatever a CHECK can say about the rules of the domain it says, so that no other tool can write past
-- them.

-- The database's clock, which ticks on within a transaction.
CREATE FUNCTION codehub_now() RETURNS BIGINT LANGUAGE sql VOLATILE PARALLEL SAFE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT $$;

CREATE TABLE users (
    id            UUID    NOT NULL PRIMARY KEY,
    username      TEXT    NOT NULL,
    -- The name in lower case: names are compared without case, in any alphabet.
    username_key  TEXT    NOT NULL,
    password_hash TEXT    NOT NULL,
    role          TEXT    NOT NULL CHECK (role IN ('user', 'admin')),
    disabled      BOOLEAN NOT NULL DEFAULT FALSE,
    created_at    BIGINT  NOT NULL,
    updated_at    BIGINT  NOT NULL,
    -- The row stays: deleted workspaces and the history still name their owner.
    deleted_at    BIGINT
);

CREATE UNIQUE INDEX users_name ON users (username_key) WHERE deleted_at IS NULL;

CREATE TABLE sessions (
    id          UUID   NOT NULL PRIMARY KEY,
    user_id     UUID   NOT NULL REFERENCES users (id),
    secret_hash BYTEA  NOT NULL UNIQUE,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    -- When the end was last moved: moved at most once a minute.
    renewed_at  BIGINT NOT NULL
);

CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_end ON sessions (expires_at);

CREATE TABLE api_tokens (
    id           UUID   NOT NULL PRIMARY KEY,
    user_id      UUID   NOT NULL REFERENCES users (id),
    name         TEXT   NOT NULL,
    secret_hash  BYTEA  NOT NULL UNIQUE,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT,
    last_used_at BIGINT
);

CREATE INDEX api_tokens_user ON api_tokens (user_id, id);

CREATE TABLE login_attempts (
    key             TEXT   NOT NULL PRIMARY KEY,
    failures        BIGINT NOT NULL CHECK (failures > 0),
    last_failure_at BIGINT NOT NULL,
    forget_at       BIGINT NOT NULL
);

CREATE INDEX login_attempts_end ON login_attempts (forget_at);

CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

-- One row, for ever. Taking the lease increments the epoch; every write of the coordinator names it.
CREATE TABLE leader (
    "only"   INTEGER NOT NULL PRIMARY KEY CHECK ("only" = 1),
    epoch    BIGINT  NOT NULL,
    holder   TEXT    NOT NULL,
    taken_at BIGINT  NOT NULL
) WITH (fillfactor = 50);

INSERT INTO leader ("only", epoch, holder, taken_at) VALUES (1, 0, '', 0);

CREATE TABLE workspaces (
    id                  UUID    NOT NULL PRIMARY KEY,
    owner_user_id       UUID    NOT NULL REFERENCES users (id),
    name                TEXT    NOT NULL,
    -- The name in lower case, for searching in any alphabet.
    name_key            TEXT    NOT NULL,
    description         TEXT    NOT NULL,
    memo                TEXT    NOT NULL,
    image_ref           TEXT    NOT NULL,
    home_store_key      TEXT    NOT NULL,
    -- NULL is the deployment's default, 0 is never.
    standby_ttl_seconds BIGINT CHECK (standby_ttl_seconds >= 0),
    archive_ttl_seconds BIGINT CHECK (archive_ttl_seconds >= 0),
    desired_state       TEXT    NOT NULL
        CHECK (desired_state IN ('RUNNING', 'STANDBY', 'ARCHIVED', 'DELETED')),
    desired_changed_at  BIGINT  NOT NULL,
    deleted_at          BIGINT,
    last_access_at      BIGINT  NOT NULL,

    conditions          JSONB   NOT NULL,
    observed_at         BIGINT,
    phase               TEXT    NOT NULL CHECK (
        phase IN ('PENDING', 'ARCHIVED', 'STANDBY', 'RUNNING', 'ERROR', 'DELETING', 'DELETED')),
    phase_changed_at    BIGINT  NOT NULL,
    operation           TEXT    NOT NULL CHECK (
        operation IN ('NONE', 'PROVISIONING', 'CREATE_EMPTY_ARCHIVE', 'RESTORING', 'STARTING',
                      'STOPPING', 'ARCHIVING', 'DELETING')),
    op_started_at       BIGINT,
    op_moved_at         BIGINT,
    op_id               UUID,
    archive_key         TEXT,
    error_reason        TEXT    CHECK (
        error_reason IN ('Timeout', 'ImagePullFailed', 'ContainerWithoutVolume', 'ArchiveCorrupted',
                         'DataLost', 'ActionFailed', 'Unreachable', 'RetryExceeded')),
    error_message       TEXT,
    error_count         BIGINT  NOT NULL CHECK (error_count >= 0),
    next_retry_at       BIGINT,
    home_ctx            JSONB   NOT NULL,
    progress            JSONB,
    instance_backend    TEXT    NOT NULL,
    storage_backend     TEXT    NOT NULL,

    created_at          BIGINT  NOT NULL,
    updated_at          BIGINT  NOT NULL,
    revision            BIGINT  NOT NULL,

    -- The controller has something to do: an operation is under way, or a wish is not fulfilled and
    -- does not wait for a person.
    active              BOOLEAN NOT NULL GENERATED ALWAYS AS (
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
    ) STORED,
    -- It takes one of the places that are limited: it runs, or is meant to.
    takes_place         BOOLEAN NOT NULL GENERATED ALWAYS AS (
        phase = 'RUNNING' OR desired_state = 'RUNNING'
    ) STORED,
    -- A TTL may end this state: it is what was asked for, and nothing is under way.
    rests               BOOLEAN NOT NULL GENERATED ALWAYS AS (
        operation = 'NONE' AND deleted_at IS NULL AND phase = desired_state
    ) STORED,

    CHECK (phase <> 'ERROR' OR operation = 'NONE'),
    CHECK ((deleted_at IS NULL) = (desired_state <> 'DELETED')),
    CHECK ((error_reason IS NULL) = (error_message IS NULL))
);

-- What people list.
CREATE INDEX workspaces_owner ON workspaces (owner_user_id, id) WHERE deleted_at IS NULL;
CREATE INDEX workspaces_phase ON workspaces (phase, id) WHERE deleted_at IS NULL;
-- What the controller looks at. Never looked at comes first.
CREATE INDEX workspaces_active ON workspaces (id) WHERE active;
CREATE INDEX workspaces_observed ON workspaces (observed_at NULLS FIRST, id)
    WHERE NOT active AND phase <> 'RUNNING';
CREATE INDEX workspaces_error ON workspaces (error_reason, id) WHERE error_reason IS NOT NULL;
-- What the limits count.
CREATE INDEX workspaces_places ON workspaces (owner_user_id, id) WHERE takes_place;
-- What the TTLs compare, apart for the deployment's default and for a workspace's own, so that "the
-- oldest" is one look at each.
CREATE INDEX workspaces_ttl_standby ON workspaces (greatest(last_access_at, phase_changed_at))
    WHERE rests AND phase = 'RUNNING' AND standby_ttl_seconds IS NULL;
CREATE INDEX workspaces_ttl_standby_own
    ON workspaces ((greatest(last_access_at, phase_changed_at) + standby_ttl_seconds * 1000000))
    WHERE rests AND phase = 'RUNNING' AND standby_ttl_seconds > 0;
CREATE INDEX workspaces_ttl_archive ON workspaces (phase_changed_at)
    WHERE rests AND phase = 'STANDBY' AND archive_ttl_seconds IS NULL;
CREATE INDEX workspaces_ttl_archive_own ON workspaces ((phase_changed_at + archive_ttl_seconds * 1000000))
    WHERE rests AND phase = 'STANDBY' AND archive_ttl_seconds > 0;

-- The history: only ever appended to.
CREATE TABLE workspace_events (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace_id UUID   NOT NULL REFERENCES workspaces (id),
    at           BIGINT NOT NULL,
    from_phase   TEXT   NOT NULL,
    to_phase     TEXT   NOT NULL,
    operation    TEXT   NOT NULL,
    reason       TEXT   NOT NULL,
    actor        TEXT   NOT NULL
);

CREATE INDEX workspace_events_workspace ON workspace_events (workspace_id, id);

-- When the collector first saw that nothing refers to something.
CREATE TABLE gc_sightings (
    item       TEXT   NOT NULL PRIMARY KEY,
    first_seen BIGINT NOT NULL
);

-- Changes, told to every process that listens. Ids only: a payload of 8,000 bytes would fail the write
-- that caused it. Only for columns that somebody waits for, because a NOTIFY costs every commit that
-- has one. A wake carries nothing, so that one transaction wakes once however many rows it changes.

CREATE FUNCTION codehub_tell_workspace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.deleted_at IS NULL THEN
        PERFORM pg_notify('ws_sse', NEW.id || ' ' || NEW.owner_user_id);
    ELSIF OLD.deleted_at IS NULL THEN
        PERFORM pg_notify('ws_deleted', NEW.id || ' ' || NEW.owner_user_id);
    END IF;
    IF TG_OP = 'INSERT' OR NEW.desired_state <> OLD.desired_state THEN
        PERFORM pg_notify('ws_wake', '');
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER workspaces_created AFTER INSERT ON workspaces
    FOR EACH ROW EXECUTE FUNCTION codehub_tell_workspace();

CREATE TRIGGER workspaces_changed AFTER UPDATE ON workspaces
    FOR EACH ROW WHEN (
        (OLD.phase, OLD.operation, OLD.error_reason, OLD.progress, OLD.desired_state, OLD.deleted_at,
         OLD.name, OLD.description, OLD.memo, OLD.standby_ttl_seconds, OLD.archive_ttl_seconds)
        IS DISTINCT FROM
        (NEW.phase, NEW.operation, NEW.error_reason, NEW.progress, NEW.desired_state, NEW.deleted_at,
         NEW.name, NEW.description, NEW.memo, NEW.standby_ttl_seconds, NEW.archive_ttl_seconds)
    )
    EXECUTE FUNCTION codehub_tell_workspace();

CREATE FUNCTION codehub_tell_access() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'users' THEN
        PERFORM pg_notify('user_access', NEW.id::TEXT);
    ELSE
        PERFORM pg_notify('user_access', OLD.user_id::TEXT);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER users_changed AFTER UPDATE ON users
    FOR EACH ROW WHEN (
        (OLD.password_hash, OLD.role, OLD.disabled, OLD.deleted_at)
        IS DISTINCT FROM (NEW.password_hash, NEW.role, NEW.disabled, NEW.deleted_at)
    )
    EXECUTE FUNCTION codehub_tell_access();

CREATE TRIGGER sessions_ended AFTER DELETE ON sessions
    FOR EACH ROW EXECUTE FUNCTION codehub_tell_access();

CREATE TRIGGER api_tokens_ended AFTER DELETE ON api_tokens
    FOR EACH ROW EXECUTE FUNCTION codehub_tell_access();

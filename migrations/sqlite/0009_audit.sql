-- What people, programs and operators did. Written in the transaction of the act; never updated, except for the
-- count of what is folded into one row.

CREATE TABLE audit_events (
    -- UUIDv7 made of `at`: ids sort by time.
    id           TEXT    NOT NULL PRIMARY KEY,
    at           INTEGER NOT NULL,
    actor_kind   TEXT    NOT NULL,
    -- No reference: what happened stays when whoever did it goes.
    actor_id     TEXT,
    actor_name   TEXT    NOT NULL,
    session_id   TEXT,
    token_id     TEXT,
    action       TEXT    NOT NULL,
    object_kind  TEXT,
    object_id    TEXT,
    object_name  TEXT,
    outcome      TEXT    NOT NULL,
    code         TEXT,
    address      TEXT    NOT NULL,
    user_agent   TEXT    NOT NULL,
    request_id   TEXT    NOT NULL,
    replica      TEXT    NOT NULL,
    -- What was changed: before, after. Never a secret.
    changed_from TEXT,
    changed_to   TEXT,
    times        INTEGER NOT NULL DEFAULT 1 CHECK (times > 0),
    -- What is counted together; NULL where every event is its own.
    fold         TEXT
) STRICT;

CREATE INDEX audit_events_actor ON audit_events (actor_id, id) WHERE actor_id IS NOT NULL;
CREATE INDEX audit_events_kind ON audit_events (actor_kind, id);
CREATE INDEX audit_events_action ON audit_events (action, id);
CREATE INDEX audit_events_object ON audit_events (object_id, id) WHERE object_id IS NOT NULL;
CREATE INDEX audit_events_outcome ON audit_events (outcome, id);
CREATE INDEX audit_events_fold ON audit_events (fold, at) WHERE fold IS NOT NULL;

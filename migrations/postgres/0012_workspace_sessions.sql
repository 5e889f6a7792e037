-- How somebody who is signed in gets to an origin of a workspace: by a code that is good once, for a moment, there, and in
-- the browser that asked. Then by a session of that origin alone, which ends with the one it came from. Only hashes of
-- codes and secrets are here. Port 0 is the workspace itself.
CREATE TABLE handovers (
    code_hash    BYTEA NOT NULL PRIMARY KEY,
    session_id   UUID NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    workspace_id UUID NOT NULL,
    port         BIGINT NOT NULL,
    -- What the nonce of the browser that asked hashes to.
    state        BYTEA NOT NULL,
    -- The path to go on to.
    target       TEXT NOT NULL,
    expires_at   BIGINT NOT NULL
);

CREATE INDEX handovers_session ON handovers (session_id);
CREATE INDEX handovers_end ON handovers (expires_at);

CREATE TABLE workspace_sessions (
    secret_hash  BYTEA NOT NULL PRIMARY KEY,
    session_id   UUID NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    workspace_id UUID NOT NULL,
    port         BIGINT NOT NULL,
    created_at   BIGINT NOT NULL
);

CREATE INDEX workspace_sessions_session ON workspace_sessions (session_id, workspace_id, port);

-- How somebody who is signed in gets to an origin of a workspace: by a code that is good once, for a moment, there, and in
-- the browser that asked. Then by a session of that origin alone, which ends with the one it came from. Only hashes of
-- codes and secrets are here. Port 0 is the workspace itself.
CREATE TABLE handovers (
    code_hash    BLOB NOT NULL PRIMARY KEY,
    session_id   TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL,
    port         INTEGER NOT NULL,
    -- What the nonce of the browser that asked hashes to.
    state        BLOB NOT NULL,
    -- The path to go on to.
    target       TEXT NOT NULL,
    expires_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX handovers_session ON handovers (session_id);
CREATE INDEX handovers_end ON handovers (expires_at);

CREATE TABLE workspace_sessions (
    secret_hash  BLOB NOT NULL PRIMARY KEY,
    session_id   TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL,
    port         INTEGER NOT NULL,
    created_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX workspace_sessions_session ON workspace_sessions (session_id, workspace_id, port);

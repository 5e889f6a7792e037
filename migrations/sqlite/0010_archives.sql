-- What each archive of ours is: written in the transaction that makes its key a home's, and held against whatever the
-- store of archives gives back. Archives from before have no row until they are adopted.

CREATE TABLE archives (
    key          TEXT    NOT NULL PRIMARY KEY,
    workspace_id TEXT    NOT NULL REFERENCES workspaces (id),
    op_id        TEXT    NOT NULL,
    format       INTEGER NOT NULL CHECK (format > 0),
    sha256       TEXT    NOT NULL,
    size         INTEGER NOT NULL CHECK (size >= 0),
    uncompressed INTEGER NOT NULL CHECK (uncompressed >= 0),
    entries      INTEGER NOT NULL CHECK (entries >= 0),
    -- NULL where the format has no index.
    index_sha256 TEXT,
    recorded_at  INTEGER NOT NULL
) STRICT;

CREATE INDEX archives_workspace ON archives (workspace_id, op_id);

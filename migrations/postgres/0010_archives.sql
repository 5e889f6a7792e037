-- What each archive of ours is: written in the transaction that makes its key a home's, and held against whatever the
-- store of archives gives back. Archives from before have no row until they are adopted.

CREATE TABLE archives (
    key          TEXT    NOT NULL PRIMARY KEY,
    workspace_id UUID    NOT NULL REFERENCES workspaces (id),
    op_id        UUID    NOT NULL,
    format       BIGINT NOT NULL CHECK (format > 0),
    sha256       TEXT    NOT NULL,
    size         BIGINT NOT NULL CHECK (size >= 0),
    uncompressed BIGINT NOT NULL CHECK (uncompressed >= 0),
    entries      BIGINT NOT NULL CHECK (entries >= 0),
    -- NULL where the format has no index.
    index_sha256 TEXT,
    recorded_at  BIGINT NOT NULL
);

CREATE INDEX archives_workspace ON archives (workspace_id, op_id);

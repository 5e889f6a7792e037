-- What the owners of workspaces said about ports in them: who may open them, and how their programs are spoken to. A port
-- without a row is its owner's alone.
CREATE TABLE ports (
    workspace_id UUID   NOT NULL REFERENCES workspaces (id),
    port         BIGINT NOT NULL CHECK (port BETWEEN 1 AND 65535),
    label        TEXT   NOT NULL,
    host         TEXT   NOT NULL CHECK (host IN ('local', 'public')),
    visibility   TEXT   NOT NULL CHECK (visibility IN ('owner', 'signed-in')),
    activity     TEXT   NOT NULL CHECK (activity IN ('requests', 'never')),
    PRIMARY KEY (workspace_id, port)
);

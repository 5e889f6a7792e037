-- The garbage collector claims what it deletes, so that nothing can begin to need it meanwhile.

CREATE TABLE gc_claims (
    item       TEXT   NOT NULL PRIMARY KEY,
    claimed_at BIGINT NOT NULL
);

-- Whose home an archive is: a workspace can be made from another's.
CREATE INDEX workspaces_archive ON workspaces (archive_key) WHERE archive_key IS NOT NULL;

-- What the controller looks at when nothing is going on: not what runs (that is looked at anyway), and not
-- what has been deleted and is gone. A version that is older than this still finds the same rows, by reading more.
CREATE INDEX workspaces_quiet ON workspaces (observed_at NULLS FIRST, id)
    WHERE NOT active AND phase <> 'RUNNING' AND phase <> 'DELETED';
DROP INDEX workspaces_observed;

-- What the controller looks at when nothing is going on: not what runs (that is looked at anyway), and not
-- what has been deleted and is gone.
CREATE INDEX workspaces_quiet ON workspaces (observed_at, id)
    WHERE active = 0 AND phase <> 'RUNNING' AND phase <> 'DELETED';
DROP INDEX workspaces_observed;

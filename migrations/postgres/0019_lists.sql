-- Lists are searched by description, and begin with what runs and what was used last. A version that is older than
-- this goes on working beside it: what it writes is found by its description after the next edit.

-- The description in lower case, for searching.
ALTER TABLE workspaces ADD COLUMN description_key TEXT NOT NULL DEFAULT '';

-- Nobody waits to be told of this.
ALTER TABLE workspaces DISABLE TRIGGER workspaces_changed;
UPDATE workspaces SET description_key = lower(description) WHERE description <> '';
ALTER TABLE workspaces ENABLE TRIGGER workspaces_changed;

CREATE INDEX workspaces_used ON workspaces (takes_place, last_access_at, id) WHERE deleted_at IS NULL;

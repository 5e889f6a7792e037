-- Lists are searched by description, and begin with what runs and what was used last.

-- The description in lower case, for searching. Rows from before fold the letters of other alphabets than ours when
-- they are next edited.
ALTER TABLE workspaces ADD COLUMN description_key TEXT NOT NULL DEFAULT '';
UPDATE workspaces SET description_key = lower(description);

CREATE INDEX workspaces_used ON workspaces (takes_place, last_access_at, id) WHERE deleted_at IS NULL;

-- From format 3 on, an archive stores only what is new: the operations whose archives' objects hold the rest of it, one
-- space between two. Archives from before are whole.

ALTER TABLE archives ADD COLUMN parts TEXT NOT NULL DEFAULT '';

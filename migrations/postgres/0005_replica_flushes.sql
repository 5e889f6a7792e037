-- Up to when a replica has told everything about activity that it knows. While one that lives is behind,
-- nobody is put to sleep: its people may be at work.
ALTER TABLE replicas ADD COLUMN flushed_at BIGINT;

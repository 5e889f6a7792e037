-- How the program at a port is spoken to: some development servers speak TLS only.
ALTER TABLE ports ADD COLUMN scheme TEXT NOT NULL DEFAULT 'http' CHECK (scheme IN ('http', 'https'));

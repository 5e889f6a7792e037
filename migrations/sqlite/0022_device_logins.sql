-- Programs that ask to act for whoever confirms it in a browser: known by the hash of what only the program has, and by the
-- hash of the short code that people type. Nobody has decided while there is no session and it is not denied; whoever allows
-- it does so in a session, and it ends with that.
CREATE TABLE device_logins (
    device_hash BLOB    NOT NULL PRIMARY KEY,
    code_hash   BLOB    NOT NULL UNIQUE,
    -- What the asking machine calls itself, and where it asked from: shown to whoever decides.
    machine     TEXT    NOT NULL,
    address     TEXT    NOT NULL,
    session_id  TEXT    REFERENCES sessions (id) ON DELETE CASCADE,
    denied      INTEGER NOT NULL CHECK (denied IN (0, 1)),
    expires_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX device_logins_session ON device_logins (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX device_logins_end ON device_logins (expires_at);

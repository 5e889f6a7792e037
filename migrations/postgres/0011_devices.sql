-- Browsers that somebody has signed in with: guesses from elsewhere do not make them wait. Only the hash of the cookie
-- is here; one cookie may be known for several users.
CREATE TABLE devices (
    secret_hash BYTEA  NOT NULL,
    user_id     UUID   NOT NULL REFERENCES users (id),
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    PRIMARY KEY (user_id, secret_hash)
);

CREATE INDEX devices_end ON devices (expires_at);

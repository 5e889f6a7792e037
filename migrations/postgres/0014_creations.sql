-- What was created by a request that may be sent again (`Idempotency-Key`): hashes of the key and of what was asked for.
CREATE TABLE creations (
    owner_user_id UUID   NOT NULL REFERENCES users (id),
    key           TEXT   NOT NULL,
    request       TEXT   NOT NULL,
    workspace_id  UUID   NOT NULL,
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (owner_user_id, key)
);

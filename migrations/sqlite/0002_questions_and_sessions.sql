-- What a task asks its owner, and what a session changed from its defaults.

-- Question and answer live from the asking until the worker took the answer, or the task ended.
ALTER TABLE tasks ADD COLUMN question_id TEXT;
ALTER TABLE tasks ADD COLUMN question TEXT;
ALTER TABLE tasks ADD COLUMN answer TEXT;

CREATE TABLE sessions (
    tenant_id     TEXT    NOT NULL,
    id            TEXT    NOT NULL,
    ended         INTEGER NOT NULL DEFAULT 0,
    log_level     TEXT,
    expires_at_us INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_expiry ON sessions (expires_at_us);

CREATE TABLE session_subscriptions (
    tenant_id  TEXT NOT NULL,
    session_id TEXT NOT NULL,
    uri        TEXT NOT NULL CHECK (length(CAST(uri AS BLOB)) <= 2048),
    PRIMARY KEY (tenant_id, session_id, uri),
    FOREIGN KEY (tenant_id, session_id) REFERENCES sessions (tenant_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The embedded store. Times are microseconds since 1970 (UTC); JSON is text; ids are text.

CREATE TABLE tasks (
    tenant_id       TEXT    NOT NULL,
    id              TEXT    NOT NULL,
    subject         TEXT    NOT NULL,
    tool            TEXT    NOT NULL,
    arguments       TEXT    NOT NULL,
    call            TEXT    NOT NULL,
    trace_id        TEXT    NOT NULL,
    status          TEXT    NOT NULL CHECK (status IN ('running', 'input_required', 'completed', 'failed', 'cancelled')),
    progress        TEXT,
    output          TEXT,
    error           TEXT,
    created_at_us   INTEGER NOT NULL,
    updated_at_us   INTEGER NOT NULL,
    completed_at_us INTEGER,
    timeout_at_us   INTEGER NOT NULL,
    ttl_us          INTEGER NOT NULL,
    expires_at_us   INTEGER NOT NULL,
    -- Who runs it, and until when nobody else may.
    worker          TEXT,
    lease_until_us  INTEGER,
    attempts        INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX tasks_newest ON tasks (tenant_id, subject, created_at_us DESC, id DESC);
CREATE INDEX tasks_open ON tasks (tenant_id) WHERE status IN ('running', 'input_required');
CREATE INDEX tasks_expiry ON tasks (expires_at_us);

CREATE TABLE audit (
    tenant_id       TEXT    NOT NULL,
    seq             INTEGER NOT NULL,
    kind            TEXT    NOT NULL,
    actor_id        TEXT    NOT NULL,
    -- Canonical JSON, byte for byte what the anchor seals.
    body            TEXT    NOT NULL,
    ts              TEXT    NOT NULL,
    trace_id        TEXT    NOT NULL,
    prev_anchor     TEXT    NOT NULL,
    chain_anchor    TEXT    NOT NULL,
    idempotency_key TEXT,
    ship            INTEGER NOT NULL,
    -- With a rowid: rows are written at the end of the table, and a full page is left alone; a tree in key order would
    -- rewrite its neighbours, too.
    PRIMARY KEY (tenant_id, seq)
) STRICT;

CREATE UNIQUE INDEX audit_keys ON audit (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE audit_heads (
    tenant_id    TEXT    NOT NULL PRIMARY KEY,
    seq          INTEGER NOT NULL,
    chain_anchor TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- A row that does not continue its tenant's chain is refused here, whatever its writer believed the head to be.
CREATE TRIGGER audit_continues BEFORE INSERT ON audit
WHEN NOT EXISTS (
        SELECT 1 FROM audit_heads h
        WHERE h.tenant_id = new.tenant_id AND h.seq = new.seq - 1 AND h.chain_anchor = new.prev_anchor)
    AND NOT (
        new.seq = 1
        AND new.prev_anchor = '0000000000000000000000000000000000000000000000000000000000000000'
        AND NOT EXISTS (SELECT 1 FROM audit_heads h WHERE h.tenant_id = new.tenant_id))
BEGIN
    SELECT RAISE(ABORT, 'the head of the chain has moved');
END;

CREATE TRIGGER audit_moves_head AFTER INSERT ON audit
BEGIN
    INSERT INTO audit_heads (tenant_id, seq, chain_anchor) VALUES (new.tenant_id, new.seq, new.chain_anchor)
    ON CONFLICT (tenant_id) DO UPDATE SET seq = excluded.seq, chain_anchor = excluded.chain_anchor;
END;

-- Rows that wait to be delivered to the memory service, in order of seq within their tenant.
CREATE TABLE outbox (
    tenant_id  TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    -- Given up: kept for the operator to see, never tried again.
    failed     INTEGER NOT NULL DEFAULT 0,
    attempts   INTEGER NOT NULL DEFAULT 0,
    -- Not to be claimed before this: 0 at first, then the end of a claim's hold or the time of the next try.
    due_at_us  INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    PRIMARY KEY (tenant_id, seq),
    FOREIGN KEY (tenant_id, seq) REFERENCES audit (tenant_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER audit_ships AFTER INSERT ON audit WHEN new.ship
BEGIN
    INSERT INTO outbox (tenant_id, seq) VALUES (new.tenant_id, new.seq);
END;

-- The log is only ever added to.
CREATE TRIGGER audit_keeps_rows BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit rows are never deleted');
END;

CREATE TRIGGER audit_keeps_text BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit rows are never changed');
END;

CREATE TABLE used_once (
    tenant_id     TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    expires_at_us INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX used_once_expiry ON used_once (expires_at_us);

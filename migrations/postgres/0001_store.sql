-- The shared store. Run by the owner (`postgres::migrate`); the bridge itself connects as cyberos_plugin_host, which
-- owns nothing. Times are microseconds since 1970 (UTC) by the database's clock, JSON that is sealed or handed back is
-- kept byte for byte (`json`, not `jsonb`).

-- Two roles, both without a login. The operator grants the first to the login that the bridge uses.
--   cyberos_plugin_host          the application: only the rows of the tenant that its transaction names.
--   cyberos_plugin_host_sweeper  owns the functions that look across tenants, and may see ids and times only.
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['cyberos_plugin_host', 'cyberos_plugin_host_sweeper'] LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE', wanted);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- another database of this cluster is being migrated at the same time
            END;
        END IF;
    END LOOP;
END
$$;

REVOKE ALL ON SCHEMA plugin_host FROM PUBLIC;
GRANT USAGE ON SCHEMA plugin_host TO cyberos_plugin_host, cyberos_plugin_host_sweeper;
GRANT SELECT ON plugin_host.schema_migrations TO cyberos_plugin_host;

CREATE FUNCTION plugin_host.now_us() RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog
AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

CREATE TABLE plugin_host.tasks (
    tenant_id       uuid   NOT NULL,
    id              text   NOT NULL,
    subject         text   NOT NULL,
    tool            text   NOT NULL,
    arguments       json   NOT NULL,
    call            json   NOT NULL,
    trace_id        text   NOT NULL,
    status          text   NOT NULL CHECK (status IN ('running', 'input_required', 'completed', 'failed', 'cancelled')),
    progress        json,
    output          json,
    error           json,
    created_at_us   bigint NOT NULL,
    updated_at_us   bigint NOT NULL,
    completed_at_us bigint,
    timeout_at_us   bigint NOT NULL,
    ttl_us          bigint NOT NULL,
    expires_at_us   bigint NOT NULL,
    -- Who runs it, and until when nobody else may.
    worker          text,
    lease_until_us  bigint,
    attempts        bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, id)
);

CREATE INDEX tasks_newest ON plugin_host.tasks (tenant_id, subject, created_at_us DESC, id DESC);
CREATE INDEX tasks_open ON plugin_host.tasks (tenant_id) WHERE status IN ('running', 'input_required');
CREATE INDEX tasks_expiry ON plugin_host.tasks (expires_at_us);

CREATE TABLE plugin_host.audit (
    tenant_id       uuid   NOT NULL,
    seq             bigint NOT NULL,
    kind            text   NOT NULL,
    actor_id        text   NOT NULL,
    -- Canonical JSON, byte for byte what the anchor seals.
    body            json   NOT NULL,
    ts              text   NOT NULL,
    trace_id        text   NOT NULL,
    prev_anchor     text   NOT NULL,
    chain_anchor    text   NOT NULL,
    idempotency_key text,
    PRIMARY KEY (tenant_id, seq)
);

CREATE UNIQUE INDEX audit_keys ON plugin_host.audit (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- Locked by whoever appends to the tenant's chain.
CREATE TABLE plugin_host.audit_heads (
    tenant_id    uuid   NOT NULL PRIMARY KEY,
    seq          bigint NOT NULL,
    chain_anchor text   NOT NULL
) WITH (fillfactor = 50);

-- Rows that wait to be delivered to the memory service, in order of seq within their tenant.
CREATE TABLE plugin_host.outbox (
    tenant_id  uuid    NOT NULL,
    seq        bigint  NOT NULL,
    -- Given up: kept for the operator to see, never tried again.
    failed     boolean NOT NULL DEFAULT false,
    attempts   bigint  NOT NULL DEFAULT 0,
    -- Not to be claimed before this: 0 at first, then the end of a claim's hold or the time of the next try.
    due_at_us  bigint  NOT NULL DEFAULT 0,
    last_error text,
    PRIMARY KEY (tenant_id, seq),
    FOREIGN KEY (tenant_id, seq) REFERENCES plugin_host.audit (tenant_id, seq)
);

CREATE TABLE plugin_host.used_once (
    tenant_id     uuid   NOT NULL,
    key           text   NOT NULL,
    expires_at_us bigint NOT NULL,
    PRIMARY KEY (tenant_id, key)
);

CREATE INDEX used_once_expiry ON plugin_host.used_once (expires_at_us);

-- One tenant a transaction: set_config('auth.tenant_id', …, true). None set, or an empty one, is no tenant and no rows.
-- FORCE holds the owner to it as well.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['tasks', 'audit', 'audit_heads', 'outbox', 'used_once'] LOOP
        EXECUTE format('ALTER TABLE plugin_host.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE plugin_host.%I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY own_tenant ON plugin_host.%I TO cyberos_plugin_host
                 USING (tenant_id = nullif(current_setting(''auth.tenant_id'', true), '''')::uuid)
                 WITH CHECK (tenant_id = nullif(current_setting(''auth.tenant_id'', true), '''')::uuid)', name);
    END LOOP;
END
$$;

-- The log is only ever added to: no UPDATE, no DELETE.
GRANT SELECT, INSERT ON plugin_host.audit TO cyberos_plugin_host;
GRANT SELECT, INSERT, UPDATE ON plugin_host.audit_heads TO cyberos_plugin_host;
GRANT SELECT, INSERT, UPDATE ON plugin_host.tasks, plugin_host.used_once TO cyberos_plugin_host;
GRANT SELECT, INSERT, UPDATE, DELETE ON plugin_host.outbox TO cyberos_plugin_host;

-- What has to look across tenants. The functions belong to the sweeper, so that even a mistake in one of them could
-- read no more than the columns granted here.
CREATE POLICY all_tenants ON plugin_host.tasks TO cyberos_plugin_host_sweeper USING (true);
CREATE POLICY all_tenants ON plugin_host.used_once TO cyberos_plugin_host_sweeper USING (true);
CREATE POLICY all_tenants ON plugin_host.outbox TO cyberos_plugin_host_sweeper USING (true);
GRANT SELECT (tenant_id, id, status, created_at_us, completed_at_us, expires_at_us, lease_until_us), DELETE
    ON plugin_host.tasks TO cyberos_plugin_host_sweeper;
GRANT SELECT (expires_at_us), DELETE ON plugin_host.used_once TO cyberos_plugin_host_sweeper;
GRANT SELECT (tenant_id, seq, failed, attempts, due_at_us), UPDATE (attempts, due_at_us)
    ON plugin_host.outbox TO cyberos_plugin_host_sweeper;

CREATE FUNCTION plugin_host.abandoned_tasks(grace_us bigint) RETURNS TABLE (tenant_id uuid, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog
AS $$
    SELECT t.tenant_id, t.id FROM plugin_host.tasks t
    WHERE t.status IN ('running', 'input_required')
      AND coalesce(t.lease_until_us, t.created_at_us) <= plugin_host.now_us() - grace_us
    ORDER BY t.created_at_us LIMIT 1000
$$;

CREATE FUNCTION plugin_host.prune() RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog
AS $$
    WITH used AS (
        DELETE FROM plugin_host.used_once u WHERE u.expires_at_us <= plugin_host.now_us()
    ), ended AS (
        DELETE FROM plugin_host.tasks t
        WHERE t.expires_at_us <= plugin_host.now_us() AND t.completed_at_us IS NOT NULL
        RETURNING 1
    )
    SELECT count(*) FROM ended
$$;

-- A tenant's rows before its first one that is not due, first in first out, tenants taking turns. One claim at a time:
-- two that ran together could take a tenant's second row while the other still held the first.
CREATE FUNCTION plugin_host.claim_outbox(most bigint, hold_us bigint)
RETURNS TABLE (tenant_id uuid, seq bigint, attempts bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog
AS $$
#variable_conflict use_column
DECLARE
    now_us bigint := plugin_host.now_us();
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('plugin_host.claim_outbox'));
    RETURN QUERY
    WITH blocked AS (
        SELECT o.tenant_id, min(o.seq) AS seq FROM plugin_host.outbox o
        WHERE NOT o.failed AND o.due_at_us > now_us GROUP BY o.tenant_id
    ), due AS (
        SELECT o.tenant_id, o.seq, row_number() OVER (PARTITION BY o.tenant_id ORDER BY o.seq) AS turn
        FROM plugin_host.outbox o LEFT JOIN blocked b ON b.tenant_id = o.tenant_id
        WHERE NOT o.failed AND (b.seq IS NULL OR o.seq < b.seq)
        ORDER BY turn, o.tenant_id LIMIT most
    )
    UPDATE plugin_host.outbox o SET attempts = o.attempts + 1, due_at_us = now_us + hold_us
    FROM due WHERE o.tenant_id = due.tenant_id AND o.seq = due.seq
    RETURNING o.tenant_id, o.seq, o.attempts;
END
$$;

CREATE FUNCTION plugin_host.outbox_depth() RETURNS TABLE (waiting bigint, failed bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog
AS $$
    SELECT count(*) FILTER (WHERE NOT o.failed), count(*) FILTER (WHERE o.failed) FROM plugin_host.outbox o
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA plugin_host FROM PUBLIC;
GRANT EXECUTE ON FUNCTION plugin_host.now_us() TO cyberos_plugin_host, cyberos_plugin_host_sweeper;
GRANT EXECUTE ON FUNCTION
    plugin_host.abandoned_tasks(bigint), plugin_host.prune(), plugin_host.claim_outbox(bigint, bigint),
    plugin_host.outbox_depth()
TO cyberos_plugin_host;

-- Handing the functions over takes membership in the sweeper, for this transaction only: a member would also have the
-- sweeper's policies. The sweeper needs CREATE on the schema to receive them, and nothing after.
DO $$
DECLARE
    was_member boolean := EXISTS (
        SELECT 1 FROM pg_auth_members m
        WHERE m.roleid = 'cyberos_plugin_host_sweeper'::regrole AND m.member = current_user::text::regrole AND NOT m.admin_option);
BEGIN
    EXECUTE format('GRANT cyberos_plugin_host_sweeper TO %I', current_user);
    GRANT CREATE ON SCHEMA plugin_host TO cyberos_plugin_host_sweeper;
    ALTER FUNCTION plugin_host.abandoned_tasks(bigint) OWNER TO cyberos_plugin_host_sweeper;
    ALTER FUNCTION plugin_host.prune() OWNER TO cyberos_plugin_host_sweeper;
    ALTER FUNCTION plugin_host.claim_outbox(bigint, bigint) OWNER TO cyberos_plugin_host_sweeper;
    ALTER FUNCTION plugin_host.outbox_depth() OWNER TO cyberos_plugin_host_sweeper;
    REVOKE CREATE ON SCHEMA plugin_host FROM cyberos_plugin_host_sweeper;
    IF NOT was_member THEN
        EXECUTE format('REVOKE cyberos_plugin_host_sweeper FROM %I', current_user);
    END IF;
END
$$;

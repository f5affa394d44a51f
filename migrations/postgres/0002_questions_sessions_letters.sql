-- What a task asks its owner, what a session changed from its defaults, and letters from replica to replica.

-- Question and answer live from the asking until the worker took the answer, or the task ended.
ALTER TABLE plugin_host.tasks ADD COLUMN question_id text, ADD COLUMN question json, ADD COLUMN answer json;

CREATE TABLE plugin_host.sessions (
    tenant_id     uuid    NOT NULL,
    id            uuid    NOT NULL,
    ended         boolean NOT NULL DEFAULT false,
    log_level     text,
    expires_at_us bigint  NOT NULL,
    PRIMARY KEY (tenant_id, id)
);

CREATE INDEX sessions_expiry ON plugin_host.sessions (expires_at_us);

CREATE TABLE plugin_host.session_subscriptions (
    tenant_id  uuid NOT NULL,
    session_id uuid NOT NULL,
    uri        text NOT NULL CHECK (octet_length(uri) <= 2048),
    PRIMARY KEY (tenant_id, session_id, uri),
    FOREIGN KEY (tenant_id, session_id) REFERENCES plugin_host.sessions (tenant_id, id) ON DELETE CASCADE
);

-- Not logged: a letter is worth minutes, and a server that crashed has lost its listeners, too.
CREATE UNLOGGED TABLE plugin_host.letters (
    tenant_id     uuid   NOT NULL,
    id            uuid   NOT NULL,
    sender        text   NOT NULL,
    -- NULL: every replica but the sender.
    recipient     text,
    body          json   NOT NULL CHECK (octet_length(body::text) <= 1048576),
    expires_at_us bigint NOT NULL,
    PRIMARY KEY (tenant_id, id)
);

CREATE INDEX letters_waiting ON plugin_host.letters (recipient) WHERE recipient IS NOT NULL;
CREATE INDEX letters_expiry ON plugin_host.letters (expires_at_us);

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['sessions', 'session_subscriptions', 'letters'] LOOP
        EXECUTE format('ALTER TABLE plugin_host.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE plugin_host.%I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY own_tenant ON plugin_host.%I TO cyberos_plugin_host
                 USING (tenant_id = nullif(current_setting(''auth.tenant_id'', true), '''')::uuid)
                 WITH CHECK (tenant_id = nullif(current_setting(''auth.tenant_id'', true), '''')::uuid)', name);
    END LOOP;
END
$$;

GRANT SELECT, INSERT, UPDATE ON plugin_host.sessions TO cyberos_plugin_host;
GRANT SELECT, INSERT, UPDATE, DELETE ON plugin_host.session_subscriptions TO cyberos_plugin_host;
GRANT SELECT, INSERT, DELETE ON plugin_host.letters TO cyberos_plugin_host;

CREATE POLICY all_tenants ON plugin_host.sessions TO cyberos_plugin_host_sweeper USING (true);
CREATE POLICY all_tenants ON plugin_host.letters TO cyberos_plugin_host_sweeper USING (true);
GRANT SELECT (expires_at_us), DELETE ON plugin_host.sessions TO cyberos_plugin_host_sweeper;
GRANT SELECT (tenant_id, id, recipient, expires_at_us), DELETE ON plugin_host.letters TO cyberos_plugin_host_sweeper;

-- What is worth nothing any more. Beside `prune`, which binaries of the release before still call alone.
CREATE FUNCTION plugin_host.prune_expired() RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog
AS $$
    DELETE FROM plugin_host.sessions s WHERE s.expires_at_us <= plugin_host.now_us();
    DELETE FROM plugin_host.letters l WHERE l.expires_at_us <= plugin_host.now_us();
$$;

-- For a replica that was not listening for a while: what was sent to it meanwhile. The letters themselves it reads, and
-- deletes, tenant by tenant.
CREATE FUNCTION plugin_host.letters_for(replica text) RETURNS TABLE (tenant_id uuid, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog
AS $$
    SELECT l.tenant_id, l.id FROM plugin_host.letters l
    WHERE l.recipient = replica AND l.expires_at_us > plugin_host.now_us()
    ORDER BY l.expires_at_us, l.id LIMIT 1000
$$;

REVOKE ALL ON FUNCTION plugin_host.prune_expired(), plugin_host.letters_for(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION plugin_host.prune_expired(), plugin_host.letters_for(text) TO cyberos_plugin_host;

-- Handing the functions over, as in 0001.
DO $$
DECLARE
    was_member boolean := EXISTS (
        SELECT 1 FROM pg_auth_members m
        WHERE m.roleid = 'cyberos_plugin_host_sweeper'::regrole AND m.member = current_user::text::regrole AND NOT m.admin_option);
BEGIN
    EXECUTE format('GRANT cyberos_plugin_host_sweeper TO %I', current_user);
    GRANT CREATE ON SCHEMA plugin_host TO cyberos_plugin_host_sweeper;
    ALTER FUNCTION plugin_host.prune_expired() OWNER TO cyberos_plugin_host_sweeper;
    ALTER FUNCTION plugin_host.letters_for(text) OWNER TO cyberos_plugin_host_sweeper;
    REVOKE CREATE ON SCHEMA plugin_host FROM cyberos_plugin_host_sweeper;
    IF NOT was_member THEN
        EXECUTE format('REVOKE cyberos_plugin_host_sweeper FROM %I', current_user);
    END IF;
END
$$;

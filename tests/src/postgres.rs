//! A real Postgres for the tests: one cluster a run, one database a test.
//!
//! `tests/with-postgres` starts the cluster and names it in `TEST_POSTGRES_URL` (that is what `make test` does). Without
//! it, the first test that needs one starts the same script for the life of the test runner: nextest runs every test in
//! a process of its own, so the runner, not the test, is what the cluster outlives nobody for.

use anyhow::{Context, Result, bail};
use secrecy::{ExposeSecret, SecretString};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TEMPLATE: &str = "bridge_template";

/// Who may log in: a superuser, the owner of the schema (who is none), and the bridge's login.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Login {
    Admin,
    Owner,
    Bridge,
}

impl Login {
    fn name(self) -> &'static str {
        match self {
            Login::Admin => "bridge_admin",
            Login::Owner => "bridge_owner",
            Login::Bridge => "bridge_login",
        }
    }
}

/// A database that only one test uses.
pub struct Database {
    cluster: PgConnectOptions,
    name: String,
}

impl Database {
    /// With the schema, migrated by an owner who is no superuser.
    pub async fn migrated() -> Database {
        Self::create(true).await.expect("a database for this test")
    }

    /// Without anything.
    pub async fn empty() -> Database {
        Self::create(false).await.expect("a database for this test")
    }

    async fn create(migrated: bool) -> Result<Database> {
        let cluster: PgConnectOptions = cluster_url().await?.parse()?;
        let mut admin = cluster.clone().connect().await.context("the tests' Postgres does not answer")?;
        let name = format!("t_{}", uuid::Uuid::now_v7().simple());
        if migrated {
            make_template(&cluster, &mut admin).await?;
            run(&mut admin, format!("CREATE DATABASE {name} OWNER bridge_owner TEMPLATE {TEMPLATE}")).await?;
        } else {
            make_logins(&mut admin).await?;
            run(&mut admin, format!("CREATE DATABASE {name} OWNER bridge_owner")).await?;
        }
        admin.close().await?;
        Ok(Database { cluster, name })
    }

    pub fn url(&self, login: Login) -> SecretString {
        url_of(&self.cluster, &self.name, login)
    }

    /// The bridge's URL, by way of a TCP port that leads to the cluster.
    pub fn url_through(&self, address: std::net::SocketAddr) -> String {
        format!("postgres://{}@{address}/{}?sslmode=disable", Login::Bridge.name(), self.name)
    }

    /// A plain connection, for what a test does behind the store's back.
    pub async fn connect(&self, login: Login) -> PgConnection {
        let options: PgConnectOptions = self.url(login).expose_secret().parse().expect("our own URL");
        options.connect().await.expect("the tests' Postgres answers")
    }
}

fn url_of(cluster: &PgConnectOptions, database: &str, login: Login) -> SecretString {
    let socket = cluster.get_socket().map(|s| format!("?host={}", s.display())).unwrap_or_default();
    format!("postgres://{}@{}:{}/{database}{socket}", login.name(), cluster.get_host(), cluster.get_port()).into()
}

async fn run(connection: &mut PgConnection, sql: String) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(connection).await.with_context(|| sql)?;
    Ok(())
}

/// Once a cluster, whichever test comes first; the others wait at the lock.
async fn make_template(cluster: &PgConnectOptions, admin: &mut PgConnection) -> Result<()> {
    let ready = "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)";
    if sqlx::query_scalar(ready).bind(TEMPLATE).fetch_one(&mut *admin).await? {
        return Ok(());
    }
    make_logins(admin).await?;
    run(admin, "SELECT pg_advisory_lock(7801)".into()).await?;
    if !sqlx::query_scalar::<_, bool>(ready).bind(TEMPLATE).fetch_one(&mut *admin).await? {
        run(admin, format!("DROP DATABASE IF EXISTS {TEMPLATE}_new")).await?;
        run(admin, format!("CREATE DATABASE {TEMPLATE}_new OWNER bridge_owner")).await?;
        let url = url_of(cluster, &format!("{TEMPLATE}_new"), Login::Owner);
        cyberos_plugin_host::store::postgres::migrate(&url).await.map_err(|e| anyhow::anyhow!("{e:?}"))?;
        run(admin, "GRANT cyberos_plugin_host TO bridge_login".into()).await?;
        run(admin, format!("ALTER DATABASE {TEMPLATE}_new RENAME TO {TEMPLATE}")).await?;
    }
    run(admin, "SELECT pg_advisory_unlock(7801)".into()).await
}

async fn make_logins(admin: &mut PgConnection) -> Result<()> {
    let sql = "SELECT pg_advisory_lock(7802);
        DO $$ BEGIN
            IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'bridge_owner') THEN
                CREATE ROLE bridge_owner LOGIN CREATEROLE;
                CREATE ROLE bridge_login LOGIN;
            END IF;
        END $$;
        SELECT pg_advisory_unlock(7802)";
    run(admin, sql.into()).await
}

async fn cluster_url() -> Result<String> {
    if let Ok(url) = std::env::var("TEST_POSTGRES_URL") {
        return Ok(url);
    }
    tokio::task::spawn_blocking(start_for_this_run).await?
}

/// The cluster of this test run, started if nobody has.
fn start_for_this_run() -> Result<String> {
    // Under nextest the parent is the runner; under cargo test it is cargo. Both end with the run.
    let runner = rustix::process::getppid().context("a test process has a parent")?.as_raw_nonzero();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tests.join("../target/test-postgres");
    fs::create_dir_all(&directory)?;
    let said: PathBuf = directory.join(format!("{runner}.url"));

    // Held until the URL is there, so that one process starts the cluster and the others find it.
    let lock = File::create(directory.join(format!("{runner}.lock")))?;
    lock.lock()?;
    if let Ok(url) = fs::read_to_string(&said)
        && is_alive(&url)
    {
        return Ok(url);
    }
    let _ = fs::remove_file(&said);
    let mut script = Command::new("setsid");
    script.arg(tests.join("with-postgres")).arg("--for-pid").arg(runner.to_string()).arg(&said);
    // Nothing of the test's: nextest calls a child that keeps stdout open a leak.
    script.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    script.spawn().context("tests/with-postgres cannot be started")?;

    let give_up = Instant::now() + Duration::from_secs(90);
    while Instant::now() < give_up {
        match fs::read_to_string(&said) {
            Ok(text) if text.starts_with("error: ") => bail!("{}", text.trim_start_matches("error: ")),
            Ok(url) => return Ok(url),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    bail!("tests/with-postgres did not start a cluster within 90 seconds")
}

/// A file of a run that was killed may name a cluster that is gone.
fn is_alive(url: &str) -> bool {
    let socket = url.split("host=").nth(1).map(|directory| Path::new(directory).join(".s.PGSQL.5432"));
    socket.is_some_and(|s| std::os::unix::net::UnixStream::connect(s).is_ok())
}

//! Letters in Postgres: a row each, and a notification that says where it is.
//!
//! Any user of the database may listen, and may notify. So a notification holds names and ids, never content; and what
//! it says is believed as far as a row bears it out, read under the tenant's policy.

use sqlx::{PgPool, Row};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::{Durability, PostgresStore, begin};
use crate::error::Result;
use crate::model::TenantId;
use crate::store::letters::{Letter, Post, check};
use crate::store::rows::{letter, micros, unavailable};

/// The payload is `RECIPIENT SENDER TENANT ID`, with `*` for everybody.
pub(super) const CHANNEL: &str = "plugin_host_letter";

/// Unread letters are deleted after this: whoever waited for one has given up.
const KEPT: Duration = Duration::from_secs(300);

/// Notifications that wait to be looked up. More are dropped, and reported as missed.
const WAITING: usize = 4096;

/// Letters read at once, and letters that wait for the subscriber; both bound memory, at 1 MiB a letter.
const BATCH: usize = 32;

pub(super) async fn send(store: &PostgresStore, letter: &Letter) -> Result<()> {
    let (body, id) = (check(letter)?, Uuid::now_v7());
    let place = format!("{} {} {} {id}", letter.to.as_deref().unwrap_or("*"), letter.from, letter.tenant);
    let query = sqlx::query(
        "WITH sent AS (
             INSERT INTO plugin_host.letters (tenant_id, id, sender, recipient, body, expires_at_us)
             VALUES ($1, $2, $3, $4, $5::json, plugin_host.now_us() + $6) RETURNING id
         )
         SELECT pg_notify($7, $8) FROM sent",
    )
    .bind(letter.tenant.0)
    .bind(id)
    .bind(letter.from.clone())
    .bind(letter.to.clone())
    .bind(body)
    .bind(micros(KEPT))
    .bind(CHANNEL)
    .bind(place);
    let mut transaction = store.begin(letter.tenant, Durability::Written).await?;
    query.execute(&mut *transaction).await.map_err(unavailable)?;
    transaction.commit().await.map_err(unavailable)
}

/// Where a letter is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    tenant: TenantId,
    id: Uuid,
}

/// What stands between the connection that listens and the one subscriber.
#[derive(Default)]
pub(super) struct Postbox(Mutex<Option<Slot>>);

struct Slot {
    me: String,
    places: mpsc::Sender<Place>,
    /// Something was lost since the reader last looked.
    missed: Arc<AtomicBool>,
}

impl Postbox {
    pub fn open(&self, pool: PgPool, me: &str) -> mpsc::Receiver<Post> {
        let (places, waiting) = mpsc::channel(WAITING);
        let (posts, subscriber) = mpsc::channel(BATCH);
        let missed = Arc::new(AtomicBool::new(false));
        *self.lock() = Some(Slot { me: me.to_owned(), places, missed: missed.clone() });
        let reader = Reader { pool, me: me.to_owned(), posts, missed };
        tokio::spawn(reader.run(waiting));
        subscriber
    }

    /// A notification arrived. Never waits.
    pub fn arrived(&self, payload: &str) {
        let slot = self.lock();
        let Some(Slot { me, places, missed }) = slot.as_ref() else { return };
        if let Some(place) = for_me(payload, me)
            && let Err(mpsc::error::TrySendError::Full(_)) = places.try_send(place)
        {
            missed.store(true, Ordering::Release);
        }
    }

    /// Nobody listened for a while.
    pub fn missed(&self) {
        if let Some(Slot { places, missed, .. }) = self.lock().as_ref() {
            missed.store(true, Ordering::Release);
            // A place that leads nowhere wakes the reader; a queue that is full does so anyway.
            let _ = places.try_send(Place { tenant: TenantId(Uuid::nil()), id: Uuid::nil() });
        }
    }

    pub fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `None` for what is somebody else's, our own to everybody, or no payload of ours.
fn for_me(payload: &str, me: &str) -> Option<Place> {
    let mut fields = payload.split(' ');
    let (to, from) = (fields.next()?, fields.next()?);
    let place = Place { tenant: TenantId(fields.next()?.parse().ok()?), id: fields.next()?.parse().ok()? };
    let wanted = if to == "*" { from != me } else { to == me };
    (wanted && fields.next().is_none()).then_some(place)
}

struct Reader {
    pool: PgPool,
    me: String,
    posts: mpsc::Sender<Post>,
    missed: Arc<AtomicBool>,
}

impl Reader {
    /// Until the store closes or the subscriber leaves.
    async fn run(self, mut waiting: mpsc::Receiver<Place>) {
        let mut places = Vec::with_capacity(BATCH);
        loop {
            places.clear();
            tokio::select! {
                count = waiting.recv_many(&mut places, BATCH) => if count == 0 { return },
                () = self.posts.closed() => return,
            }
            let Ok(all_read) = self.deliver(&places).await else { return };
            if self.missed.swap(false, Ordering::AcqRel) || !all_read {
                if self.posts.send(Post::Missed).await.is_err() {
                    return;
                }
                loop {
                    match self.catch_up().await {
                        Ok(true) => break,
                        Ok(false) => tokio::time::sleep(Duration::from_millis(500)).await,
                        Err(Gone) => return,
                    }
                }
            }
        }
    }

    /// False when the store could not be read. Errors: the subscriber has left.
    async fn deliver(&self, places: &[Place]) -> Result<bool, Gone> {
        let mut by_tenant: HashMap<TenantId, Vec<Uuid>> = HashMap::new();
        for place in places.iter().filter(|place| !place.id.is_nil()) {
            by_tenant.entry(place.tenant).or_default().push(place.id);
        }
        let (mut letters, mut all_read) = (HashMap::new(), true);
        for (tenant, ids) in by_tenant {
            match self.read(tenant, ids).await {
                Ok(found) => letters.extend(found),
                Err(error) => {
                    tracing::warn!(error = ?error, "messages of other replicas could not be read");
                    all_read = false;
                }
            }
        }
        for place in places {
            if let Some(letter) = letters.remove(&place.id) {
                self.posts.send(Post::Letter(Arc::new(letter))).await.map_err(|_| Gone)?;
            }
        }
        Ok(all_read)
    }

    /// What is addressed to us alone is gone with this; the rest stays for the others, until it is pruned.
    async fn read(&self, tenant: TenantId, ids: Vec<Uuid>) -> Result<Vec<(Uuid, Letter)>> {
        let query = sqlx::query(
            "WITH mine AS (
                 DELETE FROM plugin_host.letters WHERE tenant_id = $1 AND id = ANY($2) AND recipient = $3
                 RETURNING tenant_id, id, sender, recipient, body
             ), found AS (
                 SELECT * FROM mine
                 UNION ALL
                 SELECT tenant_id, id, sender, recipient, body FROM plugin_host.letters
                 WHERE tenant_id = $1 AND id = ANY($2) AND recipient IS NULL AND sender <> $3
             )
             SELECT tenant_id::text AS tenant_id, id, sender, recipient, body::text AS body FROM found",
        );
        let query = query.bind(tenant.0).bind(ids).bind(self.me.clone());
        let mut transaction = begin(&self.pool, tenant, Durability::Written).await?;
        let rows = query.fetch_all(&mut *transaction).await.map_err(unavailable)?;
        transaction.commit().await.map_err(unavailable)?;
        rows.iter().map(|row| Ok((row.try_get("id").map_err(unavailable)?, letter(row)?))).collect()
    }

    /// Read what was addressed to us while nobody listened. Answers like [`Reader::deliver`].
    async fn catch_up(&self) -> Result<bool, Gone> {
        let query = sqlx::query("SELECT tenant_id, id FROM plugin_host.letters_for($1)").bind(self.me.clone());
        let rows = match query.fetch_all(&self.pool).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%error, "messages of other replicas could not be looked for");
                return Ok(false);
            }
        };
        let place = |row: &sqlx::postgres::PgRow| {
            Some(Place { tenant: TenantId(row.try_get("tenant_id").ok()?), id: row.try_get("id").ok()? })
        };
        let places: Vec<Place> = rows.iter().filter_map(place).collect();
        let mut all_read = true;
        for some in places.chunks(BATCH) {
            all_read &= self.deliver(some).await?;
        }
        Ok(all_read)
    }
}

/// Nobody receives any more.
struct Gone;

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: &str = "0f2b3c4d-0000-4000-8000-000000000001";
    const ID: &str = "0f2b3c4d-0000-7000-8000-000000000002";

    #[test]
    fn a_notification_is_taken_by_whom_it_is_for() {
        let place = Place { tenant: TenantId(TENANT.parse().unwrap()), id: ID.parse().unwrap() };
        assert_eq!(for_me(&format!("me you {TENANT} {ID}"), "me"), Some(place));
        assert_eq!(for_me(&format!("* you {TENANT} {ID}"), "me"), Some(place));
        for other in [format!("you me {TENANT} {ID}"), format!("* me {TENANT} {ID}")] {
            assert_eq!(for_me(&other, "me"), None, "{other}");
        }
    }

    #[test]
    fn a_forged_notification_is_nothing() {
        for forged in ["", "*", "me you", "me you x y", "me you ' OR true --", &format!("me you {TENANT} {ID} more")] {
            assert_eq!(for_me(forged, "me"), None, "{forged}");
        }
    }
}

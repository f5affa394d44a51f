//! The shared store: Postgres with forced row-level security and a role that owns nothing.
pub struct PostgresStore;

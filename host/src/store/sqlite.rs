//! The embedded store: SQLite in WAL mode, in the user's state directory.
pub struct SqliteStore;

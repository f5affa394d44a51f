//! So many tools that nobody could read their names.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    (0..5_000).map(|n| Declaration { name: format!("cyberos.test.tool_{n}"), ..good() }).collect()
}

lists!(list);

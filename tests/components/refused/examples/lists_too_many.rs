//! More tools than a component may have.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    (0..65).map(|n| Declaration { name: format!("cyberos.test.tool_{n}"), ..good() }).collect()
}

lists!(list);

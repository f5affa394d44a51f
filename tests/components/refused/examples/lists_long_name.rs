//! A name of 65 characters.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { name: format!("cyberos.test.{}", "x".repeat(52)), ..good() }]
}

lists!(list);

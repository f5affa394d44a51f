//! A name with a character that no client accepts.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { name: "cyberos.test.two words".into(), ..good() }]
}

lists!(list);

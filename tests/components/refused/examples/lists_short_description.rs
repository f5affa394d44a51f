//! A description that helps nobody.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { description: "Does things.".into(), ..good() }]
}

lists!(list);

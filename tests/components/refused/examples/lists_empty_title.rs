//! A tool without a title.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { title: " ".into(), ..good() }]
}

lists!(list);

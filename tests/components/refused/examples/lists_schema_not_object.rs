//! An input schema for something else than an object.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { input_schema: r#"{"type":"string"}"#.into(), ..good() }]
}

lists!(list);

//! An input schema that is an object and no valid JSON Schema.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { input_schema: r#"{"type":"object","properties":{"n":{"type":"nonsense"}}}"#.into(), ..good() }]
}

lists!(list);

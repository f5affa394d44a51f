//! An input schema that points to another host.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration {
        input_schema: r#"{"type":"object","properties":{"n":{"$ref":"https://example.com/schema.json"}}}"#.into(),
        ..good()
    }]
}

lists!(list);

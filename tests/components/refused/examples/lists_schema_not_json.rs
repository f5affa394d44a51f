//! An input schema that is no JSON.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { input_schema: "{\"type\"".into(), ..good() }]
}

lists!(list);

//! An input schema that refers to itself at the same place.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { input_schema: r##"{"type":"object","allOf":[{"$ref":"#"}]}"##.into(), ..good() }]
}

lists!(list);

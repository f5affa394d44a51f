//! A description with text that a person does not see and a model reads.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { description: format!("{} \u{200b}\u{202e}\u{e0041}", good().description), ..good() }]
}

lists!(list);

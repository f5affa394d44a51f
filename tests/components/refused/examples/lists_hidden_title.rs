//! A title that turns the text after it around.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { title: "Good\u{202e}".into(), ..good() }]
}

lists!(list);

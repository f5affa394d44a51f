//! A name that reads like another and is written with a letter of another alphabet.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { name: "cyberos.test.g\u{43e}\u{43e}d".into(), ..good() }]
}

lists!(list);

//! A good tool, whose name another component has.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![Declaration { name: "cyberos.fixture.echo".into(), ..good() }]
}

lists!(list);

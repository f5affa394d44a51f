//! Two tools of one name.

mod common;
use common::{Declaration, good};

fn list() -> Vec<Declaration> {
    vec![good(), good()]
}

lists!(list);

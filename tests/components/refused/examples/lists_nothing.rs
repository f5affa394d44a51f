//! A component without tools.

mod common;
use common::Declaration;

fn list() -> Vec<Declaration> {
    vec![]
}

lists!(list);

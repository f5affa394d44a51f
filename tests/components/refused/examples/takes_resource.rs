//! A good resource, whose URI another component may have.

mod common;

resources!("test://pixel");

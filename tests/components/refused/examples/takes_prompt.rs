//! A good prompt, whose name another component may have.

mod common;

prompts!("test.review", None);

//! A prompt name that no client could be given.

mod common;

prompts!("two words", None);

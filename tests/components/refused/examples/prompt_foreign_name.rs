//! A prompt name outside `cyberos.<module>.<verb_noun>`.

mod common;

prompts!("review", None);

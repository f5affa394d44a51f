//! A URI that the client would fetch itself.

mod common;

resources!("https://example.com/");

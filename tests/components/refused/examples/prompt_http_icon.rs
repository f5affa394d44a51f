//! An icon that would be fetched without TLS.

mod common;

prompts!("cyberos.test.prompt", Some(r#"[{"src":"http://example.com/icon.png"}]"#));

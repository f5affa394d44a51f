//! `_meta`: what a plugin attaches for clients passes unchanged, but for the keys that MCP keeps for itself.
//! Source: MCP 2025-11-25, `_meta`.

use serde_json::{Map, Value};

/// A plugin must not speak for the protocol.
pub fn without_reserved(mut meta: Map<String, Value>) -> Map<String, Value> {
    meta.retain(|key, _| !is_reserved(key));
    meta
}

/// Is the prefix's second label `mcp` or `modelcontextprotocol`?
fn is_reserved(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return false };
    let mut labels = prefix.split('.');
    let (first, second) = (labels.next().unwrap_or_default(), labels.next());
    let reserved = |label: &str| label == "mcp" || label == "modelcontextprotocol";
    second.map_or_else(|| reserved(first), reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_of_the_protocol_are_taken_out() {
        let kept = ["plain", "com.example/x", "com.example.mcp/x", "mcpx/x"];
        let taken = ["mcp/x", "io.modelcontextprotocol/related-task", "com.mcp.tools/x", "modelcontextprotocol/x"];
        let all = kept.iter().chain(&taken).map(|key| ((*key).to_owned(), Value::Null)).collect();
        assert_eq!(without_reserved(all).keys().collect::<Vec<_>>(), kept);
    }
}

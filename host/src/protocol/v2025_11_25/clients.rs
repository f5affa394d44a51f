//! Which clients cannot take dots in tool names, by the name that they give of themselves in `initialize`.
//!
//! The revision allows dots (2025-11-25, tools, tool names). The model APIs behind most clients do not: Anthropic's
//! takes `^[a-zA-Z0-9_-]{1,128}$`, OpenAI's `^[a-zA-Z0-9_-]+$`. A client that passes names through fails as a whole,
//! with every server it has; one that rewrites them calls tools by names that the server never gave, which both
//! spellings being accepted takes care of. So the table holds clients that fail, or that rewrite: to the latter
//! underscores are what they would make of a name anyway, and permission rules and logs then say the same on both sides.
//!
//! A client that is not known sees the canonical names: the suite, the inspector and the SDKs take them as they are.

/// In lower case; a client whose name is one of these, or begins with one and goes on with something other than a letter
/// or a digit (`codex-mcp-client`, `Visual Studio Code - Insiders`, `claude-ai (via mcp-remote 0.1.37)`).
const REFUSE_DOTS: [&str; 11] = [
    // Claude Desktop and claude.ai refuse the whole list: "FrontendRemoteMcpToolDefinition.name: String should match
    // pattern '^[a-zA-Z0-9_-]{1,64}$'" (modelcontextprotocol#1063, hostinger/api-mcp-server#49).
    "claude-ai",
    "claude-desktop",
    // Rewrites dots for the same API, as mcp__<server>__<tool>; rules are written against the rewritten name.
    "claude-code",
    "claude code",
    // "Tool name must only contain alphanumeric characters and underscores" (webstudio#5960); calls docs_find for
    // docs.find (gemini-cli-extensions/workspace#168).
    "cursor",
    // Failed with a 400 of the Responses API until early 2026, rewrites since (openai/codex#8174, #8694).
    "codex",
    // One name for several hosts of Copilot. Its command line and IntelliJ pass dots on and fail with a 400
    // (github/copilot-cli#2581).
    "github-copilot",
    "copilot",
    // Warns of every dotted name: "Tools names may only contain [a-z0-9_-]" (microsoft/vscode#308463).
    "visual studio code",
    // Rewrites whatever is no letter, digit or underscore before it asks its model (backstage#34634).
    "gemini-cli",
    // On Anthropic's API, names passed through: every request failed with a 400 (cline/kanban#47).
    "cline",
];

/// Should this client see `cyberos_cuo_route` for `cyberos.cuo.route`? `client_name` is `clientInfo.name`, as sent: it
/// decides how names look and nothing else, because anybody may send any.
pub fn wants_underscores(client_name: &str) -> bool {
    // No known name is as long as this; the rest of a longer one cannot matter.
    let name: String = client_name.trim().chars().take(64).collect::<String>().to_ascii_lowercase();
    REFUSE_DOTS
        .iter()
        .any(|known| name.strip_prefix(known).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_refuse_dots_are_known_by_their_names() {
        for name in [
            "claude-ai",
            "claude-ai (via mcp-remote 0.1.37)",
            "claude-code",
            "Claude Code",
            "cursor-vscode",
            "Cursor",
            "codex-mcp-client",
            "github-copilot-developer",
            "copilot-cli",
            "Visual Studio Code",
            "Visual Studio Code - Insiders",
            "gemini-cli-mcp-client",
            "Cline",
            " Codex ",
        ] {
            assert!(wants_underscores(name), "{name}");
        }
    }

    #[test]
    fn others_see_the_canonical_names() {
        for name in [
            "",
            " ",
            "mcp-inspector",
            "inspector-client",
            "bridge-tests",
            "conformance-test-client",
            "mcp",
            "python-sdk",
            // Part of a name is not the name.
            "cursory",
            "codexplorer",
            "clinex",
            "not-claude-ai",
            "claude",
            "\u{0}claude-ai",
        ] {
            assert!(!wants_underscores(name), "{name:?}");
        }
        assert!(!wants_underscores(&"c".repeat(1 << 20)));
    }

    #[test]
    fn the_table_holds_what_it_is_compared_with() {
        for known in REFUSE_DOTS {
            assert_eq!(known, known.to_ascii_lowercase());
            assert!(known.len() < 64 && wants_underscores(known), "{known}");
        }
    }
}

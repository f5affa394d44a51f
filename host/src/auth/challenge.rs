//! The `WWW-Authenticate` value of a 401 or 403: why, which scopes would do, and where a client finds the issuer.
//!
//! Source: RFC 6750 section 3, RFC 9728 section 5.1; MCP 2025-11-25, authorization. Which status goes with which error
//! is the transport's decision.

use http::HeaderValue;
use url::Url;

use super::issuer::is_scope_token;
use crate::error::{Error, Reason};

/// The challenge for this error, or `None` when the error is not about a token.
///
/// `scopes`: every scope that the refused request needs, not only the missing ones, so that a client asks for all of
/// them in one step-up. Values that could not stand in a header are left out.
pub fn www_authenticate(error: &Error, resource_metadata: Option<&Url>, scopes: &[&str]) -> Option<HeaderValue> {
    let code = match error.reason() {
        // A request without a token is told what to bring, not what is wrong (RFC 6750 section 3.1).
        Reason::TokenMissing => None,
        Reason::TokenInvalid | Reason::TokenExpired | Reason::AudMismatch => Some("invalid_token"),
        Reason::InsufficientScope => Some("insufficient_scope"),
        _ => return None,
    };
    let mut parameters = Vec::new();
    if let Some(code) = code {
        parameters.push(format!("error=\"{code}\""));
        parameters.push(format!("error_description=\"{}\"", printable(&error.to_string())));
    }
    let scopes: Vec<&str> = scopes.iter().copied().filter(|scope| is_scope_token(scope)).collect();
    if !scopes.is_empty() {
        parameters.push(format!("scope=\"{}\"", scopes.join(" ")));
    }
    if let Some(url) = resource_metadata {
        parameters.push(format!("resource_metadata=\"{}\"", printable(url.as_str())));
    }
    let value = match parameters.is_empty() {
        true => "Bearer".to_owned(),
        false => format!("Bearer {}", parameters.join(", ")),
    };
    Some(HeaderValue::try_from(value).expect("only printable ASCII was put into it"))
}

/// What RFC 6750 allows in a description: printable ASCII without quote and backslash.
fn printable(text: &str) -> String {
    text.chars().filter(|c| matches!(c, ' '..='~') && !matches!(c, '"' | '\\')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(reason: Reason, scopes: &[&str]) -> Option<String> {
        let metadata = Url::parse("https://mcp.example/.well-known/oauth-protected-resource/mcp").unwrap();
        let value = www_authenticate(&Error::new(reason, "The \"token\" is\r\nno good: ü."), Some(&metadata), scopes)?;
        Some(value.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_request_without_a_token_learns_where_to_get_one() {
        assert_eq!(
            challenge(Reason::TokenMissing, &["cyberos:cuo:list"]).unwrap(),
            "Bearer scope=\"cyberos:cuo:list\", \
             resource_metadata=\"https://mcp.example/.well-known/oauth-protected-resource/mcp\""
        );
        let bare = www_authenticate(&Error::new(Reason::TokenMissing, "."), None, &[]).unwrap();
        assert_eq!(bare, "Bearer");
    }

    #[test]
    fn a_missing_scope_is_answered_with_all_scopes_needed() {
        assert_eq!(
            challenge(Reason::InsufficientScope, &["cyberos:cuo:execute", "cyberos:memory:write", "ill\"formed"])
                .unwrap(),
            "Bearer error=\"insufficient_scope\", error_description=\"The token isno good: .\", \
             scope=\"cyberos:cuo:execute cyberos:memory:write\", \
             resource_metadata=\"https://mcp.example/.well-known/oauth-protected-resource/mcp\""
        );
    }

    #[test]
    fn bad_tokens_are_invalid_and_other_errors_are_no_challenge() {
        for reason in [Reason::TokenInvalid, Reason::TokenExpired, Reason::AudMismatch] {
            assert!(challenge(reason, &[]).unwrap().starts_with("Bearer error=\"invalid_token\""));
        }
        assert_eq!(challenge(Reason::OriginForbidden, &[]), None);
        assert_eq!(challenge(Reason::Unreachable, &[]), None);
    }
}

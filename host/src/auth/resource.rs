//! Which protected resource we are: the canonical URI that tokens are issued for, and where its metadata lies.
//!
//! Knows no request and no catalogue. Source: RFC 8707 section 2, RFC 9728 section 3.1; MCP 2025-11-25, authorization.

use std::net::SocketAddr;
use std::sync::Arc;
use url::Url;

use super::claims::canonical_audience;

/// Where metadata of a protected resource lies, unless the resource has a path.
pub const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

/// Every scope that some tool needs now.
pub type Scopes = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// This server as OAuth clients know it.
#[derive(Clone, Debug)]
pub struct ProtectedResource {
    /// Lower-case scheme and host, no default port, no trailing slash.
    pub canonical: String,
    /// The same under the other names of a loopback listener; none for a public address.
    pub aliases: Vec<String>,
    /// Its metadata document.
    pub metadata: Url,
}

impl ProtectedResource {
    /// Under the address that the operator says clients use: http(s), without query and fragment.
    pub fn public(url: &Url) -> ProtectedResource {
        ProtectedResource { canonical: canonical_audience(url.as_str()), aliases: vec![], metadata: metadata_of(url) }
    }

    /// Under a loopback address; `None` for any other, whose public name we cannot know.
    pub fn local(listener: SocketAddr, path: &str) -> Option<ProtectedResource> {
        if !listener.ip().is_loopback() {
            return None;
        }
        let port = listener.port();
        let at = |authority: String| format!("http://{authority}{path}");
        let url = Url::parse(&at(listener.to_string())).expect("a socket address is an authority");
        let names = [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")];
        let canonical = canonical_audience(url.as_str());
        let aliases = names.into_iter().map(|name| canonical_audience(&at(name))).filter(|a| *a != canonical).collect();
        Some(ProtectedResource { canonical, aliases, metadata: metadata_of(&url) })
    }

    /// The canonical URI, as a client that came by this `Host` knows it: clients compare it with the address they used.
    pub fn as_asked(&self, host: Option<&str>) -> &str {
        let authority = |uri: &str| Some(uri.split_once("://")?.1.split('/').next()?.to_ascii_lowercase());
        let asked = host.map(str::to_ascii_lowercase);
        let alias = self.aliases.iter().find(|alias| asked.is_some() && authority(alias) == asked);
        alias.unwrap_or(&self.canonical)
    }
}

/// The well-known part goes between host and path.
fn metadata_of(resource: &Url) -> Url {
    well_known(resource, METADATA_PATH)
}

/// `https://host/path` and `/.well-known/x` make `https://host/.well-known/x/path` (RFC 8414 section 3.1, RFC 9728
/// section 3.1).
pub fn well_known(url: &Url, suffix: &str) -> Url {
    let mut moved = url.clone();
    moved.set_path(&format!("{suffix}{}", url.path().trim_end_matches('/')));
    moved.set_query(None);
    moved.set_fragment(None);
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_resource_has_one_spelling() {
        for spelling in
            ["https://MCP.example.com/mcp", "https://mcp.example.com:443/mcp/", "HTTPS://mcp.example.com/mcp"]
        {
            let resource = ProtectedResource::public(&Url::parse(spelling).unwrap());
            assert_eq!(resource.canonical, "https://mcp.example.com/mcp", "{spelling}");
            let metadata = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";
            assert_eq!(resource.metadata.as_str(), metadata, "{spelling}");
        }
        let root = ProtectedResource::public(&Url::parse("https://mcp.example.com:8443").unwrap());
        assert_eq!(root.canonical, "https://mcp.example.com:8443");
        assert_eq!(root.metadata.as_str(), "https://mcp.example.com:8443/.well-known/oauth-protected-resource");
    }

    #[test]
    fn a_loopback_listener_answers_to_all_its_names_and_others_to_none() {
        let local = ProtectedResource::local("127.0.0.1:8082".parse().unwrap(), "/mcp").unwrap();
        assert_eq!(local.canonical, "http://127.0.0.1:8082/mcp");
        assert_eq!(local.as_asked(Some("LocalHost:8082")), "http://localhost:8082/mcp");
        for other in [None, Some("127.0.0.1:8082"), Some("localhost"), Some("evil.example:8082")] {
            assert_eq!(local.as_asked(other), local.canonical, "{other:?}");
        }
        let six = ProtectedResource::local("[::1]:80".parse().unwrap(), "/mcp").unwrap();
        assert_eq!((six.canonical.as_str(), six.aliases.len()), ("http://[::1]/mcp", 2));
        assert!(ProtectedResource::local("0.0.0.0:8082".parse().unwrap(), "/mcp").is_none());
    }
}

//! Where a component comes from or goes to: `oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:…]`, an https address, or a file.

use oci_client::Reference;
use std::path::PathBuf;
use url::Url;

use crate::upstreams::check_transport;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Oci(Reference),
    Url(Url),
    File(PathBuf),
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{text:?} cannot be used: {why}")]
pub struct BadSource {
    text: String,
    why: String,
}

impl Source {
    /// Anything with a scheme that is not known is refused; anything without one is a path.
    pub fn parse(text: &str) -> Result<Source, BadSource> {
        let bad = |why: String| BadSource { text: text.to_owned(), why };
        if text.starts_with("oci://") {
            return reference(text).map(Source::Oci);
        }
        match text.split_once("://") {
            None => Ok(Source::File(PathBuf::from(text))),
            Some(("https" | "http", _)) => {
                let url = Url::parse(text).map_err(|e| bad(e.to_string()))?;
                check_transport(&url).map_err(|e| bad(e.to_string()))?;
                Ok(Source::Url(url))
            }
            Some((scheme, _)) => Err(bad(format!("{scheme}:// is not known; use oci://, https:// or a path"))),
        }
    }

    /// What a plugin from here is called unless somebody says otherwise.
    pub fn name(&self) -> Option<String> {
        let last = match self {
            Source::Oci(reference) => reference.repository().rsplit('/').next()?.to_owned(),
            Source::Url(url) => url.path_segments()?.next_back()?.to_owned(),
            Source::File(path) => path.file_name()?.to_str()?.to_owned(),
        };
        Some(last.strip_suffix(".wasm").unwrap_or(&last).replace(['_', '.'], "-").to_ascii_lowercase())
    }
}

/// `oci://…` with its registry written out: a short name would silently mean somebody's public registry.
pub fn reference(text: &str) -> Result<Reference, BadSource> {
    let bad = |why: &str| BadSource { text: text.to_owned(), why: why.to_owned() };
    const FORM: &str = "the form is oci://HOST[:PORT]/REPOSITORY:TAG or oci://HOST[:PORT]/REPOSITORY@sha256:…";
    let rest = text.strip_prefix("oci://").ok_or_else(|| bad(FORM))?;
    let (host, repository) = rest.split_once('/').ok_or_else(|| bad(FORM))?;
    if repository.is_empty() || !(host.contains(['.', ':']) || host == "localhost") {
        return Err(bad("it does not start with a registry's host name, such as ghcr.io or 127.0.0.1:5000"));
    }
    let reference: Reference = rest.parse().map_err(|e| bad(&format!("{e}; {FORM}")))?;
    if reference.digest().is_some_and(|digest| !super::is_digest(digest)) {
        return Err(bad("a digest must be sha256: and 64 hex digits"));
    }
    Ok(reference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_named_after_the_last_part_of_where_it_is() {
        for (text, name) in [
            ("oci://ghcr.io/acme/tools/weather:1.2", "weather"),
            ("oci://127.0.0.1:5000/weather", "weather"),
            ("https://plugins.example/v1/Weather_Now.wasm?token=x", "weather-now"),
            ("dist/weather_now.wasm", "weather-now"),
        ] {
            assert_eq!(Source::parse(text).unwrap().name().as_deref(), Some(name), "{text}");
        }
    }

    #[test]
    fn a_source_that_hides_where_it_leads_is_refused() {
        for (text, why) in [
            ("oci://weather:1", "the form is"),
            ("oci://acme/weather:1", "host name"),
            ("oci://ghcr.io/", "host name"),
            ("oci://ghcr.io/Weather:1", "the form is"),
            ("oci://ghcr.io/weather@sha512:00", "the form is"),
            ("http://plugins.example/a.wasm", "https"),
            ("https://user:word@plugins.example/a.wasm", "user name"),
            ("ftp://plugins.example/a.wasm", "not known"),
        ] {
            let refused = Source::parse(text).unwrap_err().to_string();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}

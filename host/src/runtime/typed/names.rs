//! How names of WIT become names of JSON and of tools: in lower case, with underscores. WIT tells names apart without
//! regard to case and has no underscores, so two that differ stay different.

/// `get-URL` becomes `get_url`.
pub fn in_json(name: &str) -> String {
    name.replace('-', "_").to_ascii_lowercase()
}

/// For people: `get-url` becomes `Get url`.
pub fn title(name: &str) -> String {
    let words = name.replace('-', " ");
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let title = first + letters.as_str();
    title.chars().take(80).collect()
}

/// `ns:package/interface@1.0.0` becomes `interface`.
pub fn short(interface: &str) -> &str {
    let path = interface.split('@').next().unwrap_or(interface);
    path.rsplit(['/', ':']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_lower_case_with_underscores() {
        assert_eq!(in_json("get-URL"), "get_url");
        assert_eq!(title("add-two"), "Add two");
        assert_eq!(short("test:calc/fine-math@0.1.0"), "fine-math");
        assert_eq!(short("math"), "math");
    }
}

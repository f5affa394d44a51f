//! Commands that change `plugins.toml`, without a process around them.

use super::*;

const FILE: &str = r#"# Grants of the weather station.

[plugins.weather] # Berlin
cuo = true # for routing
config = { units = "metric" }

# The service that we pay for.
[plugins.weather.upstreams.api]
url = "https://api.example.com" # production
paths = [
    "/v1/forecast/*", # daily
]

[plugins.other]
audit_read = true
"#;

fn id(id: &str) -> PluginId {
    PluginId::parse(id).unwrap()
}

fn granted(text: &str, plugin: &str, change: &Grant) -> Result<String> {
    grant(Path::new("plugins.toml"), text, &id(plugin), change)
}

fn revoked(text: &str, plugin: &str, change: &Revoke) -> Result<String> {
    revoke(Path::new("plugins.toml"), text, &id(plugin), change)
}

#[test]
fn a_file_of_another_system_stays_one() {
    let theirs = format!("\u{feff}{}", FILE.replace('\n', "\r\n"));
    let change = Grant { imports: vec![Import::Elicit], ..Grant::default() };
    let after = granted(&theirs, "other", &change).unwrap();
    let expected = theirs.replace("audit_read = true\r\n", "audit_read = true\r\nelicit = true\r\n");
    assert_eq!(after, expected);
}

#[test]
fn a_grant_changes_its_lines_and_no_others() {
    let upstream = GrantUpstream {
        name: "api".into(),
        methods: vec!["POST".into()],
        paths: vec!["/v1/stations/**".into(), "/v1/forecast/*".into()],
        credential: Some(("env:KEY".into(), None, Some("Bearer".into()))),
        ..GrantUpstream::default()
    };
    let change = Grant {
        upstream: Some(upstream),
        imports: vec![Import::Elicit],
        config: vec![("units".into(), "imperial".into())],
        limits: vec![("fuel".into(), 5)],
        ..Grant::default()
    };
    let after = granted(FILE, "weather", &change).unwrap();
    for kept in
        ["# Grants of", "# Berlin", "# for routing", "# The service", "# production", "# daily", "[plugins.other]"]
    {
        assert!(after.contains(kept), "{kept} is lost:\n{after}");
    }
    let file = PluginsFile::parse(Path::new("p"), &after, Secrets::Named).unwrap();
    let weather = file.grants("weather");
    let api = &weather.upstreams["api"];
    assert_eq!(api.methods, ["GET", "POST"]);
    assert_eq!(api.paths, ["/v1/forecast/*", "/v1/stations/**"]);
    assert_eq!(api.credential.as_ref().unwrap().secret, "env:KEY");
    assert!(weather.elicit && weather.cuo && weather.limits.fuel == 5 && weather.config["units"] == "imperial");
    assert!(file.grants("other").audit_read);
    assert!(after.find("[plugins.weather]") < after.find("[plugins.other]"), "{after}");
}

#[test]
fn a_file_can_begin_with_a_grant() {
    let upstream = GrantUpstream {
        name: "api".into(),
        url: Some("https://api.example.com".into()),
        paths: vec!["/v1/*".into()],
        ..GrantUpstream::default()
    };
    let change = Grant { upstream: Some(upstream), any_tool_name: true, ..Grant::default() };
    let after = granted("", "weather", &change).unwrap();
    let lines: Vec<&str> = after.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(
        lines,
        [
            "[plugins.weather]",
            "any_tool_name = true",
            "[plugins.weather.upstreams.api]",
            "url = \"https://api.example.com\"",
            "paths = [\"/v1/*\"]"
        ]
    );
}

#[test]
fn what_is_granted_and_revoked_again_leaves_the_grants_as_they_were() {
    let change = Grant { imports: vec![Import::Sample], config: vec![("a".into(), "b".into())], ..Grant::default() };
    let back = Revoke { imports: vec![Import::Sample], config: vec!["a".into()], ..Revoke::default() };
    let after = revoked(&granted(FILE, "weather", &change).unwrap(), "weather", &back).unwrap();
    assert_eq!(after, FILE);
}

#[test]
fn a_grant_that_makes_no_sense_is_not_made() {
    let with = |url: &str, path: &str| Grant {
        upstream: Some(GrantUpstream {
            name: "new".into(),
            url: Some(url.into()),
            paths: vec![path.into()],
            ..GrantUpstream::default()
        }),
        ..Grant::default()
    };
    let error = granted(FILE, "weather", &with("ftp://x.example", "/v1/n*")).unwrap_err().to_string();
    assert!(error.contains("upstreams.new.url") && error.contains("upstreams.new.paths.0"), "{error}");
    let error = granted("plugins = 3", "weather", &Grant::default()).unwrap_err().to_string();
    assert!(error.contains("plugins.toml:1:"), "{error}");
    let no_url = Grant { upstream: Some(GrantUpstream { name: "x".into(), ..Default::default() }), ..Grant::default() };
    assert!(granted(FILE, "weather", &no_url).unwrap_err().to_string().contains("--upstream x=https://"));
}

#[test]
fn what_was_not_granted_cannot_be_revoked() {
    let api = |paths: &[&str], methods: &[&str], credential| Revoke {
        upstream: Some(RevokeUpstream {
            name: "api".into(),
            paths: paths.iter().map(|p| (*p).to_owned()).collect(),
            methods: methods.iter().map(|m| (*m).to_owned()).collect(),
            credential,
            allow_private: false,
        }),
        ..Revoke::default()
    };
    let cases = [
        ("nobody", Revoke { everything: true, ..Revoke::default() }, "nobody has no entry"),
        ("weather", Revoke { imports: vec![Import::Elicit], ..Revoke::default() }, "elicit is not granted"),
        ("weather", Revoke { directories: vec!["/d".into()], ..Revoke::default() }, "it has none"),
        ("weather", Revoke { config: vec!["unit".into()], ..Revoke::default() }, "it has units"),
        ("weather", api(&["/v2"], &[], false), "/v2 is not among the paths"),
        ("weather", api(&[], &["PUT"], false), "PUT is not among the methods"),
        ("weather", api(&[], &[], true), "has no credential"),
    ];
    for (plugin, change, says) in cases {
        let error = revoked(FILE, plugin, &change).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn an_upstream_is_revoked_whole_or_in_part() {
    let part = Revoke {
        upstream: Some(RevokeUpstream {
            name: "api".into(),
            paths: vec!["/v1/forecast/*".into()],
            ..Default::default()
        }),
        ..Revoke::default()
    };
    let after = revoked(FILE, "weather", &part).unwrap();
    assert!(after.contains("[plugins.weather.upstreams.api]") && !after.contains("forecast"), "{after}");
    let whole =
        Revoke { upstream: Some(RevokeUpstream { name: "api".into(), ..Default::default() }), ..Revoke::default() };
    let after = revoked(FILE, "weather", &whole).unwrap();
    assert!(!after.contains("upstreams") && after.contains("cuo = true # for routing"), "{after}");
}

#[test]
fn a_file_that_changed_meanwhile_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plugins.toml");
    change(&path, |_| Ok(FILE.into())).unwrap();
    let overtaken = change(&path, |text| {
        std::fs::write(&path, "# an editor's").unwrap();
        Ok(text.replace("weather", "other"))
    });
    assert!(matches!(overtaken, Err(EditError::Overtaken(_))));
    let changed = change(&path, |text| Ok(format!("{text}\n"))).unwrap();
    assert_eq!((changed.before.as_str(), read(&path).unwrap()), ("# an editor's", changed.after));
}

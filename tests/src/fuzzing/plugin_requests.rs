//! What a component says that it asks for: an input is the section, and a whole component.

use cyberos_plugin_host::model::is_hidden;
use cyberos_plugin_host::plugins::Request;
use cyberos_plugin_host::plugins::request::{SECTION, without};

use super::Target;

pub const TARGET: Target = Target {
    name: "plugin_requests",
    run: plugin_requests,
    vocabulary: &[
        r#"{"version":1,"asks":{}}"#,
        r#"{"version":2}"#,
        r#"{"asks":{"imports":["cuo","elicit"]}}"#,
        r#"{"asks":{"any_tool_name":true}}"#,
        r#"{"asks":{"config":["units"],"environment":["TZ"]}}"#,
        r#"{"asks":{"directories":{"/data":"read_write"}}}"#,
        r#"{"asks":{"limits":{"fuel":9223372036854775807}}}"#,
        r#"{"upstreams":{"api":{"url":"https://api.example.com","methods":["GET"],"paths":["/v1/**"]}}}"#,
        r#"{"url":"http://[::1]:8080"}"#,
        r#"{"paths":["/*/a","/**","/%C3%A9"]}"#,
        r#"{"allow_private":true}"#,
        r#"{"limits":{"max_response_bytes":5000000}}"#,
        r#"{"secret":{"name":"KEY","header":"authorization","scheme":"Bearer"}}"#,
        r#""\u001b[2J""#,
        r#""\u202e""#,
    ],
};

const PREAMBLE: &[u8] = b"\0asm\x0d\0\x01\0";

fn plugin_requests(bytes: &[u8]) {
    let kept = without(bytes);
    assert_eq!(Request::read(&kept), Ok(None), "nothing of it is left");
    if kept == bytes {
        assert_eq!(Request::read(bytes), Ok(None));
    }
    let body = [&leb(SECTION.len())[..], SECTION.as_bytes(), bytes].concat();
    let component = [PREAMBLE, &[0], &leb(body.len()), &body].concat();
    match Request::read(&component) {
        Ok(None) => panic!("there is a section"),
        Ok(Some(asks)) => holds(&asks),
        Err(why) => assert_printable(&why.to_string()),
    }
}

fn holds(asks: &Request) {
    let written = asks.section().expect("what was read can be written");
    assert_eq!(Request::read(&[PREAMBLE, &written].concat()).as_ref(), Ok(&Some(asks.clone())));
    assert!(asks.beyond(asks).is_empty(), "what is granted as it is asked for leaves nothing: {asks:?}");
    assert_eq!(asks.beyond(&Request::default()), *asks);
    asks.lines().iter().for_each(|line| assert_printable(line));
}

fn assert_printable(line: &str) {
    assert!(!line.chars().any(|c| c.is_control() || is_hidden(c)), "{line:?}");
}

fn leb(mut left: usize) -> Vec<u8> {
    let mut bytes = vec![];
    while left > 0x7f {
        bytes.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes
}

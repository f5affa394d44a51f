//! What came back, with the questions that tests ask of it.

use reqwest::header::HeaderMap;
use serde_json::{Map, Value};

/// An answer to one request over either transport. Its checks panic with the whole answer in the message.
#[derive(Clone, Debug)]
pub struct Reply {
    pub body: Value,
    /// HTTP only.
    pub status: Option<u16>,
    /// HTTP only.
    pub headers: HeaderMap,
}

impl Reply {
    pub fn of_line(body: Value) -> Reply {
        Reply { body, status: None, headers: HeaderMap::new() }
    }

    /// The result; an error fails the test.
    #[track_caller]
    pub fn result(&self) -> &Value {
        match self.body.get("result") {
            Some(result) => result,
            None => panic!("a result was expected, not {self:?}"),
        }
    }

    /// The structured content of a tool result that is no error, which must say the same as its text.
    #[track_caller]
    pub fn structured(&self) -> &Value {
        let result = self.result();
        assert_eq!(result["isError"], false, "{result:#}");
        let structured = result.get("structuredContent").unwrap_or_else(|| panic!("no structured content: {result:#}"));
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text beside it: {result:#}"));
        assert_eq!(&serde_json::from_str::<Value>(text).expect("the text is the same JSON"), structured);
        structured
    }

    /// The id of the task that a plain call to a long tool was answered with.
    #[track_caller]
    pub fn task_id(&self) -> String {
        let handle = self.structured();
        assert_eq!(handle["status"], "running", "{handle:#}");
        handle["task_id"].as_str().expect("a task id is text").to_owned()
    }

    #[track_caller]
    pub fn error(&self) -> &Value {
        match self.body.get("error") {
            Some(error) => error,
            None => panic!("an error was expected, not {self:?}"),
        }
    }

    /// An error of this class and reason, complete as every error must be. Gives its data for further questions.
    #[track_caller]
    pub fn assert_error(&self, class: &str, reason: &str) -> &Map<String, Value> {
        let error = self.error();
        let data = assert_complete(error);
        assert_eq!((data["class"].as_str(), data["reason"].as_str()), (Some(class), Some(reason)), "{error:#}");
        data
    }

    #[track_caller]
    pub fn assert_code(&self, code: i64) -> &Reply {
        assert_eq!(self.error()["code"], code, "{self:?}");
        self
    }

    #[track_caller]
    pub fn assert_status(&self, status: u16) -> &Reply {
        assert_eq!(self.status, Some(status), "{self:?}");
        self
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Every error tells who acts, why, where to look it up and what to do.
#[track_caller]
pub fn assert_complete(error: &Value) -> &Map<String, Value> {
    assert!(error["code"].is_i64() && error["message"].as_str().is_some_and(|m| m.len() > 5), "{error:#}");
    let data = error["data"].as_object().unwrap_or_else(|| panic!("an error without data: {error:#}"));
    let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
    assert!(
        ["input_validation", "authz_denied", "upstream_unavailable", "internal_error"].contains(&text("class")),
        "{error:#}"
    );
    assert!(!text("reason").is_empty(), "{error:#}");
    assert!(text("hint").len() > 15, "a hint that helps: {error:#}");
    assert_trace_id(text("trace_id"));
    data
}

#[track_caller]
pub fn assert_trace_id(trace_id: &str) {
    let hex = trace_id.len() == 32 && trace_id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    assert!(hex && !trace_id.trim_matches('0').is_empty(), "{trace_id:?} is no W3C trace id");
}

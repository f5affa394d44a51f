//! Requests with any method, headers and body, as a stranger can send them over HTTP, and what must never come back.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use serde_json::Value;
use std::sync::PoisonError;

use super::Target;
use super::entry::{Answer, ENTRY, Live, ask, open};

pub const TARGET: Target = Target {
    name: "http_entry",
    run: http_entry,
    vocabulary: &[
        r#"{"method":"POST"}"#,
        r#"{"method":"GET"}"#,
        r#"{"method":"DELETE"}"#,
        r#"{"method":"OPTIONS"}"#,
        r#"{"path":"/mcp?access_token=x"}"#,
        r#"{"path":"//mcp"}"#,
        r#"{"path":"http://localhost/mcp"}"#,
        r#"["host","localhost:8082"]"#,
        r#"["host","[::1]:1"]"#,
        r#"["host","localhost.evil.example"]"#,
        r#"["host","localhost:1@evil.example"]"#,
        r#"["origin","http://localhost:8082"]"#,
        r#"["origin","null"]"#,
        r#"["origin","https://evil.example"]"#,
        r#"["accept","text/event-stream"]"#,
        r#"["accept","*/*;q=0"]"#,
        r#"["accept","application/json, text/event-stream"]"#,
        r#"["accept",",;/,"]"#,
        r#"["content-type","application/json; charset=utf-8"]"#,
        r#"["content-type","text/plain;application/json"]"#,
        r#"["mcp-session-id","$session"]"#,
        r#"["mcp-session-id","$session "]"#,
        r#"["mcp-session-id","é"]"#,
        r#"["last-event-id","$event"]"#,
        r#"["last-event-id","ffffffffffff-00/9999999999999999999"]"#,
        r#"["mcp-protocol-version","2025-11-25"]"#,
        r#"["traceparent","00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]"#,
        r#"["authorization","Bearer x"]"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}"#,
        r#"{"method":"tools/call","params":{"name":"cyberos.cuo.route","arguments":{"query":"x"},"_meta":{"progressToken":1}}}"#,
        r#"{"method":"prompts/list"}"#,
        r#"{"method":"resources/read","params":{"uri":"test://x"}}"#,
        r#"{"method":"resources/subscribe","params":{"uri":"test://x"}}"#,
        r#"{"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":""}}}"#,
        r#"{"method":"logging/setLevel","params":{"level":"debug"}}"#,
        r#"{"method":"tasks/get","params":{"taskId":"x"}}"#,
        r#"{"method":"tasks/list","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":"$session","result":{"action":"accept","content":{}}}"#,
        r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#,
    ],
};

/// `{"method": …, "path": …, "headers": [[name, value], …], "body": JSON, or a string of anything}`.
fn http_entry(bytes: &[u8]) {
    let Ok(input) = serde_json::from_slice::<Value>(bytes) else { return };
    let entry = &*ENTRY;
    let mut live = entry.live.lock().unwrap_or_else(PoisonError::into_inner);
    let named = |text: &str| text.replace("$session", &live.session).replace("$event", &live.event);
    let Ok(method) = input["method"].as_str().unwrap_or("POST").parse::<Method>() else { return };
    let Ok(uri) = input["path"].as_str().unwrap_or("/mcp").parse::<Uri>() else { return };
    let mut headers = HeaderMap::new();
    for pair in input["headers"].as_array().into_iter().flatten() {
        let (Some(name), Some(value)) = (pair[0].as_str(), pair[1].as_str()) else { continue };
        let name = HeaderName::from_bytes(name.as_bytes());
        let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(named(value).as_bytes())) else { continue };
        headers.append(name, value);
    }
    let body = match &input["body"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        body => named(&body.to_string()),
    };
    let mut request = Request::new(Body::from(body.clone()));
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) =
        (method.clone(), uri.clone(), headers.clone());
    let router = entry.router.clone();
    let answer = entry.runtime.block_on(entry.runtime.spawn(async move { ask(&router, request).await }));
    let answer = answer.expect("no panic");
    if uri.path() == "/mcp" {
        judge(&headers, &uri, &body, &answer, &live);
    }
    if method == Method::DELETE && answer.status == StatusCode::NO_CONTENT {
        *live = entry.runtime.block_on(open(&entry.router));
    }
}

fn judge(headers: &HeaderMap, uri: &Uri, body: &str, answer: &Answer, live: &Live) {
    let status = answer.status.as_u16();
    assert!(matches!(status, 200 | 202 | 204 | 400 | 401 | 403 | 404 | 405 | 406 | 413 | 415), "status {status}");
    let all =
        |name: &str| headers.get_all(name).iter().map(|v| String::from_utf8_lossy(v.as_bytes())).collect::<Vec<_>>();
    let hosts = all("host");
    let ours = |host: &str| {
        ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
            let rest = host.to_ascii_lowercase().strip_prefix(name).map(str::to_owned);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        })
    };
    let host = match &hosts[..] {
        [host] => Some(host.to_string()),
        [] => uri.authority().map(|authority| authority.to_string()),
        _ => None,
    };
    let host = host.filter(|host| ours(host));
    assert!(host.is_some() || status == 403, "a foreign host is served: {hosts:?}");
    let is_own = |origin: &str| {
        host.as_deref().is_some_and(|host| {
            ["http", "https"].iter().any(|scheme| origin.eq_ignore_ascii_case(&format!("{scheme}://{host}")))
        })
    };
    assert!(all("origin").iter().all(|origin| is_own(origin)) || status == 403, "a foreign page is served");
    let served = answer.status.is_success();
    assert!(
        !served || all("mcp-session-id").iter().all(|id| *id == live.session),
        "a session that is not one is served"
    );
    assert!(!served || all("mcp-session-id").len() < 2, "a request of two sessions is served");
    if answer.is_stream() {
        let accept = all("accept").join(",").to_ascii_lowercase();
        let asked = ["text/event-stream", "text/*", "*/*"].iter().any(|kind| accept.contains(kind));
        assert!(asked, "a stream for who accepts {accept:?}");
    }
    if answer.headers.contains_key("mcp-session-id") {
        let asked = serde_json::from_str::<Value>(body).is_ok_and(|body| body.to_string().contains("initialize"));
        assert!(served && asked, "a session that nobody asked for");
    }
    if answer.body.is_empty() {
        return assert!(matches!(status, 202 | 204 | 405), "an empty answer with status {status}");
    }
    for message in answer.messages() {
        assert_ne!(message["error"]["data"]["class"], "internal_error", "{message}");
        assert!(served || message["error"]["data"]["reason"].is_string(), "{message} with status {status}");
    }
}

//! What a stranger can send over HTTP: requests with any headers and body, session ids, and ids to read a stream on from.
//!
//! All of it goes to one bridge inside this process, which has one live session with one stream that listens. An input
//! names them `$session` and `$event`.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use cyberos_plugin_host::auth;
use cyberos_plugin_host::protocol::{Protocol, SessionFault};
use cyberos_plugin_host::transport::http::read_event_id;
use futures::StreamExt;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use tower::ServiceExt;

use super::Target;
use crate::inside::Made;

pub const HTTP: Target = Target {
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

pub const SESSION_IDS: Target = Target {
    name: "session_ids",
    run: session_ids,
    vocabulary: &[
        r#"{"text":"$session"}"#,
        r#"{"text":"{$session}"}"#,
        r#"{"text":"urn:uuid:$session"}"#,
        r#"{"text":"00000000-0000-8000-8000-000000000000"}"#,
        r#"{"text":"ffffffff-ffff-8fff-bfff-ffffffffffff"}"#,
        r#"{"edits":[[0,"0"]]}"#,
        r#"[35,"f"]"#,
        r#"[19,"c"]"#,
        r#"[14,"4"]"#,
        r#"[3,"A"]"#,
    ],
};

pub const EVENT_IDS: Target = Target {
    name: "event_ids",
    run: event_ids,
    vocabulary: &[
        r#"{"text":"$event"}"#,
        r#"{"text":"ffffffffffff-00/0"}"#,
        r#"{"text":"0/9999999999999999999"}"#,
        r#"{"text":"../1"}"#,
        r#"{"edits":[[0,"0"]]}"#,
        r#"[12,"/"]"#,
        r#"[12,"-"]"#,
        r#"[37,"/"]"#,
        r#"[38,"18446744073709551615"]"#,
    ],
};

/// More than any answer takes, and less than the fuzzer waits for one input.
const PATIENCE: Duration = Duration::from_secs(8);

struct Entry {
    runtime: Runtime,
    router: Router,
    protocol: Arc<Protocol>,
    live: Mutex<Live>,
    /// Whose store the files are.
    _made: (cyberos_plugin_host::app::Bridge, tempfile::TempDir),
}

#[derive(Clone)]
struct Live {
    session: String,
    event: String,
}

static ENTRY: LazyLock<Entry> = LazyLock::new(|| {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    // On a worker of the bridge's own: the thread that asks first may have a small stack.
    let made = runtime.block_on(runtime.spawn(Made::with(&[]))).expect("the bridge starts");
    let (router, protocol) = (made.server.into_router(), made.bridge.protocol.clone());
    let live = Mutex::new(runtime.block_on(open(&router)));
    Entry { runtime, router, protocol, live, _made: (made.bridge, made.home) }
});

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn is_stream(&self) -> bool {
        self.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
    }

    /// The JSON-RPC messages of the body.
    fn messages(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.body).expect("an answer is UTF-8");
        if self.is_stream() {
            let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| !data.is_empty());
            return data.map(|data| serde_json::from_str(data).expect("an event is JSON")).collect();
        }
        match serde_json::from_str(text) {
            Ok(Value::Array(all)) => all,
            Ok(one) => vec![one],
            Err(_) => panic!("an answer is JSON: {text:?}"),
        }
    }
}

/// A whole answer; of a stream that listens, what it begins with.
async fn ask(router: &Router, request: Request<Body>) -> Answer {
    let listens = request.method() == Method::GET;
    let answered = async {
        let response = router.clone().oneshot(request).await.expect("a router always answers");
        let (parts, body) = response.into_parts();
        let mut answer = Answer { status: parts.status, headers: parts.headers, body: vec![] };
        let mut frames = body.into_data_stream();
        while let Some(frame) = frames.next().await {
            answer.body.extend_from_slice(&frame.expect("a body that does not break"));
            if listens && answer.is_stream() {
                break;
            }
        }
        answer
    };
    tokio::time::timeout(PATIENCE, answered).await.expect("an answer in time")
}

async fn open(router: &Router) -> Live {
    let accept = "application/json, text/event-stream";
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "fuzz", "version": "1" } } });
    let request = Request::post("/mcp").header("host", "localhost").header("accept", accept);
    let request = request.header("content-type", "application/json").body(initialize.to_string().into());
    let answer = ask(router, request.expect("a good request")).await;
    let session = answer.headers["mcp-session-id"].to_str().expect("it is visible ASCII").to_owned();
    let request = Request::get("/mcp").header("host", "localhost").header("accept", accept);
    let request = request.header("mcp-session-id", &session).body(Body::empty());
    let answer = ask(router, request.expect("a good request")).await;
    let text = String::from_utf8(answer.body).expect("it is UTF-8");
    let event = text.lines().find_map(|line| line.strip_prefix("id: ")).expect("a stream begins with an id");
    Live { session, event: event.to_owned() }
}

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
        assert!(served && body.contains("initialize"), "a session that nobody asked for");
    }
    if answer.body.is_empty() {
        return assert!(matches!(status, 202 | 204 | 405), "an empty answer with status {status}");
    }
    for message in answer.messages() {
        assert_ne!(message["error"]["data"]["class"], "internal_error", "{message}");
        assert!(served || message["error"]["data"]["reason"].is_string(), "{message} with status {status}");
    }
}

/// `{"text": …, "edits": [[position, character], …]}`.
fn edited(bytes: &[u8], name: &str, value: &str) -> Option<String> {
    let input: Value = serde_json::from_slice(bytes).ok()?;
    let mut text: Vec<char> = input["text"].as_str()?.replace(name, value).chars().collect();
    for edit in input["edits"].as_array().into_iter().flatten() {
        let (Some(place), Some(with)) = (edit[0].as_u64(), edit[1].as_str()) else { continue };
        let place = usize::try_from(place).unwrap_or(usize::MAX).min(text.len());
        text.splice(place..(place + 1).min(text.len()), with.chars());
    }
    Some(text.into_iter().collect())
}

fn session_ids(bytes: &[u8]) {
    let entry = &*ENTRY;
    let live = entry.live.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(text) = edited(bytes, "$session", &live.session) else { return };
    let found = |caller: auth::Caller| {
        entry.runtime.block_on(async { entry.protocol.clients().sessions.find(&text, &caller).await })
    };
    let (own, foreign) = (found(auth::Caller::local()), found(auth::Caller::anonymous()));
    assert_eq!(own.is_ok(), text == live.session, "{text:?}");
    assert!(foreign.is_err(), "{text:?} is another's");
    let hyphens = |(place, byte): (usize, u8)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    };
    let is_uuid = text.len() == 36 && text.bytes().enumerate().all(hyphens);
    match own.err() {
        None => {}
        Some(SessionFault::NotAnId) => assert!(!is_uuid, "{text:?}"),
        Some(SessionFault::Unknown) => assert!(is_uuid, "{text:?}"),
        Some(SessionFault::Unavailable(error)) => panic!("{error:?}"),
    }
}

fn event_ids(bytes: &[u8]) {
    let entry = &*ENTRY;
    let live = entry.live.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let streams = &entry.protocol.clients().streams;
    let Some(text) = edited(bytes, "$event", &live.event) else { return };
    let own: &str = live.event.split('/').next().expect("there is a part before any slash");
    let replica = own.split('-').next().expect("there is a part before any hyphen");
    let Some((id, number)) = read_event_id(&text) else { return };
    assert!(number <= 9_999_999_999_999_999_999);
    let digits = text.strip_prefix(id).and_then(|rest| rest.strip_prefix('/')).expect("it begins with the stream");
    assert_eq!(digits.trim_start_matches('0'), number.to_string().trim_start_matches('0'));
    assert!(streams.find(id, "somebody else").is_none(), "{id} is another's");
    if let Some(elsewhere) = streams.held_elsewhere(id) {
        assert!(elsewhere != replica && elsewhere.len() == replica.len() && id.starts_with(elsewhere));
        assert!(elsewhere.bytes().all(|b| b.is_ascii_hexdigit()), "a letter goes to {elsewhere:?}");
    }
    let caller = auth::Caller::local();
    let key = format!("{}/{}/{}", caller.tenant(), caller.subject(), live.session);
    assert!(id == own || streams.find(id, &key).is_none(), "{id} is not the one stream that there is");
}

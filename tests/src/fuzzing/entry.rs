//! One bridge inside this process with one live session and one stream that listens, and what a stranger can make up about
//! them: session ids, and ids to read a stream on from. An input names the live ones `$session` and `$event`.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
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

pub struct Entry {
    pub runtime: Runtime,
    pub router: Router,
    protocol: Arc<Protocol>,
    pub live: Mutex<Live>,
    /// Whose store the files are.
    _made: (cyberos_plugin_host::app::Bridge, tempfile::TempDir),
}

#[derive(Clone)]
pub struct Live {
    pub session: String,
    pub event: String,
}

pub static ENTRY: LazyLock<Entry> = LazyLock::new(|| {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    // On a worker of the bridge's own: the thread that asks first may have a small stack.
    let made = runtime.block_on(runtime.spawn(Made::with(&[]))).expect("the bridge starts");
    let (router, protocol) = (made.server.into_router(), made.bridge.protocol.clone());
    let live = Mutex::new(runtime.block_on(open(&router)));
    Entry { runtime, router, protocol, live, _made: (made.bridge, made.home) }
});

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn is_stream(&self) -> bool {
        self.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
    }

    /// The JSON-RPC messages of the body.
    pub fn messages(&self) -> Vec<Value> {
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
pub async fn ask(router: &Router, request: Request<Body>) -> Answer {
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

pub async fn open(router: &Router) -> Live {
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

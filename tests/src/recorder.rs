//! A proxy between a client that is not ours and one or more bridges. It passes everything on as it comes, streams
//! included, and keeps what was said, so that a test can judge more than the client tells.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::response::Response;
use axum::serve::ListenerExt;
use futures::StreamExt;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

/// Larger bodies than any test sends.
const MAX_REQUEST_BYTES: usize = 16 << 20;

/// Stops listening when dropped.
pub struct Recorder {
    pub address: SocketAddr,
    kept: Arc<Mutex<Vec<Exchange>>>,
    server: tokio::task::JoinHandle<()>,
}

/// One HTTP request and what came back, as far as it has come.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub status: u16,
    pub answer_headers: HeaderMap,
    pub answer: Vec<u8>,
    /// Which of the bridges it went to.
    pub bridge: usize,
}

#[derive(Clone)]
struct Passing {
    bridges: Arc<Vec<SocketAddr>>,
    next: Arc<AtomicUsize>,
    client: reqwest::Client,
    kept: Arc<Mutex<Vec<Exchange>>>,
}

impl Recorder {
    /// With several bridges each request goes to the next one, as a load balancer without sticky sessions sends it.
    pub async fn before(bridges: &[SocketAddr]) -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let kept = Arc::<Mutex<Vec<Exchange>>>::default();
        let passing = Passing {
            bridges: Arc::new(bridges.to_vec()),
            next: Arc::default(),
            client: reqwest::Client::builder().no_proxy().tcp_nodelay(true).build().expect("a client"),
            kept: kept.clone(),
        };
        let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
        let router = axum::Router::new().fallback(pass).with_state(passing);
        let server = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Recorder { address, kept, server }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// In the order in which the requests came.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.kept.lock().unwrap().clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The Host stays what the client said: whether it is a good one is for the bridge to judge.
async fn pass(State(to): State<Passing>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, MAX_REQUEST_BYTES).await.expect("a whole request");
    let bridge = to.next.fetch_add(1, Ordering::Relaxed) % to.bridges.len();
    let path = parts.uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
    let mut headers = parts.headers.clone();
    for own in [header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        headers.remove(own);
    }
    let url = format!("http://{}{path}", to.bridges[bridge]);
    let asked = to.client.request(parts.method.clone(), url).headers(headers).body(body.clone()).send().await;
    let Ok(answer) = asked else {
        return Response::builder().status(502).body(Body::empty()).expect("a plain answer");
    };
    let index = {
        let mut kept = to.kept.lock().unwrap();
        kept.push(Exchange {
            method: parts.method,
            path,
            headers: parts.headers,
            body,
            status: answer.status().as_u16(),
            answer_headers: answer.headers().clone(),
            answer: vec![],
            bridge,
        });
        kept.len() - 1
    };
    let mut response = Response::builder().status(answer.status());
    for (name, value) in
        answer.headers().iter().filter(|(name, _)| **name != header::CONNECTION && **name != header::TRANSFER_ENCODING)
    {
        response = response.header(name, value);
    }
    let kept = to.kept;
    let copied = answer.bytes_stream().inspect(move |chunk| {
        if let Ok(chunk) = chunk {
            kept.lock().unwrap()[index].answer.extend_from_slice(chunk);
        }
    });
    response.body(Body::from_stream(copied)).expect("what a bridge answers can be passed on")
}

impl Exchange {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The JSON-RPC messages that were sent; none when the body is no JSON.
    pub fn asked(&self) -> Vec<Value> {
        flat(serde_json::from_slice(&self.body).ok())
    }

    /// The JSON-RPC messages that came back, from a plain body or from the events of a stream.
    pub fn answered(&self) -> Vec<Value> {
        let text = String::from_utf8_lossy(&self.answer);
        let streams = self
            .answer_headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|t| t.as_bytes().starts_with(b"text/event-stream"));
        match streams {
            false => flat(serde_json::from_str(&text).ok()),
            true => text
                .lines()
                .filter_map(|line| line.strip_prefix("data:"))
                .flat_map(|data| flat(serde_json::from_str(data).ok()))
                .collect(),
        }
    }
}

fn flat(json: Option<Value>) -> Vec<Value> {
    match json {
        Some(Value::Array(batch)) => batch,
        Some(single) => vec![single],
        None => vec![],
    }
}

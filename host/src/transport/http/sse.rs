//! A stream of messages as server-sent events.
//!
//! Every connection begins with an event that carries an id and no data, so that a client which is cut off at once can
//! come back, and with how long it should wait before. A connection may be ended before its stream: the client then
//! reads on with `Last-Event-ID`. Source: MCP 2025-11-25, transports, sending messages, and SEP-1699.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::Instant;

use crate::protocol::Reader;

/// How long a client should wait before it connects again.
const RETRY: Duration = Duration::from_millis(500);
/// Proxies cut connections that are silent for a minute, often for half of one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What this reader reads, for as long as `until` allows.
pub fn response(reader: Reader, until: Option<Instant>) -> Response {
    // Written by hand: clients drop an event that has no line of data at all, its id included.
    let prime = format!("id: {}\nretry: {}\ndata: \n\n", event_id(&reader, reader.position()), RETRY.as_millis());
    let messages = futures::stream::unfold(reader, move |mut reader| async move {
        let next = async {
            match until {
                Some(until) => tokio::time::timeout_at(until, reader.next()).await.ok().flatten(),
                None => reader.next().await,
            }
        };
        let message = next.await?;
        let event = Event::default().event("message").id(event_id(&reader, message.number)).data(&*message.text);
        Some((Ok::<_, Infallible>(event), reader))
    });
    let mut response = Sse::new(messages).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    let body = std::mem::take(response.body_mut()).into_data_stream();
    let prime = futures::stream::once(async move { Ok(prime.into()) });
    *response.body_mut() = Body::from_stream(futures::StreamExt::chain(prime, body));
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // nginx collects a reply before it passes it on, unless told not to.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

fn event_id(reader: &Reader, number: u64) -> String {
    format!("{}/{number}", reader.stream().id())
}

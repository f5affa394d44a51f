//! JSON-RPC 2.0: framing, ids and errors.
//!
//! Source: JSON-RPC 2.0; MCP 2025-11-25, base protocol (ids are strings or integers, never null; an error reply omits the
//! id only when it could not be read). Batches are accepted (design section 6).

use serde_json::{Map, Value, json};
use std::fmt;

use crate::error::{Error, Reason};
use crate::model::TraceId;

/// A string or an integer; echoed with its type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum RequestId {
    Text(String),
    Number(i64),
}

impl RequestId {
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) if text.len() <= 256 => Some(RequestId::Text(text.clone())),
            // 1.0 and 1 are the same JSON number to many clients; a fraction is nobody's id.
            Value::Number(number) => number.as_i64().map(RequestId::Number),
            _ => None,
        }
    }
    pub fn to_json(&self) -> Value {
        match self {
            RequestId::Text(text) => text.as_str().into(),
            RequestId::Number(number) => (*number).into(),
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestId::Text(text) => f.write_str(text),
            RequestId::Number(number) => write!(f, "{number}"),
        }
    }
}

/// One element of the wire.
#[derive(Debug)]
pub enum Message {
    Request {
        id: RequestId,
        method: String,
        params: Map<String, Value>,
    },
    Notification {
        method: String,
        params: Map<String, Value>,
    },
    /// To a request of ours.
    Response {
        id: RequestId,
        outcome: Result<Value, Value>,
    },
    /// Not a message; `id` is there when it could be read.
    Invalid {
        id: Option<RequestId>,
        error: Error,
    },
}

/// One line or body: a message, or a batch of them.
pub fn parse(bytes: &[u8]) -> Result<(Vec<Message>, bool), Error> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| Error::new(Reason::ParseError, "The message is not valid JSON.").detail(error))?;
    match value {
        Value::Array(items) if items.is_empty() => Err(Error::new(Reason::InvalidRequest, "The batch is empty.")),
        Value::Array(items) if items.len() > MAX_BATCH => {
            Err(Error::new(Reason::InvalidRequest, format!("The batch has more than {MAX_BATCH} messages.")))
        }
        Value::Array(items) => Ok((items.into_iter().map(message).collect(), true)),
        single => Ok((vec![message(single)], false)),
    }
}

const MAX_BATCH: usize = 100;

fn message(value: Value) -> Message {
    let Value::Object(mut object) = value else {
        return Message::Invalid { id: None, error: invalid("A message must be a JSON object.") };
    };
    let id = object.get("id").map(RequestId::read);
    let known = id.clone().flatten();
    let refuse = |text: &str| Message::Invalid { id: known.clone(), error: invalid(text) };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return refuse("The member jsonrpc must be \"2.0\".");
    }
    let Some(method) = object.remove("method") else { return response(object, known) };
    let Value::String(method) = method else { return refuse("The method must be a string.") };
    let params = match object.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return refuse("The params must be an object."),
    };
    match id {
        None => Message::Notification { method, params },
        Some(Some(id)) => Message::Request { id, method, params },
        Some(None) => refuse("The id must be a string of at most 256 characters or an integer."),
    }
}

fn response(mut object: Map<String, Value>, id: Option<RequestId>) -> Message {
    let outcome = match (object.remove("result"), object.remove("error")) {
        (Some(result), None) => Ok(result),
        (None, Some(error)) => Err(error),
        _ => return Message::Invalid { id, error: invalid("A message has a method, a result or an error.") },
    };
    match id {
        Some(id) => Message::Response { id, outcome },
        None => Message::Invalid { id: None, error: invalid("A response has the id of a request.") },
    }
}

fn invalid(text: &str) -> Error {
    Error::new(Reason::InvalidRequest, text)
}

/// The answer to a request: its body, and what it was refused with, for transports that also speak in status codes.
pub struct Answer {
    pub body: Value,
    pub refusal: Option<Error>,
}

impl Answer {
    pub fn result(id: &RequestId, result: Value) -> Self {
        Answer { body: json!({ "jsonrpc": "2.0", "id": id.to_json(), "result": result }), refusal: None }
    }
    pub fn error(id: Option<&RequestId>, error: Error, trace_id: &TraceId) -> Self {
        Answer { body: error_body(id, &error, trace_id), refusal: Some(error) }
    }
}

/// The one place that turns an error into its JSON-RPC form.
pub fn error_body(id: Option<&RequestId>, error: &Error, trace_id: &TraceId) -> Value {
    let view = error.public_view(trace_id);
    let mut body = Map::new();
    body.insert("jsonrpc".into(), "2.0".into());
    if let Some(id) = id {
        body.insert("id".into(), id.to_json());
    }
    body.insert("error".into(), error_object(error.reason(), view.message, view.data));
    Value::Object(body)
}

pub fn error_object(reason: Reason, message: String, data: Map<String, Value>) -> Value {
    json!({ "code": code(reason), "message": message, "data": data })
}

/// Design section 5, the table of outcomes. Clients key on class and reason; numbers collide between protocols.
pub fn code(reason: Reason) -> i64 {
    use crate::error::Class;
    match reason {
        Reason::ParseError => -32700,
        Reason::InvalidRequest
        | Reason::PayloadTooLarge
        | Reason::NotAcceptable
        | Reason::UnsupportedMediaType
        | Reason::StreamNotFound
        | Reason::SessionNotFound => -32600,
        Reason::MethodNotFound | Reason::TaskUnsupported => -32601,
        // MCP gives resources this number, the bridge its limits: the reason tells them apart.
        Reason::ResourceNotFound | Reason::RateLimited | Reason::Busy => -32002,
        other => match other.class() {
            Class::InputValidation => -32602,
            Class::AuthzDenied => -32000,
            Class::UpstreamUnavailable => -32001,
            Class::InternalError => -32603,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(text: &str) -> Message {
        parse(text.as_bytes()).unwrap().0.remove(0)
    }

    #[test]
    fn ids_keep_their_type_and_null_is_refused() {
        assert!(matches!(
            single(r#"{"jsonrpc":"2.0","id":"7","method":"ping"}"#),
            Message::Request { id: RequestId::Text(_), .. }
        ));
        assert!(matches!(
            single(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#),
            Message::Request { id: RequestId::Number(7), .. }
        ));
        for bad in [
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            r#"{"id":1,"method":"ping"}"#,
            "3",
        ] {
            assert!(matches!(single(bad), Message::Invalid { .. }), "{bad}");
        }
        assert_eq!(parse(b"{").unwrap_err().reason(), Reason::ParseError);
        assert_eq!(parse(b"[]").unwrap_err().reason(), Reason::InvalidRequest);
    }

    #[test]
    fn an_error_without_a_readable_id_has_none() {
        let body = error_body(None, &Error::new(Reason::ParseError, "no"), &TraceId::random());
        assert!(body.get("id").is_none());
        assert_eq!(body["error"]["code"], -32700);
    }
}

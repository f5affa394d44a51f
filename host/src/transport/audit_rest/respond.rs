//! From results and errors to HTTP: the one mapping of this endpoint.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde_json::Value;

use crate::error::{Class, Error, Reason};
use crate::model::Trace;

/// An error on its way out. Its status follows from its reason, but for a reused key, which HTTP has a status for.
pub(super) struct Refusal {
    pub(super) error: Error,
    status: StatusCode,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal { status: status(error.reason()), error }
    }
}

impl Refusal {
    pub(super) fn conflict() -> Self {
        let error = Error::new(Reason::InvalidRequest, "This Idempotency-Key was used for another row.")
            .hint("Use a new Idempotency-Key for each row, and the same one only to send the same row again.");
        Refusal { error, status: StatusCode::CONFLICT }
    }

    pub(super) fn into_response(self, trace: Trace, challenge: Option<HeaderValue>) -> Response {
        match self.error.class() {
            Class::InternalError | Class::UpstreamUnavailable => {
                tracing::warn!(trace_id = %trace.id, error = ?self.error, "an audit request failed");
            }
            Class::InputValidation | Class::AuthzDenied => {
                tracing::debug!(trace_id = %trace.id, error = ?self.error, "an audit request was refused");
            }
        }
        let view = self.error.public_view(&trace.id);
        let mut fields = view.data;
        fields.insert("message".into(), view.message.into());
        let mut response = json_response(self.status, &Value::Object(fields));
        if let Some(challenge) = challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

fn status(reason: Reason) -> StatusCode {
    match (reason, reason.class()) {
        (Reason::TokenMissing | Reason::TokenInvalid | Reason::TokenExpired | Reason::AudMismatch, _) => {
            StatusCode::UNAUTHORIZED
        }
        (Reason::PayloadTooLarge, _) => StatusCode::PAYLOAD_TOO_LARGE,
        (Reason::UnsupportedMediaType, _) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        (Reason::RateLimited | Reason::Busy, _) => StatusCode::TOO_MANY_REQUESTS,
        (_, Class::InputValidation) => StatusCode::UNPROCESSABLE_ENTITY,
        (_, Class::AuthzDenied) => StatusCode::FORBIDDEN,
        (_, Class::UpstreamUnavailable) => StatusCode::SERVICE_UNAVAILABLE,
        (_, Class::InternalError) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Audit rows are nobody's to cache.
pub(super) fn json_response(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

//! `wasi:http/outgoing-handler`: how the HTTP clients of other languages ask, under the policy of `http-fetch`. The
//! request's URL chooses the grant; everything else is decided in `upstreams::http`. `incoming-handler` is not offered.
//!
//! What is refused is an error code of `wasi:http`, never a trap. Bodies are buffered, within the limits of the grant.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http_body_util::{BodyExt, Full};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::p2::bindings::LinkOptions;
use wasmtime_wasi_http::p2::bindings::http::outgoing_handler::Host as _;
use wasmtime_wasi_http::p2::bindings::http::types::{self, ErrorCode};
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostOutgoingRequest};
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttp as Bindings, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

use super::say_denied;
use crate::config::{Grants, UpstreamGrant};
use crate::model::{PluginId, Trace};
use crate::runtime::Services;
use crate::runtime::call::CallState;
use crate::upstreams::http::{self as upstreams, FetchError, FetchRequest, FetchResponse};

/// The version that [`wasmtime_wasi_http`] defines. The linker gives it to every 0.2.x.
const OUTGOING_HANDLER: &str = "wasi:http/outgoing-handler@0.2.12";

/// Longest exchange, as of `http-fetch`.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);

/// Exchanges of one call under way at once; further ones wait.
const MAX_AT_ONCE: usize = 8;

/// Bytes of answers that a call holds and has not read, beside one of any size that its grant allows.
const MAX_HELD_BYTES: usize = 16 << 20;

/// What a guest may write to a request's body at once.
const CHUNK_BYTES: usize = 64 << 10;

/// A guest's headers of one message, as they are kept in memory.
const MAX_FIELD_BYTES: usize = 32 << 10;

/// Clients fill these in by themselves; the host's own values take their place.
const REPLACED: [&str; 5] = ["host", "content-length", "accept-encoding", "traceparent", "tracestate"];

pub fn add_to_linker(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    types::add_to_linker::<_, Bindings>(linker, &(&LinkOptions::default()).into(), CallState::http)?;
    linker.instance(OUTGOING_HANDLER)?.func_wrap("handle", handle)
}

type Handled = Result<Resource<HostFutureIncomingResponse>, ErrorCode>;

/// Counted like every call of a host function.
fn handle(
    mut store: StoreContextMut<'_, CallState>,
    (request, options): (Resource<HostOutgoingRequest>, Option<Resource<RequestOptions>>),
) -> wasmtime::Result<(Handled,)> {
    store.data_mut().enter()?;
    match store.data_mut().http().handle(request, options) {
        Ok(answer) => Ok((Ok(answer),)),
        Err(refused) => Ok((Err(refused.downcast()?),)),
    }
}

/// Of one call. Made when the guest first touches `wasi:http`, so that others do not pay for it.
pub struct WasiHttp {
    ctx: WasiHttpCtx,
    hooks: Hooks,
}

struct Hooks(Arc<Asker>);

impl WasiHttpView for CallState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let asker = || Asker {
            plugin: self.plugin.clone(),
            trace: self.call.trace,
            grants: self.grants.clone(),
            services: self.services.clone(),
            at_once: Semaphore::new(MAX_AT_ONCE),
            held: Arc::default(),
        };
        let WasiHttp { ctx, hooks } = &mut **self.wasi_http.get_or_insert_with(|| {
            let mut ctx = WasiHttpCtx::new();
            ctx.set_field_size_limit(MAX_FIELD_BYTES);
            Box::new(WasiHttp { ctx, hooks: Hooks(Arc::new(asker())) })
        });
        WasiHttpCtxView { hooks, table: &mut self.table, ctx }
    }
}

type Answered = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl WasiHttpHooks for Hooks {
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK_BYTES
    }

    /// Dropped with the call's store, which ends the exchange.
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _sent: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Answered, Error>> + Send> {
        let asker = self.0.clone();
        Box::new(async move {
            let response = asker.ask(request, options.unwrap_or_default()).await?;
            Ok((response, Box::new(async { Ok(()) }) as Box<_>))
        })
    }
}

/// What an exchange needs of its call.
struct Asker {
    plugin: PluginId,
    trace: Trace,
    grants: Arc<Grants>,
    services: Arc<Services>,
    at_once: Semaphore,
    held: Arc<AtomicUsize>,
}

impl Asker {
    async fn ask(
        &self,
        request: http::Request<WasiBody>,
        options: RequestOptions,
    ) -> Result<http::Response<WasiBody>, Error> {
        // The guest's patience with the connection and between bytes is within its patience with the first byte. The
        // call's deadline ends the call, and this with it.
        let timeout = options.first_byte_timeout.unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT);
        tokio::time::timeout(timeout, self.exchange(request, timeout)).await.unwrap_or(Err(Error::HttpResponseTimeout))
    }

    async fn exchange(
        &self,
        request: http::Request<WasiBody>,
        timeout: Duration,
    ) -> Result<http::Response<WasiBody>, Error> {
        let (parts, body) = request.into_parts();
        let (scheme, authority) = (parts.uri.scheme_str(), parts.uri.authority());
        let origin = (scheme.unwrap_or_default(), authority.map_or("", |authority| authority.as_str()));
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let method = parts.method.as_str().to_owned();
        let grant = upstreams::granted(self.grants.upstreams.values(), origin, &method, &path)
            .map_err(|why| self.refused(why, None))?;
        let _turn = self.at_once.acquire().await.expect("never closed");
        let request = FetchRequest {
            method,
            path,
            headers: sent(&parts.headers)?,
            body: whole(body, grant.max_request_bytes).await?,
            timeout,
            traceparent: self.trace.traceparent(),
        };
        let answer = self.services.http.fetch(grant, request).await;
        self.received(answer.map_err(|why| self.refused(why, Some(grant)))?)
    }

    fn received(&self, answer: FetchResponse) -> Result<http::Response<WasiBody>, Error> {
        let body =
            Held::new(answer.body, &self.held).ok_or(Error::HttpResponseBodySize(Some(MAX_HELD_BYTES as u64)))?;
        let mut headers = HeaderMap::with_capacity(answer.headers.len());
        for (name, value) in &answer.headers {
            let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes())) else {
                return Err(Error::HttpProtocolError);
            };
            headers.append(name, value);
        }
        let body = Full::new(Bytes::from_owner(body)).map_err(|never| match never {}).boxed_unsync();
        let mut response = http::Response::new(body);
        *response.status_mut() = answer.status.try_into().map_err(|_| Error::HttpProtocolError)?;
        *response.headers_mut() = headers;
        Ok(response)
    }

    /// The error code for the guest; what policy refused is counted and logged.
    fn refused(&self, why: FetchError, grant: Option<&UpstreamGrant>) -> Error {
        let denied = |what| say_denied(&self.services, &self.plugin, &self.trace, ("wasi:http", what));
        match why {
            FetchError::NotGranted(_) => {
                denied("not-granted");
                Error::HttpRequestDenied
            }
            FetchError::AddressRefused => {
                denied("address-refused");
                Error::DestinationIpProhibited
            }
            FetchError::InvalidRequest(why) => Error::InternalError(Some(why)),
            FetchError::Timeout => Error::HttpResponseTimeout,
            FetchError::TooLarge => Error::HttpResponseBodySize(grant.map(|grant| grant.max_response_bytes as u64)),
            FetchError::Unreachable(_) => Error::DestinationUnavailable,
        }
    }
}

/// The guest's headers, but for those that the host writes.
fn sent(headers: &HeaderMap) -> Result<Vec<(String, String)>, Error> {
    let theirs = headers.iter().filter(|(name, _)| !REPLACED.contains(&name.as_str()));
    theirs
        .map(|(name, value)| match value.to_str() {
            Ok(value) => Ok((name.as_str().to_owned(), value.to_owned())),
            Err(_) => Err(Error::InternalError(Some(format!("the value of header {name} is not ASCII")))),
        })
        .collect()
}

/// The guest may still be writing it.
async fn whole(mut body: WasiBody, limit: usize) -> Result<Vec<u8>, Error> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        // `http-fetch` has no trailers, and a request without the half of what was meant is not sent.
        let data = frame?.into_data().map_err(|_| Error::HttpRequestTrailerSectionSize(Some(0)))?;
        if whole.len() + data.len() > limit {
            return Err(Error::HttpRequestBodySize(Some(limit as u64)));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole)
}

/// An answer's body, counted until the guest has read it or let go of it.
struct Held {
    bytes: Vec<u8>,
    held: Arc<AtomicUsize>,
}

impl Held {
    /// `None` when the call holds too much already.
    fn new(bytes: Vec<u8>, held: &Arc<AtomicUsize>) -> Option<Held> {
        let before = held.fetch_add(bytes.len(), Ordering::AcqRel);
        // Made in any case, so that dropping it gives back what it added.
        let body = Held { held: held.clone(), bytes };
        (before == 0 || before + body.bytes.len() <= MAX_HELD_BYTES).then_some(body)
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes.len(), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_holds_unread_is_bounded_and_given_back() {
        let held = Arc::default();
        let hold = |bytes: usize| Held::new(vec![0; bytes], &held);
        // One answer may be of any size.
        let large = hold(MAX_HELD_BYTES + 1).expect("nothing else is held");
        assert!(hold(1).is_none());
        drop(large);
        let small = hold(MAX_HELD_BYTES - 1).expect("it was given back");
        let (last, over) = (hold(1), hold(1));
        assert!(last.is_some() && over.is_none());
        drop((small, last));
        assert_eq!(held.load(Ordering::Acquire), 0);
    }
}

//! Taking connections in: how many at once, and how long each may take to say what it wants. Knows nothing of MCP.
//!
//! A client that opens sockets and says little on them is the cheapest attack there is; each is cut off after a while,
//! there are never more of them than the process can hold open, and when all places are taken, a newcomer gets the one of
//! whoever has waited longest with nothing to answer.

use axum::Router;
use axum::http::header;
use axum::response::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// Connections at once. Half of the 1,024 descriptors that a process has by
/// default: the store, the plugins' sockets and the children need some, too.
const MAX_CONNECTIONS: usize = 512;
/// For a request's head to arrive, counted from the end of the answer before: also how long a connection may idle.
const HEAD_TIME: Duration = Duration::from_secs(20);
/// What may be buffered of a head that is not complete, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Before the next try when the process has no descriptor left.
const PAUSE: Duration = Duration::from_millis(200);

/// Accept until `stop` fires, then set `draining` and return the connections that are still open: each ends when the
/// request that it is at is answered.
pub async fn accept(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
    draining: &AtomicBool,
) -> TaskTracker {
    let open = TaskTracker::new();
    let crowd = Arc::new(Crowd::default());
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((socket, _)) => {
                    if places.available_permits() == 0 {
                        crowd.send_one_away();
                    }
                    let place = places.clone().acquire_owned().await.expect("never closed");
                    let (router, stop, seat) = (router.clone(), stop.clone(), Seat::take(&crowd));
                    open.spawn(async move {
                        serve(socket, router, seat, stop).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => draining.store(true, Ordering::Release),
        () = accepting => {}
    }
    open.close();
    open
}

async fn serve(socket: TcpStream, router: Router, seat: Seat, stop: CancellationToken) {
    // Without it Nagle and delayed acknowledgements together cost 40 ms a call.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let seat = &seat;
    let service = service_fn(move |request| {
        let router = router.clone();
        async move {
            seat.is_busy();
            let response = router.oneshot(request).await;
            seat.is_waiting(response.as_ref().is_ok_and(streams));
            response
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = seat.sent_away.cancelled() => return tracing::debug!("a connection that was silent made room for another"),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn streams(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream")
}

/// Connections that have nothing to answer, longest first; behind them those that carry a stream, because somebody reads
/// it. But they have their turn: else whoever opened enough streams would keep all places.
#[derive(Default)]
struct Crowd(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    tokens: BTreeMap<(bool, u64), CancellationToken>,
}

impl Crowd {
    /// Nobody, when all are being answered.
    fn send_one_away(&self) {
        if let Some((_, token)) = self.lock().tokens.pop_first() {
            token.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's place in the crowd.
struct Seat {
    crowd: Arc<Crowd>,
    sent_away: CancellationToken,
    /// Its number among those who wait; of the past while it is busy.
    number: Mutex<(bool, u64)>,
}

impl Seat {
    fn take(crowd: &Arc<Crowd>) -> Seat {
        let seat = Seat { crowd: crowd.clone(), sent_away: CancellationToken::new(), number: Mutex::default() };
        seat.is_waiting(false);
        seat
    }

    fn is_waiting(&self, streams: bool) {
        let mut waiting = self.crowd.lock();
        waiting.next += 1;
        let number = (streams, waiting.next);
        waiting.tokens.insert(number, self.sent_away.clone());
        *self.number.lock().unwrap_or_else(PoisonError::into_inner) = number;
    }

    fn is_busy(&self) {
        let number = *self.number.lock().unwrap_or_else(PoisonError::into_inner);
        self.crowd.lock().tokens.remove(&number);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.is_busy();
    }
}
